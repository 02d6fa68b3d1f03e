"""Rows of the hourly lag report from a grid: what `spark.hour_rows` makes of a matrix, for a tenth of the time.

Group-topics are few: their rounds are added up here and become rows there. Queues are many: their columns are made
here from whole matrices, without an object per queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark import histogram
from spark.grid import Grid, Int32Array
from spark.grid_facts import SeriesFacts, row_sums, series_facts, topic_facts, topic_latency, topic_rounds
from spark.hour_rows import (
    LAG_SCHEMA,
    Asked,
    Rows,
    array_of,
    drain_columns,
    masked,
    minute_starts,
    pick,
    status_columns,
)
from spark.lag.forecast import DRAIN_MS_MAX
from spark.lag.rollup import PERCENTILES
from spark.lag.samples import RETRY_TOPIC_PREFIX, SeriesKind
from spark.lag.snapshot import Int64Array
from spark.lag.status import LagStatus
from spark.progress import CODE_MAX, CODES, status_ms
from spark.rounds import Rounds, join_rounds
from spark.row_facts import GRAIN_QUEUE, GRAIN_TOPIC, Facts, join_facts
from spark.sample_codes import HourRows, codes_of

OK = CODES[LagStatus.OK]
Retries = dict[str, tuple[int | None, int | None]]


class GridRows:
    """Rows of grids: those of queues at once, those of group-topics when all are in, because what a table costs hardly
    depends on how few rows it has.
    """

    def __init__(self, *, for_period: bool = False) -> None:
        """`for_period`: queues have codes instead of percentiles."""
        self._for_period = for_period
        self._topics: dict[bytes, _Topics] = {}

    def queues(self, grid: Grid, asked: Asked, retries: Retries) -> list[HourRows]:
        """The rows of a grid's queues; its group-topics are kept for `topics`."""
        series = series_facts(grid, asked.promise)
        ordered = codes = None
        if self._for_period:
            codes = codes_of(grid.lag, grid.age_ms, series.weights)
            latency = topic_latency(grid, series, codes.time_lag, series.weights)
        else:
            ordered = _Ordered.of(grid, series)
            latency = topic_latency(grid, series, histogram.narrow_bucket_of(ordered.ages), ordered.weights)
        own = self._topics.setdefault(
            grid.times.tobytes(), _Topics(grid.times, grid.gap_limit_ms, asked, [], [], {})
        )
        own.rounds.append(topic_rounds(grid, series))
        own.facts.append(topic_facts(grid, series, asked.promise, latency))
        own.retries.update(retries)
        busy = np.flatnonzero(series.most + series.produced + series.consumed)
        if not len(busy):
            return []
        table = _Queues(grid, series, ordered, asked, busy).table(retries)
        return [HourRows(table, None if codes is None else codes.take(busy))]

    @property
    def waiting(self) -> int:
        """How many rows of group-topics are not made yet."""
        return sum(len(facts.keys) for own in self._topics.values() for facts in own.facts)

    def topics(self) -> list[pa.Table]:
        """The rows of all group-topics so far."""
        found = [own.table() for own in self._topics.values()]
        self._topics.clear()
        return found


@dataclass(frozen=True, slots=True)
class _Topics:
    """Group-topics of the same rounds."""

    times: Int64Array
    gap_limit_ms: int
    asked: Asked
    rounds: list[Rounds]
    facts: list[Facts]
    retries: Retries

    def table(self) -> pa.Table:
        rounds, facts = join_rounds(self.rounds), join_facts(self.facts)
        every = np.arange(len(facts.keys))
        rows = Rows(GRAIN_TOPIC, self.times, self.gap_limit_ms, rounds, facts, self.asked, every)
        return rows.table(self.retries)


def retry_counts(grid: Grid) -> dict[str, int]:
    """Group → messages into its %RETRY% topic; a topic that nobody collected has none."""
    topics = grid.names["topic"].combine_chunks()
    is_retry = pc.starts_with(topics, RETRY_TOPIC_PREFIX).to_numpy(zero_copy_only=False)
    if not is_retry.any():
        return {}
    produced = np.zeros(grid.names.num_rows, dtype=np.int64)
    produced[grid.active] = row_sums(grid.produced)
    found: dict[str, int] = {}
    rows = np.flatnonzero(is_retry)
    for group, count in zip(grid.names["group"].take(rows).to_pylist(), produced[rows].tolist(), strict=True):
        found[group] = found.get(group, 0) + count
    return found


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Each row ascending: lags; and ages, each beside the number of messages that left with it."""

    lag: Int32Array
    ages: Int32Array
    weights: Int32Array

    @classmethod
    def of(cls, grid: Grid, series: SeriesFacts) -> _Ordered:
        # both in one number: sorted at once, and NumPy sorts numbers faster than it finds their order
        both = (grid.age_ms.astype(np.int64) << 32) | series.weights
        both.sort(axis=1)
        halves = both.view(np.int32).reshape(*both.shape, 2)  # the low half first: little-endian
        return cls(
            np.sort(grid.lag, axis=1),
            np.ascontiguousarray(halves[..., 1]),
            np.ascontiguousarray(halves[..., 0]),
        )


@dataclass(frozen=True, slots=True)
class _Queues:
    """The rows of queues; `kept` are the active series that become rows. Not `ordered`: without percentiles."""

    grid: Grid
    series: SeriesFacts
    ordered: _Ordered | None
    asked: Asked
    kept: Int64Array

    def table(self, retries: Retries) -> pa.Table:
        grid, kept, count = self.grid, self.kept, len(self.kept)
        columns: dict[str, Any] = {
            **self._key(retries),
            **self._coverage(),
            "lag_last": grid.lag[kept, -1],
            "lag_max": self.series.most[kept],
            "time_lag_last_ms": grid.age_ms[kept, -1],
            "time_lag_max_ms": self.series.oldest_ms[kept],
            **self._percentiles(),
            "lag_first": grid.lag[kept, 0],
            "time_lag_censored": self._censored(),
            **self._flow(),
            **self._breach(),
            **self._drain(),
            "lost": self.series.lost[kept],
            "skipped": self.series.skipped[kept],
            "rewinds": self.series.rewinds[kept],
            **self._status(),
        }
        nearest = self.series.time_to_loss_ms[kept]
        columns["time_to_loss_ms"] = masked(nearest, nearest > DRAIN_MS_MAX)
        for name, value in self.asked.stamp.items():
            columns[name] = same(value, LAG_SCHEMA.field(name).type, count)
        arrays = [array_of(columns.get(field.name), field.type, count) for field in LAG_SCHEMA]
        return pa.Table.from_arrays(arrays, schema=LAG_SCHEMA)

    def _own(self, matrix: Int32Array) -> Int32Array:
        """The rows that are kept, mostly all of them."""
        return matrix if len(self.kept) == len(matrix) else matrix[self.kept]

    def _key(self, retries: Retries) -> dict[str, Any]:
        count = len(self.kept)
        names = self.grid.names.take(self.grid.active[self.kept])
        group, topic, broker = (names[name].combine_chunks() for name in ("group", "topic", "broker_name"))
        waited = pa.array(self.series.most[self.kept] > 0)
        worst = pc.binary_join_element_wise(
            broker, names["queue_id"].combine_chunks().cast(pa.string()), " · "
        )
        is_retry = pc.starts_with(topic, RETRY_TOPIC_PREFIX)
        coded = group.dictionary_encode()
        into = [retries.get(one, (None, None)) for one in coded.dictionary.to_pylist()]
        columns = {
            name: pa.array([one[place] for one in into], pa.int64()).take(coded.indices)
            for place, name in enumerate(("retry_in", "dead_letter_in"))
        }
        return {
            **columns,
            "grain": same(GRAIN_QUEUE, pa.string(), count),
            "cluster": same(self.asked.cluster, pa.string(), count),
            "kind": pc.if_else(is_retry, SeriesKind.RETRY.value, SeriesKind.GROUP.value),
            "group": group,
            "topic": topic,
            "broker_name": broker,
            "queue_id": names["queue_id"].combine_chunks(),
            "incarnation": names["incarnation"].combine_chunks(),
            "queues": same(1, pa.int32(), count),
            "worst_queue": pc.if_else(waited, worst, ""),
        }

    def _coverage(self) -> dict[str, Any]:
        asked, times, count = self.asked, self.grid.times, len(self.kept)
        expected = max(1, (asked.to_ms - asked.from_ms) // asked.interval_ms)
        gaps = np.diff(np.concatenate([[asked.from_ms], times, [asked.to_ms]]))
        values = {
            "window_start_ms": asked.from_ms,
            "window_end_ms": asked.to_ms,
            "interval_ms": asked.interval_ms,
            "samples": len(times),
            "partial_samples": 0,
            "expected_samples": expected,
            "coverage_pct": float(np.round(100 * np.minimum(1.0, len(times) / expected), 2)),
            "max_gap_ms": int(gaps.max()),
        }
        return {name: same(value, LAG_SCHEMA.field(name).type, count) for name, value in values.items()}

    def _percentiles(self) -> dict[str, Any]:
        if self.ordered is None:
            return {}
        kept, width = self.kept, len(self.grid.times)
        found: dict[str, Any] = {**self._latency(self.ordered), **self._pulled()}
        for pattern, ordered in (("lag_p{}", self.ordered.lag), ("time_lag_p{}_ms", self.ordered.ages)):
            for share in PERCENTILES:
                found[pattern.format(share)] = ordered[kept, max(-(-share * width // 100) - 1, 0)]
        return found

    def _censored(self) -> Int64Array:
        counts = np.zeros(len(self.grid.active), dtype=np.int64)
        counts[self.grid.old] = self.grid.censored.sum(axis=1)
        return counts[self.kept]

    def _latency(self, ordered: _Ordered) -> dict[str, Any]:
        """The age below which so many percent of a row's messages left, as a histogram would tell it."""
        total = self.series.consumed[self.kept]
        found = {}
        weights, ages = self._own(ordered.weights), self._own(ordered.ages)
        is_narrow = int(total.max()) <= np.iinfo(np.int32).max  # seven times as fast
        upto = np.cumsum(weights, axis=1, dtype=np.int32 if is_narrow else np.int64)
        for share in PERCENTILES:
            rank = np.maximum(-(-share * total // 100), 1)
            at = np.argmax(upto >= rank.astype(upto.dtype)[:, None], axis=1)
            bucket = histogram.bucket_of(pick(ages, at).astype(np.int64))
            found[f"message_latency_p{share}_ms"] = masked(histogram.highest_of(bucket), total == 0)
        return found

    def _pulled(self) -> dict[str, Any]:
        """In flight and ready over the rounds in which the pulled offset was read."""
        grid = self.grid
        if not len(grid.pulled):
            return {}
        known = grid.in_flight >= 0
        counts = known.sum(axis=1)
        at = np.maximum(-(-95 * counts // 100) - 1, 0)
        place = np.full(len(grid.active), -1)
        place[grid.pulled] = np.arange(len(grid.pulled))
        rows = place[self.kept]
        unknown = rows < 0
        unknown[~unknown] = counts[rows[~unknown]] == 0
        found = {}
        for name, values in (
            ("in_flight_p95", grid.in_flight),
            ("ready_p95", grid.lag[grid.pulled] - grid.in_flight),
        ):
            ordered = np.sort(np.where(known, values, np.iinfo(np.int32).max), axis=1)
            found[name] = masked(pick(ordered, at)[rows], unknown)
        return found

    def _flow(self) -> dict[str, Any]:
        grid, kept = self.grid, self.kept
        counted = self._counted_ms
        produced, consumed = self.series.produced[kept], self.series.consumed[kept]
        seconds = max(counted, 1) / 1000
        span = int(grid.times[-1] - grid.times[0])
        gained = grid.age_ms[kept, -1].astype(np.int64) - grid.age_ms[kept, 0]
        speed = 1 - gained / max(span, 1)
        no_time, no_span = np.full(len(kept), counted == 0), np.full(len(kept), span <= 0)
        good, nothing = self.series.in_time[kept], consumed == 0
        return {
            "produced": produced,
            "consumed": consumed,
            "consumed_within_slo": good,
            "within_slo_pct": masked(np.round(100 * good / np.maximum(consumed, 1), 4), nothing),
            "counted_ms": np.full(len(kept), counted),
            "in_rate": masked(produced / seconds, no_time),
            "out_rate": masked(consumed / seconds, no_time),
            "catch_up_speed": masked(np.round(speed, 6), no_span),
        }

    @property
    def _counted_ms(self) -> int:
        watched = self.grid.watched_ms
        return int(watched[watched <= self.grid.gap_limit_ms].sum())

    def _breach(self) -> dict[str, Any]:
        grid, series, kept = self.grid, self.series, self.kept
        capped = np.minimum(grid.watched_ms, grid.gap_limit_ms)
        breach = np.zeros(len(grid.active), dtype=np.int64)
        late = series.late
        is_late = grid.age_ms[late] > series.slo_ms[late, None]
        breach[late] = np.where(is_late, capped, 0).sum(axis=1)
        # all that waits in a queue waits in this queue: where it is late, its share is whole
        weighted = np.zeros(len(grid.active), dtype=np.int64)
        weighted[late] = np.where(is_late & (grid.lag[late] > 0), capped, 0).sum(axis=1)
        late_message_ms = np.zeros(len(grid.active), dtype=np.int64)
        late_message_ms[late] = np.where(is_late, grid.lag[late] * capped.astype(np.int64), 0).sum(axis=1)
        watched = int(capped.sum())
        burn = breach[kept] / max(watched, 1) / (1 - series.target[kept])
        return {
            "slo_ms": series.slo_ms[kept],
            "breach_ms": breach[kept],
            "breach_weighted_ms": weighted[kept],
            "late_message_ms": late_message_ms[kept],
            "watched_ms": np.full(len(kept), watched),
            "burn_rate": masked(np.round(burn, 6), np.full(len(kept), watched == 0)),
        }

    def _drain(self) -> dict[str, Any]:
        grid, kept = self.grid, self.kept
        watched = grid.watched_ms
        counted = np.where(watched <= grid.gap_limit_ms, watched, 0)
        starts = minute_starts(grid.times)
        span = np.add.reduceat(counted, starts)
        consumed, least = _by_minute(self._own(grid.consumed), self._own(grid.lag), starts)
        return drain_columns(
            grid.lag[kept, -1].astype(np.float64),
            consumed,
            span[None, :],
            least > 0,
            self.series.produced[kept] * 1000 / max(int(counted.sum()), 1),
        )

    def _status(self) -> dict[str, Any]:
        grid, series, kept = self.grid, self.series, self.kept
        in_status = np.zeros((len(grid.active), CODE_MAX + 1), dtype=np.int64)
        in_status[:, OK] = self._counted_ms
        rows = series.troubled
        gap_ms = np.broadcast_to(grid.watched_ms, (len(rows), len(grid.times)))
        seen = np.ones(gap_ms.shape, dtype=np.bool_)
        in_status[rows] = status_ms(series.codes, seen, gap_ms, grid.gap_limit_ms)
        highest = np.full(len(grid.active), OK, dtype=np.int8)
        highest[rows] = series.codes.max(axis=1, initial=0)
        return {
            "stall_ms_max": series.still_ms[kept],
            **status_columns(in_status[kept], highest[kept], self.asked),
        }


def same(value: object, kind: pa.DataType, count: int) -> pa.Array:
    """A column that says the same in every row."""
    return pa.repeat(pa.scalar(value, kind), count)


def _by_minute(consumed: Int32Array, lag: Int32Array, starts: Int64Array) -> tuple[Int64Array, Int32Array]:
    """Messages consumed in each minute, and the least lag in it."""
    width = consumed.shape[1]
    step = width // len(starts)
    if step * len(starts) == width and np.array_equal(starts, np.arange(0, width, step)):
        total, least = consumed[:, ::step].astype(np.int64), lag[:, ::step].copy()
        for place in range(1, step):
            total += consumed[:, place::step]
            np.minimum(least, lag[:, place::step], out=least)
        return total, least
    total = np.add.reduceat(consumed, starts, axis=1, dtype=np.int64)
    return total, np.minimum.reduceat(lag, starts, axis=1)
