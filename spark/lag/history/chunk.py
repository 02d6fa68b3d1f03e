"""Chunks: the hour and day files of lag history, and how to load a time window from them and the open log.

For readers of a window::

    grid = grid_of(load_samples(paths, from_ms, to_ms), interval_ms)      # see spark.lag.grid, spark.lag.folds.window

`paths` are the `path`s of the manifest (`console.lag.models.HistoryFile`, state live) that overlap the window:
`.parquet` chunks and `.wal` segments in any mix and order; overlapping files are merged, a sample that is in several is
taken once. Chunks know the sample before a window, and so do logs that were begun ahead.

What a row holds: `spark.lag.history.chunk_rows`.
"""

import os
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import SEEK_END
from pathlib import PurePosixPath
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.lag.history import files as storage
from spark.lag.history import wal
from spark.lag.history.chunk_decode import decode_table, rows_within, take_earlier
from spark.lag.history.chunk_join import decode_in_order
from spark.lag.history.chunk_rows import CHUNK_SCHEMA, LISTS, encode_table
from spark.lag.history.wal_group import GroupReader
from spark.lag.samples import (
    SAMPLE_COLUMNS,
    Previous,
    Samples,
    SeriesKey,
    assemble,
    from_snapshots,
    join_in_time,
)
from spark.lag.snapshot import Snapshot

__all__ = [
    "CHUNK_SCHEMA",
    "ChunkWriter",
    "check_format",
    "compact",
    "decode_table",
    "encode_table",
    "load_samples",
    "merge",
    "opened",
    "read_chunk",
    "write_blocks",
    "write_chunk",
]

READERS_MAX = 8  # threads that read files for one question
ROW_GROUP_ROWS = 2_000
# A chart reads one group of a day, 480 rows if it has 20 queues: it reads little else. Four such groups to a row group
# take twice the CPU time of a month's query. The price: 7 % of a day's file, and 35 % where the groups of a row group
# share a topic, whose increments zstd finds as far as a row group reaches.
GROUP_ROWS_MIN = 400
# Measured on the reference data: 4 % smaller and a little faster than level 3, which finds matches across the split
# bytes that cost more than they save.
_ZSTD_LEVEL = 1
# A list column of a row group is one page: what groups that share a topic have in common is found in a page only.
# Measured on the reference data: 5 % smaller than pages of 1 MB, as fast to write and to read.
_PAGE_BYTES = 4 * 1024 * 1024
# what samples are made of: the rest of a row is for readers of the file who want no samples
_NEEDED = [
    name for name in CHUNK_SCHEMA.names if name not in ("kind", "max_last", "min_last", "committed_last")
]
# 5 MB a day and 0.3 MB an hour at 240,000 series, in memory about twice; a day of that size is six or more buckets, of
# which a question about one group opens one: a month of its footers is below 30 MB.
FOOTER_BYTES_KEPT = 128 * 1024 * 1024


def compact(snapshots: Iterable[Snapshot], *, interval_ms: int, previous: Snapshot | None = None) -> pa.Table:
    """Turn the rounds of an hour into a chunk table. `previous` is the last round before them, if any.

    `spark.lag.history.compaction` does the same for many series without holding all of them at once.
    """
    return encode_table(from_snapshots(snapshots, previous), interval_ms=interval_ms)


@dataclass(frozen=True, slots=True)
class Written:
    """What went into a file."""

    rows: int
    samples: int


class ChunkWriter:
    """Writes chunk tables, given in key order, as one Parquet file.

    List items are byte-stream-split and zstd-1: readable by every Parquet reader, and as small as delta encodings
    (lag.md 3.2). Use as a context manager; after an error the file is not complete and must not be kept.

    `whole_groups`: every table holds whole groups, and row groups hold as few of them as `GROUP_ROWS_MIN` allows.
    """

    def __init__(self, sink: IO[bytes] | str, *, whole_groups: bool = False) -> None:
        numbers = [field.name for field in CHUNK_SCHEMA if pa.types.is_integer(field.type)]
        names = [field.name for field in CHUNK_SCHEMA if pa.types.is_string(field.type)]
        self._writer = pq.ParquetWriter(
            sink,
            CHUNK_SCHEMA,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=[*names, "dt_ms"],
            use_byte_stream_split=[*(f"{name}.list.element" for name in LISTS), *numbers],
            write_statistics=[
                "group",
                "topic",
                "t0_ms",
            ],  # what readers skip row groups by; all are 4 % of a file
            write_page_index=True,
            data_page_size=_PAGE_BYTES,
            store_schema=False,
        )
        self._whole_groups = whole_groups
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._samples = 0

    def __enter__(self) -> "ChunkWriter":
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Add rows; row groups hold about `ROW_GROUP_ROWS`."""
        if table.num_rows == 0:
            return
        self._waiting.append(table)
        self._samples += int(table["n"].to_numpy().sum(dtype=np.int64))
        if self._whole_groups or sum(one.num_rows for one in self._waiting) >= ROW_GROUP_ROWS:
            self._flush()

    @property
    def written(self) -> Written:
        """How much was given to `write`."""
        return Written(self._rows + sum(one.num_rows for one in self._waiting), self._samples)

    def _flush(self) -> None:
        if self._waiting:
            table = pa.concat_tables(self._waiting).unify_dictionaries()
            for part in _between_groups(table) if self._whole_groups else [table]:
                parts = max(1, round(part.num_rows / ROW_GROUP_ROWS))
                self._writer.write_table(part, row_group_size=-(-part.num_rows // parts))
            self._rows += table.num_rows
            self._waiting.clear()


def _between_groups(table: pa.Table) -> Iterator[pa.Table]:
    """Cut rows between groups, as soon as there are `GROUP_ROWS_MIN`."""
    group = table["group"].combine_chunks()
    changes = np.flatnonzero(pc.not_equal(group.slice(1), group.slice(0, len(group) - 1)).to_numpy(False)) + 1
    start = 0
    for end in [*changes.tolist(), len(group)]:
        if end - start >= GROUP_ROWS_MIN or end == len(group):
            yield table.slice(start, end - start)
            start = end


def write_chunk(table: pa.Table, sink: IO[bytes] | str) -> None:
    """Write a chunk table as Parquet."""
    with ChunkWriter(sink) as writer:
        writer.write(table)


def write_blocks(blocks: Iterable[Samples], sink: IO[bytes] | str, *, interval_ms: int) -> Written:
    """Write samples given block by block, in key order, as one chunk."""
    with ChunkWriter(sink) as writer:
        for samples in blocks:
            writer.write(encode_table(samples, interval_ms=interval_ms))
        return writer.written


def read_chunk(
    source: IO[bytes] | str, *, group: str | None = None, columns: Sequence[str] = CHUNK_SCHEMA.names
) -> pa.Table:
    """Read a chunk; with `group` only that group's rows ("" for heads), from the row groups that can hold them.

    Raises FileNotFoundError, ArrowException or OSError for what is not a whole chunk. The footer of a file named by
    path or URL is remembered: chunks never change.
    """
    if isinstance(source, str):
        with opened(source) as file:
            return _read_rows(file, _footers.get(source, file.seek(0, SEEK_END), file), group, columns)
    return _read_rows(source, _footer_of(pq.read_metadata(source)), group, columns)


@dataclass(frozen=True, slots=True)
class _Footer:
    """A file's metadata, and the first and last group of each row group: they are in order."""

    metadata: pq.FileMetaData
    lowest: Sequence[str]
    highest: Sequence[str]


class _Footers:
    """The footers of the files read last, as far as `FOOTER_BYTES_KEPT` allow."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], _Footer] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, path: str, size_bytes: int, file: IO[bytes]) -> _Footer:
        """Return a file's footer. Should a file of the same name be another one after all, it has another size."""
        with self._lock:
            found = self._kept.get((path, size_bytes))
            if found is not None:
                self._kept.move_to_end((path, size_bytes))
                return found
        found = _footer_of(pq.read_metadata(file))
        with self._lock:
            if (path, size_bytes) not in self._kept:
                self._kept[path, size_bytes] = found
                self._bytes += found.metadata.serialized_size
            while self._bytes > FOOTER_BYTES_KEPT and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.metadata.serialized_size
        return found


_footers = _Footers()


def check_format(source: IO[bytes]) -> None:
    """Raise ArrowException for what is no chunk."""
    check_columns(pq.read_metadata(source))


def check_columns(metadata: pq.FileMetaData) -> None:
    """Raise ArrowException when a column is missing that no row is without: what may be null may be missing."""
    needed = {field.name for field in CHUNK_SCHEMA if not field.nullable}
    lacking = sorted(needed - set(metadata.schema.to_arrow_schema().names))
    if lacking:
        raise pa.ArrowInvalid(f"it is no lag history: it lacks the column {lacking[0]}")


def _footer_of(metadata: pq.FileMetaData) -> _Footer:
    check_columns(metadata)
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    column = names.index("group")
    found = [
        metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)
    ]
    return _Footer(metadata, [one.min for one in found], [one.max for one in found])


def completed(table: pa.Table, columns: Sequence[str] = CHUNK_SCHEMA.names) -> pa.Table:
    """Return the columns of a chunk in their order; one that its file does not have is null."""
    schema = pa.schema([CHUNK_SCHEMA.field(name) for name in columns])
    if table.schema.equals(schema):
        return table
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(columns).cast(schema)


def opened(path: str) -> IO[bytes]:
    """Open a local path or an fsspec URL for reading parts of it."""
    return storage.opened(path)


def _read_rows(file: IO[bytes], footer: _Footer, group: str | None, columns: Sequence[str]) -> pa.Table:
    with pq.ParquetFile(file, metadata=footer.metadata, read_dictionary=["dt_ms"]) as parquet:
        if group is None:
            return completed(parquet.read(columns=columns), columns)
        row_groups = range(bisect_left(footer.highest, group), bisect_right(footer.lowest, group))
        wanted = list(dict.fromkeys([*columns, "group"]))
        table = completed(parquet.read_row_groups(row_groups, columns=wanted, use_threads=False), wanted)
    rows = np.flatnonzero(pc.equal(table["group"], group).to_numpy())
    if 2 * len(rows) < table.num_rows:  # a slice keeps the lists of the whole row group in memory
        return table.select(columns).take(rows)
    return table.select(columns).slice(int(rows[0]), len(rows)) if len(rows) else table.select(columns)


def load_samples(files: Iterable[str], from_ms: int, to_ms: int, *, group: str | None = None) -> Samples:
    """Return the samples of [from_ms, to_ms), and the one before of each series where these files have it.

    `files` are chunk and log paths, local or fsspec URLs; `group` keeps one group's series only ("" for heads).
    A file that vanished between listing and reading raises FileNotFoundError: the manifest is newer, read it again.
    """
    paths = list(files)
    logs = [path for path in paths if PurePosixPath(path).suffix == ".wal"]
    chunks = [path for path in paths if path not in logs]
    with _side_by_side(len(chunks)) as each:
        tables = each(partial(read_chunk, group=group, columns=_NEEDED), chunks)
        parts = decode_in_order([rows_within(table, from_ms, to_ms) for table in tables], each)
    return merge([*parts, _read_logs(logs, group)]).window(from_ms, to_ms)


@contextmanager
def _side_by_side(files: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Return a `map` that works in as many threads as there are processors.

    Most of reading and decoding runs outside of Python.
    """
    threads = min(files, os.cpu_count() or 1, READERS_MAX)
    if threads < 2:
        yield map
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool.map


def _read_logs(paths: Iterable[str], group: str | None) -> Samples:
    """Return the samples of log segments, in time order; with `group` of its queues only ("": of heads)."""
    snapshots: list[Snapshot] = []
    before: list[Snapshot | None] = []
    names: wal.SegmentState | None = None  # segment after segment mostly names the same series
    own = GroupReader(group) if group else None
    for path in paths:
        data = storage.read(path)
        if len(data) < wal.SEGMENT_HEADER.size:
            continue
        if own is not None:
            snapshots += own.read(data)
            before.append(own.before)
        else:
            segment = wal.read_segment(data, names)
            names = segment.state
            snapshots += segment.snapshots
            before.append(names.before)
    if group == "":
        snapshots = [_heads_only(one) for one in snapshots]
    first_ms = min((one.ts_ms for one in snapshots), default=0)
    earlier = [one for one in before if one is not None and one.ts_ms < first_ms]
    logged = from_snapshots(snapshots, max(earlier, key=lambda one: one.ts_ms, default=None))
    return logged if group is None else logged.select(lambda key: key.group == group)


def _heads_only(one: Snapshot) -> Snapshot:
    return Snapshot(
        one.ts_ms,
        one.number,
        one.brokers,
        one.head_keys,
        one.max_offset,
        one.min_offset,
        head_status=one.head_status,
        oldest_ms=one.oldest_ms,
    )


def merge(parts: Sequence[Samples]) -> Samples:
    """Join samples of several files. A sample in several of them is taken from the last."""
    parts = [part for part in parts if len(part.t_ms)]
    if len(parts) < 2:
        return parts[0] if parts else from_snapshots([])
    index: dict[SeriesKey, int] = {}
    for part in parts:
        for key in part.keys:
            index.setdefault(key, len(index))
    previous = Previous.none(len(index))
    earliest = np.full(len(index), np.iinfo(np.int64).max)
    rows_of_parts = []
    for part in parts:
        rows = np.array([index[key] for key in part.keys], dtype=np.int64)
        rows_of_parts.append(rows)
        take_earlier(previous, earliest, rows, part.t_ms[part.starts[:-1]], part.previous)
    in_time = sorted(range(len(parts)), key=lambda number: int(parts[number].t_ms.min()))
    ordered = [parts[number] for number in in_time]
    if all(one.t_ms.max() < after.t_ms.min() for one, after in zip(ordered, ordered[1:], strict=False)):
        return join_in_time(list(index), ordered, [rows_of_parts[number] for number in in_time], previous)
    series = [np.repeat(rows, part.counts) for rows, part in zip(rows_of_parts, parts, strict=True)]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in SAMPLE_COLUMNS]
    return assemble(list(index), np.concatenate(series), columns, previous)
