"""Hours, days and weeks as the operator's zone has them: where the period begins and ends that holds a moment.

Hours are those of UTC, as history files are. Days and weeks begin at local midnight, weeks on Monday: a day is 23 or 25
hours long where the clock changes, and begins at half an hour of UTC where the zone is so far off. A midnight that a
change of the clock leaves out is the moment of the change; of one that comes twice the first counts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from zoneinfo import ZoneInfo

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
STEP_MS = 15 * MINUTE_MS  # no zone of today is off by anything finer
CHANGE_MS_MAX = 2 * HOUR_MS  # a period lasts less than its usual length and this
ONE_DAY = dt.timedelta(days=1)
UTC = "UTC"


def zone_problem(name: str) -> str:
    """Return why a name is no zone that days can be cut by; "" for one that is."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return f"{name!r} is no time zone; use a name of the IANA list such as Europe/Berlin or Asia/Kolkata."
    return ""


def local(at_ms: int, zone: str) -> dt.datetime:
    """Return the wall clock of a zone at a moment."""
    return dt.datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone))


def moment_of(day: dt.date, hour: int, minute: int, zone: str) -> int:
    """Return when a wall clock shows a time of day first, or would if the clock did not jump over it."""
    at = dt.datetime(day.year, day.month, day.day, hour, minute, tzinfo=ZoneInfo(zone))
    return round(at.timestamp() * 1000)


def days_later(at_ms: int, days: int, zone: str) -> int:
    """Return the midnight so many days after the one that begins the day of a moment; negative: before it."""
    return moment_of(local(at_ms, zone).date() + days * ONE_DAY, 0, 0, zone)


def wall_ms(from_ms: int, to_ms: int, zone: str) -> int:
    """Return how far the wall clock goes between two moments: 24 hours from midnight to midnight."""
    start, end = (local(at_ms, zone).replace(tzinfo=None) for at_ms in (from_ms, to_ms))
    return round((end - start).total_seconds() * 1000)


def period_start(at_ms: int, period_ms: int, zone: str = UTC) -> int:
    """Return when the hour, day or week begins that holds a moment; `period_ms`: its usual length."""
    if period_ms < DAY_MS:
        return at_ms - at_ms % period_ms
    return moment_of(_first_day(at_ms, period_ms, zone), 0, 0, zone)


def period_end(at_ms: int, period_ms: int, zone: str = UTC) -> int:
    """Return when the hour, day or week ends that holds a moment."""
    if period_ms < DAY_MS:
        return at_ms - at_ms % period_ms + period_ms
    return moment_of(_first_day(at_ms, period_ms, zone) + period_ms // DAY_MS * ONE_DAY, 0, 0, zone)


def periods(from_ms: int, to_ms: int, period_ms: int, zone: str = UTC) -> Iterator[tuple[int, int]]:
    """Yield start and end of every period that has some of [from_ms, to_ms)."""
    start_ms = period_start(from_ms, period_ms, zone)
    while start_ms < to_ms:
        end_ms = period_end(start_ms, period_ms, zone)
        yield start_ms, end_ms
        start_ms = end_ms


def starts_in_hour(hour_ms: int, from_ms: int, to_ms: int, period_ms: int, zone: str = UTC) -> set[int]:
    """Return the starts of the one or two periods that overlap an hour of UTC within [from_ms, to_ms)."""
    first_ms, last_ms = max(hour_ms, from_ms), min(hour_ms + HOUR_MS, to_ms) - 1
    return {period_start(at_ms, period_ms, zone) for at_ms in (first_ms, max(first_ms, last_ms))}


def hour_of_week(at_ms: int, zone: str = UTC) -> int:
    """Return 0 for the hour of UTC that begins on Monday between 00:00 and 00:59 of the wall clock, up to 167."""
    at = local(at_ms - at_ms % HOUR_MS, zone)
    return at.weekday() * 24 + at.hour


def _first_day(at_ms: int, period_ms: int, zone: str) -> dt.date:
    day = local(at_ms, zone).date()
    return day - day.weekday() * ONE_DAY if period_ms == WEEK_MS else day
