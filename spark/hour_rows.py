"""Rows of the hourly lag report: from a matrix of samples to one row per group-topic and one per queue.

Meaning of the columns (lag.md 2; counts are messages, times milliseconds, rates messages per second):

    lag_*               waiting and readable, summed over the row's queues per round; over complete rounds only
    time_lag_*_ms       age of the oldest of them, the maximum over queues; `time_lag_censored` rounds know only
                        a lower bound
    slo_ms              what the group promises; a breach is longer
    message_latency_*   age of messages when they were consumed: the time lag at the start of the interval in which
                        they were, weighted by their number; from a histogram, at most 0.8 % too large
    within_slo_pct      share of the consumed messages with a latency of at most `slo_ms`; `consumed_within_slo` of them
    in_flight_p95       pulled and not confirmed; `ready_p95` not pulled yet; null where pulled offsets are unknown
    catch_up_speed      seconds of the topic's time that the row gained per second: 1 keeps pace, 0 stands still
    breach_ms           time in which some queue's time lag was above `slo_ms`; `breach_weighted_ms` the same,
                        each moment weighted by the share of the waiting messages that lie in such queues
    late_message_ms     cost of lag: every message that waits in such a queue, times the time that it waits there
    burn_rate           (breach_ms / watched_ms) / (1 - the group's target): 1 spends the error budget exactly;
                        `watched_ms` is the time of the rounds, each gap counted up to four intervals
    drain_ms            the backlog at the end over (median consume rate of busy minutes - produce rate); `_lo`, `_hi`
                        with the 80th and the 20th percentile; null with `drain_never`: not at these rates
    time_to_loss_ms     until retention reaches the first unread message, at the window's rates; null: never
    lost, skipped       removed unread by retention; passed by when somebody moved the committed offset
    retry_in            produced into the group's %RETRY% topic, `dead_letter_in` into %DLQ%: of the whole group,
                        the same on each of its topics
    skew_*              max / mean and Gini of the queues' mean lags; `effective_queues`: over how many it spreads
    stall_ms_max        longest time a queue with messages waiting stood still
    clients_min, _max   members of the whole group, as far as changes were seen; null: unknown, and of single queues
    status_ms           milliseconds in each status, in the order of `spark.lag.status.WORST_FIRST`
    *_buckets, *_counts histograms that days and weeks add up (`spark.histogram`)

History knows neither connections nor the members of a group: how many there were comes with the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark import histogram
from spark.lag.forecast import DRAIN_MS_MAX
from spark.lag.rollup import PERCENTILES
from spark.lag.snapshot import BoolArray, Int64Array
from spark.lag.status import WORST_FIRST, LagStatus
from spark.progress import CODES, STATUS_OF_CODE, CodeArray, status_ms
from spark.rounds import FloatArray, Matrix, Rounds
from spark.row_facts import GRAIN_QUEUE, GRAIN_TOPIC, Facts, PromiseOf, facts_of
from spark.schemas import KEY, STAMP, WINDOW, row_schema

MINUTE_MS = 60_000
STATUS_WORDS = pa.array([None, *(STATUS_OF_CODE[code].value for code in sorted(STATUS_OF_CODE))])
HIGHEST = np.iinfo(np.int64).max
DISTRIBUTION = ("last", *(f"p{share}" for share in PERCENTILES), "max")
HISTOGRAMS = ("lag", "time_lag", "latency")
LAG_FIGURES = (
    pa.field("slo_ms", pa.int64()),
    pa.field("queues", pa.int32()),
    pa.field("lag_first", pa.int64()),
    *[pa.field(f"lag_{name}", pa.int64()) for name in DISTRIBUTION],
    *[pa.field(f"time_lag_{name}_ms", pa.int64()) for name in DISTRIBUTION],
    pa.field("time_lag_censored", pa.int32()),
    *[pa.field(f"message_latency_p{share}_ms", pa.int64()) for share in PERCENTILES],
    pa.field("consumed_within_slo", pa.int64()),
    pa.field("within_slo_pct", pa.float64()),
    pa.field("in_flight_p95", pa.int64()),
    pa.field("ready_p95", pa.int64()),
    pa.field("produced", pa.int64()),
    pa.field("consumed", pa.int64()),
    pa.field("counted_ms", pa.int64()),
    pa.field("in_rate", pa.float64()),
    pa.field("out_rate", pa.float64()),
    pa.field("catch_up_speed", pa.float64()),
    pa.field("breach_ms", pa.int64()),
    pa.field("breach_weighted_ms", pa.int64()),
    pa.field("late_message_ms", pa.int64()),
    pa.field("watched_ms", pa.int64()),
    pa.field("burn_rate", pa.float64()),
    pa.field("drain_ms", pa.int64()),
    pa.field("drain_lo_ms", pa.int64()),
    pa.field("drain_hi_ms", pa.int64()),
    pa.field("drain_never", pa.bool_()),
    pa.field("time_to_loss_ms", pa.int64()),
    pa.field("lost", pa.int64()),
    pa.field("skipped", pa.int64()),
    pa.field("rewinds", pa.int32()),
    pa.field("retry_in", pa.int64()),
    pa.field("dead_letter_in", pa.int64()),
    pa.field("skew_max_mean", pa.float64()),
    pa.field("skew_gini", pa.float64()),
    pa.field("effective_queues", pa.float64()),
    pa.field("worst_queue", pa.string()),
    pa.field("stall_ms_max", pa.int64()),
    pa.field("clients_min", pa.int32()),
    pa.field("clients_max", pa.int32()),
    pa.field("status_worst", pa.string()),
    pa.field("status_ms", pa.list_(pa.int64())),
    pa.field("samples", pa.int32()),
    pa.field("partial_samples", pa.int32()),
    pa.field("expected_samples", pa.int32()),
    *[
        field
        for name in HISTOGRAMS
        for field in (
            pa.field(f"{name}_buckets", pa.list_(pa.int32())),
            pa.field(f"{name}_counts", pa.list_(pa.int64())),
        )
    ],
)
LAG_SCHEMA = row_schema(KEY, WINDOW, LAG_FIGURES, STAMP)
HISTOGRAM_COLUMNS = tuple(f"{name}_{part}" for name in HISTOGRAMS for part in ("buckets", "counts"))


# (group, from_ms, to_ms) → the least and the most members
ClientsOf = Callable[[str, int, int], tuple[int | None, int | None]]


def nobody_knows(group: str, from_ms: int, to_ms: int) -> tuple[None, None]:
    """The members of a group that nobody counted."""
    return None, None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the rows are about: one cluster, one window, what each group promises, and the least and most members that
    it had.
    """

    cluster: str
    from_ms: int
    to_ms: int
    interval_ms: int
    promise: PromiseOf
    stamp: dict[str, Any]
    clients: ClientsOf = nobody_knows


def tables(
    matrix: Matrix,
    asked: Asked,
    retries: dict[str, tuple[int | None, int | None]],
    *,
    queue_histograms: bool = False,
) -> list[pa.Table]:
    """Rows of both grains. `retries`: group → messages into its %RETRY% and its %DLQ% topic, None unknown.

    A queue without backlog and traffic has no row of its own. The histograms of queues are ten times all else, so they
    are only made where somebody adds them up.
    """
    if not len(matrix.times):
        return []
    found = []
    for grain, rounds, facts in facts_of(matrix, asked.promise):
        kept = rounds.seen.any(axis=1)
        if grain == GRAIN_QUEUE:
            busy = np.where(rounds.complete, rounds.lag, 0) + rounds.produced + rounds.consumed
            kept &= busy.any(axis=1)
        if kept.any():
            row = Rows(grain, matrix.times, matrix.gap_limit_ms, rounds, facts, asked, np.flatnonzero(kept))
            found.append(row.table(retries, with_histograms=queue_histograms or grain == GRAIN_TOPIC))
    return found


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one grain; `kept` are the bundles that become rows."""

    grain: str
    times: Int64Array
    gap_limit_ms: int
    rounds: Rounds
    facts: Facts
    asked: Asked
    kept: Int64Array

    def table(
        self, retries: dict[str, tuple[int | None, int | None]], *, with_histograms: bool = True
    ) -> pa.Table:
        asked, rounds, kept = self.asked, self.rounds, self.kept
        lag, lag_histogram = self._distribution(rounds.lag, "lag_{}", "lag")
        age, age_histogram = self._distribution(rounds.time_lag_ms, "time_lag_{}_ms", "time_lag")
        columns: dict[str, Any] = {
            **self._key(),
            **self._coverage(),
            **lag,
            **age,
            **self._latency(),
            **self._pulled(),
            **self._flow(),
            **self._breach(),
            **self._drain(lag["lag_last"]),
            **self._losses(),
            **self._skew(),
            **self._status(),
            **lag_histogram,
            **age_histogram,
        }
        if not with_histograms:
            columns |= dict.fromkeys(HISTOGRAM_COLUMNS)
        columns["time_lag_censored"] = (rounds.censored & rounds.complete).sum(axis=1)[kept]
        groups = columns["group"]
        for place, name in enumerate(("retry_in", "dead_letter_in")):
            columns[name] = [retries.get(group, (None, None))[place] for group in groups]
        if self.grain == GRAIN_TOPIC:
            counts = {group: asked.clients(group, asked.from_ms, asked.to_ms) for group in set(groups)}
            columns["clients_min"] = [counts[group][0] for group in groups]
            columns["clients_max"] = [counts[group][1] for group in groups]
        for name, value in asked.stamp.items():
            columns[name] = [value] * len(kept)
        arrays = [array_of(columns.get(field.name), field.type, len(kept)) for field in LAG_SCHEMA]
        return pa.Table.from_arrays(arrays, schema=LAG_SCHEMA)

    def _key(self) -> dict[str, Any]:
        facts, kept = self.facts, self.kept.tolist()
        keys = [facts.keys[row] for row in kept]
        is_queue = self.grain == GRAIN_QUEUE
        count = len(keys)
        return {
            "grain": [self.grain] * count,
            "cluster": [self.asked.cluster] * count,
            "kind": [key.kind.value for key in keys],
            "group": [key.group for key in keys],
            "topic": [key.topic for key in keys],
            "broker_name": [key.broker_name if is_queue else "" for key in keys],
            "queue_id": [key.queue_id if is_queue else -1 for key in keys],
            "incarnation": facts.incarnation[self.kept],
            "queues": facts.queues[self.kept],
        }

    def _coverage(self) -> dict[str, Any]:
        asked, rounds = self.asked, self.rounds
        complete = rounds.complete[self.kept]
        covered = complete.sum(axis=1)
        expected = max(1, (asked.to_ms - asked.from_ms) // asked.interval_ms)
        times = np.where(complete, self.times, -1)
        reached = np.maximum.accumulate(np.column_stack([np.full(len(times), asked.from_ms), times]), axis=1)
        gaps = np.diff(np.column_stack([reached, np.full(len(times), asked.to_ms)]), axis=1)
        count = len(self.kept)
        return {
            "window_start_ms": np.full(count, asked.from_ms),
            "window_end_ms": np.full(count, asked.to_ms),
            "interval_ms": np.full(count, asked.interval_ms),
            "samples": covered,
            "partial_samples": rounds.seen[self.kept].sum(axis=1) - covered,
            "expected_samples": np.full(count, expected),
            "coverage_pct": np.round(100 * np.minimum(1.0, covered / expected), 2),
            "max_gap_ms": gaps.max(axis=1),
        }

    def _distribution(
        self, values: Int64Array, pattern: str, name: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Last, discrete percentiles and maximum over complete rounds, null without one; and the histogram."""
        complete, values = self.rounds.complete[self.kept], values[self.kept]
        counts = complete.sum(axis=1)
        ordered = _ordered(values, complete)
        found: dict[str, Any] = {}
        last_at = complete.shape[1] - 1 - np.argmax(complete[:, ::-1], axis=1)
        found[pattern.format("last")] = masked(pick(values, last_at), counts == 0)
        if name == "lag":
            found["lag_first"] = masked(pick(values, np.argmax(complete, axis=1)), counts == 0)
        for share in PERCENTILES:
            rank = np.maximum(-(-share * counts // 100) - 1, 0)
            found[pattern.format(f"p{share}")] = masked(pick(ordered, rank), counts == 0)
        found[pattern.format("max")] = masked(pick(ordered, np.maximum(counts - 1, 0)), counts == 0)
        buckets, weights, starts = histogram.row_histograms(ordered, counts)
        return found, histogram_columns(name, buckets, weights, starts)

    def _latency(self) -> dict[str, Any]:
        """Latencies of consumed messages: percentiles, the share that kept the promise, the histogram."""
        found_at, kept = self.facts.latency, self.kept
        total, good = found_at.consumed[kept], found_at.in_time[kept]
        kept_starts, places = taken(found_at.starts, kept)
        buckets, counts = found_at.buckets[places], found_at.counts[places]
        found: dict[str, Any] = {"consumed_within_slo": good}
        for share, at in histogram.percentiles(buckets, counts, kept_starts, PERCENTILES).items():
            found[f"message_latency_p{share}_ms"] = masked(at.values, at.is_empty)
        found["within_slo_pct"] = masked(np.round(100 * good / np.maximum(total, 1), 4), total == 0)
        return {**found, **histogram_columns("latency", buckets, counts, kept_starts)}

    def _pulled(self) -> dict[str, Any]:
        """In flight and ready, over the rounds in which every queue's pulled offset was read."""
        pulled = self.facts.pulled
        if pulled is None:
            return {}
        known = self.rounds.complete & pulled.known
        return {
            "in_flight_p95": self._p95(pulled.in_flight, known),
            "ready_p95": self._p95(pulled.ready, known),
        }

    def _p95(self, values: Int64Array, known: BoolArray) -> Any:
        known = known[self.kept]
        counts = known.sum(axis=1)
        ordered = _ordered(values[self.kept], known)
        return masked(pick(ordered, np.maximum(-(-95 * counts // 100) - 1, 0)), counts == 0)

    def _flow(self) -> dict[str, Any]:
        """Counts, rates over the time that counts, and the catch-up speed between the first and last complete round."""
        rounds, kept = self.rounds, self.kept
        counted = np.where(rounds.gap_ms <= self.gap_limit_ms, rounds.gap_ms, 0).sum(axis=1)[kept]
        produced, consumed = rounds.produced.sum(axis=1)[kept], rounds.consumed.sum(axis=1)[kept]
        seconds = np.maximum(counted, 1) / 1000
        complete = rounds.complete[kept]
        first, last = (
            np.argmax(complete, axis=1),
            complete.shape[1] - 1 - np.argmax(complete[:, ::-1], axis=1),
        )
        span = self.times[last] - self.times[first]
        age = rounds.time_lag_ms[kept]
        speed = 1 - (pick(age, last) - pick(age, first)) / np.maximum(span, 1)
        return {
            "produced": produced,
            "consumed": consumed,
            "counted_ms": counted,
            "in_rate": masked(produced / seconds, counted == 0),
            "out_rate": masked(consumed / seconds, counted == 0),
            "catch_up_speed": masked(np.round(speed, 6), (complete.sum(axis=1) < 2) | (span <= 0)),
        }

    def _breach(self) -> dict[str, Any]:
        rounds = self.rounds
        capped = np.minimum(rounds.gap_ms, self.gap_limit_ms)
        slo_ms, target = self.facts.slo_ms, self.facts.target[self.kept]
        late = rounds.time_lag_ms > slo_ms[:, None]
        breach = np.where(late, capped, 0).sum(axis=1)[self.kept]
        weighted = (capped * self.facts.late_lag // np.maximum(rounds.lag, 1)).sum(axis=1)[self.kept]
        known = capped.sum(axis=1)[self.kept]
        burn = breach / np.maximum(known, 1) / (1 - target)
        return {
            "slo_ms": slo_ms[self.kept],
            "breach_ms": breach,
            "breach_weighted_ms": weighted,
            "late_message_ms": (capped * self.facts.late_lag).sum(axis=1)[self.kept],
            "watched_ms": known,
            "burn_rate": masked(np.round(burn, 6), known == 0),
        }

    def _drain(self, lag_last: pa.Array) -> dict[str, Any]:
        """How long the backlog at the end lasts, from the consume rates of the minutes in which there was one."""
        rounds, kept = self.rounds, self.kept
        starts = minute_starts(self.times)
        counted = np.where(rounds.gap_ms <= self.gap_limit_ms, rounds.gap_ms, 0)[kept]
        total = counted.sum(axis=1)
        return drain_columns(
            np.nan_to_num(lag_last.to_numpy(zero_copy_only=False).astype(np.float64), nan=-1.0),
            np.add.reduceat(rounds.consumed[kept], starts, axis=1),
            np.add.reduceat(counted, starts, axis=1),
            np.minimum.reduceat(rounds.lag[kept], starts, axis=1) > 0,
            rounds.produced[kept].sum(axis=1) * 1000 / np.maximum(total, 1),
        )

    def _losses(self) -> dict[str, Any]:
        facts, kept = self.facts, self.kept
        nearest = facts.time_to_loss_ms[kept]
        return {
            "lost": facts.lost[kept],
            "skipped": facts.skipped[kept],
            "rewinds": facts.rewinds[kept],
            "time_to_loss_ms": masked(nearest, nearest > DRAIN_MS_MAX),
        }

    def _skew(self) -> dict[str, Any]:
        facts, kept = self.facts, self.kept
        found: dict[str, Any] = {"worst_queue": [facts.worst_queue[row] for row in kept.tolist()]}
        if facts.skew is not None:
            none = facts.skew.lag[kept] == 0
            for name, values in facts.skew.figures().items():
                found[name] = masked(np.round(np.where(none, 0, values[kept]), 6), none)
        return found

    def _status(self) -> dict[str, Any]:
        rounds, facts, kept = self.rounds, self.facts, self.kept
        worst = facts.codes
        in_status = status_ms(worst[kept], rounds.seen[kept], rounds.gap_ms[kept], self.gap_limit_ms)
        highest = np.where(rounds.seen, worst, 0).max(axis=1)[kept]
        return {"stall_ms_max": facts.still_ms[kept], **status_columns(in_status, highest, self.asked)}


def minute_starts(times: Int64Array) -> Int64Array:
    """The first round of each minute."""
    minutes = times // MINUTE_MS
    return np.flatnonzero(np.diff(minutes, prepend=minutes[0] - 1))


def drain_columns(
    lag: FloatArray, consumed: Int64Array, span_ms: Int64Array, waited: BoolArray, in_rate: FloatArray
) -> dict[str, Any]:
    """How long each row's last backlog lasts (`lag`, -1 unknown), from what was `consumed` in the minutes, of `span_ms`
    watched time (of all rows, or one row that holds for all), in which some always `waited`; matrices rows x minutes.
    `in_rate`: messages per second.
    """
    busy = waited & (span_ms > 0)
    rates = np.sort(np.where(busy, consumed * 1000 / np.maximum(span_ms, 1), np.inf), axis=1)
    count = busy.sum(axis=1)
    found: dict[str, Any] = {}
    for name, share in (("drain_lo_ms", 80), ("drain_ms", 50), ("drain_hi_ms", 20)):
        at = np.maximum(-(-share * count // 100) - 1, 0)
        spare = np.where(count > 0, pick(rates, at), np.nan) - in_rate
        with np.errstate(divide="ignore", invalid="ignore"):
            ms = np.where(lag == 0, 0.0, lag * 1000 / spare)
        is_never = (lag > 0) & ~((spare > 0) & (ms <= DRAIN_MS_MAX))
        unknown = (lag < 0) | ((lag > 0) & (count == 0)) | is_never
        found[name] = masked(np.rint(np.where(unknown, 0, ms)).astype(np.int64), unknown)
        if name == "drain_ms":
            found["drain_never"] = masked(is_never, (lag < 0) | ((lag > 0) & (count == 0)))
    return found


def status_columns(in_status: Int64Array, highest: CodeArray, asked: Asked) -> dict[str, Any]:
    """The columns of statuses, from the milliseconds in each code and the worst code of each row."""
    in_status = in_status.copy()
    in_status[:, CODES[LagStatus.UNKNOWN]] += np.maximum(
        asked.to_ms - asked.from_ms - in_status.sum(axis=1), 0
    )
    ordered = in_status[:, [CODES[status] for status in WORST_FIRST]]
    offsets = pa.array(np.arange(len(ordered) + 1) * ordered.shape[1], pa.int32())
    return {
        "status_worst": STATUS_WORDS.take(pa.array(highest)),
        "status_ms": pa.ListArray.from_arrays(offsets, pa.array(ordered.reshape(-1))),
    }


def _ordered(values: Int64Array, known: BoolArray) -> Int64Array:
    """The known values of each row ascending, the others behind them. Half as wide numbers are sorted twice as fast."""
    highest = np.iinfo(np.int32).max if values.size and values.max() < np.iinfo(np.int32).max else HIGHEST
    narrow = values.astype(np.int32) if highest < HIGHEST else values
    found = narrow if known.all() else np.where(known, narrow, narrow.dtype.type(highest))
    return np.sort(found, axis=1).astype(np.int64)


def pick(values: Any, at: Int64Array) -> Any:
    """values[i, at[i]] of every row i."""
    return np.take_along_axis(values, at[:, None], axis=1)[:, 0]


def masked(values: Any, unknown: BoolArray) -> pa.Array:
    return pa.array(values, mask=unknown)


def taken(starts: Int64Array, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The starts and the places of some rows of a list column."""
    counts = (starts[1:] - starts[:-1])[rows]
    taken = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(counts, out=taken[1:])
    return taken, np.repeat(starts[:-1][rows] - taken[:-1], counts) + np.arange(taken[-1])


def histogram_columns(
    name: str, buckets: Int64Array, counts: Int64Array, starts: Int64Array
) -> dict[str, Any]:
    offsets = pa.array(starts, pa.int32())
    return {
        f"{name}_buckets": pa.ListArray.from_arrays(offsets, pa.array(buckets.astype(np.int32))),
        f"{name}_counts": pa.ListArray.from_arrays(offsets, pa.array(counts)),
    }


def array_of(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, pa.Array):
        return values.cast(kind)
    return pa.array(values, type=kind) if isinstance(values, list) else pa.array(values).cast(kind)
