"""Compare a week with the weeks before it: changes with their significance, the cost of lag, proposals.

Computed from the daily rows of up to four weeks (`LagRow` of job lag_day) and the week's rows of capacity. A
change counts if the test of `folds.trend` finds it significant; days without rows, or hardly observed, are left
out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from console.report.models import LagRow, ReportRow, known
from spark.lag.folds import trend
from spark.lag.local_time import DAY_MS, UTC, days_later

WEEK_DAYS = 7
BACK_DAYS = 28
COVERAGE_MIN_PCT = 75.0  # a day that was watched less is compared with no other
HOUR_S = 3_600
# What is compared: word in the row → (column of the daily row, smallest change of the level worth telling).
COMPARED = {
    "in": ("in_rate", 0.25),
    "out": ("out_rate", 0.25),
    "time lag p95": ("time_lag_p95_ms", 0.25),
    "skew": ("skew_gini", 0.25),
}
CHANGING = ("in", "out", "skew")
NEAR_LOSS_MS = DAY_MS
SKEWED_SHARE = 0.7  # of the days seen: a queue that is the worst of two by chance is so on half of them
SKEWED_DAYS_MIN = 3
FloatArray = npt.NDArray[np.float64]
Key = tuple[str, str]


def week_rows(cluster: str, start_ms: int, zone: str = UTC) -> Iterator[ReportRow]:
    """Yield the rows of the week from `start_ms` in `zone`, of the grains "trend", "change" and "proposal"."""
    first_ms = days_later(start_ms, WEEK_DAYS - BACK_DAYS, zone)
    end_ms = days_later(start_ms, WEEK_DAYS, zone)
    days = _days(cluster, first_ms, end_ms)
    for key, rows in sorted(days.items()):
        yield from _trend(key, rows)
        yield from _changes(key, rows, first_ms, zone)
    yield from proposals(_capacity(cluster, start_ms, end_ms))


def _days(cluster: str, first_ms: int, end_ms: int) -> dict[Key, dict[int, LagRow]]:
    """Return (group, topic) → {number of the day from `first_ms`: its row}, of observed days."""
    names = [*(column for column, _ in COMPARED.values()), "late_message_ms", "coverage_pct", "consumed"]
    rows = LagRow.objects.filter(
        cluster=cluster,
        job="lag_day",
        grain=LagRow.Grain.TOPIC,
        kind="GROUP",
        window_start_ms__gte=first_ms,
        window_start_ms__lt=end_ms,
    ).only("group", "topic", "window_start_ms", *names)
    found: dict[Key, dict[int, LagRow]] = {}
    for row in rows.iterator(chunk_size=5_000):
        number = round((row.window_start_ms - first_ms) / DAY_MS)  # a day may have an hour more or less
        found.setdefault((row.group, row.topic), {})[number] = row
    return found


def _series(rows: Mapping[int, LagRow], column: str) -> FloatArray:
    values = np.full(BACK_DAYS, np.nan)
    for number, row in rows.items():
        value = getattr(row, column)
        if value is not None and row.coverage_pct >= COVERAGE_MIN_PCT:
            values[number] = value
    return values


def _trend(key: Key, rows: Mapping[int, LagRow]) -> Iterator[ReportRow]:
    """Yield each figure of the week against the one before, and the cost of the week's lag."""
    week = [row for number, row in rows.items() if number >= BACK_DAYS - WEEK_DAYS]
    if not week:
        return
    group, topic = key
    costs = [row.late_message_ms for row in week if row.late_message_ms is not None]
    figures = known(
        days=len(week),
        late_message_hours=round(sum(costs) / 1000 / HOUR_S, 3) if costs else None,
        consumed=sum(row.consumed for row in week),
    )
    for word, (column, _) in COMPARED.items():
        values = _series(rows, column)
        shift = trend.week_over_week(values[-2 * WEEK_DAYS : -WEEK_DAYS], values[-WEEK_DAYS:])
        name = word.replace(" ", "_")
        if shift is not None:
            change_pct = _change_pct(shift.before, shift.after)
            p_value = None if shift.p_value is None else round(shift.p_value, 4)
            figures |= {
                f"{name}_before": round(shift.before, 4),
                f"{name}_now": round(shift.after, 4),
                f"{name}_days": shift.pairs,
                f"{name}_verdict": _verdict(shift),
                **known(**{f"{name}_change_pct": change_pct, f"{name}_p": p_value}),
            }
    coverage_pct = round(sum(row.coverage_pct for row in week) / WEEK_DAYS, 2)
    yield ReportRow(
        grain="trend", kind="GROUP", group=group, topic=topic, coverage_pct=coverage_pct, figures=figures
    )


def _verdict(shift: trend.Shift) -> str:
    if shift.is_significant is None:
        return "too few days"
    if not shift.is_significant:
        return "no clear change"
    return "higher" if shift.after > shift.before else "lower"


def _change_pct(before: float, after: float) -> float | None:
    return round(100 * (after - before) / before, 1) if before else None


def _changes(key: Key, rows: Mapping[int, LagRow], first_ms: int, zone: str) -> Iterator[ReportRow]:
    """Yield the changes of level that began in the week."""
    for word in CHANGING:
        column, least = COMPARED[word]
        found = trend.change_point(_series(rows, column))
        if found is None or found.at < BACK_DAYS - WEEK_DAYS:
            continue
        change = _change_pct(found.before, found.after)
        if change is not None and abs(change) < 100 * least:
            continue
        yield ReportRow(
            grain="change",
            group=key[0],
            topic=key[1],
            kind="GROUP",
            figures=known(
                what=word,
                at_ms=days_later(first_ms, found.at, zone),
                before=round(found.before, 4),
                after=round(found.after, 4),
                change_pct=change,
                p=round(found.p_value, 4),
                days=int((~np.isnan(_series(rows, column))).sum()),
            ),
        )


# --- Proposals ----------------------------------------------------------------------------------------------


class CapacityDay(msgspec.Struct, frozen=True):
    """The figures of a day of the capacity report that proposals are made from; absent ones are unknown."""

    clients: int | None = None
    queues: int | None = None
    consumers_needed: int | None = None
    consumers_factor: float | None = None
    skew_offender: str | None = None
    runway_ms: int | None = None
    dead_weight: str | None = None


class Proposal(NamedTuple):
    """What to change, and the figures that support it."""

    proposal: str
    on_days: int
    now: int | None = None
    proposed: int | None = None
    evidence: str | None = None
    runway_ms: int | None = None


def _capacity(cluster: str, start_ms: int, end_ms: int) -> dict[Key, list[CapacityDay]]:
    """Return the week's days of each group's topic from the capacity report."""
    rows = ReportRow.objects.filter(
        cluster=cluster,
        job="capacity",
        grain="group",
        kind="GROUP",
        window_start_ms__gte=start_ms,
        window_start_ms__lt=end_ms,
    ).order_by("window_start_ms")
    found: dict[Key, list[CapacityDay]] = {}
    for group, topic, figures in rows.values_list("group", "topic", "figures").iterator(chunk_size=2_000):
        found.setdefault((group, topic), []).append(msgspec.convert(figures, CapacityDay))
    return found


def proposals(capacity: Mapping[Key, Sequence[CapacityDay]]) -> Iterator[ReportRow]:
    """Yield proposals, each with the figures that support it."""
    for (group, topic), days in sorted(capacity.items()):
        for found in (_consumers(days), _queues(days), _key(days), _retention(days), _dead(days)):
            if found is not None:
                figures = known(days=len(days), **found._asdict())
                yield ReportRow(grain="proposal", kind="GROUP", group=group, topic=topic, figures=figures)


def _consumers(days: Sequence[CapacityDay]) -> Proposal | None:
    """Propose as many consumers as the worst day needs, if there are fewer."""
    clients = days[-1].clients
    needed = max((day.consumers_needed for day in days if day.consumers_needed is not None), default=None)
    if clients is None or needed is None or needed <= clients:
        return None
    on_days = sum((day.consumers_needed or 0) > clients for day in days)
    return Proposal("more consumers", on_days, now=clients, proposed=needed)


def _queues(days: Sequence[CapacityDay]) -> Proposal | None:
    """Propose more queues if one consumer per queue would not be enough."""
    wanted = [
        math.ceil(day.consumers_factor * max(day.clients, 1))
        for day in days
        if day.clients is not None and day.consumers_factor is not None
    ]
    queues = days[-1].queues
    if not wanted or not queues or max(wanted) <= queues:
        return None
    on_days = sum(count > queues for count in wanted)
    return Proposal("more queues", on_days, now=queues, proposed=max(wanted))


def _key(days: Sequence[CapacityDay]) -> Proposal | None:
    """Propose another key if the same queue is the worst on most days: more consumers would not help."""
    offenders = [day.skew_offender for day in days if day.skew_offender]
    if not offenders:
        return None
    worst = max(sorted(set(offenders)), key=offenders.count)
    on_days = offenders.count(worst)
    if on_days < max(SKEWED_DAYS_MIN, SKEWED_SHARE * len(days)):
        return None
    return Proposal("another key", on_days, evidence=worst)


def _retention(days: Sequence[CapacityDay]) -> Proposal | None:
    """Propose longer retention, or a faster group, if loss was less than a day away."""
    near = [day.runway_ms for day in days if day.runway_ms is not None and day.runway_ms < NEAR_LOSS_MS]
    return Proposal("longer retention", len(near), runway_ms=min(near)) if near else None


def _dead(days: Sequence[CapacityDay]) -> Proposal | None:
    """Propose removing a group that made no progress on any day of the week."""
    if len(days) < WEEK_DAYS or not all(day.dead_weight for day in days):
        return None
    return Proposal("remove", len(days), evidence=days[-1].dead_weight)
