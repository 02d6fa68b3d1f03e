"""Work items of tasks, and the samples of their hours from the history files.

A work item is a stretch of hours of one cluster and a range of its groups. A file is complete for its series, so an
item needs nothing of another: no shuffle, no join. A file that cannot be read is named, and the rest still counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import msgspec
import pyarrow as pa

from spark.job import HourFiles, JobSpec
from spark.lag.folds.rounds import rounds_of
from spark.lag.grid import Grid, carried, follows, grid_of
from spark.lag.history import chunk, files, wal
from spark.lag.history.chunk_decode import rows_within
from spark.lag.history.chunk_join import decode_grid
from spark.lag.local_time import HOUR_MS, period_end, starts_in_hour
from spark.lag.samples import (
    DEAD_LETTER_TOPIC_PREFIX,
    Samples,
    SeriesKey,
    empty_samples,
    from_snapshots,
)
from spark.notes import Note
from spark.sources import stored_folds
from spark.sources.chunk_buckets import ChunkBuckets, open_chunk
from spark.sources.chunk_file import LAST_NAME, ChunkFile

WORK_SCHEMA = pa.schema([pa.field("item", pa.string())])
UNREADABLE = (wal.WalError, pa.ArrowException, OSError)
WARNING_LENGTH_MAX = 500
TASKS_MAX = 64  # a task costs 20-50 ms whatever it does; the hours of a month are packed into these
TASKS_PER_CORE = 2  # fewer would leave cores without work at the end
# Series looked at together, all hours of an item after each other: more take memory, fewer time.
BLOCK_ROWS = 4_000
# An item has so many series at least, as a task is no use for less; and at most, as it keeps rows of all its hours.
SERIES_MIN, SERIES_MAX = 5_000, 25_000


class WorkItem(msgspec.Struct, frozen=True):
    """Hours of one cluster, and which groups: those of (after, upto].

    `split` names these groups among those of the whole hour, in the names of its stored folds.
    """

    cluster: str
    hours: tuple[HourFiles, ...]
    from_ms: int
    to_ms: int
    after: str
    upto: str
    spec: str  # the job's spec without hours: what else the rows depend on
    split: str = ""

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> WorkItem:
        return msgspec.json.decode(text, type=cls)


def work_items(spec: JobSpec, *, period_ms: int, cores: int = 2) -> list[WorkItem]:
    """Return the items of a job whose rows are about hours, days or weeks; the running one ends at `as_of_ms`.

    `period_ms` is how long such a period usually is; an hour of UTC in which a day of the zone begins is of two.
    `cores` is how many tasks the cluster runs at a time: few periods are cut into more ranges of groups.
    """
    periods: dict[tuple[str, int], list[HourFiles]] = {}
    for hour in spec.hours:
        if hour.hour_ms < spec.as_of_ms:
            until_ms = min(spec.to_ms, spec.as_of_ms)
            for start_ms in starts_in_hour(hour.hour_ms, spec.from_ms, until_ms, period_ms, spec.zone):
                periods.setdefault((hour.cluster, start_ms), []).append(hour)
    rest = msgspec.structs.replace(spec, hours=(), clients={}, client_changes={}, filter_samples={}, slos={})
    wanted = -(-TASKS_PER_CORE * cores // max(1, len(periods)))
    items = []
    for (cluster, start_ms), hours in periods.items():
        hours.sort(key=lambda hour: hour.hour_ms)
        end_ms = min(period_end(start_ms, period_ms, spec.zone), spec.as_of_ms)
        with_folds = tuple(
            msgspec.structs.replace(hour, fold=stored_folds.folder_of(spec, hour)) for hour in hours
        )
        ranges = _group_ranges(hours, wanted)
        splits = stored_folds.splits_of(ranges)
        for (after, upto), split in zip(ranges, splits, strict=True):
            own = msgspec.structs.replace(
                rest,
                client_changes=_changes_in(spec, after, upto, start_ms, end_ms),
                filter_samples={
                    group: tuple(one for one in samples if start_ms <= one[0] < end_ms)
                    for group, samples in spec.filter_samples.items()
                    if after < group <= upto
                },
                slos={group: one for group, one in spec.slos.items() if after < group <= upto},
            )
            item = WorkItem(cluster, with_folds, start_ms, end_ms, after, upto, own.to_json(), split)
            items.append(item)
    return items


def _changes_in(
    spec: JobSpec, after: str, upto: str, from_ms: int, to_ms: int
) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the changes of members that an item needs: a month of all groups would travel with each item."""
    found = {}
    for group, changes in spec.client_changes.items():
        if after < group <= upto:
            begin = max(
                (place for place, (since_ms, _) in enumerate(changes) if since_ms <= from_ms), default=0
            )
            found[group] = tuple(change for change in changes[begin:] if change[0] < to_ms)
    return found


def _group_ranges(hours: Sequence[HourFiles], wanted: int) -> list[tuple[str, str]]:
    """Cut the groups into about as many ranges as wanted, of about the same number of series each.

    By the statistics of the first good file.
    """
    for path in (path for hour in hours for path in hour.files if path.endswith(".parquet")):
        try:
            ends = _ends_of(path)
        except UNREADABLE:
            continue
        series = sum(rows for _, rows in ends)
        ranges = max(min(wanted, series // SERIES_MIN), -(-series // SERIES_MAX))
        return _cut(ends, ranges)
    return [("", LAST_NAME)]


def _ends_of(path: str) -> list[tuple[str, int]]:
    file = open_chunk(path)
    try:
        return file.group_ends()
    finally:
        file.close()


def _cut(ends: Sequence[tuple[str, int]], count: int) -> list[tuple[str, str]]:
    ranges: list[tuple[str, str]] = []
    after, seen = "", 0
    share = sum(rows for _, rows in ends) / max(1, count)
    for highest, rows in ends:
        seen += rows
        if seen >= share * (len(ranges) + 1) and highest > after and len(ranges) < count - 1:
            ranges.append((after, highest))
            after = highest
    return [*ranges, (after, LAST_NAME)]


@dataclass(frozen=True, slots=True)
class Window:
    """Whole groups of an item in one hour, or in what of it has passed.

    `is_regular`: its files show every queue in every round, and in the one before.
    """

    from_ms: int
    to_ms: int
    grid: Grid
    is_regular: bool
    dead_letters: dict[str, int]  # group → messages into its %DLQ% topic


class HistoryReader:
    """Read the hours of one work item, groups by groups; `notes` fill up on the way."""

    def __init__(self, item: WorkItem, *, is_compact: bool = False) -> None:
        """`is_compact`: allow compact grids."""
        self.item = item
        self._is_compact = is_compact
        self.spec = JobSpec.from_json(item.spec)
        self.notes: list[Note] = []
        self._hours = {hour.hour_ms: hour for hour in item.hours}
        self._dead_letters_of: dict[int, dict[str, int]] = {}
        self._logs: dict[str, Samples] = {}
        self._files: dict[str, ChunkFile | ChunkBuckets | None] = {}

    def slo_at(self, at_ms: int) -> Callable[[str], int]:
        """Return how long the messages of each group may wait in the hour of a moment."""
        return lambda group: self.spec.promise(group, at_ms).slo_ms

    def blocks(self) -> Iterator[Iterator[Window]]:
        """Yield, for range after range of groups, their hours one after the other, those without a file too."""
        for after, upto in self.ranges():
            yield self._windows(after, upto)
            self.release()

    def _windows(self, after: str, upto: str) -> Iterator[Window]:
        grid: Grid | None = None
        for hour_ms in self.hours():
            window = self.window(hour_ms, grid, after, upto)
            if window is not None:
                grid = window.grid
                yield window

    def hours(self) -> range:
        """Return the hours of the item, those without a file too."""
        return range(min(self._hours), self.item.to_ms, HOUR_MS)

    def window(self, hour_ms: int, before: Grid | None, after: str, upto: str) -> Window | None:
        """Return an hour of the groups in (after, upto]; `before` is the grid of the hour before, if there is one."""
        from_ms, to_ms = self._own_part(hour_ms)
        hour = self._hours.get(hour_ms)
        if before is None and hour:
            before = self._before(hour, after, upto)
        grid, is_regular = self._grid(hour.files if hour else (), before, after, upto, from_ms, to_ms)
        if grid is None:
            return None
        return Window(from_ms, to_ms, grid, is_regular, self._dead_letters(hour) if hour else {})

    def release(self) -> None:
        """Release what was read of a range of groups."""
        for file in self._files.values():
            if file is not None:
                file.release()

    def _own_part(self, hour_ms: int) -> tuple[int, int]:
        """Return the part of an hour that is the item's: a day may begin and end inside of one."""
        return max(hour_ms, self.item.from_ms), min(hour_ms + HOUR_MS, self.item.to_ms)

    def _grid(
        self, paths: Sequence[str], before: Grid | None, after: str, upto: str, from_ms: int, to_ms: int
    ) -> tuple[Grid | None, bool]:
        """Return the grid of groups of (after, upto] in some files, and whether it is regular.

        Mostly one file has all of it.
        """
        parts = list(self._parts(paths, after, upto, from_ms, to_ms))
        if len(parts) == 1 and isinstance(parts[0], pa.Table):
            if before is not None:  # it has the samples before
                parts = [rows_within(parts[0], from_ms, to_ms)]
            grid = decode_grid(parts[0], self.spec.interval_ms, from_ms, to_ms, is_compact=self._is_compact)
            if grid is not None and follows(grid, before):
                return grid, True
        samples = _samples_of(parts, from_ms, to_ms)
        if before is not None:
            samples = carried(samples, before.whole())
        return grid_of(samples, self.spec.interval_ms) if samples.keys else None, False

    def _before(self, hour: HourFiles, after: str, upto: str) -> Grid | None:
        """Return the time before an hour whose files lack the samples before it: logs do, chunks do not.

        Where the item begins inside the hour, the hour's own files have some of that time.
        """
        to_ms, _ = self._own_part(hour.hour_ms)
        paths = hour.older if to_ms == hour.hour_ms else (*hour.older, *hour.files)
        if not paths or not any(path.endswith(".wal") for path in hour.files):
            return None
        parts = self._parts(paths, after, upto, hour.hour_ms - self.spec.lookback_ms, to_ms)
        samples = _samples_of(list(parts), hour.hour_ms - self.spec.lookback_ms, to_ms)
        return grid_of(samples, self.spec.interval_ms) if samples.keys else None

    def ranges(self) -> list[tuple[str, str]]:
        """Return ranges of groups that are read together: row groups of the first good file."""
        for path in (path for hour in self.item.hours for path in hour.files if path.endswith(".parquet")):
            file = self._file(path)
            if file is not None:
                return self.cut(file.group_ends(), sum(path in hour.files for hour in self.item.hours))
        return [(self.item.after, self.item.upto)]

    def cut(self, row_groups: Sequence[tuple[str, int]], rows_each: int) -> list[tuple[str, str]]:
        """Cut the item's groups at ends of row groups, in which a series has `rows_each` rows."""
        item = self.item
        ends, waiting = [item.after], 0
        for end, rows in row_groups:
            if item.after < end < item.upto:
                waiting += rows
                if waiting >= BLOCK_ROWS * rows_each and end > ends[-1]:
                    ends.append(end)
                    waiting = 0
        return list(zip(ends, [*ends[1:], item.upto], strict=True))

    def _parts(
        self, paths: Sequence[str], after: str, upto: str, from_ms: int, to_ms: int
    ) -> Iterator[pa.Table | Samples]:
        """Yield the parts of some files with groups of (after, upto].

        Rows of chunks, samples of logs, nothing of an unreadable file.
        """
        for path in paths:
            if PurePosixPath(path).suffix == ".wal":
                yield self._log(path).select(lambda key: after < key.group <= upto)
                continue
            file = self._file(path)
            if file is not None:
                try:
                    yield file.rows(after, upto, from_ms, to_ms)
                except UNREADABLE as error:
                    self._give_up(path, error)

    def _file(self, path: str) -> ChunkFile | ChunkBuckets | None:
        """Return a chunk, or the buckets of a day, opened once; None for an unreadable one."""
        if path not in self._files:
            try:
                self._files[path] = open_chunk(
                    path, keeps=sum(path in hour.files for hour in self.item.hours) > 1
                )
            except UNREADABLE as error:
                self._give_up(path, error)
        return self._files.get(path)

    def _log(self, path: str) -> Samples:
        """Return a log segment, read once: its frames up to the first broken one."""
        if path not in self._logs:
            self._logs[path] = from_snapshots([])
            try:
                data = files.read(path)
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
        """Return how many messages came into each group's dead-letter topic; its queues are heads, without a group."""
        if hour.hour_ms not in self._dead_letters_of:
            self._dead_letters_of[hour.hour_ms] = self._read_dead_letters(hour)
        return self._dead_letters_of[hour.hour_ms]

    def _read_dead_letters(self, hour: HourFiles) -> dict[str, int]:
        from_ms, to_ms = self._own_part(hour.hour_ms)
        parts = []
        for path in hour.files:
            if PurePosixPath(path).suffix == ".wal":
                parts.append(self._log(path).select(_is_dead_letter))
            else:
                parts.append(self._dead_letter_part(path, from_ms, to_ms))
        grid = grid_of(chunk.merge(parts).window(from_ms, to_ms), self.spec.interval_ms)
        produced = rounds_of(grid).produced.sum(axis=1).tolist()
        found: dict[str, int] = {}
        for key, count in zip(grid.keys, produced, strict=True):
            group = key.topic.removeprefix(DEAD_LETTER_TOPIC_PREFIX)
            found[group] = found.get(group, 0) + count
        return found

    def _dead_letter_part(self, path: str, from_ms: int, to_ms: int) -> Samples:
        file = self._file(path)
        if file is not None:
            try:
                rows = file.heads(DEAD_LETTER_TOPIC_PREFIX, from_ms, to_ms)
                return chunk.decode_table(rows)
            except UNREADABLE as error:
                self._give_up(path, error)
        return empty_samples()

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            if file is not None:
                file.close()


def _samples_of(parts: Sequence[pa.Table | Samples], from_ms: int, to_ms: int) -> Samples:
    own = [chunk.decode_table(part) if isinstance(part, pa.Table) else part for part in parts]
    return chunk.merge(own).window(from_ms, to_ms)


def _is_dead_letter(key: SeriesKey) -> bool:
    return not key.group and key.topic.startswith(DEAD_LETTER_TOPIC_PREFIX)
