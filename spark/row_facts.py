"""What rows of a lag report say besides sums per round: of each bundle (a group's topic, or a queue of it).

`facts_of` makes them from a matrix of any samples, with holes and rewinds and all; `spark.grid_facts` makes the same
faster from a grid, the ordinary hour. `spark.hour_rows` turns either into rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from spark import histogram
from spark.job import Promise
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array
from spark.progress import CodeArray, standing_ms, statuses
from spark.rounds import QUEUE_WIDTH, TOPIC_WIDTH, Bundles, FloatArray, Matrix, Rounds
from spark.runway import time_to_loss_ms

GRAIN_TOPIC, GRAIN_QUEUE = "topic", "queue"
LATENCY_WIDTH = 1 << 14  # above every bucket of a 64-bit number
PromiseOf = Callable[[str], Promise]


@dataclass(frozen=True, slots=True)
class Latency:
    """Histograms of message latencies: bundle i owns buckets[starts[i] : starts[i + 1]]. `consumed` messages in all,
    `in_time` of them kept the promise.
    """

    buckets: Int64Array
    counts: Int64Array
    starts: Int64Array
    consumed: Int64Array
    in_time: Int64Array


@dataclass(frozen=True, slots=True)
class Pulled:
    """Messages pulled and not confirmed, and not pulled yet; `known` where every queue's pulled offset was read."""

    known: BoolArray
    in_flight: Int64Array
    ready: Int64Array


@dataclass(frozen=True, slots=True)
class Skew:
    """Over the queues of each bundle: the sum of their lags over all rounds, of the squares of those, of rank times lag
    (ascending, from 1), the largest, and how many.
    """

    lag: FloatArray
    squares: FloatArray
    ranked: FloatArray
    largest: FloatArray
    count: Int64Array

    @classmethod
    def of(cls, sums: Int64Array, bundle: Int64Array, bundles: int) -> Skew:
        """`sums`: the lag of each queue over all rounds; `bundle`: which one it belongs to."""
        order = np.lexsort((sums, bundle))
        ordered, rows = sums[order].astype(np.float64), bundle[order]
        count = np.bincount(rows, minlength=bundles)
        starts = np.concatenate([[0], np.cumsum(count)])
        place = np.arange(len(rows)) - starts[rows] + 1
        return cls(
            _sums(rows, ordered, bundles),
            _sums(rows, ordered**2, bundles),
            _sums(rows, place * ordered, bundles),
            ordered[np.maximum(starts[1:] - 1, 0)],
            count,
        )

    def figures(self) -> dict[str, FloatArray]:
        """Columns by name; no number where nothing ever waited."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                "skew_max_mean": self.largest * self.count / self.lag,
                "skew_gini": 2 * self.ranked / (self.count * self.lag) - (self.count + 1) / self.count,
                "effective_queues": self.lag**2 / self.squares,
            }


@dataclass(frozen=True, slots=True)
class Facts:
    """Arrays over bundles, matrices bundles x rounds.

    `keys` name the first series of each, `incarnation` is that of the last. `late_lag`: messages in queues that wait
    longer than promised. `skew` None: the bundles are queues.
    """

    keys: Sequence[SeriesKey]
    incarnation: Int64Array
    queues: Int64Array
    slo_ms: Int64Array
    target: FloatArray
    late_lag: Int64Array
    latency: Latency
    pulled: Pulled | None
    lost: Int64Array
    skipped: Int64Array
    rewinds: Int64Array
    time_to_loss_ms: Int64Array
    skew: Skew | None
    worst_queue: Sequence[str]
    still_ms: Int64Array
    codes: CodeArray


def join_facts(parts: Sequence[Facts]) -> Facts:
    """Bundles of several facts, over the same rounds, behind each other."""
    if len(parts) == 1:
        return parts[0]
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (
            "incarnation", "queues", "slo_ms", "target", "late_lag", "lost", "skipped", "rewinds", "time_to_loss_ms",
            "still_ms", "codes",
        )
    }  # fmt: skip
    skews = [part.skew for part in parts if part.skew is not None]
    skew = None
    if len(skews) == len(parts):
        names = [field.name for field in fields(Skew)]
        skew = Skew(**{name: np.concatenate([getattr(one, name) for one in skews]) for name in names})
    return Facts(
        keys=[key for part in parts for key in part.keys],
        latency=_join_latencies([part.latency for part in parts]),
        pulled=_join_pulled(parts),
        skew=skew,
        worst_queue=[name for part in parts for name in part.worst_queue],
        **arrays,
    )


def _join_latencies(parts: Sequence[Latency]) -> Latency:
    ends = np.cumsum([0, *(len(part.buckets) for part in parts)])
    starts = [part.starts[:-1] + end for part, end in zip(parts, ends.tolist(), strict=False)]
    names = ("buckets", "counts", "consumed", "in_time")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Latency(starts=np.concatenate([*starts, ends[-1:]]), **joined)


def _join_pulled(parts: Sequence[Facts]) -> Pulled | None:
    """Where one of them knows of no pulled offset, it is not known."""
    if all(part.pulled is None for part in parts):
        return None
    found = []
    for part in parts:
        nothing = np.zeros_like(part.late_lag)
        found.append(part.pulled or Pulled(nothing > 0, nothing, nothing))
    names = [field.name for field in fields(Pulled)]
    return Pulled(**{name: np.concatenate([getattr(one, name) for one in found]) for name in names})


def facts_of(matrix: Matrix, promise: PromiseOf) -> Iterator[tuple[str, Rounds, Facts]]:
    """Yield (grain, rounds, facts) of group-topics and of queues."""
    still = standing_ms(matrix)
    codes = statuses(matrix, still)
    promises = promises_of([key.group for key in matrix.keys], promise)
    slo_ms = np.array([one.slo_ms for one in promises], dtype=np.int64)
    latencies = _Latencies.of(matrix, slo_ms)
    late_lag = np.where(matrix.time_lag_ms > slo_ms[:, None], matrix.lag, 0)
    queues = Bundles.of(matrix.keys, QUEUE_WIDTH)
    for grain, bundles in ((GRAIN_TOPIC, Bundles.of(matrix.keys, TOPIC_WIDTH)), (GRAIN_QUEUE, queues)):
        own = [promises[row] for row in bundles.starts[:-1].tolist()]
        one_each: Int64Array = np.ones(len(bundles), dtype=np.int64)
        counts = _seen_queues(matrix, queues, bundles) if grain == GRAIN_TOPIC else one_each
        yield (
            grain,
            Rounds.of(matrix, bundles),
            Facts(
                keys=[matrix.keys[row] for row in bundles.starts[:-1].tolist()],
                incarnation=np.array(
                    [matrix.keys[row - 1].incarnation for row in bundles.starts[1:].tolist()]
                ),
                queues=counts,
                slo_ms=np.array([one.slo_ms for one in own], dtype=np.int64),
                target=np.array([one.target for one in own]),
                late_lag=bundles.sums(late_lag),
                latency=latencies.of_bundles(bundles),
                pulled=_pulled(matrix, bundles),
                lost=_totals(bundles, matrix.lost),
                skipped=_totals(bundles, matrix.skipped),
                rewinds=_totals(bundles, matrix.rewound),
                time_to_loss_ms=time_to_loss_ms(matrix, bundles),
                skew=_skew(matrix, queues, bundles) if grain == GRAIN_TOPIC else None,
                worst_queue=_worst_queues(matrix, bundles),
                still_ms=bundles.largest(still.max(axis=1)[:, None])[:, 0],
                codes=bundles.largest(codes),
            ),
        )


def promises_of(groups: Sequence[str], promise: PromiseOf) -> list[Promise]:
    """The promise of each group, asked for once."""
    known = {group: promise(group) for group in set(groups)}
    return [known[group] for group in groups]


def queue_name(key: SeriesKey) -> str:
    """How reports name a queue."""
    return f"{key.broker_name} · {key.queue_id}"


@dataclass(frozen=True, slots=True)
class _Latencies:
    """The histogram of each series' message latencies, and how many were consumed, in time and at all. Both grains are
    made from this: the samples are looked at once.
    """

    series: Int64Array
    buckets: Int64Array
    counts: Int64Array
    consumed: Int64Array
    in_time: Int64Array

    @classmethod
    def of(cls, matrix: Matrix, slo_ms: Int64Array) -> _Latencies:
        """`slo_ms`: what each series is promised."""
        series, rounds = np.nonzero(matrix.consumed)
        weight = matrix.consumed[series, rounds]
        # The first column's interval began before the window: its messages left with the age they have there.
        earlier = np.maximum(rounds - 1, 0)
        if not matrix.present.all():
            seen = np.where(matrix.present, np.arange(matrix.present.shape[1]), 0)
            earlier = np.maximum.accumulate(seen, axis=1)[series, earlier]
        latency = matrix.time_lag_ms[series, earlier]
        keys, counts = histogram.merged(series * LATENCY_WIDTH + histogram.bucket_of(latency), weight)
        in_time = np.bincount(
            series, np.where(latency <= slo_ms[series], weight, 0), minlength=len(matrix.keys)
        )
        return cls(
            keys // LATENCY_WIDTH,
            keys % LATENCY_WIDTH,
            counts,
            matrix.consumed.sum(axis=1),
            in_time.astype(np.int64),
        )

    def of_bundles(self, bundles: Bundles) -> Latency:
        """Added up."""
        keys, counts = histogram.merged(
            bundles.series[self.series] * LATENCY_WIDTH + self.buckets, self.counts
        )
        return Latency(
            keys % LATENCY_WIDTH,
            counts,
            np.searchsorted(keys, np.arange(len(bundles) + 1) * LATENCY_WIDTH),
            bundles.sums(self.consumed[:, None])[:, 0],
            bundles.sums(self.in_time[:, None])[:, 0],
        )


def _sums(rows: Int64Array, values: FloatArray, count: int) -> FloatArray:
    return np.bincount(rows, values, minlength=count).astype(np.float64)


def _totals(bundles: Bundles, matrix: Int64Array | BoolArray) -> Int64Array:
    return bundles.sums(matrix.sum(axis=1)[:, None])[:, 0]


def _seen_queues(matrix: Matrix, queues: Bundles, bundles: Bundles) -> Int64Array:
    is_seen: BoolArray = np.any(matrix.present, axis=1)
    seen = queues.largest(is_seen[:, None])[:, 0]
    topic_of_queue = bundles.series[queues.starts[:-1]]
    return np.bincount(topic_of_queue, seen, minlength=len(bundles)).astype(np.int64)


def _pulled(matrix: Matrix, bundles: Bundles) -> Pulled | None:
    known = matrix.present & (matrix.pulled >= 0) & matrix.valid
    if not known.any():
        return None
    effective = np.maximum(matrix.committed, matrix.min_offset)
    in_flight = np.where(known, np.minimum(matrix.lag, np.maximum(matrix.pulled - effective, 0)), 0)
    ready = np.where(known, matrix.lag - in_flight, 0)
    everyone = bundles.sums(known) == bundles.sums(matrix.present)
    return Pulled(everyone, bundles.sums(in_flight), bundles.sums(ready))


def _skew(matrix: Matrix, queues: Bundles, bundles: Bundles) -> Skew:
    sums = queues.sums(matrix.lag.sum(axis=1)[:, None])[:, 0]
    return Skew.of(sums, bundles.series[queues.starts[:-1]], len(bundles))


def _worst_queues(matrix: Matrix, bundles: Bundles) -> list[str]:
    """The queue of the sample with the largest time lag, then lag; "" where nothing ever waited."""
    oldest, most = matrix.time_lag_ms.max(axis=1), matrix.lag.max(axis=1)
    at_oldest = np.where(matrix.time_lag_ms == oldest[:, None], matrix.lag, -1).max(axis=1)
    order = np.lexsort((-at_oldest, -oldest, bundles.series))
    best = order[bundles.starts[:-1]]
    waited = bundles.largest(most[:, None])[:, 0] > 0
    return [
        queue_name(matrix.keys[row]) if has else ""
        for row, has in zip(best.tolist(), waited.tolist(), strict=True)
    ]
