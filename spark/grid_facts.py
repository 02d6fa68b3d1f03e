"""Facts of the group-topics of a grid, as `spark.row_facts` has them of any samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark.grid import Grid, Int32Array
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import Int64Array
from spark.lag.status import QUIET_MS, TIME_LAG_ALLOWED_MS, LagStatus
from spark.progress import CODES, CodeArray, standing_ms, statuses
from spark.rounds import FloatArray, Matrix, Rounds
from spark.row_facts import Facts, Latency, PromiseOf, Pulled, Skew, promises_of, queue_name
from spark.runway import NEVER

INT32_MAX = np.iinfo(np.int32).max
AGE_WIDTH = 1 << 12  # above every bucket of a 32-bit number
OK = CODES[LagStatus.OK]


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """What both grains are made from: arrays over the active series of a grid.

    `codes` are of the series in `troubled`, all others are OK in every round. `weights[i, j]`: messages that left with
    the age of round j. `buckets` those of the ages.
    """

    topic: Int64Array
    slo_ms: Int64Array
    target: FloatArray
    oldest_ms: Int64Array
    most: Int64Array
    lag: Int64Array
    produced: Int64Array
    consumed: Int64Array
    in_time: Int64Array
    late: Int64Array
    still_ms: Int64Array
    troubled: Int64Array
    codes: CodeArray
    weights: Int32Array
    lost: Int64Array
    skipped: Int64Array
    rewinds: Int64Array
    time_to_loss_ms: Int64Array


def series_facts(grid: Grid, promise: PromiseOf) -> SeriesFacts:
    """Look at every sample once."""
    topic_of_row = np.repeat(np.arange(len(grid.topic_starts) - 1), np.diff(grid.topic_starts))
    topic = topic_of_row[grid.active]
    groups = grid.names["group"].take(grid.topic_starts[:-1]).to_pylist()
    promises = promises_of(groups, promise)
    slo_ms = np.array([one.slo_ms for one in promises], dtype=np.int64)[topic]
    oldest = grid.age_ms.max(axis=1, initial=0).astype(np.int64)
    consumed = row_sums(grid.consumed)
    weights = np.zeros_like(grid.consumed)
    weights[:, :-1] = grid.consumed[:, 1:]
    weights[:, 0] += grid.consumed[:, 0]
    late = np.flatnonzero(oldest > slo_ms)
    in_time = consumed.copy()
    in_time[late] = np.where(grid.age_ms[late] <= slo_ms[late, None], weights[late], 0).sum(axis=1)
    still = _standing(grid)
    still_ms = still.max(axis=1, initial=0).astype(np.int64)
    is_troubled = (oldest > TIME_LAG_ALLOWED_MS) | (still_ms > QUIET_MS)
    if grid.odd is not None:
        is_troubled[grid.odd.places] = True
    troubled = np.flatnonzero(is_troubled)
    lost, skipped, rewinds = _losses(grid)
    return SeriesFacts(
        topic=topic,
        slo_ms=slo_ms,
        target=np.array([one.target for one in promises], dtype=np.float64)[topic],
        oldest_ms=oldest,
        most=grid.lag.max(axis=1, initial=0).astype(np.int64),
        lag=row_sums(grid.lag),
        produced=row_sums(grid.produced),
        consumed=consumed,
        in_time=in_time,
        late=late,
        still_ms=still_ms,
        troubled=troubled,
        codes=_codes(grid, troubled, still[troubled]),
        weights=weights,
        lost=lost,
        skipped=skipped,
        rewinds=rewinds,
        time_to_loss_ms=_time_to_loss(grid, consumed),
    )


def row_sums(matrix: Int32Array) -> Int64Array:
    """The sum of each row; 32 bits wide where that holds it, which is four times as fast."""
    is_narrow = matrix.size == 0 or int(matrix.max()) * matrix.shape[1] <= INT32_MAX
    sums: Int64Array = matrix.sum(axis=1, dtype=np.int32 if is_narrow else np.int64).astype(np.int64)
    return sums


def _standing(grid: Grid) -> Int32Array:
    """How long each committed offset has stood still while messages waited (`progress.standing_ms`)."""
    # since the sample before the hour, which is when those moved last that do not move at all
    since = (grid.times - grid.times[0] + max(int(grid.gap_ms[0]), 0)).astype(np.int32)
    still: Int32Array = ((grid.consumed > 0) | (grid.lag == 0)).astype(np.int32)
    still *= since
    np.maximum.accumulate(still, axis=1, out=still)
    np.subtract(since, still, out=still)
    if grid.odd is not None:
        still[grid.odd.places] = standing_ms(grid.odd.matrix)
    return still


def _codes(grid: Grid, rows: Int64Array, still_ms: Int32Array) -> CodeArray:
    """The status of some series in every round."""
    matrix = _matrix_of(grid, rows)
    codes = statuses(matrix, still_ms.astype(np.int64))
    if grid.odd is not None:
        place = np.searchsorted(rows, grid.odd.places)
        codes[place] = statuses(grid.odd.matrix, still_ms[place].astype(np.int64))
    return codes


def _matrix_of(grid: Grid, rows: Int64Array) -> Matrix:
    """What the statuses of series look at whose offsets never fell and which lost nothing."""
    lag = grid.lag[rows].astype(np.int64)
    nothing, never = np.zeros_like(lag), np.zeros(lag.shape, dtype=np.bool_)
    always = ~never
    return Matrix(
        keys=(), times=grid.times, interval_ms=grid.interval_ms, begins=np.zeros(len(rows), dtype=np.int64),
        present=always, valid=always, lag=lag, time_lag_ms=grid.age_ms[rows].astype(np.int64), censored=never,
        gap_ms=np.broadcast_to(grid.gap_ms, lag.shape), max_offset=lag, min_offset=nothing, committed=nothing,
        pulled=nothing, produced=nothing, consumed=grid.consumed[rows].astype(np.int64), skipped=nothing,
        lost=nothing, rewound=never,
    )  # fmt: skip


def _losses(grid: Grid) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Messages lost, skipped, and rewinds of each series: only odd ones have any."""
    found = tuple(np.zeros(len(grid.active), dtype=np.int64) for _ in range(3))
    if grid.odd is not None:
        matrix = grid.odd.matrix
        for totals, theirs in zip(found, (matrix.lost, matrix.skipped, matrix.rewound), strict=True):
            totals[grid.odd.places] = theirs.sum(axis=1)
    return found[0], found[1], found[2]


def _time_to_loss(grid: Grid, consumed: Int64Array) -> Int64Array:
    """See `spark.runway`."""
    span = max(int(grid.times[-1] - grid.times[0]), 1)
    closing = grid.low_last - grid.low_first - consumed
    distance = np.maximum(grid.committed_last - grid.low_last, 0)
    at_risk = (closing > 0) & (grid.lag[:, -1] > 0)
    left: Int64Array = np.where(at_risk, distance * span // np.maximum(closing, 1), NEVER)
    return left


def topic_rounds(grid: Grid, series: SeriesFacts) -> Rounds:
    """The group-topics added up per round."""
    count = len(grid.topic_starts) - 1
    shape = (count, len(grid.times))
    always = np.ones(shape, dtype=np.bool_)
    return Rounds(
        seen=always,
        complete=always,
        lag=_sums(grid.lag, series.topic, count),
        time_lag_ms=_largest(grid.age_ms, series.topic, count),
        censored=_largest(grid.censored, series.topic[grid.old], count) > 0,
        gap_ms=np.broadcast_to(grid.watched_ms, shape),
        produced=_sums(grid.produced, series.topic, count),
        consumed=_sums(grid.consumed, series.topic, count),
    )


def _sums(matrix: npt.NDArray[np.generic], topic: Int64Array, count: int) -> Int64Array:
    """The rows of each topic added up; `topic` of each row, ascending."""
    sums = np.zeros((count, matrix.shape[1]), dtype=np.int64)
    most = int(matrix.max(initial=0))
    for number, own in _slices(topic, count):
        is_narrow = most * (own.stop - own.start) <= INT32_MAX
        sums[number] = matrix[own].sum(axis=0, dtype=np.int32 if is_narrow else np.int64)
    return sums


def _largest(matrix: npt.NDArray[np.generic], topic: Int64Array, count: int) -> Int64Array:
    largest = np.zeros((count, matrix.shape[1]), dtype=np.int64)
    for number, own in _slices(topic, count):
        largest[number] = matrix[own].max(axis=0, initial=0)
    return largest


def _slices(topic: Int64Array, count: int) -> Iterator[tuple[int, slice]]:
    bounds = np.searchsorted(topic, np.arange(count + 1)).tolist()
    for number, (first, end) in enumerate(pairwise(bounds)):
        if end > first:
            yield number, slice(first, end)


def topic_facts(grid: Grid, series: SeriesFacts, promise: PromiseOf, latency: Latency) -> Facts:
    """What rows of group-topics say besides; `latency`: their histograms."""
    firsts, lasts = grid.topic_starts[:-1], grid.topic_starts[1:] - 1
    count = len(firsts)
    keys = _keys(grid.names.take(firsts))
    promises = promises_of([key.group for key in keys], promise)
    return Facts(
        keys=keys,
        incarnation=grid.names["incarnation"].take(lasts).to_numpy().astype(np.int64),
        queues=np.diff(grid.topic_starts),
        slo_ms=np.array([one.slo_ms for one in promises], dtype=np.int64),
        target=np.array([one.target for one in promises]),
        late_lag=_late_lag(grid, series, count),
        latency=latency,
        pulled=_pulled(grid, series, count),
        lost=_added(series.topic, series.lost, count),
        skipped=_added(series.topic, series.skipped, count),
        rewinds=_added(series.topic, series.rewinds, count),
        time_to_loss_ms=_least(series.topic, series.time_to_loss_ms, count),
        skew=_skew(grid, series, count),
        worst_queue=_worst_queues(grid, series, count),
        still_ms=-_least(series.topic, -series.still_ms, count, 0),
        codes=_topic_codes(grid, series, count),
    )


def _keys(names: pa.Table) -> list[SeriesKey]:
    return list(
        map(SeriesKey._make, zip(*(names[name].to_pylist() for name in names.column_names), strict=True))
    )


def _added(topic: Int64Array, values: Int64Array, count: int) -> Int64Array:
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, topic, values)
    return sums


def _least(topic: Int64Array, values: Int64Array, count: int, highest: int = NEVER) -> Int64Array:
    least = np.full(count, highest, dtype=np.int64)
    np.minimum.at(least, topic, values)
    return least


def _late_lag(grid: Grid, series: SeriesFacts, count: int) -> Int64Array:
    late = series.late
    own = np.where(grid.age_ms[late] > series.slo_ms[late, None], grid.lag[late], 0)
    return _sums(own, series.topic[late], count)


def _pulled(grid: Grid, series: SeriesFacts, count: int) -> Pulled | None:
    known = grid.in_flight >= 0
    if not known.any():
        return None
    topic = series.topic[grid.pulled]
    everyone = _sums(known, topic, count) == np.diff(grid.topic_starts)[:, None]
    in_flight = np.where(known, grid.in_flight, 0)
    ready = np.where(known, grid.lag[grid.pulled] - in_flight, 0)
    return Pulled(everyone, _sums(in_flight, topic, count), _sums(ready, topic, count))


def _skew(grid: Grid, series: SeriesFacts, count: int) -> Skew:
    sums = np.zeros(grid.names.num_rows, dtype=np.int64)
    sums[grid.active] = series.lag
    return Skew.of(sums, np.repeat(np.arange(count), np.diff(grid.topic_starts)), count)


def _worst_queues(grid: Grid, series: SeriesFacts, count: int) -> list[str]:
    """The queue of the sample with the largest time lag, then lag; "" where nothing ever waited."""
    oldest = -_least(series.topic, -series.oldest_ms, count, 0)
    rows = np.flatnonzero((series.oldest_ms == oldest[series.topic]) & (series.most > 0))
    ages = grid.age_ms[rows]
    at_oldest = np.where(ages == series.oldest_ms[rows, None], grid.lag[rows], -1).max(axis=1, initial=-1)
    order = np.lexsort((-at_oldest, series.topic[rows]))
    topics, first = np.unique(series.topic[rows][order], return_index=True)
    names = [""] * count
    keys = _keys(grid.names.take(grid.active[rows[order[first]]]))
    for topic, key in zip(topics.tolist(), keys, strict=True):
        names[topic] = queue_name(key)
    return names


def _topic_codes(grid: Grid, series: SeriesFacts, count: int) -> CodeArray:
    codes = np.full((count, len(grid.times)), OK, dtype=np.int8)
    for number, own in _slices(series.topic[series.troubled], count):
        codes[number] = np.maximum(series.codes[own].max(axis=0), OK)
    return codes


def topic_latency(
    grid: Grid, series: SeriesFacts, buckets: npt.NDArray[np.integer[Any]], weights: Int32Array
) -> Latency:
    """The histograms of group-topics; `buckets` and `weights` have a row per series, rounds in any order."""
    count = len(grid.topic_starts) - 1
    counts = np.zeros((count, AGE_WIDTH))
    for number, own in _slices(series.topic, count):  # one topic's counts stay in the nearest cache
        counts[number] = np.bincount(buckets[own].reshape(-1), weights[own].reshape(-1), minlength=AGE_WIDTH)
    found = np.flatnonzero(counts)
    return Latency(
        found % AGE_WIDTH,
        counts.reshape(-1)[found].astype(np.int64),
        np.searchsorted(found, np.arange(count + 1) * AGE_WIDTH),
        _added(series.topic, series.consumed, count),
        _added(series.topic, series.in_time, count),
    )
