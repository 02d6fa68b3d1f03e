"""What a task is given and what it reads: work items, and the samples of their hours from the history files.

A work item is a stretch of hours of one cluster and a range of its groups. A file is complete for its series, so an
item needs nothing of another: no shuffle, no join. A file that cannot be read is named, and the rest still counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import fsspec
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark import grid
from spark.chunk_buckets import ChunkBuckets, open_chunk
from spark.chunk_file import LAST_NAME, ChunkFile, ChunkFileError
from spark.job import HOUR_MS, HourFiles, JobSpec
from spark.lag import chunk, rollup, wal
from spark.lag.rollup import Figures
from spark.lag.samples import DEAD_LETTER_TOPIC_PREFIX, Samples, SeriesKey, from_snapshots
from spark.lag.snapshot import Int64Array
from spark.lookback import COLUMNS, Ages, Heads, Int32Array, ages
from spark.notes import Note

WORK_SCHEMA = pa.schema([pa.field("item", pa.string())])
UNREADABLE = (wal.WalError, ChunkFileError, pa.ArrowException, OSError)
WARNING_LENGTH_MAX = 500
TASKS_MAX = 64  # a task costs 20-50 ms whatever it does; the hours of a month are packed into these
TASKS_MIN = 4  # fewer would leave cores without work at the end
AGE_MS_MAX = 2**31 - 1  # of a grid: 24 days
# How old a message is follows from its queue's max offsets alone; the other lists are half of what a file holds.
UNREAD_FOR_AGES = ("dmin", "lag", "in_flight")
HEAD_COLUMNS = ["group", *COLUMNS]
AGE_COLUMNS = [name for name in chunk.CHUNK_SCHEMA.names if name not in UNREAD_FOR_AGES]
# What is looked at together: more, and it leaves the cache; less, and calling NumPy takes as long as its work. The rows
# of many hours are kept until they are added up, with their histograms.
BLOCK_ROWS, BLOCK_ROWS_OF_MANY = 12_000, 4_000
SPLIT_ROWS = 20_000  # an hour with fewer series is one item


class WorkItem(msgspec.Struct, frozen=True):
    """Hours of one cluster, and which groups: those of (after, upto]."""

    cluster: str
    hours: tuple[HourFiles, ...]
    from_ms: int
    to_ms: int
    after: str
    upto: str
    spec: str  # the job's spec without hours: what else the rows depend on

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> WorkItem:
        return msgspec.json.decode(text, type=cls)


def work_items(spec: JobSpec, *, period_ms: int) -> list[WorkItem]:
    """The items of a job whose rows are about periods of so many milliseconds; the running one ends at `as_of_ms`."""
    periods: dict[tuple[str, int], list[HourFiles]] = {}
    for hour in spec.hours:
        if hour.hour_ms < spec.as_of_ms:
            start_ms = period_start(hour.hour_ms, period_ms)
            periods.setdefault((hour.cluster, start_ms), []).append(hour)
    rest = msgspec.structs.replace(spec, hours=(), clients={}, client_changes={})
    plain = rest.to_json()
    items = []
    for (cluster, start_ms), hours in periods.items():
        hours.sort(key=lambda hour: hour.hour_ms)
        end_ms = min(start_ms + period_ms, spec.as_of_ms)
        for after, upto in _group_ranges(hours):
            changes = _changes_in(spec, after, upto, start_ms, end_ms)
            own = msgspec.structs.replace(rest, client_changes=changes).to_json() if changes else plain
            items.append(WorkItem(cluster, tuple(hours), start_ms, end_ms, after, upto, own))
    return items


def _changes_in(
    spec: JobSpec, after: str, upto: str, from_ms: int, to_ms: int
) -> dict[str, tuple[tuple[int, int], ...]]:
    """What an item has to know of the members of its groups: a whole month of everybody's would travel with each."""
    found = {}
    for group, changes in spec.client_changes.items():
        if after < group <= upto:
            begin = max(
                (place for place, (since_ms, _) in enumerate(changes) if since_ms <= from_ms), default=0
            )
            found[group] = tuple(change for change in changes[begin:] if change[0] < to_ms)
    return found


def period_start(at_ms: int, period_ms: int) -> int:
    """When the period begins that holds a moment: hours and days of UTC, weeks from Monday."""
    shift = 3 * 24 * HOUR_MS if period_ms == 7 * 24 * HOUR_MS else 0  # 1970 began on a Thursday
    return at_ms - (at_ms + shift) % period_ms


def _group_ranges(hours: Sequence[HourFiles]) -> list[tuple[str, str]]:
    """Cut the groups into ranges of about the same number of series, by the statistics of the first good file."""
    for path in (path for hour in hours for path in hour.files if path.endswith(".parquet")):
        try:
            ends = _ends_of(path)
        except UNREADABLE:
            continue
        if sum(rows for _, rows in ends) >= SPLIT_ROWS:
            return _cut(ends)
    return [("", LAST_NAME)]


def _ends_of(path: str) -> list[tuple[str, int]]:
    file = open_chunk(path)
    try:
        return file.group_ends()
    finally:
        file.close()


def _cut(ends: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    ranges: list[tuple[str, str]] = []
    after, seen = "", 0
    share = sum(rows for _, rows in ends) / TASKS_MIN
    for highest, rows in ends:
        seen += rows
        if seen >= share * (len(ranges) + 1) and highest > after and len(ranges) < TASKS_MIN - 1:
            ranges.append((after, highest))
            after = highest
    return [*ranges, (after, LAST_NAME)]


@dataclass(frozen=True, slots=True)
class HourBlock:
    """Samples of whole group-topics of one hour; older ones only where figures need them."""

    from_ms: int
    to_ms: int
    samples: Samples
    figures: Figures
    dead_letters: dict[str, int]  # group → messages into its %DLQ% topic in the hour


@dataclass(frozen=True, slots=True)
class HourGrid:
    """The ordinary groups of one hour."""

    from_ms: int
    to_ms: int
    grid: grid.Grid
    dead_letters: dict[str, int]


class HistoryReader:
    """Reads the hours of one work item, block by block; `notes` fill up on the way."""

    def __init__(self, item: WorkItem) -> None:
        self.item = item
        self.spec = JobSpec.from_json(item.spec)
        self.notes: list[Note] = []
        self._logs: dict[str, Samples] = {}
        self._files: dict[str, ChunkFile | ChunkBuckets | None] = {}
        self._recent: deque[str] = deque()
        self._names: dict[str, tuple[str, str, pa.Table]] = {}

    def blocks(self) -> Iterator[list[HourBlock]]:
        """Yield for range after range of groups the hours of the item."""
        dead_letters = {hour.hour_ms: self._dead_letters(hour) for hour in self.item.hours}
        for after, upto in self._block_ranges(0):
            found: list[HourBlock] = []
            for hour in self.item.hours:
                found += self._hour_blocks(hour, after, upto, dead_letters[hour.hour_ms])
            if found:
                yield found

    def _block_ranges(self, rows_max: int) -> list[tuple[str, str]]:
        """Ranges of groups that are looked at together: row groups of the first good file, of so many rows an hour."""
        item = self.item
        for path in (path for hour in item.hours for path in hour.files if path.endswith(".parquet")):
            file = self._file(path)
            if file is not None:
                rows_max *= sum(path in hour.files for hour in item.hours)
                ends, waiting = [item.after], 0
                for end, rows in file.group_ends():
                    if item.after < end < item.upto:
                        waiting += rows
                        if waiting >= rows_max and end > ends[-1]:
                            ends.append(end)
                            waiting = 0
                return list(zip(ends, [*ends[1:], item.upto], strict=True))
        return [(item.after, item.upto)]

    def parts(self) -> Iterator[Iterator[HourBlock | HourGrid]]:
        """As `blocks`, but what is ordinary of an hour comes as a grid, and each hour when it is asked for."""
        dead_letters = {hour.hour_ms: self._dead_letters(hour) for hour in self.item.hours}
        for after, upto in self._block_ranges(
            BLOCK_ROWS if len(self.item.hours) == 1 else BLOCK_ROWS_OF_MANY
        ):
            yield (
                part
                for hour in self.item.hours
                for part in self._hour_parts(hour, after, upto, dead_letters[hour.hour_ms])
            )

    def _hour_parts(
        self, hour: HourFiles, after: str, upto: str, dead_letters: dict[str, int]
    ) -> list[HourBlock | HourGrid]:
        table = self._only_chunk(hour, after, upto)
        if table is None:
            return [*self._hour_blocks(hour, after, upto, dead_letters)]
        from_ms, to_ms = self._window(hour)

        def past(rows: Int64Array, lag: Int32Array) -> Ages | None:
            read = self._heads_before(hour, table, rows, after, upto)
            own = Heads.of(table, rows, with_before=False)
            found = None if read is None or own is None else ages(read, own, lag, self._lookback(hour)[0])
            return found or self._past(hour, table, rows, after, upto)

        found, rest = grid.lay_out(table, from_ms, to_ms, self.spec.interval_ms, past)
        parts: list[HourBlock | HourGrid] = []
        if found is not None:
            parts.append(HourGrid(from_ms, to_ms, found, dead_letters))
        if rest.any():
            own = table.filter(pa.array(rest))
            samples = chunk.decode_table(own).window(from_ms, to_ms)
            wanted = set(own["group"].to_pylist())
            before = {key for key in self._keys_before(hour, after, upto, from_ms) if key.group in wanted}
            parts += self._blocks_of(hour, samples, before, after, upto, dead_letters)
        return parts

    def _only_chunk(self, hour: HourFiles, after: str, upto: str) -> pa.Table | None:
        """The rows of an hour that lies in one chunk, when the lookback knows exactly the same series; else None."""
        is_long = self.spec.lookback_ms + HOUR_MS > AGE_MS_MAX
        if (
            is_long
            or len(hour.files) != 1
            or any(path.endswith(".wal") for path in (*hour.files, *hour.older))
        ):
            return None
        from_ms, to_ms = self._window(hour)
        table = grid.without_earlier(self._rows(hour.files[0], after, upto, from_ms, to_ms), from_ms)
        if table is None or table.num_rows == 0:
            return None
        names: pa.Table | None = table.select(grid.KEYS)
        if len(self.item.hours) > 1:  # what was kept of the file answers: nothing is read again
            names = self._series(hour.files[0], after, upto, from_ms, to_ms)
        if names is None or names.num_rows != table.num_rows:
            return None
        for path in (*hour.older, *hour.files):
            known = self._series(path, after, upto, *self._lookback(hour))
            if known is not None and known is not names and not known.equals(names):
                return None
        return table

    def _series(self, path: str, after: str, upto: str, from_ms: int, to_ms: int) -> pa.Table | None:
        """KEYS of the series that a file knows, None without one. An hour is in the lookback of many: what was found is
        kept, and equal tables are one, so that they need not be compared again.
        """
        file = self._file(path)
        is_whole = file is not None and file.is_whole_in(from_ms, to_ms)
        kept = self._names.get(path)
        if is_whole and kept is not None and kept[:2] == (after, upto):
            return kept[2]
        known = self._rows(path, after, upto, from_ms, to_ms, columns=[*grid.KEYS, "t0_ms"])
        if known.num_rows == 0:
            return None
        series = grid.series_of(known)
        for one in self._names.values():
            if one[2].equals(series):
                series = one[2]
                break
        if is_whole:
            self._names[path] = after, upto, series
        return series

    def _heads_before(
        self, hour: HourFiles, table: pa.Table, rows: Int64Array, after: str, upto: str
    ) -> list[Heads] | None:
        """The max offsets of some rows of an hour's chunk in the hours before; None unless those were read in the same
        rounds, and somebody knows them.
        """
        found: list[Heads] = []
        groups = pc.unique(table["group"].take(rows))  # few: whole row groups without them are not read
        wanted = groups.to_pylist()
        for path in (*hour.older, *hour.files):
            known = self._rows(path, after, upto, *self._lookback(hour), columns=HEAD_COLUMNS, groups=wanted)
            for places in _places(known, table, rows, groups) if known.num_rows else []:
                heads = Heads.of(known, places, with_before=not found)
                if heads is None:
                    return None
                found.append(heads)
        return found or None

    def _past(self, hour: HourFiles, table: pa.Table, rows: Int64Array, after: str, upto: str) -> Ages | None:
        """The time lags of some rows of an hour's chunk, by any lookback: as many samples each as the hour has."""
        back_ms, from_ms = self._lookback(hour)
        older = []
        groups = pc.unique(table["group"].take(rows))  # few: whole row groups without them are not read
        is_near = pc.is_in(table["group"], groups).to_numpy()
        places = (np.cumsum(is_near) - 1)[rows]
        for path in (*hour.older, *hour.files):
            known = self._rows(
                path, after, upto, back_ms, from_ms, columns=AGE_COLUMNS, groups=groups.to_pylist()
            )
            near = np.flatnonzero(pc.is_in(known["group"], groups).to_numpy())
            numbers = grid.series_numbers(known.select(grid.KEYS).take(near))
            own = known.take(near[np.isin(numbers, places)])
            for name in UNREAD_FOR_AGES:
                own = own.append_column(name, pa.nulls(own.num_rows, chunk.CHUNK_SCHEMA.field(name).type))
            older.append(chunk.decode_table(own).window(back_ms, from_ms))
        if not any(part.keys for part in older):
            return None
        hours = chunk.decode_table(table.take(rows))
        whole = chunk.merge([*older, hours]).window(back_ms, from_ms + HOUR_MS)
        effective = np.maximum(whole.committed, whole.min_offset)
        waits = (
            (whole.t_ms >= from_ms) & (whole.committed <= whole.max_offset) & (effective < whole.max_offset)
        )
        time_lag_ms, censored = rollup.time_lags(whole, effective, waits)
        inside = whole.starts[1:, None] - np.arange(int(hours.counts[0]), 0, -1)
        return Ages(time_lag_ms[inside], censored[inside])

    def _window(self, hour: HourFiles) -> tuple[int, int]:
        return hour.hour_ms, min(hour.hour_ms + HOUR_MS, self.item.to_ms)

    def _lookback(self, hour: HourFiles) -> tuple[int, int]:
        return hour.hour_ms - self.spec.lookback_ms, hour.hour_ms

    def _hour_blocks(
        self, hour: HourFiles, after: str, upto: str, dead_letters: dict[str, int]
    ) -> list[HourBlock]:
        from_ms, to_ms = self._window(hour)
        parts = [self._part(path, after, upto, from_ms, to_ms) for path in hour.files]
        samples = chunk.merge(parts).window(from_ms, to_ms)
        before = self._keys_before(hour, after, upto, from_ms)
        return self._blocks_of(hour, samples, before, after, upto, dead_letters)

    def _blocks_of(
        self,
        hour: HourFiles,
        samples: Samples,
        before: set[SeriesKey],
        after: str,
        upto: str,
        dead_letters: dict[str, int],
    ) -> list[HourBlock]:
        """Samples of an hour, the groups apart that need older ones; `before`: series that the lookback knows."""
        from_ms, to_ms = self._window(hour)
        interval_ms = self.spec.interval_ms
        needy = _incomplete_groups(samples, before)
        blocks = []
        if needy:
            whole = self._with_past(hour, samples, lambda key: key.group in needy, after, upto)
            blocks.append((whole, rollup.figures(whole, interval_ms=interval_ms)))
            samples = samples.select(lambda key: key.group not in needy)
        if samples.keys:
            figures = rollup.figures(samples, interval_ms=interval_ms)
            blocks.append((samples, self._aged(hour, samples, figures, before, after, upto)))
        return [HourBlock(from_ms, to_ms, one, each, dead_letters) for one, each in blocks if one.keys]

    def _with_past(
        self, hour: HourFiles, samples: Samples, wanted: Callable[[SeriesKey], bool], after: str, upto: str
    ) -> Samples:
        """The lookback and the hour of some series."""
        back_ms = hour.hour_ms - self.spec.lookback_ms
        files = (*hour.older, *hour.files)
        parts = [self._part(path, after, upto, back_ms, hour.hour_ms, wanted) for path in files]
        return chunk.merge([*parts, samples.select(wanted)]).window(back_ms, hour.hour_ms + HOUR_MS)

    def _aged(
        self,
        hour: HourFiles,
        samples: Samples,
        figures: Figures,
        before: set[SeriesKey],
        after: str,
        upto: str,
    ) -> Figures:
        """The figures with the time lags of messages that are older than the hour, where the lookback knows them."""
        old = np.unique(samples.series[figures.censored]).tolist()
        keys = {samples.keys[i]: i for i in old if samples.keys[i] in before}
        if not keys:
            return figures
        whole = self._with_past(hour, samples, keys.__contains__, after, upto)
        known = rollup.figures(whole, interval_ms=self.spec.interval_ms)
        time_lag_ms, censored = figures.time_lag_ms.copy(), figures.censored.copy()
        for key, place in whole.slices():
            own = slice(int(samples.starts[keys[key]]), int(samples.starts[keys[key] + 1]))
            inside = slice(place.stop - (own.stop - own.start), place.stop)
            time_lag_ms[own], censored[own] = known.time_lag_ms[inside], known.censored[inside]
        return replace(figures, time_lag_ms=time_lag_ms, censored=censored)

    def _keys_before(self, hour: HourFiles, after: str, upto: str, from_ms: int) -> set[SeriesKey]:
        """Series that the lookback knows."""
        back_ms = from_ms - self.spec.lookback_ms
        found: set[SeriesKey] = set()
        for path in (*hour.older, *hour.files):
            if path.endswith(".wal"):
                found.update(self._part(path, after, upto, back_ms, from_ms).keys)
                continue
            table = self._rows(path, after, upto, back_ms, from_ms, columns=[*SeriesKey._fields, "t0_ms"])
            found.update(_keys(table))
        return found

    def _part(
        self,
        path: str,
        after: str,
        upto: str,
        from_ms: int,
        to_ms: int,
        wanted: Callable[[SeriesKey], bool] | None = None,
    ) -> Samples:
        """The samples of some groups, or of some of their series, in one file; none of a file that cannot be read."""
        if PurePosixPath(path).suffix == ".wal":
            logged = self._log(path).select(
                lambda key: after < key.group <= upto and (not wanted or wanted(key))
            )
            return logged.window(from_ms, to_ms)
        table = self._rows(path, after, upto, from_ms, to_ms)
        if wanted:
            table = table.filter(pa.array([wanted(key) for key in _keys(table)], pa.bool_()))
        return chunk.decode_table(table).window(from_ms, to_ms)

    def _rows(
        self,
        path: str,
        after: str,
        upto: str,
        from_ms: int,
        to_ms: int,
        columns: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
    ) -> pa.Table:
        file = self._file(path)
        if file is not None:
            if columns is None:
                self._note(path)
            try:
                return file.rows(after, upto, from_ms, to_ms, columns, groups)
            except UNREADABLE as error:
                self._give_up(path, error)
        names = columns or chunk.CHUNK_SCHEMA.names
        return pa.schema([chunk.CHUNK_SCHEMA.field(name) for name in names]).empty_table()

    def _note(self, path: str) -> None:
        """An hour is looked at in turn, and is the past of the next ones: that many files stay in memory."""
        if path in self._recent:
            self._recent.remove(path)
        self._recent.append(path)
        if len(self._recent) > self.spec.lookback_ms // HOUR_MS + 1:
            file = self._files.get(self._recent.popleft())
            if file is not None:
                file.forget()

    def _file(self, path: str) -> ChunkFile | ChunkBuckets | None:
        """A chunk, or the buckets of a day, opened once; None for one that cannot be read."""
        if path not in self._files:
            try:
                self._files[path] = open_chunk(path, keeps=len(self.item.hours) > 1)
            except UNREADABLE as error:
                self._give_up(path, error)
        return self._files.get(path)

    def _log(self, path: str) -> Samples:
        """A log segment, read once: its frames up to the first broken one."""
        if path not in self._logs:
            self._logs[path] = from_snapshots([])
            try:
                with fsspec.open(path, "rb") as file:
                    data = file.read()
                if len(data) >= wal.SEGMENT_HEADER.size:
                    segment = wal.read_segment(data)
                    self._logs[path] = from_snapshots(segment.snapshots)
                    if segment.damaged:
                        self.notes.append(Note(f"{path}: damaged inside, read up to there"))
            except UNREADABLE as error:
                self._give_up(path, error)
        return self._logs[path]

    def _give_up(self, path: str, error: Exception) -> None:
        self._files[path] = None
        self.notes.append(Note(f"{type(error).__name__}: {error}"[:WARNING_LENGTH_MAX], path))

    def _dead_letters(self, hour: HourFiles) -> dict[str, int]:
        """Messages that came into each group's dead-letter topic; its queues are heads, they have no group."""
        from_ms, to_ms = hour.hour_ms, min(hour.hour_ms + HOUR_MS, self.item.to_ms)
        parts = []
        for path in hour.files:
            if PurePosixPath(path).suffix == ".wal":
                parts.append(self._log(path).select(_is_dead_letter).window(from_ms, to_ms))
            else:
                parts.append(self._dead_letter_part(path, from_ms, to_ms))
        samples = chunk.merge(parts).window(from_ms, to_ms)
        found: dict[str, int] = {}
        for place, (key, own) in enumerate(samples.slices()):
            heads = samples.max_offset[own]
            first = samples.previous.max_offset[place] if samples.previous.t_ms[place] >= 0 else heads[0]
            group = key.topic.removeprefix(DEAD_LETTER_TOPIC_PREFIX)
            found[group] = found.get(group, 0) + max(0, int(heads[-1] - first))
        return found

    def _dead_letter_part(self, path: str, from_ms: int, to_ms: int) -> Samples:
        file = self._file(path)
        if file is not None:
            try:
                rows = file.heads(DEAD_LETTER_TOPIC_PREFIX, from_ms, to_ms)
                return chunk.decode_table(rows).window(from_ms, to_ms)
            except UNREADABLE as error:
                self._give_up(path, error)
        return from_snapshots([])

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            if file is not None:
                file.close()


def _places(known: pa.Table, table: pa.Table, rows: Int64Array, groups: pa.Array) -> list[Int64Array]:
    """Where in `known`, which has the series of `table` or of whole `groups` of it, each as often as the others (as the
    hours of a day lie in one file), those of `rows` are: the first rows of each, the second ones, …
    """
    if known.num_rows == table.num_rows:
        return [rows]
    is_near = pc.is_in(table["group"], groups).to_numpy()
    near = np.flatnonzero(pc.is_in(known["group"], groups).to_numpy())
    often, left = divmod(len(near), int(is_near.sum()))
    assert left == 0
    series = (np.cumsum(is_near) - 1)[rows]
    return [near[series * often + turn] for turn in range(often)]


def _keys(table: pa.Table) -> Iterator[SeriesKey]:
    """Whose the rows of a chunk are."""
    names = (table[name].to_pylist() for name in SeriesKey._fields)
    return (SeriesKey(*row) for row in zip(*names, strict=True))


def _incomplete_groups(samples: Samples, before: set[SeriesKey]) -> set[str]:
    """Groups with a queue that the hour does not show, or whose sample before it is not told in the hour's files."""
    found = {key.group for key in before.difference(samples.keys)}
    fresh = np.flatnonzero(samples.previous.t_ms < 0).tolist()
    return found | {samples.keys[i].group for i in fresh if samples.keys[i] in before}


def _is_dead_letter(key: SeriesKey) -> bool:
    return not key.group and key.topic.startswith(DEAD_LETTER_TOPIC_PREFIX)
