"""Days and weeks from hours: rows of `spark.hour_rows` added up, percentiles from their added counts.

Sums are sums and maxima maxima; `lag_first` is the first hour's, `*_last` and the drain times the last hour's,
`time_to_loss_ms`, `effective_queues` and `clients_min` the least, `skew_*` the largest of any hour, `worst_queue` that
of the hour with the largest time lag. Percentiles are those of the histograms, at most 0.8 % too large, never averages.
Hours without rows count as UNKNOWN, lower the coverage and are gaps; a gap across the turn of an hour counts as its
longer part. `in_flight_p95` and `ready_p95` have no histogram: null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark import histogram
from spark.hour_rows import HISTOGRAM_COLUMNS, HISTOGRAMS, LAG_SCHEMA, histogram_columns, taken
from spark.job import JobSpec
from spark.lag.rollup import PERCENTILES
from spark.lag.samples import starts_of
from spark.lag.snapshot import Int64Array
from spark.lag.status import SEVERITY, WORST_FIRST, LagStatus
from spark.row_facts import GRAIN_QUEUE, GRAIN_TOPIC
from spark.sample_codes import Codes, Counted, HourRows, Listed, counted

GROUP_BY = ["grain", "cluster", "group", "topic", "broker_name", "queue_id", "kind"]  # the order of rows
SUMS = (
    "time_lag_censored", "consumed_within_slo", "produced", "consumed", "counted_ms", "breach_ms",
    "breach_weighted_ms", "late_message_ms", "watched_ms", "lost", "skipped", "rewinds", "retry_in", "dead_letter_in",
    "samples", "partial_samples",
)  # fmt: skip
LARGEST = (
    "incarnation", "queues", "lag_max", "time_lag_max_ms", "skew_max_mean", "skew_gini", "stall_ms_max", "max_gap_ms",
    "clients_max",
)  # fmt: skip
LEAST = ("time_to_loss_ms", "effective_queues", "clients_min")
FIRST = ("lag_first",)
LAST = (
    "lag_last", "time_lag_last_ms", "drain_ms", "drain_lo_ms", "drain_hi_ms", "drain_never", "generated_at_ms",
    "job_id", "code_version", "interval_ms", "slo_ms",
)  # fmt: skip
STATUSES = tuple(f"status_{number}" for number in range(len(WORST_FIRST)))


def merge(hours: Sequence[HourRows], from_ms: int, to_ms: int, spec: JobSpec) -> pa.Table:
    """One row per grain and key from the rows of the hours of [from_ms, to_ms)."""
    rows = _Rows.of(hours)
    if rows.count == 0:
        return LAG_SCHEMA.empty_table()
    own, row, count = rows.ordered, rows.row, rows.count
    values = {
        "row": pa.array(row),
        "speed": _speed(own),
        "hole": pa.array(_holes(own, row, from_ms)),
    }
    for name in {*SUMS, *LARGEST, *LEAST, *FIRST, *LAST, *GROUP_BY, "window_end_ms"}:
        values[name] = own[name]
    statuses = np.stack(own["status_ms"].to_numpy(zero_copy_only=False))
    for number, name in enumerate(STATUSES):
        values[name] = pa.array(statuses[:, number])
    asked: list[Any] = [
        ("speed", "sum"),
        ("hole", "max"),
        ("window_end_ms", "max"),
        *((name, "sum") for name in (*SUMS, *STATUSES)),
    ]
    asked += [(name, "max") for name in LARGEST] + [(name, "min") for name in LEAST]
    # the first and the last as they are, unknown ones too
    keep_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
    asked += [(name, "first", keep_nulls) for name in (*FIRST, *GROUP_BY)]
    asked += [(name, "last", keep_nulls) for name in LAST]
    merged = pa.table(values).group_by("row", use_threads=False).aggregate(asked).sort_by("row")
    columns: dict[str, Any] = {}
    for name, how, *_ in asked:
        columns[name] = merged[f"{name}_{how}"].combine_chunks()
    columns |= _percentiles(rows, columns)
    columns |= _derived(columns, from_ms, to_ms, spec)
    columns["worst_queue"] = _worst_queues(own, row)
    arrays = [_cast(columns.get(field.name), field, count) for field in LAG_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=LAG_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of hours in the order of `GROUP_BY`, and which row of the period each becomes: queues come first.

    `histograms` and `as_given` are in the order in which the hours were given; `codes` are of queues, each hour's with
    the row that each of them becomes.
    """

    ordered: pa.Table
    row: Int64Array
    count: int
    queues: int
    histograms: pa.Table
    as_given: Int64Array
    codes: list[tuple[Int64Array, Codes]]

    @classmethod
    def of(cls, hours: Sequence[HourRows]) -> _Rows:
        table = pa.concat_tables([one.table for one in hours])
        order = pc.sort_indices(table, [(name, "ascending") for name in (*GROUP_BY, "window_start_ms")])
        histograms = table.select(HISTOGRAM_COLUMNS)  # most of the bytes: they stay where they are
        ordered = table.drop_columns(list(HISTOGRAM_COLUMNS)).take(order).combine_chunks()
        row = _row_numbers(ordered)
        as_given = np.empty_like(row)
        as_given[order.to_numpy()] = row
        ends = np.cumsum([one.table.num_rows for one in hours])
        codes = [
            (as_given[end - one.table.num_rows : end], one.codes)
            for one, end in zip(hours, ends.tolist(), strict=True)
            if one.codes is not None
        ]
        is_queue = pc.equal(ordered["grain"], GRAIN_QUEUE).to_numpy()
        queues = int(row[is_queue][-1]) + 1 if is_queue.any() else 0
        return cls(ordered, row, int(row[-1]) + 1 if len(row) else 0, queues, histograms, as_given, codes)

    def listed(self, name: str) -> Listed:
        """The hours' histograms by rows of the period."""
        lists = self.histograms[f"{name}_buckets"]
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        rows = np.repeat(self.as_given, lengths)
        order = np.argsort(rows, kind="stable")
        items = (
            np.concatenate([piece.flatten().to_numpy() for piece in self.histograms[f"{name}_{part}"].chunks])
            for part in ("buckets", "counts")
        )
        return Listed(rows[order], *(one[order] for one in items))

    def counted(self) -> Iterator[Counted]:
        """What the hours of queues counted, some queues at a time."""
        return counted(self.codes, {name: self.listed(name) for name in HISTOGRAMS}, self.queues)


def _row_numbers(hours: pa.Table) -> Int64Array:
    """Which merged row each hour row becomes; hours are sorted by key."""
    changes = np.zeros(hours.num_rows, dtype=np.bool_)
    for name in GROUP_BY:
        column = hours[name].combine_chunks()
        if hours.num_rows > 1:
            changes[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return np.cumsum(changes).astype(np.int64)


def folded(hours: Sequence[HourRows]) -> HourRows:
    """The same rows with histograms in place of codes, which take less room: those of all hours of a queue are in the
    first one's row.
    """
    rows = _Rows.of(hours)
    table = pa.concat_tables([one.table for one in hours])
    is_topic = pc.equal(table["grain"], GRAIN_TOPIC)
    found: dict[str, list[tuple[Int64Array, ...]]] = {name: [] for name in HISTOGRAMS}
    for slab in rows.counted():
        for name, counts in slab.counts.items():
            row, bucket = np.nonzero(counts)
            found[name].append((np.count_nonzero(counts, axis=1), bucket, counts[row, bucket]))
    queues, firsts = np.unique(rows.as_given, return_index=True)
    firsts = firsts[queues < rows.queues]
    order = np.argsort(firsts)
    for name in HISTOGRAMS:
        lengths, buckets, counts = (np.concatenate(parts) for parts in zip(*found[name], strict=True))
        starts, places = taken(starts_of(lengths), order)
        own = np.zeros(table.num_rows, dtype=np.int64)
        own[firsts[order]] = np.diff(starts)
        lists = histogram_columns(name, buckets[places], counts[places], starts_of(own))
        for column, values in lists.items():
            place = table.schema.get_field_index(column)
            table = table.set_column(place, table.field(place), pc.if_else(is_topic, table[column], values))
    return HourRows(table)


def _speed(hours: pa.Table) -> pa.Array:
    """Catch-up speed times the time it holds for: the sum over the hours is the topic's time that was gained."""
    return pc.multiply(hours["catch_up_speed"], pc.cast(hours["counted_ms"], pa.float64())).combine_chunks()


def _holes(hours: pa.Table, row: Int64Array, from_ms: int) -> Int64Array:
    """Time without rows before each hour row."""
    starts, ends = (
        hours[name].to_numpy(zero_copy_only=False) for name in ("window_start_ms", "window_end_ms")
    )
    before = np.full(len(starts), from_ms)
    same = row[1:] == row[:-1]
    before[1:][same] = ends[:-1][same]
    holes: Int64Array = starts - before
    return holes


def _percentiles(rows: _Rows, merged: dict[str, Any]) -> dict[str, Any]:
    """Percentiles of all rows, and the added histograms of group-topics."""
    values = {
        (name, share): np.zeros(rows.count, dtype=np.int64) for name in HISTOGRAMS for share in PERCENTILES
    }
    is_empty = {name: np.zeros(rows.count, dtype=np.bool_) for name in HISTOGRAMS}

    def put(name: str, own: slice, percentiles: dict[int, histogram.Found]) -> None:
        for share, found in percentiles.items():
            values[name, share][own], is_empty[name][own] = found

    for slab in rows.counted():
        for name, counts in slab.counts.items():
            own = slice(slab.first, slab.first + len(counts))
            put(name, own, histogram.matrix_percentiles(counts, PERCENTILES))
    columns: dict[str, Any] = {}
    for name in HISTOGRAMS:
        listed = rows.listed(name)
        own = slice(int(np.searchsorted(listed.rows, rows.queues)), None)
        added = histogram.added(
            listed.rows[own] - rows.queues, listed.buckets[own], listed.counts[own], rows.count - rows.queues
        )
        put(name, slice(rows.queues, None), histogram.percentiles(*added, PERCENTILES))
        columns |= _after_queues(name, rows.queues, *added)
    for name, pattern, highest in (
        ("lag", "lag_p{}", merged["lag_max"]),
        ("time_lag", "time_lag_p{}_ms", merged["time_lag_max_ms"]),
        ("latency", "message_latency_p{}_ms", None),
    ):
        limit = None if highest is None else highest.fill_null(0).to_numpy(zero_copy_only=False)
        for share in PERCENTILES:
            found = values[name, share] if limit is None else np.minimum(values[name, share], limit)
            columns[pattern.format(share)] = pa.array(found, mask=is_empty[name])
    return columns


def _after_queues(
    name: str, queues: int, buckets: Int64Array, counts: Int64Array, starts: Int64Array
) -> dict[str, Any]:
    """The columns of histograms: none of queues, nobody adds up periods of them again."""
    offsets = pa.array(np.concatenate([np.zeros(queues, dtype=np.int64), starts]), pa.int32())
    is_queue = pa.array(np.arange(queues + len(starts) - 1) < queues)
    return {
        f"{name}_{part}": pa.ListArray.from_arrays(offsets, pa.array(items), mask=is_queue)
        for part, items in (("buckets", buckets.astype(np.int32)), ("counts", counts))
    }


def _derived(merged: dict[str, Any], from_ms: int, to_ms: int, spec: JobSpec) -> dict[str, Any]:
    """Rates, shares and coverage from the sums."""
    number = {
        name: merged[name].to_numpy(zero_copy_only=False).astype(np.float64)
        for name in (
            "produced",
            "consumed",
            "consumed_within_slo",
            "counted_ms",
            "breach_ms",
            "watched_ms",
            "samples",
        )
    }
    seconds = np.maximum(number["counted_ms"], 1) / 1000
    no_time, nothing = number["counted_ms"] == 0, number["consumed"] == 0
    expected = max(1, (to_ms - from_ms) // spec.interval_ms)
    gaps = [merged[name].to_numpy(zero_copy_only=False) for name in ("max_gap_ms", "hole")]
    gaps.append(to_ms - merged["window_end_ms"].to_numpy(zero_copy_only=False))
    spent = np.stack([merged[name].to_numpy(zero_copy_only=False) for name in STATUSES], axis=1)
    unknown = WORST_FIRST.index(LagStatus.UNKNOWN)
    spent[:, unknown] = 0
    spent[:, unknown] = np.maximum((to_ms - from_ms) - spent.sum(axis=1), 0)
    severities = np.array([SEVERITY[status] for status in WORST_FIRST])
    worst = np.where(spent > 0, severities, 0).max(axis=1)
    words = {SEVERITY[status]: status.value for status in LagStatus}
    count = len(worst)
    offsets = pa.array(np.arange(count + 1) * len(WORST_FIRST), pa.int32())
    target = np.array([spec.promise(group).target for group in merged["group"].to_pylist()])
    burn = number["breach_ms"] / np.maximum(number["watched_ms"], 1) / (1 - target)
    speed = merged["speed"].to_numpy(zero_copy_only=False)
    good = 100 * number["consumed_within_slo"] / np.maximum(number["consumed"], 1)
    return {
        "window_start_ms": pa.array(np.full(count, from_ms)),
        "window_end_ms": pa.array(np.full(count, to_ms)),
        "in_rate": pa.array(number["produced"] / seconds, mask=no_time),
        "out_rate": pa.array(number["consumed"] / seconds, mask=no_time),
        "catch_up_speed": pa.array(
            np.round(speed / np.maximum(number["counted_ms"], 1), 6), mask=no_time | np.isnan(speed)
        ),
        "burn_rate": pa.array(np.round(burn, 6), mask=number["watched_ms"] == 0),
        "within_slo_pct": pa.array(np.round(good, 4), mask=nothing),
        "expected_samples": pa.array(np.full(count, expected)),
        "coverage_pct": pa.array(np.round(100 * np.minimum(1.0, number["samples"] / expected), 2)),
        "max_gap_ms": pa.array(np.max(gaps, axis=0)),
        "status_worst": pa.array([words[code] for code in worst.tolist()]),
        "status_ms": pa.ListArray.from_arrays(offsets, pa.array(spent.reshape(-1))),
    }


def _worst_queues(hours: pa.Table, row: Int64Array) -> pa.Array:
    age = hours["time_lag_max_ms"].fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.lexsort((-age, row))
    firsts = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
    return hours["worst_queue"].combine_chunks().take(pa.array(firsts))


def _cast(values: Any, field: pa.Field, count: int) -> pa.Array:
    return pa.nulls(count, field.type) if values is None else values.cast(field.type)
