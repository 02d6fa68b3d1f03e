"""The rows of a chunk: what they hold, and samples to rows and back.

A chunk has one row per series and hour, sorted by (group, topic, broker_name, queue_id, incarnation); heads
(queues whoever consumes them) have group "" and come first. A day file holds the same rows, the hours of a series
side by side. A sample is a few small integers:

    kind                HEAD, GROUP, RETRY (the group's own %RETRY% topic), DLQ
    t0_ms, n            time of the first sample, number of samples; interval_ms: the collector's period
    prev_*              last sample before the hour (null: none): the first interval is exact without another file
    max0, min0          offsets at the first sample; min_last, max_last, committed_last at the last one
    dt_ms               times of the samples - t0_ms: int32, little-endian, side by side. Dictionary-coded: all series
                        of the same rounds share one entry
    dmax[], dmin[]      change of max and min offset since the sample before (0 first); null: never changed
    lag_base, lag[]     lag_base + lag[i] = max offset - committed offset, signed: committed offsets come back exactly.
                        `lag` null: lag_base every time; heads have no lag, their lag_base is 0
    in_flight[]         pulled - committed offset, -1 where it was not read; null: never read
    lists_present       in files only: which of the four lists are not null, 1: dmax, 2: dmin, 4: lag, 8: in_flight

Lists that say nothing are null because an idle queue is the common case: they cost no time to write or to read.
`lag[]` is the raw difference; what can still be read, lost and invalid follow from it and are computed, never
stored. Differences that do not fit 32 bits start a new row of the same series.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark.lag.samples import Previous, Samples, SeriesKey, assemble, empty_samples, samples_of, starts_of
from spark.lag.snapshot import UNKNOWN_OFFSET, BoolArray, Int64Array

INT32_MAX = 2**31 - 1
LISTS = ("dmax", "dmin", "lag", "in_flight")
SERIES = SeriesKey._fields
PREVIOUS = ("prev_t_ms", "prev_max", "prev_min", "prev_committed")

CHUNK_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("broker_name", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("incarnation", pa.int32(), nullable=False),
        pa.field("interval_ms", pa.int32(), nullable=False),
        pa.field("t0_ms", pa.int64(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        *[pa.field(name, pa.int64()) for name in PREVIOUS],
        *[pa.field(name, pa.int64(), nullable=False) for name in ("max0", "min0", "max_last", "min_last")],
        pa.field("committed_last", pa.int64()),
        pa.field("lag_base", pa.int64(), nullable=False),
        pa.field("dt_ms", pa.dictionary(pa.int32(), pa.binary()), nullable=False),
        *[pa.field(name, pa.list_(pa.field("element", pa.int32(), nullable=False))) for name in LISTS],
    ]
)

# A file says of each row which lists are not null, bit by bit in the order of `LISTS`: who looks for the items of some
# rows knows their place without decoding levels. Files of before do not have it, tables in memory neither.
PRESENT = "lists_present"
FILE_SCHEMA = CHUNK_SCHEMA.append(pa.field(PRESENT, pa.int32(), nullable=False))


@dataclass(frozen=True, slots=True)
class SeriesRows:
    """Samples of series whose names are columns. Series `i` owns `[starts[i], starts[i + 1])`, as in `Samples`."""

    names: pa.Table  # as `name_table` makes it
    starts: Int64Array
    t_ms: Int64Array
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array | None  # None: heads only
    pulled: Int64Array | None  # None: never read
    previous: Previous
    rounds_ms: Int64Array | None = None  # the times of every series, where all have the same


def name_table(keys: Sequence[SeriesKey]) -> pa.Table:
    """Return the columns of a chunk that name its series."""
    # not zip(*keys): that is an iterator a key, and the garbage collector looks at all of them
    group, topic, broker_name, queue_id, incarnation = (list(map(itemgetter(at), keys)) for at in range(5))
    groups, topics = pa.array(group, pa.string()), pa.array(topic, pa.string()).dictionary_encode()
    kinds = [
        pa.array(
            [SeriesKey(name, one, "", 0, 0).kind.value for one in topics.dictionary.to_pylist()], pa.string()
        )
        for name in ("", "a group")
    ]
    of_heads, of_groups = (one.take(topics.indices) for one in kinds)
    columns = {
        "kind": pc.if_else(pc.equal(groups, ""), of_heads, of_groups),
        "group": groups,
        "topic": topics.cast(pa.string()),
        "broker_name": pa.array(broker_name, pa.string()),
        "queue_id": pa.array(queue_id, pa.int32()),
        "incarnation": pa.array(incarnation, pa.int32()),
    }
    return pa.table(columns, schema=pa.schema([CHUNK_SCHEMA.field(name) for name in columns]))


def encode_table(samples: Samples, *, interval_ms: int) -> pa.Table:
    """Return the chunk of some samples; rows keep the samples' order."""
    if len(samples.t_ms) == 0:
        return CHUNK_SCHEMA.empty_table()
    rows = SeriesRows(
        name_table(samples.keys),
        samples.starts,
        samples.t_ms,
        samples.max_offset,
        samples.min_offset,
        samples.committed,
        samples.pulled,
        samples.previous,
    )
    return encode_rows(rows, interval_ms=interval_ms)


def encode_rows(samples: SeriesRows, *, interval_ms: int) -> pa.Table:
    """Return the chunk of some series, of which there is at least one sample; rows keep the series' order."""
    own_is_head = pc.equal(samples.names["group"], "").to_numpy()
    raw_lag = _raw_lag(samples, own_is_head)
    starts, extents = _row_starts(samples, raw_lag)
    at, last = starts[:-1], starts[1:] - 1
    is_whole = len(at) == samples.names.num_rows  # one row a series, unless numbers outgrow 32 bits
    series = np.arange(len(at)) if is_whole else np.searchsorted(samples.starts, at, side="right") - 1
    names = samples.names if is_whole else samples.names.take(series)
    is_head = own_is_head[series]
    counts = np.diff(starts)
    lowest, highest = extents[2]
    is_steady = lowest == highest
    fits = (lowest >= -INT32_MAX) & (highest <= INT32_MAX) & ~is_steady
    lag_base = np.where(fits, 0, lowest)
    if not (fits | is_steady).all():
        raw_lag -= np.repeat(np.where(is_steady, 0, lag_base), counts)
    previous = _row_previous(samples, at, series)
    committed_last = (
        np.zeros(len(at), dtype=np.int64) if samples.committed is None else samples.committed[last]
    )
    columns: dict[str, Any] = {
        **{name: names[name] for name in names.column_names},
        "interval_ms": np.full(len(at), interval_ms, dtype=np.int32),
        "t0_ms": samples.t_ms[at],
        "n": counts.astype(np.int32),
        **{name: pa.array(v, mask=v == UNKNOWN_OFFSET) for name, v in zip(PREVIOUS, previous, strict=True)},
        "max0": samples.max_offset[at],
        "min0": samples.min_offset[at],
        "max_last": samples.max_offset[last],
        "min_last": samples.min_offset[last],
        "committed_last": pa.array(committed_last, mask=is_head),
        "lag_base": lag_base,
        "dt_ms": _times(samples.t_ms, starts, samples.rounds_ms if is_whole else None),
        "dmax": _deltas(samples.max_offset, starts, extents[0]),
        "dmin": _deltas(samples.min_offset, starts, extents[1]),
        "lag": _nulls("lag", len(at)) if is_steady.all() else _list_array(raw_lag, starts, is_steady),
        "in_flight": _in_flight(samples, starts),
    }
    return pa.table(columns, schema=CHUNK_SCHEMA)


def with_present(table: pa.Table) -> pa.Table:
    """Return chunk rows as a file holds them: with the note which of their lists are there."""
    present = np.zeros(table.num_rows, dtype=np.int32)
    for bit, name in enumerate(LISTS):
        present |= table[name].is_valid().to_numpy().astype(np.int32) << bit
    return table.append_column(FILE_SCHEMA.field(PRESENT), pa.array(present))


def _raw_lag(samples: SeriesRows, is_head: BoolArray) -> Int64Array:
    if samples.committed is None:
        return np.zeros(len(samples.t_ms), dtype=np.int64)
    raw_lag: Int64Array = samples.max_offset - samples.committed
    if is_head.any():
        raw_lag[np.repeat(is_head, np.diff(samples.starts))] = 0
    return raw_lag


def _row_starts(
    samples: SeriesRows, raw_lag: Int64Array
) -> tuple[Int64Array, list[tuple[Int64Array, Int64Array]]]:
    """Return where chunk rows start and end: at every series and wherever a difference needs more than 32 bits; and of
    each row the extents of (max offset, min offset, lag).
    """
    columns = (samples.max_offset, samples.min_offset, raw_lag)
    end = len(samples.t_ms)
    starts = np.append(samples.starts[:-1][np.diff(samples.starts) > 0], end)
    extents = [_extent(values, starts) for values in columns]
    wide_ms = (samples.t_ms[starts[1:] - 1] - samples.t_ms[starts[:-1]]).max()
    # No two numbers of a row differ by more than 32 bits hold: the ordinary case.
    if wide_ms <= INT32_MAX and all((high - low).max() <= INT32_MAX for low, high in extents):
        return starts, extents
    begins = np.zeros(end, dtype=np.bool_)
    begins[starts[:-1]] = True
    for values in (samples.max_offset, samples.min_offset, samples.t_ms):
        begins[1:] |= np.abs(np.diff(values)) > INT32_MAX
    starts = np.append(np.flatnonzero(begins), end).astype(np.int64)
    while True:  # halve the rows whose items do not fit; an ordinary chunk has none
        lowest, highest = _extent(raw_lag, starts)
        wide = highest - lowest > INT32_MAX
        wide |= samples.t_ms[starts[1:] - 1] - samples.t_ms[starts[:-1]] > INT32_MAX
        if not wide.any():
            return starts, [_extent(values, starts) for values in columns]
        middles = (starts[:-1][wide] + starts[1:][wide]) // 2
        starts = np.unique(np.concatenate([starts, middles]))


def _extent(values: Int64Array, starts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the smallest and the largest number of each row."""
    grid = _grid(values, starts)
    if grid is not None:
        return grid.min(axis=1), grid.max(axis=1)
    return np.minimum.reduceat(values, starts[:-1]), np.maximum.reduceat(values, starts[:-1])


def _grid(values: Int64Array, starts: Int64Array) -> Int64Array | None:
    """Return rows of one length as a matrix, which costs nothing; None when their lengths differ."""
    count = int(starts[1] - starts[0])
    if len(values) != count * (len(starts) - 1) or np.any(np.diff(starts) != count):
        return None
    return values.reshape(-1, count)


def _times(t_ms: Int64Array, starts: Int64Array, rounds_ms: Int64Array | None) -> pa.DictionaryArray:
    """Return dt_ms: series of the same rounds share an entry."""
    grid = None if rounds_ms is not None else _grid(t_ms, starts)
    if grid is not None and bool((grid == grid[0]).all()):
        rounds_ms = grid[0]
    if rounds_ms is not None:
        entry = (rounds_ms - rounds_ms[0]).astype("<i4").tobytes()
        indices = np.zeros(len(starts) - 1, dtype=np.int32)
        return pa.DictionaryArray.from_arrays(indices, pa.array([entry], pa.binary()))
    offsets = (t_ms - np.repeat(t_ms[starts[:-1]], np.diff(starts))).astype("<i4")
    entries: dict[bytes, int] = {}
    bounds = starts.tolist()
    rows = [
        entries.setdefault(offsets[start:stop].tobytes(), len(entries))
        for start, stop in zip(bounds, bounds[1:], strict=False)
    ]
    return pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), pa.array(list(entries), pa.binary()))


def _deltas(values: Int64Array, starts: Int64Array, extent: tuple[Int64Array, Int64Array]) -> pa.Array:
    """Return changes since the sample before, null for rows without any. Every change fits 32 bits."""
    lowest, highest = extent
    is_still = lowest == highest
    if is_still.all():
        return _nulls("dmax", len(is_still))
    grid = _grid(values, starts)
    if grid is not None:
        moving = grid[~is_still] if is_still.any() else grid
        items = np.empty(moving.shape, dtype=np.int32)
        items[:, 0] = 0
        np.subtract(moving[:, 1:], moving[:, :-1], out=items[:, 1:], casting="same_kind")
        return _lists(items.reshape(-1), starts, is_still)
    deltas = np.empty_like(values)
    np.subtract(values[1:], values[:-1], out=deltas[1:])
    deltas[starts[:-1]] = 0
    return _list_array(deltas, starts, is_still)


def _in_flight(samples: SeriesRows, starts: Int64Array) -> pa.Array:
    if samples.pulled is None or samples.committed is None:
        return _nulls("in_flight", len(starts) - 1)
    is_unread = _extent(samples.pulled, starts)[1] < 0
    if is_unread.all():
        return _nulls("in_flight", len(starts) - 1)
    items = np.where(samples.pulled >= 0, np.maximum(samples.pulled - samples.committed, 0), -1)
    return _list_array(np.minimum(items, INT32_MAX), starts, is_unread)


def _nulls(name: str, count: int) -> pa.Array:
    return pa.nulls(count, CHUNK_SCHEMA.field(name).type)


def _list_array(values: Int64Array, starts: Int64Array, is_null: BoolArray) -> pa.Array:
    """Return a list<int32> column; a null list takes no items. Rows of one length are copied whole: 10 times as fast as
    item by item.
    """
    grid = _grid(values, starts)
    if grid is None:
        kept = values[np.repeat(~is_null, np.diff(starts))]
    else:
        kept = (grid[~is_null] if is_null.any() else grid).reshape(-1)
    return _lists(kept.astype(np.int32), starts, is_null)


def _lists(items: npt.NDArray[np.int32], starts: Int64Array, is_null: BoolArray) -> pa.Array:
    offsets = starts_of(np.where(is_null, 0, np.diff(starts)))
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(items), mask=pa.array(is_null)
    )


def _row_previous(samples: SeriesRows, at: Int64Array, series: Int64Array) -> tuple[Int64Array, ...]:
    """Return (t, max, min, committed) before each row: the series' own previous, or the sample in front."""
    own = at == samples.starts[series]
    front = np.maximum(at - 1, 0)
    before = samples.previous
    pairs = (
        (before.t_ms, samples.t_ms),
        (before.max_offset, samples.max_offset),
        (before.min_offset, samples.min_offset),
        (before.committed, samples.committed),
    )
    return tuple(
        own_before[series] if values is None else np.where(own, own_before[series], values[front])
        for own_before, values in pairs
    )


def decode_table(table: pa.Table) -> Samples:
    """Return the samples of chunk rows in any order; rows of the same series are joined."""
    if table.num_rows == 0:
        return empty_samples()
    return _joined(table, starts_of(whole_column(table, "n")), decode_columns(table))


def decode_columns(table: pa.Table) -> list[Int64Array]:
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
    return [t_ms, max_offset, min_offset, committed, pulled]


def _joined(table: pa.Table, starts: Int64Array, columns: list[Int64Array]) -> Samples:
    """Join the rows of each series. Rows as files hold them need no sorting."""
    is_new = begins_series(table)
    first = np.flatnonzero(is_new).astype(np.int64)
    names = (table[name].take(first).to_pylist() for name in SERIES)
    run_keys = list(map(SeriesKey._make, zip(*names, strict=True)))
    t_ms = columns[0]
    later = t_ms[starts[1:-1]] > t_ms[starts[1:-1] - 1]
    in_order = all(one < after for one, after in zip(run_keys, run_keys[1:], strict=False))
    t_before, max_before, min_before, c_before = (whole_column(table, name) for name in PREVIOUS)
    row_previous = Previous(t_before, max_before, min_before, c_before)
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


def begins_series(table: pa.Table) -> BoolArray:
    """Return which rows are of another series than the row before them."""
    begins = np.ones(table.num_rows, dtype=np.bool_)
    begins[1:] = False
    for name in SERIES:
        column = table[name].combine_chunks()
        begins[1:] |= pc.not_equal(column.slice(1), column.slice(0, table.num_rows - 1)).to_numpy(False)
    return begins


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
