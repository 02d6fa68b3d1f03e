"""Compare a week with the weeks before it: changes with their significance, the cost of lag, proposals.

Computed from the daily rows of up to four weeks (`LagRow` of job lag_day) and the week's rows of capacity. A
change counts if the test of `folds.trend` finds it significant; days without rows, or hardly observed, are left
out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from console.report.models import LagRow, ReportRow
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
Figures = dict[str, Any]
FloatArray = npt.NDArray[np.float64]
Key = tuple[str, str]


def week_rows(cluster: str, start_ms: int, zone: str = UTC) -> Iterator[tuple[str, Figures]]:
    """Yield (grain, figures) of the week from `start_ms` in `zone`: "trend", "change", "proposal"."""
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


def _trend(key: Key, rows: Mapping[int, LagRow]) -> Iterator[tuple[str, Figures]]:
    """Yield each figure of the week against the one before, and the cost of the week's lag."""
    week = [row for number, row in rows.items() if number >= BACK_DAYS - WEEK_DAYS]
    if not week:
        return
    group, topic = key
    costs = [row.late_message_ms for row in week if row.late_message_ms is not None]
    figures: Figures = {
        "group": group,
        "topic": topic,
        "kind": "GROUP",
        "days": len(week),
        "late_message_hours": round(sum(costs) / 1000 / HOUR_S, 3) if costs else None,
        "consumed": sum(row.consumed for row in week),
        "coverage_pct": round(sum(row.coverage_pct for row in week) / WEEK_DAYS, 2),
    }
    for word, (column, _) in COMPARED.items():
        values = _series(rows, column)
        shift = trend.week_over_week(values[-2 * WEEK_DAYS : -WEEK_DAYS], values[-WEEK_DAYS:])
        name = word.replace(" ", "_")
        if shift is not None:
            figures |= {
                f"{name}_before": round(shift.before, 4),
                f"{name}_now": round(shift.after, 4),
                f"{name}_change_pct": _change_pct(shift.before, shift.after),
                f"{name}_days": shift.pairs,
                f"{name}_p": None if shift.p_value is None else round(shift.p_value, 4),
                f"{name}_verdict": _verdict(shift),
            }
    yield "trend", figures


def _verdict(shift: trend.Shift) -> str:
    if shift.is_significant is None:
        return "too few days"
    if not shift.is_significant:
        return "no clear change"
    return "higher" if shift.after > shift.before else "lower"


def _change_pct(before: float, after: float) -> float | None:
    return round(100 * (after - before) / before, 1) if before else None


def _changes(key: Key, rows: Mapping[int, LagRow], first_ms: int, zone: str) -> Iterator[tuple[str, Figures]]:
    """Yield the changes of level that began in the week."""
    for word in CHANGING:
        column, least = COMPARED[word]
        found = trend.change_point(_series(rows, column))
        if found is None or found.at < BACK_DAYS - WEEK_DAYS:
            continue
        change = _change_pct(found.before, found.after)
        if change is not None and abs(change) < 100 * least:
            continue
        yield (
            "change",
            {
                "group": key[0],
                "topic": key[1],
                "kind": "GROUP",
                "what": word,
                "at_ms": days_later(first_ms, found.at, zone),
                "before": round(found.before, 4),
                "after": round(found.after, 4),
                "change_pct": change,
                "p": round(found.p_value, 4),
                "days": int((~np.isnan(_series(rows, column))).sum()),
            },
        )


# --- Proposals ----------------------------------------------------------------------------------------------


def _capacity(cluster: str, start_ms: int, end_ms: int) -> dict[Key, list[Figures]]:
    """Return the week's days of each group's topic from the capacity report."""
    rows = ReportRow.objects.filter(
        cluster=cluster,
        job="capacity",
        grain="group",
        kind="GROUP",
        window_start_ms__gte=start_ms,
        window_start_ms__lt=end_ms,
    ).order_by("window_start_ms")
    found: dict[Key, list[Figures]] = {}
    for group, topic, figures in rows.values_list("group", "topic", "figures").iterator(chunk_size=2_000):
        found.setdefault((group, topic), []).append(figures)
    return found


def proposals(capacity: Mapping[Key, Sequence[Figures]]) -> Iterator[tuple[str, Figures]]:
    """Yield proposals, each with the figures that support it."""
    for (group, topic), days in sorted(capacity.items()):
        for figures in (_consumers(days), _queues(days), _key(days), _retention(days), _dead(days)):
            if figures is not None:
                shared = {"group": group, "topic": topic, "kind": "GROUP", "days": len(days)}
                yield "proposal", {**shared, **figures}


def _consumers(days: Sequence[Figures]) -> Figures | None:
    """Propose as many consumers as the worst day needs, if there are fewer."""
    clients = days[-1].get("clients")
    needed = max((day["consumers_needed"] for day in days if "consumers_needed" in day), default=None)
    if clients is None or needed is None or needed <= clients:
        return None
    on = sum(day.get("consumers_needed", 0) > clients for day in days)
    return {"proposal": "more consumers", "now": clients, "proposed": needed, "on_days": on}


def _queues(days: Sequence[Figures]) -> Figures | None:
    """Propose more queues if one consumer per queue would not be enough."""
    wanted = [
        math.ceil(day["consumers_factor"] * max(day["clients"], 1))
        for day in days
        if day.get("clients") is not None and day.get("consumers_factor") is not None
    ]
    queues = days[-1].get("queues")
    if not wanted or not queues or max(wanted) <= queues:
        return None
    on = sum(one > queues for one in wanted)
    return {"proposal": "more queues", "now": queues, "proposed": max(wanted), "on_days": on}


def _key(days: Sequence[Figures]) -> Figures | None:
    """Propose another key if the same queue is the worst on most days: more consumers would not help."""
    offenders = [day["skew_offender"] for day in days if day.get("skew_offender")]
    if not offenders:
        return None
    worst = max(sorted(set(offenders)), key=offenders.count)
    on = offenders.count(worst)
    if on < max(SKEWED_DAYS_MIN, SKEWED_SHARE * len(days)):
        return None
    return {"proposal": "another key", "evidence": worst, "on_days": on}


def _retention(days: Sequence[Figures]) -> Figures | None:
    """Propose longer retention, or a faster group, if loss was less than a day away."""
    near = [day["runway_ms"] for day in days if day.get("runway_ms") is not None]
    near = [runway_ms for runway_ms in near if runway_ms < NEAR_LOSS_MS]
    if not near:
        return None
    return {"proposal": "longer retention", "runway_ms": min(near), "on_days": len(near)}


def _dead(days: Sequence[Figures]) -> Figures | None:
    """Propose removing a group that made no progress on any day of the week."""
    if len(days) < WEEK_DAYS or not all(day.get("dead_weight") for day in days):
        return None
    return {"proposal": "remove", "evidence": days[-1]["dead_weight"], "on_days": len(days)}
