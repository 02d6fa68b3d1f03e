"""Rows of files that follow each other, decoded straight to where they stand in the whole.

A month of one group is thirty day files, and mostly every queue was read in every round of every day. Then all
samples of one figure are a matrix, a row a series, and a file fills some of its columns: nothing is decoded into a
place of its own and copied, and what all series have in common, their times, is decoded once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import lt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark.lag.codes import NO_FLAGS, OK_CODE
from spark.lag.grid import Grid, linked, lives_again
from spark.lag.history.chunk_decode import (
    base_of,
    based_values,
    begins_series,
    decode_columns,
    decode_table,
    decode_times,
    keys_at,
    list_items,
    previous_of,
    whole_column,
)
from spark.lag.history.chunk_rows import BASED, LISTS, PREVIOUS
from spark.lag.samples import (
    SAMPLE_COLUMNS,
    Figures,
    Previous,
    Samples,
    SeriesKey,
    column_type,
    samples_of,
)
from spark.lag.snapshot import TENTH_MS, UNKNOWN_OFFSET, BoolArray, Int64Array

PULLED = SAMPLE_COLUMNS.index("pulled")
FIGURES = SAMPLE_COLUMNS[1:]
OFFSETS = FIGURES[:4]
NARROW_MAX = 1 << 30  # the sum of two numbers up to here fits 32 bits


@dataclass(frozen=True, slots=True)
class RegularRows:
    """Rows of a chunk in which every series has the same rounds: `rows_each` rows side by side.

    Of those of a compact grid only `kept` are decoded, with offsets from their `base` on.
    """

    table: pa.Table
    keys: list[SeriesKey]
    rows_each: int
    counts: Int64Array  # samples of each of a series' rows
    t_ms: Int64Array  # of the rounds
    kept: Int64Array | None = None
    base: Int64Array | None = None

    def own(self, figures: Figures) -> Figures:
        """Return the figures of table rows as series x rows, those that are decoded."""
        every = figures.reshape(len(self.keys), self.rows_each)
        return every if self.kept is None else every[self.kept]

    def column(self, name: str) -> Int64Array:
        """Return a column of numbers as series x rows."""
        return self.own(whole_column(self.table, name))

    def from_base(self, offsets: Int64Array) -> Int64Array:
        """Return offsets, one or more of each series, as they are in the grid."""
        if self.base is None:
            return offsets
        base = self.base.reshape(-1, *[1] * (offsets.ndim - 1))
        return np.where(offsets < 0, UNKNOWN_OFFSET, np.maximum(offsets - base, 0))


def regular_rows(table: pa.Table) -> RegularRows | None:
    """Return rows of files as they mostly are, or None: a series came or went, or was not read in some round."""
    first = np.flatnonzero(begins_series(table)).astype(np.int64)
    series, rows_each = len(first), table.num_rows // len(first)
    if not np.array_equal(first, np.arange(series) * rows_each) or series * rows_each != table.num_rows:
        return None
    times = table["dt_ms"].unify_dictionaries().combine_chunks().indices.to_numpy()
    for numbers in (whole_column(table, "n"), whole_column(table, "t0_ms"), times):
        by_series = numbers.reshape(series, rows_each)
        if not bool((by_series == by_series[0]).all()):
            return None
    t_ms = decode_times(table.slice(0, rows_each))
    if not bool((t_ms[1:] > t_ms[:-1]).all()):
        return None
    keys = keys_at(table, first)
    if not all(map(lt, keys, keys[1:])):
        return None
    return RegularRows(table, keys, rows_each, whole_column(table, "n")[:rows_each], t_ms)


def decode_in_order(tables: Iterable[pa.Table], each: Callable[..., Iterable[Any]] = map) -> list[Samples]:
    """Return the samples of chunk tables.

    Tables that follow each other in time and hold the same series are one part. `each` is a `map`, of a thread pool for
    example.
    """
    found: list[Samples | list[RegularRows]] = []
    own = [table for table in tables if table.num_rows]
    for table, rows in zip(own, each(regular_rows, own), strict=True):
        if rows is None:
            found.append(decode_table(table))
        elif found and isinstance(found[-1], list) and _follows(found[-1][-1], rows):
            found[-1].append(rows)
        else:
            found.append([rows])
    return [_joined(one, each) if isinstance(one, list) else one for one in found]


def _joined(parts: Sequence[RegularRows], each: Callable[..., Iterable[Any]]) -> Samples:
    keys = parts[0].keys
    rounds = sum(len(part.t_ms) for part in parts)
    columns = [np.empty((len(keys), rounds), dtype=column_type(name)) for name in SAMPLE_COLUMNS]
    is_unread = not any(map(_is_pulled, parts))
    if is_unread:  # the ordinary case: one number for all of them, a tenth of the memory less
        columns[PULLED] = np.broadcast_to(np.int64(UNKNOWN_OFFSET), columns[PULLED].shape)
    is_head = np.array([not key.group for key in keys])
    ends = np.cumsum([len(part.t_ms) for part in parts]).tolist()

    def fill(part: RegularRows, end: int) -> None:
        own = [column[:, end - len(part.t_ms) : end] for column in columns]
        own[0][:] = part.t_ms
        _decode(part, is_head, own[1:])

    list(each(fill, parts, ends))
    first = np.arange(len(keys), dtype=np.int64) * parts[0].rows_each
    starts = np.arange(len(keys) + 1, dtype=np.int64) * rounds
    flat = [column.reshape(-1) for column in columns]
    if is_unread:
        flat[PULLED] = np.broadcast_to(np.int64(UNKNOWN_OFFSET), len(flat[0]))
    return samples_of(keys, starts, flat, previous_of(parts[0].table).take(first))


def decode_grid(
    table: pa.Table, interval_ms: int, from_ms: int, to_ms: int, *, is_compact: bool = False
) -> Grid | None:
    """Return the grid of rows in the usual form, decoded in place, with the round before if it is known.

    None for other rows, of which samples have to be made (`spark.lag.grid.grid_of`), and where there are samples
    outside of [from_ms, to_ms). `is_compact`: of an hour a compact grid, if its numbers are small enough.
    """
    rows = regular_rows(table) if table.num_rows else None
    if rows is None or lives_again(rows.keys) or rows.t_ms[0] < from_ms or rows.t_ms[-1] >= to_ms:
        return None
    firsts = np.arange(len(rows.keys)) * rows.rows_each
    previous = previous_of(rows.table.select(["group", *PREVIOUS]).take(firsts))
    before_ms = previous.t_ms[0]
    if (previous.t_ms != before_ms).any() or before_ms >= rows.t_ms[0]:
        return None
    times = np.concatenate([previous.t_ms[:1], rows.t_ms]) if before_ms >= 0 else rows.t_ms
    base = compact_base(rows, previous) if is_compact and rows.rows_each == 1 else None
    if base is None:
        return linked(rows.keys, times, interval_ms, _matrices(rows, previous))
    kept, source = _alike(table, _quiet(rows, previous))
    own = replace(rows, kept=kept, base=base[kept])
    grid = linked(rows.keys, times, interval_ms, _matrices(own, previous.take(kept)))
    whole = partial(_whole_grid, table, interval_ms, from_ms, to_ms)
    return replace(grid, source=source, decoded=whole)


def _whole_grid(table: pa.Table, interval_ms: int, from_ms: int, to_ms: int) -> Grid:
    grid = decode_grid(table, interval_ms, from_ms, to_ms)
    assert grid is not None, "it was decoded before"
    return grid


def _matrices(rows: RegularRows, previous: Previous) -> dict[str, Figures]:
    """Return the `FIGURES` of rows, after those of the round before them where there is one."""
    first = int(previous.t_ms[0] >= 0)
    shape = (len(previous.t_ms), len(rows.t_ms) + first)
    narrow = () if rows.base is None else ("max_offset", "min_offset", "committed", "time_lag_ms")
    kinds = {name: np.int32 if name in narrow else column_type(name) for name in FIGURES}
    matrices: dict[str, Figures] = {name: np.empty(shape, dtype=kind) for name, kind in kinds.items()}
    if not _is_pulled(rows) and (previous.pulled < 0).all():
        matrices["pulled"] = np.broadcast_to(np.int64(UNKNOWN_OFFSET), shape)
    for name, matrix in matrices.items():
        if first and matrix.flags.writeable:
            matrix[:, 0] = (
                rows.from_base(getattr(previous, name)) if name in OFFSETS else getattr(previous, name)
            )
    is_head = np.array([not key.group for key in rows.keys])
    _decode(rows, is_head, [matrix[:, first:] for matrix in matrices.values()])
    return matrices


def compact_base(rows: RegularRows, previous: Previous) -> Int64Array | None:
    """Return an offset of each row that is at most the lowest of its own; 0 where it was not committed all along.

    None where offsets fall, or need more than 32 bits above it.
    """
    table = rows.table
    if any(list_items(table[name]).min(initial=0) < 0 for name in ("dmax", "dmin")):
        return None
    least, most = (rows.column("lag_base")[:, 0].copy() for _ in range(2))
    valid, items = _items(rows, "lag")
    if items is not None:
        least[valid[:, 0]] += items.min(axis=1)
        most[valid[:, 0]] += items.max(axis=1)
    first, last = rows.column("max0")[:, 0], rows.column("max_last")[:, 0]
    low, high = [rows.column("min0")[:, 0], first, first - most], [last, last - least]
    if previous.t_ms[0] >= 0:
        before = [previous.max_offset, previous.min_offset, previous.committed]
        low, high = low + before, high + [*before, previous.pulled]
    base = np.maximum(np.min(low, axis=0), 0)
    oldest_ms = TENTH_MS * max(
        int(list_items(table["time_lag"]).max(initial=0)), _highest(table, "time_lag_base")
    )
    widest = max(int((np.max(high, axis=0) - base).max()), oldest_ms, int(previous.time_lag_ms.max()))
    return base if widest <= NARROW_MAX else None


def _highest(table: pa.Table, name: str) -> int:
    return int(whole_column(table, name).max())


def _quiet(rows: RegularRows, previous: Previous) -> BoolArray:
    """Return the rows in which nothing moved, nothing waited and everything was OK."""
    table = rows.table
    found = np.ones(table.num_rows, dtype=np.bool_)
    for name in LISTS:
        found &= pc.is_null(table[name]).to_numpy()
    for name, value in (("lag", 0), ("time_lag", 0), ("status", OK_CODE), ("flags", NO_FLAGS)):
        found &= whole_column(table, f"{name}_base") == value
    if previous.t_ms[0] >= 0:
        first = whole_column(table, "max0")
        found &= (previous.max_offset == first) & (previous.committed == first) & (previous.pulled < 0)
        found &= (previous.time_lag_ms == 0) & (previous.status == OK_CODE) & (previous.flags == NO_FLAGS)
    return found


def _alike(table: pa.Table, is_quiet: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Return the rows to decode, and which of them each row is like: the first quiet one of its topic, or itself."""
    topic = np.cumsum(begins_series(table, ("group", "topic"))) - 1
    quiet = np.flatnonzero(is_quiet)
    topics, at = np.unique(topic[quiet], return_index=True)
    like = np.arange(len(is_quiet))
    like[quiet] = quiet[at][np.searchsorted(topics, topic[quiet])]
    kept, source = np.unique(like, return_inverse=True)
    return kept, source


def _is_pulled(rows: RegularRows) -> bool:
    return bool(rows.table["in_flight"].null_count < rows.table.num_rows)


def _follows(before: RegularRows, after: RegularRows) -> bool:
    return bool(before.t_ms[-1] < after.t_ms[0]) and after.keys == before.keys


def _decode(rows: RegularRows, is_head: BoolArray, columns: Sequence[Figures]) -> None:
    """Write the `FIGURES` of the samples into their places, one array each, series x rounds.

    Pulled offsets may be read-only: then none was read.
    """
    if not bool((rows.counts == rows.counts[0]).all()):
        for column, values in zip(columns, decode_columns(rows.table)[1:], strict=True):
            if column.flags.writeable:
                column[:] = values.reshape(column.shape)
        return
    shape = (len(columns[0]), rows.rows_each, int(rows.counts[0]))
    # what these get stands in the whole
    max_offset, min_offset, committed, pulled, *judged = (
        column.reshape(shape, copy=False if column.flags.writeable else None) for column in columns
    )
    for name, first, offsets in (("dmax", "max0", max_offset), ("dmin", "min0", min_offset)):
        _undo_deltas(rows, name, rows.from_base(rows.column(first)), offsets)
    valid, items = _items(rows, "lag")
    base = rows.column("lag_base")
    np.subtract(max_offset, base[:, :, None], out=committed, casting="same_kind")
    if items is not None:
        committed[valid] -= items
    if pulled.flags.writeable:
        pulled[:] = UNKNOWN_OFFSET
        valid, items = _items(rows, "in_flight")
        if items is not None:
            pulled[valid] = np.where(items >= 0, committed[valid] + items, UNKNOWN_OFFSET)
    is_head_row = np.repeat(is_head, rows.rows_each)
    if is_head.any():
        committed[rows.own(is_head_row)] = UNKNOWN_OFFSET
    for name, figures in zip(BASED, judged, strict=True):
        own_base = rows.own(base_of(rows.table, name, is_head_row)).astype(figures.dtype)
        figures[:] = own_base[:, :, None]
        valid, items = _items(rows, name)
        if items is not None:
            figures[valid] = based_values(name, own_base[valid][:, None], items)


def _undo_deltas(rows: RegularRows, name: str, first: Int64Array, offsets: Figures) -> None:
    valid, items = _items(rows, name)
    if items is None:
        offsets[:] = first[:, :, None]
        return
    if valid.all():
        np.cumsum(items.reshape(offsets.shape).astype(offsets.dtype, copy=False), axis=2, out=offsets)
        offsets += first[:, :, None].astype(offsets.dtype)
        return
    offsets[:] = first[:, :, None]
    # not summed up as 32 bits into 64: that takes twice as long as 64 bits throughout
    offsets[valid] += np.cumsum(items.astype(offsets.dtype, copy=False), axis=1, dtype=offsets.dtype)


def _items(rows: RegularRows, name: str) -> tuple[BoolArray, npt.NDArray[np.int32] | None]:
    """Return (series x rows: whose list is not null, the items of those row by row, None: of no row)."""
    column = rows.table[name]
    valid = rows.own(pc.is_valid(column).to_numpy())
    if column.null_count == len(column):
        return valid, None
    return valid, list_items(column).reshape(-1, int(rows.counts[0]))
