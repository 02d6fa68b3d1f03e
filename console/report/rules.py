"""Rules of report windows and schedules. Pure: the time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

from console.report.jobs import TREND_JOB
from console.text import Text
from spark.lag.local_time import (
    DAY_MS,
    HOUR_MS,
    ONE_DAY,
    UTC,
    days_later,
    local,
    moment_of,
    period_end,
    period_start,
    wall_ms,
)

# One run computes at most a month: longer questions are for the day reports.
WINDOW_HOURS_MAX = 31 * 24
# The worker renews a run's lease this often, and counts as dead when it expires.
LEASE_RENEWED_EVERY_MS = 5_000
LEASE_MS = 30_000
# A run whose worker died is taken up once more; a window that kills two workers would kill a third.
ATTEMPTS_MAX = 2
# Folders of Parquet files kept per report; the rows of older runs stay in the database.
OUTPUTS_KEPT = 20
HOURLY_JOBS = ("lag_hour", "episodes")
DAILY_JOBS = ("lag_day", "capacity", "topic_traffic", "dead_letter", "forecast_scorecard")
WEEKLY_JOBS = ("lag_week",)


HOURLY, DAILY, WEEKLY = "HOURLY", "DAILY", "WEEKLY"
# Report → (cadence, hour, minute) of its zone; weeks on Monday. Minutes past the hour, because late snapshots come in.
DEFAULT_SCHEDULES = {
    **dict.fromkeys(HOURLY_JOBS, (HOURLY, 0, 7)),
    **dict.fromkeys(DAILY_JOBS, (DAILY, 0, 20)),
    **dict.fromkeys(WEEKLY_JOBS, (WEEKLY, 0, 40)),
    TREND_JOB: (DAILY, 1, 20),  # when the day's rows are in
}
# A missed moment (nothing ran) is made up for within this time; later the next one is near.
GRACE_MS = {HOURLY: 50 * 60_000, DAILY: 12 * HOUR_MS, WEEKLY: DAY_MS}


def last_due_ms(cadence: str, weekday: int, hour: int, minute: int, now_ms: int, zone: str = UTC) -> int:
    """Return the newest moment at or before `now_ms` at which such a schedule was due.

    `hour` and `minute` are of the wall clock of `zone`; `weekday` 0 is Monday.
    """
    if cadence == HOURLY:
        due_ms = period_start(now_ms, HOUR_MS) + minute * 60_000
        return due_ms if due_ms <= now_ms else due_ms - HOUR_MS
    day, step = local(now_ms, zone).date(), ONE_DAY
    if cadence == WEEKLY:
        day, step = day + (weekday - day.weekday()) * ONE_DAY, 7 * ONE_DAY
    due_ms = moment_of(day, hour, minute, zone)
    return due_ms if due_ms <= now_ms else moment_of(day - step, hour, minute, zone)


class ReportRejected(ValueError):
    """The run cannot be made; the text gives the reason and a valid request. `field` names the input."""

    def __init__(self, field: str, text: Text) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours of UTC or days of a zone, [from_ms, to_ms), epoch milliseconds UTC."""

    from_ms: int
    to_ms: int

    @property
    def hours(self) -> int:
        return (self.to_ms - self.from_ms) // HOUR_MS


def window(from_ms: int, to_ms: int, *, now_ms: int, period_ms: int = HOUR_MS, zone: str = UTC) -> Window:
    """The whole periods of `zone` that contain [from_ms, to_ms); the running one counts as far as it has gone.

    Raises ReportRejected for an empty, future or too long window.
    """
    if from_ms >= to_ms:
        raise ReportRejected("to_ms", Text("The end must be after the start."))
    if from_ms >= now_ms:
        raise ReportRejected("from_ms", Text("The window is in the future: nothing has been measured yet."))
    start = period_start(from_ms, period_ms, zone)
    end = min(period_end(min(to_ms, now_ms) - 1, period_ms, zone), now_ms + -now_ms % HOUR_MS)
    hours = wall_ms(start, end, zone) // HOUR_MS  # 31 days may have an hour more
    if hours > WINDOW_HOURS_MAX:
        raise ReportRejected(
            "from_ms",
            Text(
                "One run covers at most %(most)s hours, and the window has %(number)s: run the report in "
                "parts.",
                number=hours,
                most=WINDOW_HOURS_MAX,
            ),
        )
    return Window(start, end)


def yesterday_to_now(now_ms: int, zone: str = UTC) -> Window:
    """Return the page's default: from yesterday 00:00 to the end of the running hour."""
    return Window(days_later(now_ms, -1, zone), now_ms + -now_ms % HOUR_MS)


def last_two_hours(now_ms: int, period_ms: int = HOUR_MS, zone: str = UTC) -> Window:
    """Return the hourly window of beat: the hour just over, and the one before for late snapshots.

    For a report about days: the days that hold them, so far.
    """
    end = now_ms - now_ms % HOUR_MS
    return Window(period_start(end - 2 * HOUR_MS, period_ms, zone), end)


def last_period(now_ms: int, period_ms: int, zone: str = UTC) -> Window:
    """Return the day or week just over."""
    end = period_start(now_ms, period_ms, zone)
    return Window(period_start(end - 1, period_ms, zone), end)


# What the page may show: word in the address → (word on the page, days before today that it reaches back).
SPANS: dict[str, tuple[Text, int | None]] = {
    "": (Text("Since yesterday"), 1),
    "7d": (Text("7 days"), 6),
    "31d": (Text("31 days"), 30),
    "all": (Text("All"), None),
}


def spans_of(job: str) -> dict[str, Text]:
    """Word in the address → word on the page; what is longer than a span is not in it."""
    shortest = 7 if job in WEEKLY_JOBS else 366 if job == TREND_JOB else 0
    return {key: word for key, (word, days) in SPANS.items() if days is None or days >= shortest}


def span_of(requested: str, job: str) -> str:
    """Return the requested span, or the report's default: "" or, for weeks, their first one."""
    spans = spans_of(job)
    return requested if requested in spans else next(iter(spans))


def span_start(span: str, *, now_ms: int, zone: str = UTC) -> int | None:
    """Return where a span of the page begins, epoch ms at 00:00 of `zone`; None: at the first row."""
    days = SPANS[span][1]
    return None if days is None else days_later(now_ms, -days, zone)
