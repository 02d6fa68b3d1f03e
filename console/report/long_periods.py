"""Months, quarters and years of a zone. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from spark.lag.local_time import local, moment_of

MONTHS = {"month": 1, "quarter": 3, "year": 12}  # grain → how many calendar months it has


@dataclass(frozen=True, slots=True)
class LongPeriod:
    """A calendar month, quarter or year: [start_ms, end_ms) from midnight to midnight of a zone."""

    grain: str
    first_day: dt.date
    end_day: dt.date  # the first day after it
    start_ms: int
    end_ms: int

    @property
    def days(self) -> int:
        return (self.end_day - self.first_day).days

    @property
    def name(self) -> str:
        """`2026-11`, `2026 Q4`, `2026`: the same in every language."""
        day = self.first_day
        if self.grain == "month":
            return f"{day:%Y-%m}"
        return f"{day:%Y} Q{(day.month + 2) // 3}" if self.grain == "quarter" else f"{day:%Y}"


def period_of(at_ms: int, grain: str, zone: str) -> LongPeriod:
    """Return the period of a zone that holds a moment."""
    day, months = local(at_ms, zone).date(), MONTHS[grain]
    first = dt.date(day.year, (day.month - 1) // months * months + 1, 1)
    end = _later(first, months)
    return LongPeriod(grain, first, end, moment_of(first, 0, 0, zone), moment_of(end, 0, 0, zone))


def periods_in(from_ms: int, to_ms: int, grain: str, zone: str) -> Iterator[LongPeriod]:
    """Yield every period that overlaps [from_ms, to_ms), in order."""
    at_ms = from_ms
    while at_ms < to_ms:
        found = period_of(at_ms, grain, zone)
        yield found
        at_ms = found.end_ms


def _later(first: dt.date, months: int) -> dt.date:
    year, month = divmod(first.month - 1 + months, 12)
    return dt.date(first.year + year, month + 1, 1)
