"""Rows of a chunk back to samples. What a row holds: `spark.lag.history.chunk_rows`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark.lag.codes import ByteArray
from spark.lag.history.chunk_rows import BASED, NO_OLDEST, PREVIOUS, SERIES
from spark.lag.samples import (
    SAMPLE_COLUMNS,
    Figures,
    Previous,
    Samples,
    SeriesKey,
    assemble,
    column_type,
    default_column,
    empty_samples,
    samples_of,
    starts_of,
)
from spark.lag.snapshot import TENTH_MS, UNKNOWN_OFFSET, UNKNOWN_TIME, BoolArray, Int64Array, from_tenths


def decode_table(table: pa.Table) -> Samples:
    """Return the samples of chunk rows in any order; rows of the same series are joined."""
    if table.num_rows == 0:
        return empty_samples()
    return _joined(table, starts_of(whole_column(table, "n")), decode_columns(table))


def decode_columns(table: pa.Table) -> list[Figures]:
    """Return the samples of chunk rows, row by row, in the order of `SAMPLE_COLUMNS`."""
    counts = whole_column(table, "n")
    starts = starts_of(counts)
    t_ms = decode_times(table)
    max_offset = _undo_deltas(table, "dmax", whole_column(table, "max0"), starts)
    min_offset = _undo_deltas(table, "dmin", whole_column(table, "min0"), starts)
    is_head = pc.equal(table["group"], "").to_numpy()
    committed = max_offset - np.repeat(whole_column(table, "lag_base"), counts)
    _subtract_items(committed, table, "lag", starts)
    pulled = np.full(len(t_ms), UNKNOWN_OFFSET, dtype=np.int64)
    _decode_pulled(pulled, committed, table, starts)
    if is_head.any():
        committed[np.repeat(is_head, counts)] = UNKNOWN_OFFSET
    judged = [_decode_based(table, name, is_head, starts) for name in BASED]
    return [t_ms, max_offset, min_offset, committed, pulled, *judged]


def _decode_based(table: pa.Table, name: str, is_head: BoolArray, starts: Int64Array) -> Figures:
    counts = np.diff(starts)
    base = base_of(table, name, is_head)
    found = np.repeat(base, counts)
    rows, own_counts, items = _items(table, name, counts)
    if len(rows):
        values = based_values(name, np.repeat(base[rows], own_counts), items)
        found[_places(rows, starts, len(found))] = values
    return found


def base_of(table: pa.Table, name: str, is_head: BoolArray) -> Figures:
    """Return what a figure of `BASED` is in rows in which it does not change."""
    base = whole_column(table, f"{name}_base")
    if name in ("time_lag", "oldest"):
        return from_tenths(base)
    found: ByteArray = np.where(base < 0, default_column(name, is_head), base).astype(np.uint8)
    return found


def based_values(name: str, base: Figures, items: Figures) -> Figures:
    """Return the figures of rows in which one of `BASED` changes. `base` is that of each item, as `base_of` has it."""
    if name == "time_lag":
        ms: Figures = np.maximum(items * base.dtype.type(TENTH_MS), UNKNOWN_TIME)
        return ms
    if name == "oldest":
        return np.where(items == NO_OLDEST, UNKNOWN_TIME, base + items.astype(np.int64) * TENTH_MS)
    return items.astype(np.uint8)


def _joined(table: pa.Table, starts: Int64Array, columns: list[Figures]) -> Samples:
    """Join the rows of each series. Rows as files hold them need no sorting."""
    is_new = begins_series(table)
    first = np.flatnonzero(is_new).astype(np.int64)
    run_keys = keys_at(table, first)
    t_ms = columns[0]
    later = t_ms[starts[1:-1]] > t_ms[starts[1:-1] - 1]
    in_order = all(one < after for one, after in zip(run_keys, run_keys[1:], strict=False))
    row_previous = previous_of(table)
    if in_order and np.all(is_new[1:] | later):
        bounds = np.append(starts[:-1][first], len(t_ms))
        return samples_of(run_keys, bounds, columns, row_previous.take(first))
    keys = list(dict.fromkeys(run_keys))
    index = {key: i for i, key in enumerate(keys)}
    row_series = np.array([index[key] for key in run_keys], dtype=np.int64)[np.cumsum(is_new) - 1]
    previous = Previous.none(len(keys))
    earliest = np.full(len(keys), np.iinfo(np.int64).max)
    t0_ms = whole_column(table, "t0_ms")
    by_time = np.argsort(-t0_ms, kind="stable")  # the earliest row of a series is assigned last
    take_earlier(previous, earliest, row_series[by_time], t0_ms[by_time], row_previous.take(by_time))
    return assemble(keys, np.repeat(row_series, np.diff(starts)), columns, previous)


def take_earlier(
    previous: Previous, earliest: Int64Array, rows: Int64Array, first_ms: Int64Array, theirs: Previous
) -> None:
    """The sample before a joined series is the one before its earliest part."""
    earlier = np.flatnonzero(first_ms < earliest[rows])
    earliest[rows[earlier]] = first_ms[earlier]
    previous.put(rows[earlier], theirs, earlier)


def begins_series(table: pa.Table, names: Sequence[str] = SERIES) -> BoolArray:
    """Return which rows are of another series (topic, …) than the row before them, by the names of those."""
    begins = np.ones(table.num_rows, dtype=np.bool_)
    begins[1:] = False
    for name in names:
        column = table[name].combine_chunks()
        begins[1:] |= pc.not_equal(column.slice(1), column.slice(0, table.num_rows - 1)).to_numpy(False)
    return begins


def keys_at(table: pa.Table, rows: Int64Array) -> list[SeriesKey]:
    """Return the keys of some rows. A name is one string in all of them: that takes less time and memory."""
    names = []
    for name in SERIES:
        column = table[name].take(rows).combine_chunks()
        if pa.types.is_string(column.type):
            coded = column.dictionary_encode()
            names.append(coded.dictionary.to_numpy(zero_copy_only=False)[coded.indices.to_numpy()].tolist())
        else:
            names.append(column.to_numpy().tolist())
    return list(map(SeriesKey._make, zip(*names, strict=True)))


def decode_times(table: pa.Table) -> Int64Array:
    """Return the times of the samples of chunk rows, row by row."""
    column = table["dt_ms"]
    parts = []
    for piece in column.chunks:
        coded = piece if pa.types.is_dictionary(piece.type) else piece.dictionary_encode()
        entries = [np.frombuffer(entry, dtype="<i4") for entry in coded.dictionary.to_pylist()]
        indices = coded.indices.to_numpy()
        if len(entries) == 1:
            parts.append(np.broadcast_to(entries[0], (len(indices), len(entries[0]))).reshape(-1))
        else:
            parts += [entries[index] for index in indices.tolist()]
    t_ms = np.repeat(whole_column(table, "t0_ms"), whole_column(table, "n"))
    t_ms += np.concatenate(parts)
    return t_ms


def rows_within(table: pa.Table, from_ms: int, to_ms: int) -> pa.Table:
    """Return the rows that have samples in [from_ms, to_ms), or around all of it."""
    t0_ms = whole_column(table, "t0_ms")
    inside = (t0_ms < to_ms) & (t0_ms + _last_times(table) >= from_ms)
    return table if inside.all() else table.filter(inside)


def _last_times(table: pa.Table) -> Int64Array:
    """Return the last dt_ms of each row."""
    found = []
    for piece in table["dt_ms"].chunks:
        ends = [int(np.frombuffer(entry[-4:], dtype="<i4")[0]) for entry in piece.dictionary.to_pylist()]
        found.append(np.array(ends, dtype=np.int64)[piece.indices.to_numpy()])
    last: Int64Array = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    return last


def _undo_deltas(table: pa.Table, name: str, first: Int64Array, starts: Int64Array) -> Int64Array:
    """Return the offsets: row by row the first one plus the changes so far."""
    counts = np.diff(starts)
    offsets = np.repeat(first, counts)
    rows, own_counts, items = _items(table, name, counts)
    if len(rows) == 0:
        return offsets
    count = int(counts[0])
    if np.all(counts == count):
        # rows of one length: 3 times as fast as one sum over all and its correction
        offsets.reshape(-1, count)[rows] += np.cumsum(items.reshape(-1, count), axis=1)
        return offsets
    totals = np.cumsum(items)
    own_starts = starts_of(own_counts)
    totals -= np.repeat(totals[own_starts[:-1]], own_counts)  # the first change of a row is 0
    offsets[_places(rows, starts, len(offsets))] += totals
    return offsets


def _subtract_items(offsets: Int64Array, table: pa.Table, name: str, starts: Int64Array) -> None:
    rows, _, items = _items(table, name, np.diff(starts))
    if len(rows):
        offsets[_places(rows, starts, len(offsets))] -= items


def _decode_pulled(pulled: Int64Array, committed: Int64Array, table: pa.Table, starts: Int64Array) -> None:
    rows, _, items = _items(table, "in_flight", np.diff(starts))
    if len(rows):
        places = _places(rows, starts, len(pulled))
        pulled[places] = np.where(items >= 0, committed[places] + items, UNKNOWN_OFFSET)


def _items(table: pa.Table, name: str, counts: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (rows whose list is not null, their lengths, all their items)."""
    column = table[name]
    if column.null_count == len(column):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
    return rows, counts[rows], list_items(column).astype(np.int64)


def list_items(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Return the items of all lists of a column, one after the other."""
    flat = [piece.flatten().to_numpy(zero_copy_only=False) for piece in column.chunks if len(piece)]
    items: npt.NDArray[np.int32] = flat[0] if len(flat) == 1 else np.concatenate(flat)
    return items


def _places(rows: Int64Array, starts: Int64Array, length: int) -> BoolArray | slice:
    """Return where the items of some rows belong."""
    if len(rows) == len(starts) - 1:
        return slice(None)
    mask = np.zeros(len(starts) - 1, dtype=np.bool_)
    mask[rows] = True
    places: BoolArray = np.repeat(mask, np.diff(starts))
    assert len(places) == length
    return places


def whole_column(table: pa.Table, name: str) -> Int64Array:
    """Return a column of numbers, `UNKNOWN_OFFSET` for null."""
    column = table[name]
    filled = column.fill_null(UNKNOWN_OFFSET) if column.null_count else column
    values: Int64Array = filled.to_numpy().astype(np.int64)
    return values


def previous_of(table: pa.Table) -> Previous:
    """Return the samples before the rows of a chunk."""
    is_head = pc.equal(table["group"], "").to_numpy()
    found: list[Any] = []
    for name, column in zip(PREVIOUS, SAMPLE_COLUMNS, strict=True):
        values = whole_column(table, name)
        if column in ("time_lag_ms", "oldest_ms"):
            values = from_tenths(values)
        if column_type(column) is np.uint8:
            values = np.where(values < 0, default_column(column, is_head), values).astype(np.uint8)
        found.append(values)
    return Previous(*found)
