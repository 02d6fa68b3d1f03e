"""Compute figures of a past window of one group: latency by message, promises kept, throughput by the minute.

All of them are folds of stored judgements (`folds.window`), as report rows are: a window is cut into days, and at the
times that alerts look back to from its end; the figures of the parts are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, structs

from console.lag.past import history_reads
from console.lag.past.history_reads import BEFORE_MS
from spark.lag.folds import histogram, level
from spark.lag.folds.breach import BURN_WINDOWS, BurnWindow, budget_left, burn_rate
from spark.lag.folds.figures import COVERAGE_MIN, PERCENTILES
from spark.lag.folds.level import Counts, Level, Sums
from spark.lag.folds.rounds import Rounds, rounds_of, whole
from spark.lag.folds.window import WEIGHT, latencies_of, level_of
from spark.lag.grid import Grid, carried, grid_of
from spark.lag.local_time import DAY_MS, MINUTE_MS
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import Int64Array

# Upper edges of the histogram, 4 to a factor of 2: from 1 s to 12 days, then everything above.
EDGES_MS = np.rint(1_000 * 2 ** (np.arange(0, 81) / 4)).astype(np.int64)


class Bucket(Struct, frozen=True):
    """Hold the messages that waited at most so long, and longer than the bucket before; null: any time above."""

    up_to_ms: int | None
    messages: int


class Burn(Struct, frozen=True, kw_only=True):
    """Hold the burn rates over both lengths of an alert; null: unknown."""

    long_ms: int
    short_ms: int
    factor: float
    long_burn: float | None
    short_burn: float | None


class Kept(Struct, frozen=True, kw_only=True):
    """Hold how a promise was kept; see `api.lag.LatencySerializer` for the fields."""

    target: float
    watched_ms: int
    coverage_pct: float
    breach_ms: int
    breach_weighted_ms: int
    budget_left: float | None
    burn: tuple[Burn, ...]


class Latency(Kept, frozen=True, kw_only=True):
    """Hold how long the messages of a window waited, and how the promise was kept."""

    interval_ms: int
    slo_ms: int
    messages: int = 0
    censored: int = 0
    within_slo: int = 0
    within_slo_pct: float | None = None
    mean_ms: int | None = None
    little_mean_ms: int | None = None
    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None
    max_ms: int | None = None
    histogram: tuple[Bucket, ...] = ()


class Throughput(Struct, frozen=True, kw_only=True):
    """Hold messages written and read by steps of whole minutes, as lists of one length.

    `times` are the starts of the steps; `produced`, `committed` and `lost` messages in the step (those of a gap count
    at its end); `watched_ms` is of the step; 0: it was not watched, and the counts are null.
    """

    interval_ms: int
    step_ms: int
    times: Sequence[int]
    produced: Sequence[int | None]
    committed: Sequence[int | None]
    lost: Sequence[int | None]
    watched_ms: Sequence[int]


def days_of(
    cluster: str, group: str, topic: str | None, from_ms: int, to_ms: int, interval_ms: int
) -> Iterator[tuple[int, int, Grid]]:
    """Yield (from, to, grid) of the window day by day; each grid has the round before it.

    `topic` None: all but the group's `%RETRY%`.
    """
    grid: Grid | None = None
    for start_ms in range(from_ms, to_ms, DAY_MS):
        end_ms = min(start_ms + DAY_MS, to_ms)
        back_ms = start_ms - BEFORE_MS if grid is None else start_ms
        samples = history_reads.load_main(cluster, group, back_ms, end_ms, topic=topic)
        if grid is not None:
            samples = carried(samples, grid)
        if samples.keys:
            grid = grid_of(samples, interval_ms)
            yield start_ms, end_ms, grid


def _levels(
    days: Iterator[tuple[int, int, Grid]], slo_ms: int, cuts: Sequence[int]
) -> list[tuple[int, Level]]:
    """Return (from, level of the whole group) of the parts of the window between days and cuts."""
    found = []
    for start_ms, end_ms, grid in days:
        edges = sorted({start_ms, end_ms, *(cut for cut in cuts if start_ms < cut < end_ms)})
        for a, b in zip(edges, edges[1:], strict=False):
            found.append((a, _level(grid.between(a, b), a, b, slo_ms)))
    return found


def _level(grid: Grid, from_ms: int, to_ms: int, slo_ms: int) -> Level:
    """Return the fold of all queues together."""
    count = len(grid.keys)
    queues = rounds_of(grid, np.full(count, slo_ms, dtype=np.int64))
    latencies = latencies_of(queues, from_ms).whole()
    key = SeriesKey(grid.keys[0].group, "", "", -1, 0)
    own = queues.together(whole(count))
    return level_of(own, [key], np.array([slo_ms]), from_ms, to_ms, latencies)


def latency_of(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    *,
    interval_ms: int,
    slo_ms: int,
    target: float,
    topic: str | None = None,
) -> Latency:
    """Return how long the messages of a window waited, and how the promise was kept."""
    cuts = sorted({to_ms - length for one in BURN_WINDOWS for length in (one.long_ms, one.short_ms)})
    parts = _levels(days_of(cluster, group, topic, from_ms, to_ms, interval_ms), slo_ms, cuts)
    kept = structs.asdict(_kept(parts, to_ms, target))
    if not parts:
        return Latency(interval_ms=interval_ms, slo_ms=slo_ms, **kept)
    found = level.merge([part for _, part in parts])
    sums, waits = found.sums, found.histograms["latency"]
    timed, consumed = int(sums.timed[0]), int(sums.consumed[0])
    by_share = histogram.percentiles(waits.buckets, waits.counts, waits.starts(1), PERCENTILES)
    p50_ms, p95_ms, p99_ms = (int(by_share[share].values[0]) if timed else None for share in (50, 95, 99))
    return Latency(
        interval_ms=interval_ms,
        slo_ms=slo_ms,
        messages=consumed,
        censored=consumed - timed,
        within_slo=int(sums.in_time[0]),
        within_slo_pct=round(100 * int(sums.in_time[0]) / timed, 3) if timed else None,
        mean_ms=int(sums.latency_ms[0]) // timed if timed else None,
        little_mean_ms=int(sums.lag_area[0]) // consumed if consumed else None,
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        max_ms=int(histogram.highest_of(waits.buckets)[-1]) if timed else None,
        histogram=_histogram(waits),
        **kept,
    )


def _histogram(waits: Counts) -> tuple[Bucket, ...]:
    """Return the edges up to the last one that is needed; `up_to_ms` null is everything above."""
    place = np.searchsorted(EDGES_MS, histogram.highest_of(waits.buckets), side="left")
    counts = np.zeros(len(EDGES_MS) + 1, dtype=np.int64)
    np.add.at(counts, place, waits.counts)
    edges: list[int | None] = [*EDGES_MS.tolist(), None]
    used = np.flatnonzero(counts)
    last = int(used[-1]) + 1 if len(used) else 0
    return tuple(
        Bucket(edge, count) for edge, count in zip(edges[:last], counts[:last].tolist(), strict=True)
    )


def _kept(parts: Sequence[tuple[int, Level]], to_ms: int, target: float) -> Kept:
    """Return breach time, burn rates up to `to_ms` and what is left of the error budget."""
    sums = level.merge([part for _, part in parts]).sums if parts else None
    watched, existed = (int(sums.watched_ms[0]), int(sums.exists_ms[0])) if sums else (0, 0)
    breach = int(sums.breach_ms[0]) if sums else 0
    is_covered = watched >= COVERAGE_MIN * existed and existed > 0
    left = budget_left(breach, watched, target) if is_covered else None
    return Kept(
        target=target,
        watched_ms=watched,
        coverage_pct=round(100 * watched / existed, 2) if existed else 0.0,
        breach_ms=breach,
        breach_weighted_ms=int(sums.breach_weighted[0]) // WEIGHT if sums else 0,
        budget_left=None if left is None else round(left, 4),
        burn=tuple(_burn(one, parts, to_ms, target) for one in BURN_WINDOWS) if parts else (),
    )


def _burn(window: BurnWindow, parts: Sequence[tuple[int, Level]], to_ms: int, target: float) -> Burn:
    """Return the burn over both lengths of an alert, as far as the parts reach back."""
    rates = []
    for length_ms in (window.long_ms, window.short_ms):
        own = [part for from_ms, part in parts if from_ms >= to_ms - length_ms]
        rates.append(_rate(level.merge(own).sums, target) if own else None)
    return Burn(
        long_ms=window.long_ms,
        short_ms=window.short_ms,
        factor=window.factor,
        long_burn=rates[0],
        short_burn=rates[1],
    )


def _rate(sums: Sums, target: float) -> float | None:
    watched, existed = int(sums.watched_ms[0]), int(sums.exists_ms[0])
    if not existed or watched < COVERAGE_MIN * existed:
        return None
    rate = burn_rate(int(sums.breach_ms[0]), watched, target)
    return None if rate is None else round(rate, 2)


def throughput_of(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    points: int,
    *,
    interval_ms: int,
    topic: str | None = None,
) -> Throughput:
    """Return messages written and read, by steps of whole minutes, at most `points` of them."""
    minutes = max(1, -(-(to_ms - from_ms) // (points * MINUTE_MS)))
    step_ms = minutes * MINUTE_MS
    start_ms = from_ms - from_ms % step_ms
    count = -(-(to_ms - start_ms) // step_ms)
    edges = start_ms + np.arange(count + 1, dtype=np.int64) * step_ms
    names = {"produced": "produced", "committed": "consumed", "lost": "lost"}
    totals = {name: np.zeros(count, dtype=np.int64) for name in names}
    watched = np.zeros(count, dtype=np.int64)
    for a, b, grid in days_of(cluster, group, topic, from_ms, to_ms, interval_ms):
        own = rounds_of(grid.between(a, b)).together(whole(len(grid.keys)))
        inside = own.t_ms >= a
        steps = (own.t_ms[inside] - start_ms) // step_ms
        for name, column in names.items():
            np.add.at(totals[name], steps, getattr(own, column)[0][inside])
        watched += _watched(own, a, b, edges)
    seen = (watched > 0).tolist()
    return Throughput(
        interval_ms=interval_ms,
        step_ms=step_ms,
        times=edges[:-1].tolist(),
        watched_ms=watched.tolist(),
        **{
            name: [value if ok else None for value, ok in zip(values.tolist(), seen, strict=True)]
            for name, values in totals.items()
        },
    )


def _watched(rounds: Rounds, from_ms: int, to_ms: int, edges: Int64Array) -> Int64Array:
    """Return for how much of each step every queue was known."""
    if not len(rounds.t_ms):
        return np.zeros(len(edges) - 1, dtype=np.int64)
    held, _ = rounds.spans(from_ms, to_ms)
    begins = np.maximum(rounds.t_ms, from_ms)
    known = np.where(rounds.is_read[0], held, 0)
    after = np.cumsum(known)
    points = np.column_stack([begins, begins + held]).reshape(-1)
    upto = np.column_stack([after - known, after]).reshape(-1)
    watched: Int64Array = np.diff(np.interp(edges, points, upto)).astype(np.int64)
    return watched
