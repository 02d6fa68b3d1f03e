"""The hourly figures of lag: pure functions from samples to rows, called by the Spark job and by tests alike.

For report jobs, in `mapInArrow` (one call per bundle of whole group-topics, see `spark.lag.chunk`)::

    samples = chunk.decode_table(chunk.load_window(paths, from_ms, to_ms, lookback_ms=LOOKBACK_MS))
    topics = rollup.hourly(samples, from_ms, to_ms, cluster=name, interval_ms=5_000)          # group x topic
    x hour queues = rollup.hourly_queues(samples, from_ms, to_ms, cluster=name, interval_ms=5_000)   # queue x
    hour

Both return a `pyarrow.Table` of `HOUR_SCHEMA`; queue rows have `broker_name` and `queue_id`, topic rows ""
and -1. Hours are UTC hours cut to [from_ms, to_ms), so the open hour gets a row of what has passed. The same
input gives the same rows in the same order: numbers are integers, percentiles are discrete (nearest rank: a
value that was really there).

Meaning of the columns:

    lag_*             messages waiting that can still be read: max - max(committed, min), summed over queues
    per round time_lag_*_ms     age of the oldest of them, the maximum over queues; `time_lag_censored` rounds
    know only a lower bound samples           rounds in which every queue of the row was read; percentiles are
    over these partial_samples   rounds in which some queue was missing: their sums would be too small and are
    left out coverage_pct      samples / expected_samples; `max_gap_ms` the longest time without a complete
    round produced          rises of max offsets, `consumed` rises of committed offsets without jumps; only
    over gaps of at most
                      `GAP_INTERVALS` intervals
    breach_ms         time during which some queue's time lag was above `slo_ms`; a gap counts as neither good
    nor bad lost, rewinds     messages that retention removed unread; times a committed offset went back
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from spark.lag import inversion
from spark.lag.samples import Samples, SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array
from spark.lag.status import SKIP_MESSAGES, forward_jumps

HOUR_MS = 3_600_000
LOOKBACK_MS = 6 * HOUR_MS  # time lags up to 6 h are exact to one interval; older ones are lower bounds
GAP_INTERVALS = 4  # a longer silence is unknown, not good or bad (lag.md 1.2, metric 20)
SLO_MS = 60_000  # default promise: the oldest message waits at most a minute
PERCENTILES = (50, 95, 99)

HOUR_SCHEMA = pa.schema(
    [
        *[
            pa.field(name, pa.string(), nullable=False)
            for name in ("cluster", "kind", "group", "topic", "broker_name")
        ],
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("window_start_ms", pa.int64(), nullable=False),
        pa.field("window_end_ms", pa.int64(), nullable=False),
        pa.field("interval_ms", pa.int32(), nullable=False),
        pa.field("slo_ms", pa.int64(), nullable=False),
        pa.field("queues", pa.int32(), nullable=False),
        *[pa.field(f"lag_{name}", pa.int64()) for name in ("last", "p50", "p95", "p99", "max")],
        *[pa.field(f"time_lag_{name}_ms", pa.int64()) for name in ("last", "p50", "p95", "p99", "max")],
        pa.field("time_lag_censored", pa.int32(), nullable=False),
        pa.field("produced", pa.int64(), nullable=False),
        pa.field("consumed", pa.int64(), nullable=False),
        pa.field("in_rate", pa.float64()),
        pa.field("out_rate", pa.float64()),
        pa.field("breach_ms", pa.int64(), nullable=False),
        pa.field("lost", pa.int64(), nullable=False),
        pa.field("rewinds", pa.int32(), nullable=False),
        pa.field("samples", pa.int32(), nullable=False),
        pa.field("partial_samples", pa.int32(), nullable=False),
        pa.field("expected_samples", pa.int32(), nullable=False),
        pa.field("coverage_pct", pa.float64(), nullable=False),
        pa.field("max_gap_ms", pa.int64(), nullable=False),
        pa.field("worst_queue", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What each sample means, parallel to `Samples`. Intervals are those that end at the sample.

    `valid` is false where the committed offset is beyond max: then lag and time lag are unknown. `gap_ms` is
    -1 where there is no sample before; counts over an interval are 0 there and where the gap is too long.
    """

    lag: Int64Array
    time_lag_ms: Int64Array
    censored: BoolArray
    valid: BoolArray
    gap_ms: Int64Array
    produced: Int64Array
    consumed: Int64Array
    lost: Int64Array
    rewound: BoolArray


def figures(samples: Samples, *, interval_ms: int) -> Figures:
    """Return the figures of group series (every series must have committed offsets)."""
    effective = np.maximum(samples.committed, samples.min_offset)
    valid = samples.committed <= samples.max_offset
    lag = np.where(valid, np.maximum(samples.max_offset - effective, 0), 0)
    time_lag_ms, censored = time_lags(samples, effective, lag > 0)
    before_t = _before(samples, samples.t_ms, samples.previous.t_ms)
    before_max = _before(samples, samples.max_offset, samples.previous.max_offset)
    before_min = _before(samples, samples.min_offset, samples.previous.min_offset)
    before_c = _before(samples, samples.committed, samples.previous.committed)
    gap_ms = np.where(before_t >= 0, samples.t_ms - before_t, -1)
    counted = (gap_ms > 0) & (gap_ms <= GAP_INTERVALS * interval_ms)
    gained = samples.committed - np.maximum(before_c, before_min)  # what retention removed was never consumed
    consumed = np.where(counted, np.maximum(gained, 0), 0)
    consumed[_jumps(samples)] = 0
    # Unread messages below min: each is counted once, when min passes it.
    unread_from = np.maximum(before_c, before_min)
    lost = np.where(
        before_t >= 0, np.maximum(samples.min_offset - np.maximum(unread_from, samples.committed), 0), 0
    )
    return Figures(
        lag=lag,
        time_lag_ms=time_lag_ms,
        censored=censored,
        valid=valid,
        gap_ms=gap_ms,
        produced=np.where(counted, np.maximum(samples.max_offset - before_max, 0), 0),
        consumed=consumed,
        lost=lost,
        rewound=(before_t >= 0) & (samples.committed < before_c),
    )


def time_lags(samples: Samples, effective: Int64Array, waiting: BoolArray) -> tuple[Int64Array, BoolArray]:
    """Return the age of the message at each `effective` offset, 0 where nothing waits, and which are lower
    bounds.
    """
    rows = np.flatnonzero(waiting).astype(np.int64)
    ages = np.zeros(len(samples.t_ms), dtype=np.int64)
    censored = np.zeros(len(samples.t_ms), dtype=np.bool_)
    if len(rows):
        stored = inversion.store_times(samples, rows, effective[rows])
        ages[rows] = samples.t_ms[rows] - stored.estimate_ms
        censored[rows] = stored.censored
    return ages, censored


def hourly(
    samples: Samples, from_ms: int, to_ms: int, *, cluster: str, interval_ms: int, slo_ms: int = SLO_MS
) -> pa.Table:
    """Return one row per group, topic and hour of [from_ms, to_ms) that has a sample. `%RETRY%` topics are
    rows of their own.
    """
    return _roll_up(samples, from_ms, to_ms, cluster, interval_ms, slo_ms, by_queue=False)


def hourly_queues(
    samples: Samples, from_ms: int, to_ms: int, *, cluster: str, interval_ms: int, slo_ms: int = SLO_MS
) -> pa.Table:
    """Return one row per queue and hour with a backlog or traffic; a quiet queue has no row."""
    return _roll_up(samples, from_ms, to_ms, cluster, interval_ms, slo_ms, by_queue=True)


@dataclass(frozen=True, slots=True)
class _Work:
    """What every row is made from. `series` numbers the series of each sample."""

    samples: Samples
    series: Int64Array
    figures: Figures
    interval_ms: int
    slo_ms: int


def _roll_up(
    samples: Samples, from_ms: int, to_ms: int, cluster: str, interval_ms: int, slo_ms: int, *, by_queue: bool
) -> pa.Table:
    groups = samples.select(lambda key: bool(key.group))
    work = _Work(groups, groups.series, figures(groups, interval_ms=interval_ms), interval_ms, slo_ms)
    rows = []
    for start_ms in range(from_ms - from_ms % HOUR_MS, to_ms, HOUR_MS):
        window = max(start_ms, from_ms), min(start_ms + HOUR_MS, to_ms)
        for first, last in _bundles(groups.keys, by_queue=by_queue):
            row = _row(work, first, last, window)
            if row is not None and (not by_queue or row["lag_max"] or row["produced"] or row["consumed"]):
                queue = (row["broker_name"], row["queue_id"]) if by_queue else ("", -1)
                rows.append({**row, "cluster": cluster, "broker_name": queue[0], "queue_id": queue[1]})
    return pa.Table.from_pylist(rows, schema=HOUR_SCHEMA) if rows else HOUR_SCHEMA.empty_table()


def _bundles(keys: Sequence[SeriesKey], *, by_queue: bool) -> Iterator[tuple[int, int]]:
    """Yield [first, last) of the series of one row: a group's topic, or one queue (all its incarnations)."""
    width = 4 if by_queue else 2
    at = 0
    for _, bundle in groupby(keys, key=lambda key: key[:width]):
        count = sum(1 for _ in bundle)
        yield at, at + count
        at += count


def _row(work: _Work, first: int, last: int, window: tuple[int, int]) -> dict[str, Any] | None:
    """Return the row of series [first, last), or None when the window holds no sample of them."""
    samples, key = work.samples, work.samples.keys[first]
    start, stop = int(samples.starts[first]), int(samples.starts[last])
    t_ms = samples.t_ms[start:stop]
    inside = np.flatnonzero((t_ms >= window[0]) & (t_ms < window[1])) + start
    if len(inside) == 0:
        return None
    times, round_of = np.unique(samples.t_ms[inside], return_inverse=True)
    queues = {samples.keys[i][2:4] for i in np.unique(work.series[inside]).tolist()}
    rounds = _Rounds.of(work, inside, times, round_of)
    complete = rounds.read == _expected_queues(work, first, last, times)
    expected = max(1, (window[1] - window[0]) // work.interval_ms)
    covered = int(complete.sum())
    return {
        "kind": key.kind.value,
        "group": key.group,
        "topic": key.topic,
        "broker_name": key.broker_name,
        "queue_id": key.queue_id,
        "window_start_ms": window[0],
        "window_end_ms": window[1],
        "interval_ms": work.interval_ms,
        "slo_ms": work.slo_ms,
        "queues": len(queues),
        **_distribution("lag_{}", rounds.lag[complete]),
        **_distribution("time_lag_{}_ms", rounds.time_lag_ms[complete]),
        "time_lag_censored": int(rounds.censored[complete].sum()),
        **_totals(work, inside, rounds),
        "samples": covered,
        "partial_samples": len(times) - covered,
        "expected_samples": expected,
        "coverage_pct": round(100 * min(1.0, covered / expected), 2),
        "max_gap_ms": int(np.diff(np.concatenate([window[:1], times[complete], window[1:]])).max()),
        "worst_queue": _worst_queue(work, inside),
    }


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The series of one row added up per round."""

    read: Int64Array  # queues with a valid sample
    lag: Int64Array
    time_lag_ms: Int64Array
    censored: BoolArray
    gap_ms: Int64Array  # time since the round before, 0 where there is none

    @classmethod
    def of(cls, work: _Work, inside: Int64Array, times: Int64Array, round_of: Int64Array) -> "_Rounds":
        read, lag, age, censored, gap = (np.zeros(len(times), dtype=np.int64) for _ in range(5))
        np.add.at(read, round_of, work.figures.valid[inside])
        np.add.at(lag, round_of, work.figures.lag[inside])
        np.maximum.at(age, round_of, work.figures.time_lag_ms[inside])
        np.maximum.at(censored, round_of, work.figures.censored[inside])
        np.maximum.at(gap, round_of, work.figures.gap_ms[inside])
        gap[1:] = np.diff(times)
        return cls(read, lag, age, censored > 0, np.maximum(gap, 0))


def _totals(work: _Work, inside: Int64Array, rounds: _Rounds) -> dict[str, Any]:
    """Return counts, rates and breach time of one row."""
    limit_ms = GAP_INTERVALS * work.interval_ms
    seconds = int(rounds.gap_ms[rounds.gap_ms <= limit_ms].sum()) / 1000
    produced = int(work.figures.produced[inside].sum())
    consumed = int(work.figures.consumed[inside].sum())
    late = rounds.time_lag_ms > work.slo_ms
    return {
        "produced": produced,
        "consumed": consumed,
        "in_rate": produced / seconds if seconds else None,
        "out_rate": consumed / seconds if seconds else None,
        "breach_ms": int(np.minimum(rounds.gap_ms, limit_ms)[late].sum()),
        "lost": int(work.figures.lost[inside].sum()),
        "rewinds": int(work.figures.rewound[inside].sum()),
    }


def _expected_queues(work: _Work, first: int, last: int, times: Int64Array) -> Int64Array:
    """Return how many queues exist at each round: each from its first sample until its next incarnation
    begins.

    A queue that is missing later is taken as unread, not as gone: coverage falls, the sum does not.
    """
    samples = work.samples
    begins = samples.t_ms[samples.starts[first:last]]
    begins = np.where(samples.previous.t_ms[first:last] >= 0, samples.previous.t_ms[first:last], begins)
    ends = [
        int(begins[i + 1])
        if i + 1 < len(begins) and samples.keys[first + i][:4] == samples.keys[first + i + 1][:4]
        else None
        for i in range(len(begins))
    ]
    ended = np.array(sorted(end for end in ends if end is not None), dtype=np.int64)
    begun: Int64Array = np.searchsorted(np.sort(begins), times, side="right")
    return begun - np.searchsorted(ended, times, side="right")


def _worst_queue(work: _Work, inside: Int64Array) -> str:
    """Return "broker · queue" of the sample with the largest time lag, then lag; "" where nothing ever
    waited.
    """
    ages, lags = work.figures.time_lag_ms[inside], work.figures.lag[inside]
    at = int(np.lexsort((-lags, -ages))[0])
    if lags[at] == 0:
        return ""
    key = work.samples.keys[int(work.series[inside[at]])]
    return f"{key.broker_name} · {key.queue_id}"


def _distribution(name: str, values: Int64Array) -> dict[str, int | None]:
    """Return last, discrete percentiles and maximum; nulls where no round was complete."""
    keys = ["last", *(f"p{share}" for share in PERCENTILES), "max"]
    if len(values) == 0:
        return {name.format(key): None for key in keys}
    ordered = np.sort(values)
    # nearest rank: the smallest with share% below
    ranks = [-(-share * len(ordered) // 100) - 1 for share in PERCENTILES]
    found = [int(values[-1]), *(int(ordered[max(rank, 0)]) for rank in ranks), int(ordered[-1])]
    return {name.format(key): value for key, value in zip(keys, found, strict=True)}


def _before(samples: Samples, values: Int64Array, previous: Int64Array) -> Int64Array:
    """Return the value one sample earlier; at a series' start that is the one before the window."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[samples.first] = previous[samples.counts > 0]
    return before


def _jumps(samples: Samples) -> Int64Array:
    """Return the samples whose committed offset was moved there, not consumed; only suspicious series cost a
    loop.
    """
    gains = np.diff(samples.committed, prepend=0)
    gains[samples.first] = 0
    found = []
    for series in np.unique(samples.series[gains >= SKIP_MESSAGES]).tolist():
        own = slice(int(samples.starts[series]), int(samples.starts[series + 1]))
        found.append(forward_jumps(samples.t_ms[own], samples.committed[own]) + own.start)
    jumps: Int64Array = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    return jumps
