"""Decide which plots of a group's report are drawn, with their data, and say why others are not.

A plot of nothing, of one point or of one colour is a line of words: why it is not drawn, and when it will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings

from console.report.models import LagRow
from console.report.pages import group_plots, group_report
from console.report.pages.group_plots import POINTS_MIN, WAIT_MS_MIN
from console.text import Duration, Moment, Text
from spark.lag.local_time import HOUR_MS, hour_of_week, local

WEEK_HOURS_MIN = 72  # fewer days show no more than the lines by the hour
WHOLE_PCT = 99.95  # of an error budget: shown as 100.0 %
# What drains sooner is gone before it is read about.
FORECAST_MS_MIN = 60_000


def waits(runways: Sequence[LagRow]) -> bool:
    """Return whether something waits whose drain is worth a forecast."""
    return any(row.lag_last and (row.drain_ms is None or row.drain_ms >= FORECAST_MS_MIN) for row in runways)


@dataclass(frozen=True, slots=True)
class HourLines:
    times: list[int]
    p50_ms: list[int | None]
    p95_ms: list[int | None]
    max_ms: list[int | None]
    slo_ms: int | None


@dataclass(frozen=True, slots=True)
class BudgetLines:
    times: list[int]
    left_pct: list[float | None]
    even_pct: list[float]


@dataclass(frozen=True, slots=True)
class Week:
    """The hours by hour of the week; `minute` is where an hour of UTC begins in the report's zone."""

    hours_of_week: list[int]
    minute: int
    p95_ms: list[int | None]


@dataclass(frozen=True, slots=True)
class QueueMap:
    rows: list[str]
    times: list[int]
    values: list[list[int | None]]


@dataclass(frozen=True, slots=True)
class Drain:
    """The forecast for the topic that takes longest; `hi_ms` is None if it may never drain."""

    topic: str
    at_ms: int
    lag: int
    drain_ms: int
    lo_ms: int
    hi_ms: int | None


@dataclass(frozen=True, slots=True)
class Plots:
    """The data of each canvas; None if there is nothing to draw."""

    hours: HourLines | None
    budget: BudgetLines | None
    flow: group_report.Flow | None
    week: Week | None
    queues: QueueMap | None
    drain: Drain | None
    phase: group_plots.Phase | None
    skew: group_plots.Skew | None
    ways: group_plots.Ways | None


def plots_of(
    hours: group_report.Hours,
    budget: group_report.Budget,
    queues: group_report.QueueHeat,
    runways: Sequence[LagRow],
    zone: str,
    rows: Sequence[group_plots.Row],
) -> Plots:
    """Return the data of the plots, from the first observed hour on."""
    drawn = slice(len(hours.times) if hours.first_seen is None else hours.first_seen, None)
    times = hours.times[drawn]
    has_line = sum(value is not None for value in hours.p95_ms) >= POINTS_MIN
    hours_of_week = [hour_of_week(at_ms, zone) for at_ms in hours.times]
    # Hours of UTC begin at half an hour of some zones.
    minute = local(hours.times[-1], zone).minute
    has_week = hours.seen >= WEEK_HOURS_MIN and _is_worth_it([hours.p95_ms])
    return Plots(
        hours=HourLines(times, hours.p50_ms[drawn], hours.p95_ms[drawn], hours.max_ms[drawn], hours.slo_ms)
        if has_line
        else None,
        budget=BudgetLines(times, budget.left_pct[drawn], budget.even_pct[drawn])
        if has_line and _is_used(budget)
        else None,
        flow=group_report.flow_of(hours, drawn) if has_line else None,
        week=Week(hours_of_week, minute, hours.p95_ms) if has_week else None,
        queues=QueueMap(queues.rows, queues.times[drawn], [values[drawn] for values in queues.values])
        if hours.seen >= POINTS_MIN and _is_worth_it(queues.values)
        else None,
        drain=_drain(runways) if waits(runways) else None,
        phase=group_plots.phase(rows),
        skew=group_plots.skew(rows),
        ways=group_plots.ways(rows),
    )


def _is_used(budget: group_report.Budget) -> bool:
    """Return whether a part of an error budget is gone: the whole of it would be a card of one colour."""
    return any(left is not None and left < WHOLE_PCT for left in budget.left_pct)


def _is_worth_it(values: Iterable[Sequence[int | None]]) -> bool:
    """Return whether a heat map of these time lags has more than one colour."""
    return any(value is not None and value >= WAIT_MS_MIN for row in values for value in row)


def _drain(runways: Sequence[LagRow]) -> Drain | None:
    found = [
        Drain(
            row.topic,
            min(row.window_end_ms, row.generated_at_ms),
            row.lag_last,
            row.drain_ms,
            row.drain_lo_ms,
            row.drain_hi_ms,
        )
        for row in runways
        if row.lag_last and row.drain_ms and row.drain_lo_ms is not None
    ]
    return max(found, key=lambda drain: drain.drain_ms, default=None)


class NotShown(NamedTuple):
    part: Text
    why: Text


def not_shown(
    plots: Plots,
    hours: group_report.Hours,
    rows: Sequence[group_plots.Row],
    *,
    has_forecast: bool,
    has_episodes: bool,
) -> list[NotShown]:
    """Return the parts that are not drawn, each with the reason and what it takes."""
    least = Duration(WAIT_MS_MIN)
    reasons = (
        (plots.hours, Text("Time lag by the hour, queues, cumulative flow, error budget"), _no_line(hours)),
        (
            plots.budget or not plots.hours,
            Text("Error budget"),
            Text("no part of it was used in this time"),
        ),
        (plots.week, Text("Time lag by hour of week"), _no_week(hours)),
        (
            plots.queues or hours.seen < POINTS_MIN,
            Text("Queues"),
            Text(
                "no row of a queue that waited %(time)s or longer; rows of queues are kept for %(days)s days",
                time=least,
                days=settings.REPORT_QUEUE_DAYS,
            ),
        ),
        (hours.consumed, Text("How long messages waited"), Text("no message was consumed in this time")),
        (
            has_forecast,
            Text("Drain forecast"),
            Text("no lag of more than a minute at the end of the last hour"),
        ),
        (
            plots.phase,
            Text("Time lag and catch-up speed"),
            Text("fewer than two hours with lag, or none waited %(time)s or longer", time=least),
        ),
        (plots.ways, Text("Retries and dead letters"), _no_retries(rows)),
        (
            plots.skew,
            Text("Skew"),
            Text(
                "fewer than two hours in which a topic of several queues waited %(time)s or longer",
                time=least,
            ),
        ),
        (has_episodes, Text("Episodes"), Text("none in this time")),
    )
    return [NotShown(part, why) for shown, part, why in reasons if not shown]


def _no_line(hours: group_report.Hours) -> Text:
    if hours.first_seen_ms is None:
        return Text("no hour was observed")
    return Text(
        "a line needs two observed hours; the second ends at %(time)s",
        time=Moment(hours.first_seen_ms + 2 * HOUR_MS),
    )


def _no_week(hours: group_report.Hours) -> Text:
    if hours.seen >= WEEK_HOURS_MIN:
        return Text("the p95 of every hour is below %(time)s", time=Duration(WAIT_MS_MIN))
    return Text("needs %(needed)s observed hours; %(seen)s so far", needed=WEEK_HOURS_MIN, seen=hours.seen)


def _no_retries(rows: Sequence[group_plots.Row]) -> Text:
    if all(row.retry_in is None for row in rows):
        return Text("no retry topic of the group was observed")
    return Text("no message was sent back for a retry")
