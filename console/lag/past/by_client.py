"""Compute lag, time lag, throughput and latency of a past window by client and by host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from console.lag.history import owners
from console.lag.models import GroupMembers
from console.lag.past.measures import days_of
from spark.lag.folds import figures, histogram, level
from spark.lag.folds.level import Level
from spark.lag.folds.owners import cuts_of, fold_by_owner
from spark.lag.snapshot import Int64Array

# Each is a fold: a group that rebalances in every sweep has as many in ten hours.
CHANGES_MAX = 1_200
COLUMNS = (
    *("lag_max", "time_lag_max_ms", "consumed", "out_rate", "message_latency_p50_ms"),
    *("message_latency_p95_ms", "latency_mean_ms", "breach_ms", "coverage_pct", "status_worst"),
)
Part = tuple[int, Level]  # from when, and the owners of a piece of the window


class TooManyChanges(ValueError):
    """Report that owners changed more often in the window than are folded at once."""


@dataclass(frozen=True, slots=True)
class OwnerSteps:
    """Hold figures of each step of the window, None where the owner had no queue or they are unknown."""

    lag: list[int | None]
    time_lag_ms: list[int | None]
    consumed: list[int | None]
    message_latency_p95_ms: list[int | None]


@dataclass(frozen=True, slots=True)
class OwnerFigures:
    """One client or host, `owner` "" for the queues of which no owner was known. None is unknown.

    `queues` are those at the end of the window; without one there is no lag. `lag` is as of `lag_at_ms`. Times are
    milliseconds: `owned_ms` it had a queue, `breach_ms` the oldest message of one waited longer than promised.
    """

    owner: str
    host: str
    queues: int
    queues_max: int
    first_ms: int
    last_ms: int
    owned_ms: int
    lag: int | None
    lag_at_ms: int | None
    time_lag_ms: int | None
    lag_max: int | None
    time_lag_max_ms: int | None
    consumed: int
    out_rate: float | None
    message_latency_p50_ms: int | None
    message_latency_p95_ms: int | None
    latency_mean_ms: int | None
    breach_ms: int
    coverage_pct: float | None
    status_worst: str | None
    steps: OwnerSteps


@dataclass(frozen=True, slots=True)
class ByClient:
    """Hold a window of a group by owner, slowest first; `swept_ms`: the last sweep, None: never."""

    interval_ms: int
    slo_ms: int
    step_ms: int
    times: list[int]
    swept_ms: int | None
    changes: int
    clients: list[OwnerFigures]
    hosts: list[OwnerFigures]


def by_client_of(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    points: int,
    *,
    interval_ms: int,
    slo_ms: int,
    topic: str | None = None,
) -> ByClient:
    """Return the figures of a window by client and by host, in `points` steps. Raise TooManyChanges."""
    rows = owners.between(cluster, group, from_ms, to_ms)
    by_id, by_host = owners.tenures(rows), owners.tenures(rows, by_host=True)
    changes = len(cuts_of(by_id, from_ms, to_ms))
    if changes > CHANGES_MAX:
        raise TooManyChanges(f"Owners changed {changes} times, at most {CHANGES_MAX} are read at once.")
    step_ms = -(-(to_ms - from_ms) // points)
    times = list(range(from_ms, to_ms, step_ms))
    id_parts: list[Part] = []
    host_parts: list[Part] = []
    for a, b, grid in days_of(cluster, group, topic, from_ms, to_ms, interval_ms):
        id_parts += fold_by_owner(grid, by_id, a, b, slo_ms=slo_ms, steps=times)
        host_parts += fold_by_owner(grid, by_host, a, b, slo_ms=slo_ms, steps=times)
    hosts = {row.client_id: row.host for row in rows}
    swept = GroupMembers.objects.filter(cluster=cluster, group=group).values_list("read_at_ms", flat=True)
    return ByClient(
        interval_ms=interval_ms,
        slo_ms=slo_ms,
        step_ms=step_ms,
        times=times,
        swept_ms=swept.first(),
        changes=changes,
        clients=_figures(id_parts, times, interval_ms, slo_ms, hosts),
        hosts=_figures(host_parts, times, interval_ms, slo_ms, {host: host for host in hosts.values()}),
    )


def _figures(
    parts: Sequence[Part], times: Sequence[int], interval_ms: int, slo_ms: int, hosts: dict[str, str]
) -> list[OwnerFigures]:
    if not parts:
        return []
    found = level.merge([one for _, one in parts])
    steps = _steps(parts, times)
    at_end = {
        key.topic: int(count) for key, count in zip(parts[-1][1].keys, parts[-1][1].sums.queues, strict=True)
    }
    count = len(found)
    columns = figures.of_level(found, interval_ms, np.full(count, slo_ms), np.zeros(count))
    own = {name: columns[name].to_pylist() for name in COLUMNS}
    rows = []
    for at, owner in enumerate(key.topic for key in found.keys):
        if not found.sums.exists_ms[at]:
            continue
        queues = at_end.get(owner, 0)
        lag_at_ms = _known(found.counted.last_ms[at]) if queues else None
        rows.append(
            OwnerFigures(
                owner=owner,
                host=hosts.get(owner, ""),
                queues=queues,
                queues_max=int(found.sums.queues[at]),
                first_ms=int(found.sums.exists_from_ms[at]),
                last_ms=int(found.sums.exists_to_ms[at]),
                owned_ms=int(found.sums.exists_ms[at]),
                lag=None if lag_at_ms is None else int(found.counted.last[at]),
                lag_at_ms=lag_at_ms,
                time_lag_ms=_known(found.aged.last[at]) if queues else None,
                **{name: values[at] for name, values in own.items()},
                steps=steps.get(owner, _no_steps(len(times))),
            )
        )
    return sorted(rows, key=_slowness)


def _slowness(row: OwnerFigures) -> tuple[Any, ...]:
    """Sort by the time behind, then by how long messages waited; the unknown owner comes last."""
    return (row.owner == "", -row.breach_ms, -(row.message_latency_p95_ms or 0), row.owner)


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)


def _steps(parts: Sequence[Part], times: Sequence[int]) -> dict[str, OwnerSteps]:
    """Return the steps of each owner."""
    found: dict[str, OwnerSteps] = {}
    place = np.searchsorted(np.array(times), [at_ms for at_ms, _ in parts], side="right") - 1
    for step in range(len(times)):
        own = [part for (_, part), at in zip(parts, place.tolist(), strict=True) if at == step]
        if not own:
            continue
        whole = level.merge(own)
        p95, none = _p95(whole)
        for at, owner in enumerate(key.topic for key in whole.keys):
            if owner not in found:
                found[owner] = _no_steps(len(times))
            row, is_known = found[owner], whole.sums.known_ms[at] > 0
            row.lag[step] = _known(whole.counted.last[at])
            row.time_lag_ms[step] = _known(whole.aged.last[at])
            row.consumed[step] = int(whole.sums.consumed[at]) if is_known else None
            row.message_latency_p95_ms[step] = None if none[at] else int(p95[at])
    return found


def _no_steps(count: int) -> OwnerSteps:
    """Return steps with unknown figures."""
    return OwnerSteps([None] * count, [None] * count, [None] * count, [None] * count)


def _p95(whole: Level) -> tuple[Int64Array, Any]:
    waits = whole.histograms["latency"]
    one = histogram.percentiles(waits.buckets, waits.counts, waits.starts(len(whole)), (95,))[95]
    return one.values, one.is_empty
