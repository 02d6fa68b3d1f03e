"""Figures as text: counts, rates, durations, sizes, ages and moments, the same everywhere on the pages.

`static/js/figures.js` is its twin for figures that change live; `tests/console/figures.json` holds literal cases
for both. Pure: time and zone are arguments.
"""

from __future__ import annotations

import datetime as dt
import math

from spark.lag.local_time import DAY_MS, HOUR_MS, MINUTE_MS

SECOND_MS = 1_000
WHOLE_DAYS_FROM_MS = 10 * DAY_MS
DAYS_FROM_MS = 2 * DAY_MS  # up to here "31 h 04 m" is clearer than "1 d 07 h"
MINUS = "−"


def rounded(value: float) -> int:
    """Half up, as JavaScript's Math.round, so that both sides print the same digit."""
    return math.floor(value + 0.5)


def count(value: float) -> str:
    """`1,204,331`, with a true minus."""
    number = rounded(value)
    return f"{MINUS if number < 0 else ''}{abs(number):,}"


def compact(value: float) -> str:
    """`1.2 M` for axes and tight cells; below 10,000 the number itself."""
    size = abs(value)
    for unit, scale in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= scale * (10 if unit == "k" else 1):
            return f"{MINUS if value < 0 else ''}{_short(size / scale)} {unit}"
    return count(value)


def rate(value: float) -> str:
    """Messages per second: `0.2`, `88.8`, `1,277`; a trickle is `< 0.1`, not 0."""
    if 0 < value < 0.05:
        return "< 0.1"
    if value < 99.95:
        return _tenth(value)
    return count(value)


def duration(milliseconds: float, *, keeps_width: bool = False) -> str:
    """Two units: `0.8 s`, `48 s`, `38 m 12 s`, `3 h 12 m`, `2 d 22 h`; days only from ten days on.

    A second unit of 0 is left out: `3 h`; with `keeps_width` it is not: `3 h 00 m`.
    """
    if milliseconds < 0:
        return MINUS + duration(-milliseconds)
    if rounded(milliseconds / 100) < 100:
        return f"{_tenth(milliseconds / SECOND_MS)} s"
    seconds = rounded(milliseconds / SECOND_MS) * SECOND_MS
    if seconds < MINUTE_MS:
        return f"{seconds // SECOND_MS} s"
    if seconds < HOUR_MS:
        return _pair(seconds, MINUTE_MS, "m", SECOND_MS, "s", keeps_width)
    if seconds < DAYS_FROM_MS:
        return _pair(seconds, HOUR_MS, "h", MINUTE_MS, "m", keeps_width)
    if seconds < WHOLE_DAYS_FROM_MS:
        return _pair(seconds, DAY_MS, "d", HOUR_MS, "h", keeps_width)
    return f"{seconds // DAY_MS} d"


def age(milliseconds: float) -> str:
    """A duration in whole seconds, for ages that tick: `4 s`, `1 m 59 s`, `2 m 00 s`, as wide as before."""
    return duration(max(0, math.floor(milliseconds / SECOND_MS)) * SECOND_MS, keeps_width=True)


def latency(milliseconds: float) -> str:
    """How long an answer took: `3 ms`, `210 ms`, then as durations."""
    return f"{rounded(milliseconds)} ms" if milliseconds < SECOND_MS else duration(milliseconds)


def size(value_bytes: float) -> str:
    """`188 B`, `1.1 kB`, `38 kB`, `1.9 MB` (powers of ten)."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value_bytes >= scale:
            return f"{_short(value_bytes / scale)} {unit}"
    return f"{rounded(value_bytes)} B"


def percent(ratio: float) -> str:
    """`61.8 %` of a ratio 0..1."""
    return f"{_tenth(ratio * 100)} %"


def clock(milliseconds: int, zone: dt.tzinfo, *, with_ms: bool = False) -> str:
    """`12:02:41` or `12:02:41.118`."""
    at = dt.datetime.fromtimestamp(milliseconds / 1000, zone)
    return at.strftime("%H:%M:%S") + (f".{milliseconds % 1000:03d}" if with_ms else "")


def moment(milliseconds: int, zone: dt.tzinfo, *, now_ms: int, with_ms: bool = False) -> str:
    """`12:02:41` today, `12 Mar 12:02:41` this year, `12 Mar 2025 12:02:41` else."""
    at, now = (dt.datetime.fromtimestamp(ms / 1000, zone) for ms in (milliseconds, now_ms))
    text = clock(milliseconds, zone, with_ms=with_ms)
    if at.date() == now.date():
        return text
    day = f"{at.day} {at.strftime('%b')}"
    return f"{day} {text}" if at.year == now.year else f"{day} {at.year} {text}"


def zone_offset(zone: dt.tzinfo, milliseconds: int) -> str:
    """Format a zone's offset: `UTC`, `UTC+8`, `UTC+5:30`."""
    offset = (
        zone.utcoffset(dt.datetime.fromtimestamp(milliseconds / 1000, zone).replace(tzinfo=None))
        or dt.timedelta()
    )
    minutes = int(offset.total_seconds()) // 60
    if not minutes:
        return "UTC"
    sign, minutes = ("+" if minutes > 0 else MINUS), abs(minutes)
    return f"UTC{sign}{minutes // 60}" + (f":{minutes % 60:02d}" if minutes % 60 else "")


def _tenth(value: float) -> str:
    tenths = rounded(abs(value) * 10)
    text = f"{tenths // 10:,}" + (f".{tenths % 10}" if tenths % 10 else "")
    return MINUS + text if value < 0 and tenths else text


def _short(value: float) -> str:
    return _tenth(value) if rounded(value * 10) < 100 else count(value)


def _pair(value: int, big: int, big_unit: str, small: int, small_unit: str, keeps_width: bool) -> str:
    rest = value % big // small
    return f"{value // big} {big_unit}" + (f" {rest:02d} {small_unit}" if rest or keeps_width else "")
