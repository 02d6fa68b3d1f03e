"""From rounds to hour chunks, and from hour chunks to a day: files of any size, some thousand series at a time.

An hour: the rounds are laid side by side as matrices (a row a round, a column a queue), and each block of columns is
turned into chunk rows while it is in the processor's caches. 48 million samples take 1 to 2 s of one core this way and
20 s when all of them are sorted at once. A day: the hours of a series are put side by side, row by row, nothing is
decoded; a large day is several files, buckets of groups that follow each other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from operator import itemgetter
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.lag.history.chunk import CHUNK_SCHEMA, ChunkWriter, Written, completed
from spark.lag.history.chunk_rows import Changing, SeriesRows, encode_rows, name_table
from spark.lag.samples import DEFAULTS, Figures, Previous, SeriesKey, starts_of
from spark.lag.snapshot import BoolArray, CommitKey, HeadKey, Int64Array, Snapshot

# 4 MiB a column: half of it stays in a core's second cache and takes 7 % more time, for it calls NumPy twice as often.
BLOCK_SAMPLES = 512 * 1024
MERGE_ROWS = 20_000  # rows of a day in memory at once, about 40 MB
HEAD_FIGURES = ("max_offset", "min_offset", "head_status", "oldest_ms")
COMMIT_FIGURES = ("committed", "pulled", "time_lag_ms", "status", "flags")
NO_SAMPLE = 255  # in place of a status where a series is not in a round
TAIL = itemgetter(slice(1, None))  # of a commit key: its head's
Topic = tuple[str, str]  # group, topic
KEY_COLUMNS = ("group", "topic", "broker_name", "queue_id", "incarnation", "t0_ms")


def write_hour(
    snapshots: Iterable[Snapshot],
    sink: IO[bytes] | str,
    *,
    interval_ms: int,
    previous: Snapshot | None = None,
) -> Written:
    """Write the chunk of some rounds. `previous` is the last round before them."""
    with ChunkWriter(sink) as writer:
        for rows in _blocks(snapshots, previous):
            writer.write(encode_rows(rows, interval_ms=interval_ms))
        return writer.written


class _Matrix:
    """A figure of all rounds, a row a round and a column a series; `missing` where a series is not in a round.

    Rounds mostly list the same series in the same order: then the columns are cut from the rounds themselves and the
    whole is never laid out.
    """

    def __init__(
        self, values: Sequence[Figures], columns: Sequence[Int64Array], width: int, missing: int
    ) -> None:
        self._rounds = values
        self.is_whole = all(one is columns[0] for one in columns) and len(columns[0]) == width
        if not self.is_whole:
            matrix = np.full((len(values), width), missing, dtype=values[0].dtype)
            for row, own, at in zip(matrix, values, columns, strict=True):
                row[at] = own
            self._rounds = list(matrix)

    def across(self, columns: Int64Array) -> Figures:
        """Return some columns as rows, side by side in memory."""
        return np.ascontiguousarray(self._cut(columns).T)

    def changing(self, columns: Int64Array) -> Changing:
        """Return a figure that is the same in most rounds: only the columns that change are laid side by side."""
        cut = self._cut(columns)
        changes = (cut != cut[0]).any(axis=0)
        return Changing(cut[0], changes, cut[:, changes].T.reshape(-1))

    def _cut(self, columns: Int64Array) -> Figures:
        """Return some columns, a row a round."""
        first, last = int(columns.min()), int(columns.max())
        if last - first > 4 * len(columns):  # far apart: not worth cutting the whole stretch
            return np.stack([one[columns] for one in self._rounds])
        stretch = np.stack([one[first : last + 1] for one in self._rounds])
        if last - first + 1 == len(columns) and bool(np.all(columns[1:] > columns[:-1])):
            return stretch
        own: Figures = stretch[:, columns - first]
        return own


@dataclass(frozen=True, slots=True)
class _Series:
    """Hold heads or commits: keys by column, columns by key, and the names in that order."""

    keys: Sequence[Any]
    order: Int64Array
    names: pa.Table

    @classmethod
    def of(cls, keys: Sequence[HeadKey] | Sequence[CommitKey], columns: Iterable[int]) -> "_Series":
        order = sorted(columns, key=keys.__getitem__)
        own = [keys[column] for column in order]
        named = own if keys and isinstance(keys[0], CommitKey) else [("", *key) for key in own]
        return cls(keys, np.array(order, dtype=np.int64), name_table(cast(Sequence[SeriesKey], named)))

    def blocks(self, width: int) -> Iterator[tuple[Int64Array, pa.Table]]:
        """Yield (columns, names) of some series at a time, in the order of keys."""
        for start in range(0, len(self.order), width):
            yield self.order[start : start + width], self.names.slice(start, width)


@dataclass(frozen=True, slots=True)
class _Grid:
    """All rounds: figures of queues, and of groups' queues, of which `pulled` is missing when no round read any.

    The column of a commit's queue is `head_of`, -1: it is in no round. `head_before`, `commit_before`: where the series
    of the columns are in the round before, -1: not there.
    """

    t_ms: Int64Array
    head_keys: Sequence[HeadKey]
    heads: Mapping[str, _Matrix]
    commit_keys: Sequence[CommitKey]
    commits: Mapping[str, _Matrix]
    head_of: Int64Array
    before: Snapshot
    head_before: Int64Array
    commit_before: Int64Array


def _blocks(snapshots: Iterable[Snapshot], previous: Snapshot | None) -> Iterator[SeriesRows]:
    """Yield the samples of time-ordered rounds block by block, in key order: the same as `from_snapshots` gives.

    Later snapshots of the same time replace earlier ones. A commit whose queue is in no round gives no sample: without
    max offset there is no lag.
    """
    rounds = sorted({one.ts_ms: one for one in snapshots}.values(), key=lambda one: one.ts_ms)
    if not rounds:
        return
    grid = _grid(rounds, previous)
    width = max(1, BLOCK_SAMPLES // len(rounds))
    heads = _Series.of(grid.head_keys, range(len(grid.head_keys)))
    for columns, names in heads.blocks(width):
        yield from _block(grid, names, columns, None)
    commits = _Series.of(grid.commit_keys, np.flatnonzero(grid.head_of >= 0).tolist())
    for columns, names in commits.blocks(width):
        yield from _block(grid, names, grid.head_of[columns], columns)


def _grid(rounds: Sequence[Snapshot], previous: Snapshot | None) -> _Grid:
    heads: dict[Any, int] = {}  # of HeadKeys: a commit key's tail finds them
    commits: dict[Any, int] = {}
    head_columns = _columns([one.head_keys for one in rounds], heads)
    commit_columns = _columns([one.commit_keys for one in rounds], commits)
    has_pulled = any(bool((one.pulled >= 0).any()) for one in rounds)
    head_keys, commit_keys = list(heads), list(commits)
    before = previous or Snapshot(-1, -1)

    def matrix(name: str, columns: Sequence[Int64Array], width: int) -> _Matrix:
        missing = NO_SAMPLE if name in ("status", "head_status") else 0
        return _Matrix([getattr(one, name) for one in rounds], columns, width, missing)

    return _Grid(
        np.array([one.ts_ms for one in rounds], dtype=np.int64),
        head_keys,
        {name: matrix(name, head_columns, len(head_keys)) for name in HEAD_FIGURES},
        commit_keys,
        {
            name: matrix(name, commit_columns, len(commit_keys))
            for name in COMMIT_FIGURES
            if name != "pulled" or has_pulled
        },
        _rows_in(heads, map(TAIL, commit_keys), len(commit_keys)),
        before,
        _places_in(before.head_keys, head_keys),
        _places_in(before.commit_keys, commit_keys),
    )


def _places_in(before: Sequence[Any], keys: Sequence[Any]) -> Int64Array:
    """Return where keys are in the round before, -1 where they are not."""
    if len(before) == len(keys) and before == keys:
        return np.arange(len(keys), dtype=np.int64)
    return _rows_in(dict(zip(before, count(), strict=False)), keys, len(keys))


def _columns(
    keys_of_rounds: Sequence[Sequence[HeadKey]] | Sequence[Sequence[CommitKey]], index: dict[Any, int]
) -> list[Int64Array]:
    """Number the keys of all rounds; rounds mostly have the keys of the round before."""
    found: list[Int64Array] = []
    last: Sequence[object] | None = None
    for keys in keys_of_rounds:
        if last is None or (keys is not last and keys != last):
            new = [key for key in keys if key not in index] if index else keys
            index.update(zip(new, count(len(index)), strict=False))
            columns = _rows_in(index, keys, len(keys))
        found.append(columns)
        last = keys
    return found


def _rows_in(index: dict[Any, int], keys: Iterable[object], count: int) -> Int64Array:
    return np.fromiter(map(index.get, keys, repeat(-1)), dtype=np.int64, count=count)


def _block(
    grid: _Grid, names: pa.Table, heads: Int64Array, commits: Int64Array | None
) -> Iterator[SeriesRows]:
    """Yield the samples of some columns, none where no round has one."""
    own = {name: (matrix, heads) for name, matrix in grid.heads.items()}
    own["status"] = own.pop("head_status")
    if commits is not None:
        own |= {name: (matrix, commits) for name, matrix in grid.commits.items()}
    rounds = len(grid.t_ms)
    starts = np.arange(len(heads) + 1, dtype=np.int64) * rounds
    times, previous = np.broadcast_to(grid.t_ms, (len(heads), rounds)), _before(grid, heads, commits)
    present = _present(grid, heads, commits)
    if present is None:  # the ordinary case
        judged = {name: matrix.changing(at) for name, (matrix, at) in own.items() if name in DEFAULTS}
        flat = {
            name: matrix.across(at).reshape(-1) for name, (matrix, at) in own.items() if name not in judged
        }
        times = times.reshape(-1)
    else:
        counts = present.sum(axis=1).astype(np.int64)
        rows = np.flatnonzero(counts)
        if len(rows) == 0:
            return
        starts, times = starts_of(counts[rows]), times[present]
        names, previous = names.take(rows), previous.take(rows)
        flat = {name: matrix.across(at)[present] for name, (matrix, at) in own.items()}
        judged = {name: Changing.of(flat[name], starts) for name in DEFAULTS if name in flat}
    yield SeriesRows(
        names,
        starts,
        times,
        flat["max_offset"],
        flat["min_offset"],
        flat.get("committed"),
        flat.get("pulled"),
        previous,
        judged.get("time_lag_ms"),
        judged["status"],
        judged.get("flags"),
        judged["oldest_ms"],
        grid.t_ms if present is None else None,
    )


def _present(grid: _Grid, heads: Int64Array, commits: Int64Array | None) -> BoolArray | None:
    """Return which rounds have a sample of each series; None: all."""
    needed = [(grid.heads["head_status"], heads)]
    if commits is not None:
        needed.append((grid.commits["status"], commits))
    found: BoolArray | None = None
    for matrix, columns in needed:
        if not matrix.is_whole:
            own = matrix.across(columns) != NO_SAMPLE
            found = own if found is None else found & own
    return None if found is None or found.all() else found


def _before(grid: _Grid, heads: Int64Array, commits: Int64Array | None) -> Previous:
    """Return the sample before of each series that has one."""
    found, before = Previous.none(len(heads)), grid.before
    places = grid.head_before[heads]
    known = places >= 0
    if commits is not None:
        own = grid.commit_before[commits]
        known &= own >= 0
    found.t_ms[known] = before.ts_ms
    for name in ("max_offset", "min_offset", "oldest_ms"):
        getattr(found, name)[known] = getattr(before, name)[places[known]]
    if commits is None:
        found.status[known] = before.head_status[places[known]]
    else:
        for name in COMMIT_FIGURES:
            getattr(found, name)[known] = getattr(before, name)[own[known]]
    return found


class _Cursor:
    """A chunk file read from front to back, topic of a group by topic of a group."""

    def __init__(self, source: IO[bytes] | str) -> None:
        self.file = pq.ParquetFile(source, read_dictionary=["dt_ms"])
        names = self.file.read(columns=["group", "topic"])
        is_new = np.ones(names.num_rows, dtype=np.bool_)
        is_new[1:] = False
        for column in names.columns:
            flat = column.combine_chunks()
            is_new[1:] |= pc.not_equal(flat.slice(1), flat.slice(0, max(0, len(flat) - 1))).to_numpy(False)
        begins = np.flatnonzero(is_new)
        lengths = np.diff(np.append(begins, names.num_rows)).tolist()
        own = names.take(begins)
        topics = zip(own["group"].to_pylist(), own["topic"].to_pylist(), strict=True)
        self.rows: dict[Topic, int] = dict(zip(topics, lengths, strict=True))
        self.next_row_group = 0
        self.rest = CHUNK_SCHEMA.empty_table()

    def take(self, count: int) -> pa.Table:
        """Return the next `count` rows."""
        parts = [self.rest]
        have = self.rest.num_rows
        while have < count:
            columns = CHUNK_SCHEMA.names
            part = completed(
                self.file.read_row_group(self.next_row_group, columns=columns, use_threads=False)
            )
            self.next_row_group += 1
            parts.append(part)
            have += part.num_rows
        table = pa.concat_tables(parts)
        self.rest = table.slice(count)
        return table.slice(0, count)


@dataclass(frozen=True, slots=True)
class MergeInput:
    """A chunk file and its time [from_ms, to_ms)."""

    source: IO[bytes]
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """What went into one of the files of a day: whole groups, from the first to the last one."""

    written: Written
    group_lo: str
    group_hi: str


class DayMerge:
    """The rows of several chunk files, sorted by series, then time, to be written as a file or as several buckets.

    A later input replaces earlier ones in its time: give the day's files first and then its repaired hours.
    Inputs of the same time are buckets of one day and add up.
    """

    def __init__(self, inputs: Sequence[MergeInput], buckets: int = 1) -> None:
        """`buckets`: how many files to make, about equally many rows each; fewer when the groups are fewer."""
        self._inputs = inputs
        self._cursors = [_Cursor(one.source) for one in inputs]
        self._rows = sum(sum(cursor.rows.values()) for cursor in self._cursors)
        self._buckets = buckets
        self._number = self._taken_rows = 0
        self._batches = self._batched()
        self._next = next(self._batches, None)

    @property
    def is_done(self) -> bool:
        """Whether all rows are in some bucket."""
        return self._next is None

    def write_bucket(self, sink: IO[bytes] | str) -> Bucket:
        """Write the next bucket."""
        self._number += 1
        end = self._rows * self._number // self._buckets
        first = last = "" if self._next is None else self._next[0][0]
        with ChunkWriter(sink, whole_groups=True) as writer:
            while self._next is not None:
                batch = self._next
                if batch[0][0] != last and self._taken_rows >= end:
                    break
                writer.write(_sorted(self._taken(batch)))
                last = batch[-1][0]
                self._next = next(self._batches, None)
            return Bucket(writer.written, first, last)

    def _batched(self) -> Iterator[list[Topic]]:
        """Yield the topics of whole groups, about `MERGE_ROWS` at a time; a large one, as all heads are, in parts."""
        batch: list[Topic] = []
        size = 0
        topics = sorted({topic for cursor in self._cursors for topic in cursor.rows})
        # a batch reaches into the next bucket with its last group only
        share = -(-self._rows // self._buckets)
        for at, topic in enumerate(topics):
            batch.append(topic)
            size += sum(cursor.rows.get(topic, 0) for cursor in self._cursors)
            ends_group = at + 1 == len(topics) or topics[at + 1][0] != topic[0]
            if size >= min(MERGE_ROWS, share) and (ends_group or batch[0][0] == topic[0]):
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _taken(self, batch: Sequence[Topic]) -> pa.Table:
        parts = []
        for number, (cursor, own) in enumerate(zip(self._cursors, self._inputs, strict=True)):
            table = cursor.take(sum(cursor.rows.get(topic, 0) for topic in batch))
            self._taken_rows += table.num_rows
            for later in self._inputs[number + 1 :]:
                if (later.from_ms, later.to_ms) != (own.from_ms, own.to_ms):
                    t0 = table["t0_ms"]
                    table = table.filter(
                        pc.or_(pc.less(t0, later.from_ms), pc.greater_equal(t0, later.to_ms))
                    )
            parts.append(table)
        return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _sorted(table: pa.Table) -> pa.Table:
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in KEY_COLUMNS])
    return table.take(order)
