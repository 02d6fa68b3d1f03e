"""Trends by month, quarter and year, computed from stored daily rows, without Spark and history.

A row is a group's topic in a period of the report's zone. Sums and maxima are over the days that were computed;
with fewer than the period has, or a day that was not over, they are at least that (`is_lower_bound`). A figure
that no day has is absent. Percentiles are never averaged: `time_lag_p95_ms` is that of the median day.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, NamedTuple

from django.db import transaction

from console.report.jobs import TREND_JOB, is_so_far
from console.report.long_periods import MONTHS, LongPeriod, period_of, periods_in
from console.report.models import LagRow, ReportRow, ReportRun, Stamp, known
from spark.lag.local_time import DAY_MS, HOUR_MS, local

ROWS_AT_ONCE = 1_000
Topic = tuple[str, str]


class Day(NamedTuple):
    """The columns of a daily row that are added up."""

    group: str
    topic: str
    zone: str
    window_start_ms: int
    window_end_ms: int
    produced: int
    consumed: int
    counted_ms: int
    lag_max: int | None
    time_lag_p95_ms: int | None
    time_lag_max_ms: int | None
    breach_ms: int
    watched_ms: int | None
    late_message_ms: int | None
    consumed_within_slo: int | None
    lost: int
    skipped: int | None
    slo_ms: int
    coverage_pct: float


@dataclass(slots=True)
class _Days:
    """The days of a group's topic in a period, added up."""

    days: int = 0
    is_open: bool = False
    counted_ms: int = 0
    watched_ms: int = 0
    covered_ms: float = 0.0
    sums: dict[str, int] = field(default_factory=dict)
    maxima: dict[str, int] = field(default_factory=dict)
    p95_ms: list[int] = field(default_factory=list)

    def add(self, day: Day) -> None:
        """Add a day; null is unknown."""
        self.days += 1
        self.is_open |= is_so_far("lag_day", day.window_start_ms, day.window_end_ms, day.zone)
        self.counted_ms += day.counted_ms
        self.watched_ms += day.watched_ms or 0
        self.covered_ms += day.coverage_pct / 100 * (day.window_end_ms - day.window_start_ms)
        for name in ("produced", "consumed", "lost", "skipped"):
            self._sum(name, getattr(day, name) if day.counted_ms else None)
        for name in ("breach_ms", "late_message_ms"):
            self._sum(name, getattr(day, name) if day.watched_ms else None)
        self._sum("in_time", day.consumed_within_slo)
        for name in ("lag_max", "time_lag_max_ms", "slo_ms"):
            value = getattr(day, name)
            if value is not None:
                self.maxima[name] = max(self.maxima.get(name, 0), value)
        if day.time_lag_p95_ms is not None:
            self.p95_ms.append(day.time_lag_p95_ms)

    def _sum(self, name: str, value: int | None) -> None:
        if value is not None:
            self.sums[name] = self.sums.get(name, 0) + value


def replace_rows(run: ReportRun, stamp: Stamp, *, claim: Callable[[], None], now_ms: int) -> int:
    """Recompute every month, quarter and year that a run's window touches; return the number of rows.

    One transaction per period. A period keeps its rows if fewer days are stored than they were computed from.
    """
    count = 0
    for grain in MONTHS:
        for period in periods_in(run.from_ms, min(run.to_ms, now_ms), grain, run.zone):
            made = list(_rows(run, period, stamp, now_ms))
            with transaction.atomic():
                claim()
                own = _kept(run.cluster, period)
                if _most_days(own) <= max((row.figures["days"] for row in made), default=0):
                    own.delete()
                    ReportRow.objects.bulk_create(made, batch_size=ROWS_AT_ONCE)
                    count += len(made)
    return count


def _kept(cluster: str, period: LongPeriod) -> Any:
    """Return the rows of a period, including those of another zone."""
    near = period.start_ms - DAY_MS, period.start_ms + DAY_MS
    return ReportRow.objects.filter(
        cluster=cluster, job=TREND_JOB, grain=period.grain, window_start_ms__range=near
    )


def _most_days(rows: Any) -> int:
    return max(rows.values_list("figures__days", flat=True), default=0)


def _rows(run: ReportRun, period: LongPeriod, stamp: Stamp, now_ms: int) -> Iterator[ReportRow]:
    end_ms = min(period.end_ms, now_ms)
    last = period_of(period.start_ms - 1, period.grain, run.zone)
    before = {(row.group, row.topic): row for row in _kept(run.cluster, last)}
    for (group, topic), days in sorted(_days_of(run.cluster, period).items()):
        row = ReportRow(
            **stamp._asdict(),
            cluster=run.cluster,
            grain=period.grain,
            kind="GROUP",
            group=group,
            topic=topic,
            window_start_ms=period.start_ms,
            window_end_ms=end_ms,
            coverage_pct=round(100 * days.covered_ms / max(1, end_ms - period.start_ms), 2),
        )
        _add_figures(row, days, period)
        if (group, topic) in before:
            _add_changes(row, before[group, topic])
        yield row


def _days_of(cluster: str, period: LongPeriod) -> dict[Topic, _Days]:
    """Return the stored days of a period; a day belongs to it by its date in the day's own zone."""
    rows = LagRow.objects.filter(
        cluster=cluster,
        job="lag_day",
        grain=LagRow.Grain.TOPIC,
        kind="GROUP",
        window_start_ms__gte=period.start_ms - DAY_MS,
        window_start_ms__lt=period.end_ms + DAY_MS,
    ).values_list(*Day._fields)
    dates: dict[tuple[int, str], dt.date] = {}
    found: dict[Topic, _Days] = {}
    for day in map(Day._make, rows.iterator(chunk_size=5_000)):
        key = day.window_start_ms, day.zone
        if key not in dates:
            dates[key] = local(*key).date()
        if period.first_day <= dates[key] < period.end_day:
            found.setdefault((day.group, day.topic), _Days()).add(day)
    return found


def _add_figures(row: ReportRow, days: _Days, period: LongPeriod) -> None:
    sums, watched_ms = days.sums, days.watched_ms
    consumed, in_time = sums.get("consumed"), sums.pop("in_time", None)
    late_message_ms = sums.pop("late_message_ms", None)
    seconds = days.counted_ms / 1_000
    row.figures = known(
        **sums,
        **days.maxima,
        period=period.name,
        days=days.days,
        period_days=period.days,
        is_lower_bound=True if days.is_open or days.days < period.days else None,
        in_rate=round(sums["produced"] / seconds, 6) if seconds else None,
        out_rate=round(sums["consumed"] / seconds, 6) if seconds else None,
        time_lag_p95_ms=median_low(days.p95_ms) if days.p95_ms else None,
        watched_ms=watched_ms or None,
        good_pct=round(100 * (1 - sums["breach_ms"] / watched_ms), 4) if watched_ms else None,
        within_slo_pct=round(100 * in_time / consumed, 4) if consumed and in_time is not None else None,
        late_message_hours=None if late_message_ms is None else round(late_message_ms / HOUR_MS, 3),
    )


def _add_changes(row: ReportRow, before: ReportRow) -> None:
    """Add changes against the period before, of figures that need no whole period: rates, p95, shares."""
    for name in ("in_rate", "time_lag_p95_ms"):
        was, value = before.value(name), row.value(name)
        if was and value is not None:
            row.figures[f"{name.removesuffix('_ms')}_change_pct"] = round(100 * (value / was - 1), 2)
    was, good_pct = before.value("good_pct"), row.value("good_pct")
    if was is not None and good_pct is not None:
        row.figures["good_change_points"] = round(good_pct - was, 4)
