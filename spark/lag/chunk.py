"""Chunks: the hour (and later day) files of lag history, and how to load a time window from them and the open
log.

For report jobs::

    table = load_window(paths, from_ms, to_ms, lookback_ms=6 * 3_600_000)   # pyarrow.Table, one row per
    series rows = rollup.hourly(decode_table(table), from_ms, to_ms, ...)          # see spark.lag.rollup

`paths` are the `path`s of the manifest (`console.lag.models.HistoryFile`, state live) that overlap the
window: `.parquet` chunks and `.wal` segments in any mix and order; overlapping files are merged, a sample
that is in several is taken once. `lookback_ms` loads older samples too, so that time lags older than the
window are known (`decode_table(...)` then spans [from_ms - lookback_ms, to_ms)). Inside `mapInArrow` let the
input rows be descriptions of work (paths, window, group range) and call these functions on the executor: a
group's topic must not be split over two calls.

A chunk has one row per series and hour, sorted by (group, topic, broker_name, queue_id, incarnation); heads
(queues whoever consumes them) have group "" and come first. A sample is a few small integers:

    kind             HEAD, GROUP, RETRY (the group's own %RETRY% topic), DLQ
    t0_ms, n         time of the first sample, number of samples; interval_ms: the collector's period
    prev_*           last sample before the hour (null: none), so that the first interval is exact without
    another file max0, min0       offsets at the first sample; min_last, max_last, committed_last at the last
    one lag_base         added to every item of `lag` dt_ms[]          time of the sample - t0_ms (the same
    list for all series of the same rounds) dmax[], dmin[]   change of max and min offset since the sample
    before (0 first) lag[]            max offset - committed offset - lag_base, signed: committed offsets come
    back exactly (null for heads) in_flight[]      pulled - committed offset, -1 where it was not read (null
    for heads)

`lag[]` is the raw difference; what can still be read, lost and invalid follow from it and are computed, never
stored. Differences that do not fit 32 bits start a new row of the same series.
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import IO, Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark.lag import wal
from spark.lag.samples import Previous, Samples, SeriesKey, SeriesKind, assemble, from_snapshots, starts_of
from spark.lag.snapshot import UNKNOWN_OFFSET, Int64Array, Snapshot

HOUR_MS = 3_600_000
INT32_MAX = 2**31 - 1
ROW_GROUP_ROWS = 500  # a chart reads one group: small row groups prune well and cost 1 % in size
_LISTS = ("dt_ms", "dmax", "dmin", "lag", "in_flight")
_PREVIOUS = ("prev_t_ms", "prev_max", "prev_min", "prev_committed")

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
        *[pa.field(name, pa.int64()) for name in _PREVIOUS],
        *[pa.field(name, pa.int64(), nullable=False) for name in ("max0", "min0", "max_last", "min_last")],
        pa.field("committed_last", pa.int64()),
        pa.field("lag_base", pa.int64(), nullable=False),
        *[pa.field(name, pa.list_(pa.field("element", pa.int32(), nullable=False))) for name in _LISTS],
    ]
)


def compact(snapshots: Iterable[Snapshot], *, interval_ms: int, previous: Snapshot | None = None) -> pa.Table:
    """Turn the rounds of an hour into a chunk table. `previous` is the last round before them, if there is
    one.
    """
    return encode_table(from_snapshots(snapshots, previous), interval_ms=interval_ms)


def encode_table(samples: Samples, *, interval_ms: int) -> pa.Table:
    """Return the chunk of some samples; rows keep the samples' order."""
    starts = _row_starts(samples)
    if len(starts) == 1:
        return CHUNK_SCHEMA.empty_table()
    at, last = starts[:-1], starts[1:] - 1
    series = np.searchsorted(samples.starts, at, side="right") - 1
    keys = [samples.keys[i] for i in series.tolist()]
    is_head = np.array([not key.group for key in keys])
    counts = np.diff(starts)
    raw_lag = np.where(samples.committed >= 0, samples.max_offset - samples.committed, 0)
    lag_base = _lag_bases(raw_lag, starts)
    in_flight = np.where(samples.pulled >= 0, np.maximum(samples.pulled - samples.committed, 0), -1)
    lists = {
        "dt_ms": samples.t_ms - np.repeat(samples.t_ms[at], counts),
        "dmax": _row_deltas(samples.max_offset, at),
        "dmin": _row_deltas(samples.min_offset, at),
        "lag": raw_lag - np.repeat(lag_base, counts),
        "in_flight": np.minimum(in_flight, INT32_MAX),
    }
    previous = _row_previous(samples, at, series)
    committed_last = pa.array(samples.committed[last], mask=is_head)
    columns: dict[str, Any] = {
        "kind": [key.kind.value for key in keys],
        "group": [key.group for key in keys],
        "topic": [key.topic for key in keys],
        "broker_name": [key.broker_name for key in keys],
        "queue_id": [key.queue_id for key in keys],
        "incarnation": [key.incarnation for key in keys],
        "interval_ms": np.full(len(keys), interval_ms, dtype=np.int32),
        "t0_ms": samples.t_ms[at],
        "n": counts.astype(np.int32),
        **{name: pa.array(v, mask=v == UNKNOWN_OFFSET) for name, v in zip(_PREVIOUS, previous, strict=True)},
        "max0": samples.max_offset[at],
        "min0": samples.min_offset[at],
        "max_last": samples.max_offset[last],
        "min_last": samples.min_offset[last],
        "committed_last": committed_last,
        "lag_base": lag_base,
        **{
            name: _list_array(values, starts, is_head if name in ("lag", "in_flight") else None)
            for name, values in lists.items()
        },
    }
    return pa.table(columns, schema=CHUNK_SCHEMA)


def decode_table(table: pa.Table) -> Samples:
    """Return the samples of chunk rows in any order; rows of the same series are joined."""
    if table.num_rows == 0:
        return from_snapshots([])
    table = table.combine_chunks()
    counts = table["n"].to_numpy().astype(np.int64)
    starts = starts_of(counts)
    is_head = np.array([kind in (SeriesKind.HEAD, SeriesKind.DLQ) for kind in table["kind"].to_pylist()])
    per_sample = np.repeat(is_head, counts)
    t_ms = _flat(table, "dt_ms") + np.repeat(_column(table, "t0_ms"), counts)
    max_offset = _undo_deltas(_flat(table, "dmax"), _column(table, "max0"), starts)
    min_offset = _undo_deltas(_flat(table, "dmin"), _column(table, "min0"), starts)
    committed = np.full(len(t_ms), UNKNOWN_OFFSET, dtype=np.int64)
    pulled = committed.copy()
    raw_lag = _flat(table, "lag") + np.repeat(_column(table, "lag_base"), counts)[~per_sample]
    committed[~per_sample] = max_offset[~per_sample] - raw_lag
    in_flight = _flat(table, "in_flight")
    pulled[~per_sample] = np.where(in_flight >= 0, committed[~per_sample] + in_flight, UNKNOWN_OFFSET)
    names = ("group", "topic", "broker_name", "queue_id", "incarnation")
    row_keys = [SeriesKey(*row) for row in zip(*(table[name].to_pylist() for name in names), strict=True)]
    keys = list(dict.fromkeys(row_keys))
    index = {key: i for i, key in enumerate(keys)}
    row_series = np.array([index[key] for key in row_keys], dtype=np.int64)
    previous = _earliest_previous(table, row_series, len(keys))
    columns = [t_ms, max_offset, min_offset, committed, pulled]
    return assemble(keys, np.repeat(row_series, counts), columns, previous)


def write_chunk(table: pa.Table, sink: IO[bytes] | str) -> None:
    """Write a chunk as Parquet. List items are byte-stream-split and zstd-3: readable by every Parquet reader
    (lag.md 3.2).
    """
    items = [f"{name}.list.element" for name in _LISTS]
    numbers = [field.name for field in CHUNK_SCHEMA if pa.types.is_integer(field.type)]
    names = [field.name for field in CHUNK_SCHEMA if pa.types.is_string(field.type)]
    pq.write_table(
        table,
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=3,
        use_dictionary=names,
        use_byte_stream_split=[*items, *numbers],
        write_page_index=True,
        store_schema=False,
    )


def read_chunk(source: IO[bytes] | str, *, group: str | None = None) -> pa.Table:
    """Read a chunk; with `group` only that group's rows ("" for heads), skipping row groups that cannot hold
    it.
    """
    filters = None if group is None else [("group", "=", group)]
    return pq.read_table(source, schema=CHUNK_SCHEMA, filters=filters, partitioning=None)


def load_window(
    files: Iterable[str],
    from_ms: int,
    to_ms: int,
    *,
    lookback_ms: int = 0,
    group: str | None = None,
    interval_ms: int = 5_000,
) -> pa.Table:
    """Return the samples of [from_ms - lookback_ms, to_ms) as one chunk table, one row per series.

    `files` are chunk and log paths, local or fsspec URLs; `group` keeps one group's series only;
    `interval_ms` is used where only logs are given (they do not know their period). A file that vanished
    between listing and reading raises FileNotFoundError: the manifest is newer, ask it again.
    """
    chunks: list[Samples] = []
    snapshots: list[Snapshot] = []
    for path in files:
        data = _read_bytes(path)
        if PurePosixPath(path).suffix == ".wal":
            snapshots += read_log(data)
        else:
            table = read_chunk(pa.BufferReader(data), group=group)
            interval_ms = int(table["interval_ms"][0].as_py()) if table.num_rows else interval_ms
            chunks.append(decode_table(table))
    logged = from_snapshots(snapshots)
    chunks.append(logged if group is None else logged.select(lambda key: key.group == group))
    merged = merge(chunks).window(from_ms - lookback_ms, to_ms)
    return encode_table(merged, interval_ms=interval_ms)


def read_log(data: bytes) -> list[Snapshot]:
    """Return the whole frames of a log segment; a segment cut inside its header holds nothing."""
    if len(data) < wal.SEGMENT_HEADER.size:
        return []
    return wal.read_segment(data).snapshots


def merge(parts: Sequence[Samples]) -> Samples:
    """Join samples of several files. A sample in several of them is taken from the last."""
    index: dict[SeriesKey, int] = {}
    for part in parts:
        for key in part.keys:
            index.setdefault(key, len(index))
    previous = Previous.none(len(index))
    earliest = np.full(len(index), np.iinfo(np.int64).max)
    series = []
    for part in parts:
        rows = np.array([index[key] for key in part.keys], dtype=np.int64)
        series.append(np.repeat(rows, part.counts))
        if len(rows):
            _take_earlier(previous, earliest, rows, part.t_ms[part.starts[:-1]], part.previous)
    columns = [
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("t_ms", "max_offset", "min_offset", "committed", "pulled")
    ]
    return assemble(list(index), np.concatenate(series), columns, previous)


def _take_earlier(
    previous: Previous, earliest: Int64Array, rows: Int64Array, first_ms: Int64Array, theirs: Previous
) -> None:
    """The sample before a joined series is the one before its earliest part."""
    earlier = first_ms < earliest[rows]
    at = rows[earlier]
    earliest[at] = first_ms[earlier]
    previous.t_ms[at] = theirs.t_ms[earlier]
    previous.max_offset[at] = theirs.max_offset[earlier]
    previous.min_offset[at] = theirs.min_offset[earlier]
    previous.committed[at] = theirs.committed[earlier]


def _earliest_previous(table: pa.Table, row_series: Int64Array, count: int) -> Previous:
    previous = Previous.none(count)
    earliest = np.full(count, np.iinfo(np.int64).max)
    t_ms, max_offset, min_offset, committed = (_column(table, name) for name in _PREVIOUS)
    theirs = Previous(t_ms, max_offset, min_offset, committed)
    # the earliest row of a series is assigned last
    by_time = np.argsort(-_column(table, "t0_ms"), kind="stable")
    _take_earlier(
        previous, earliest, row_series[by_time], _column(table, "t0_ms")[by_time], theirs.take(by_time)
    )
    return previous


def _row_starts(samples: Samples) -> Int64Array:
    """Return where chunk rows start: at every series and wherever a difference needs more than 32 bits."""
    begins = samples.first
    if len(begins) == 0:
        return np.zeros(1, dtype=np.int64)
    for values in (samples.max_offset, samples.min_offset, samples.t_ms):
        begins[1:] |= np.abs(np.diff(values)) > INT32_MAX
    raw_lag = np.where(samples.committed >= 0, samples.max_offset - samples.committed, 0)
    starts = np.append(np.flatnonzero(begins), len(begins)).astype(np.int64)
    while True:  # halve the rows whose items do not fit; an ordinary chunk has none
        lowest = np.minimum.reduceat(raw_lag, starts[:-1])
        wide = np.maximum.reduceat(raw_lag, starts[:-1]) - lowest > INT32_MAX
        wide |= samples.t_ms[starts[1:] - 1] - samples.t_ms[starts[:-1]] > INT32_MAX
        if not wide.any():
            return starts
        middles = (starts[:-1][wide] + starts[1:][wide]) // 2
        starts = np.unique(np.concatenate([starts, middles]))


def _lag_bases(raw_lag: Int64Array, starts: Int64Array) -> Int64Array:
    """Return 0 where a row's lags fit 32 bits as they are, else the row's smallest lag."""
    lowest = np.minimum.reduceat(raw_lag, starts[:-1])
    highest = np.maximum.reduceat(raw_lag, starts[:-1])
    fits = (lowest >= -INT32_MAX) & (highest <= INT32_MAX)
    bases: Int64Array = np.where(fits, 0, lowest)
    return bases


def _row_deltas(values: Int64Array, at: Int64Array) -> Int64Array:
    deltas = np.diff(values, prepend=values[:1])
    deltas[at] = 0
    return deltas


def _undo_deltas(deltas: Int64Array, first: Int64Array, starts: Int64Array) -> Int64Array:
    totals = np.cumsum(deltas)
    counts = np.diff(starts)
    undone: Int64Array = totals - np.repeat(totals[starts[:-1]], counts) + np.repeat(first, counts)
    return undone


def _row_previous(samples: Samples, at: Int64Array, series: Int64Array) -> tuple[Int64Array, ...]:
    """Return (t, max, min, committed) before each row: the series' own previous, or the sample in front."""
    own = samples.first[at]
    front = np.maximum(at - 1, 0)
    pairs = (
        (samples.previous.t_ms, samples.t_ms),
        (samples.previous.max_offset, samples.max_offset),
        (samples.previous.min_offset, samples.min_offset),
        (samples.previous.committed, samples.committed),
    )
    return tuple(np.where(own, before[series], values[front]) for before, values in pairs)


def _list_array(values: Int64Array, starts: Int64Array, is_null: Any) -> pa.Array:
    """Return a list<int32> column; a null list takes no items."""
    if is_null is None:
        return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(values.astype(np.int32)))
    counts = np.diff(starts)
    kept = np.repeat(~is_null, counts)
    offsets = starts_of(np.where(is_null, 0, counts))
    items = pa.array(values[kept].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=pa.array(is_null))


def _column(table: pa.Table, name: str) -> Int64Array:
    values: Int64Array = table[name].fill_null(UNKNOWN_OFFSET).to_numpy().astype(np.int64)
    return values


def _flat(table: pa.Table, name: str) -> Int64Array:
    values: Int64Array = (
        table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return values


def _read_bytes(path: str) -> bytes:
    with fsspec.open(path, "rb") as file:
        data: bytes = file.read()
    return data
