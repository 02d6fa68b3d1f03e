"""Folds of hours beside the reports' rows, from which days and weeks are made without reading a sample again.

    <spec.folds>/cluster=<name>/date=<day>/hour=<hour>/<digest of what it depends on>/<split>-<n>-<count>.parquet

The one rule: a stored fold may be used when its folder is named by the digest of all that the fold depends on (the
hour's file by its checksum, promises, interval, the code that makes folds), the files of one split are all there, and
its rounds go on from those of the hour before (`Edges.follows`). Everything else is folded from samples. No file is
ever changed, no list of them is kept, and all of them may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.job import HourFiles, JobSpec
from spark.lag.folds.stored import Edges, fold_of
from spark.lag.folds.window import Fold
from spark.lag.history import files
from spark.lag.history.chunk_decode import keys_at
from spark.lag.history.chunk_rows import SERIES
from spark.lag.local_time import DAY_MS, HOUR_MS
from spark.lag.samples import SeriesKey

CODE = Path(__file__).parents[1]
KEPT_DAYS = 9  # a week and the day in which it is made
QUEUES, TOPICS = 0, 1  # every other row group, those of the same groups side by side
DEAD_LETTERS = b"dead_letters"
UNREADABLE = (pa.ArrowException, OSError, KeyError, ValueError)


@dataclass(frozen=True, slots=True)
class StoredHour:
    """What was stored of some groups in an hour; `dead_letters` are those of all groups."""

    fold: Fold
    edges: Edges
    dead_letters: dict[str, int]


def folder_of(spec: JobSpec, hour: HourFiles) -> str:
    """Return the folder of an hour's fold; "" if there cannot be one, or the hour is not over."""
    if not (spec.folds and hour.content) or hour.hour_ms + HOUR_MS > spec.as_of_ms:
        return ""
    promises = {group: spec.promise(group, hour.hour_ms).slo_ms for group in sorted(spec.slos)}
    inputs = [code_digest(CODE), hour.content, spec.interval_ms, spec.slo_ms, promises]
    digest = hashlib.sha256(msgspec.json.encode(inputs)).hexdigest()[:32]
    start = datetime.fromtimestamp(hour.hour_ms / 1000, UTC)
    day = f"{spec.folds}/cluster={hour.cluster}/date={start:%Y-%m-%d}"
    return f"{day}/hour={start:%H}/{digest}"


@cache
def code_digest(folder: Path) -> str:
    """Return a digest of all modules in a folder.

    A fold by other code may have other figures or columns; a version raised by hand would be forgotten.
    """
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        source = path.read_bytes()
        found.update(f"{path.relative_to(folder)} {len(source)}\n".encode() + source)
    return found.hexdigest()


def splits_of(ranges: Sequence[tuple[str, str]]) -> list[str]:
    """Return a name for each of the ranges that the groups of an hour are cut into."""
    cut = hashlib.sha256(msgspec.json.encode(ranges)).hexdigest()[:16]
    return [f"{cut}-{number:03}-{len(ranges):03}" for number in range(len(ranges))]


class StoredFolds:
    """The stored folds of some hours, of the groups in (after, upto]: few of the files of an hour stay open."""

    def __init__(self, folders: dict[int, str], after: str, upto: str, split: str) -> None:
        """`folders` by hour; `split` is the name that the work item's own groups would have."""
        self._folders = folders
        self._after, self._upto, self._split = after, upto, split
        self._files: dict[int, list[_File]] = {}
        self._names: dict[int, tuple[pa.Table, Sequence[SeriesKey]]] = {}  # of each level, as read last

    def read(self, hour_ms: int, after: str, upto: str) -> StoredHour | None:
        """Return the fold of the groups in (after, upto]; None: there is none, or it cannot be read."""
        try:
            opened = self._opened(hour_ms)
            if not opened:
                return None
            queues, topics = (_read(opened, after, upto, level) for level in (QUEUES, TOPICS))
            keys = self._keys(QUEUES, queues), self._keys(TOPICS, topics)
            fold, edges = fold_of(queues, topics, keys, hour_ms, hour_ms + HOUR_MS)
            dead_letters = json.loads(opened[0].parquet.metadata.metadata[DEAD_LETTERS])
        except UNREADABLE:
            self._files[hour_ms] = []
            return None
        return StoredHour(fold, edges, dead_letters)

    def group_ends(self) -> list[tuple[str, int]]:
        """Return (last group, rows) of what was stored together in the first hour that has a fold."""
        for hour_ms in self._folders:
            with suppress(*UNREADABLE):
                opened = self._opened(hour_ms)
                if opened:
                    return [end for file in opened for end in file.group_ends()]
        return []

    def _keys(self, level: int, table: pa.Table) -> Sequence[SeriesKey]:
        """Return the keys of some rows: hour after hour they are the same, and take long to make."""
        names = table.select(SERIES)
        if level not in self._names or not self._names[level][0].equals(names):
            self._names[level] = names, keys_at(names, np.arange(names.num_rows))
        return self._names[level][1]

    def close(self) -> None:
        """Close the files."""
        for opened in self._files.values():
            for file in opened:
                file.parquet.close(force=True)

    def _opened(self, hour_ms: int) -> list[_File]:
        if hour_ms not in self._files:
            found = []
            for path in _whole_split(self._folders.get(hour_ms, ""), self._split):
                file = _File.opened(path)
                if file.holds_some_of(self._after, self._upto):
                    found.append(file)
                else:
                    file.parquet.close(force=True)
            self._files[hour_ms] = found
        return self._files[hour_ms]


@dataclass(frozen=True, slots=True)
class _File:
    """An open file with the first and the last group of each row group."""

    parquet: pq.ParquetFile
    ends: list[tuple[str, str]]

    @classmethod
    def opened(cls, path: str) -> _File:
        parquet = pq.ParquetFile(files.opened(path), page_checksum_verification=True)
        column = parquet.schema_arrow.names.index("group")
        groups = (parquet.metadata.row_group(at) for at in range(parquet.num_row_groups))
        found = [group.column(column).statistics for group in groups]
        return cls(parquet, [(one.min, one.max) for one in found])

    def holds_some_of(self, after: str, upto: str) -> bool:
        """Return whether there may be groups of (after, upto]."""
        return any(low <= upto and high > after for low, high in self.ends)

    def group_ends(self) -> list[tuple[str, int]]:
        """Return (last group, queues) of each block."""
        rows = [self.parquet.metadata.row_group(at).num_rows for at in range(len(self.ends))]
        return [(high, count) for (_, high), count in zip(self.ends[QUEUES::2], rows[QUEUES::2], strict=True)]


def _read(opened: Sequence[_File], after: str, upto: str, level: int) -> pa.Table:
    """Return the rows of one level of the groups in (after, upto]."""
    found = []
    for file in opened:
        ends = file.ends
        numbers = [at for at in range(level, len(ends), 2) if ends[at][0] <= upto and ends[at][1] > after]
        if numbers:
            found.append(file.parquet.read_row_groups(numbers, use_threads=False))
    table = pa.concat_tables(found) if found else opened[0].parquet.schema_arrow.empty_table()
    group = table["group"]
    is_own = pc.and_(pc.greater(group, after), pc.less_equal(group, upto))
    return table if pc.all(is_own).as_py() else table.filter(is_own)


def _whole_split(folder: str, own: str) -> list[str]:
    """Return the files of a split of which all are there, as runs may have cut the groups in different ways.

    Of the split that `own` is of, that file has all that is wanted.
    """
    splits: dict[tuple[str, str], list[str]] = {}
    for name in files.names_in(folder) if folder else []:
        stem, is_parquet, _ = name.partition(".parquet")
        if is_parquet and stem.count("-") == 2:
            split, _, count = stem.split("-")
            splits.setdefault((split, count), []).append(stem)
    whole = [stems for (_, count), stems in splits.items() if len(stems) == int(count)]
    found = next(([own] for stems in whole if own in stems), whole[0] if whole else [])
    return [f"{folder}/{stem}.parquet" for stem in found]


def store(url: str, blocks: Sequence[tuple[pa.Table, pa.Table]], dead_letters: dict[str, int]) -> None:
    """Write the fold of an item's groups: the queues and the topics of each block. Raises OSError."""
    names = ("group", "topic", "broker_name")
    schema = blocks[0][QUEUES].schema
    lists = [field.name for field in schema if pa.types.is_list(field.type)]
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]

    def write(sink: IO[bytes]) -> None:
        # a file of 2.5 MB is written in 2,000 pieces
        whole = pa.BufferOutputStream()
        with pq.ParquetWriter(
            whole,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=names,
            use_byte_stream_split=[*numbers, *(f"{name}.list.element" for name in lists)],
            write_statistics=["group"],
            write_page_checksum=True,
        ) as writer:
            for table in chain(*blocks):
                writer.write_table(table, row_group_size=table.num_rows)
            writer.add_key_value_metadata({DEAD_LETTERS.decode(): json.dumps(dead_letters)})
        sink.write(whole.getvalue())

    files.write_new(url, write)


def delete_expired(spec: JobSpec) -> None:
    """Delete the folds of days that no report is about to read. What cannot be deleted is left to a later run."""
    first = f"date={datetime.fromtimestamp((spec.as_of_ms - KEPT_DAYS * DAY_MS) / 1000, UTC):%Y-%m-%d}"
    for cluster in sorted({hour.cluster for hour in spec.hours}) if spec.folds else []:
        folder = f"{spec.folds}/cluster={cluster}"
        with suppress(OSError):
            for day in files.names_in(folder):
                if day < first:
                    files.remove_folder(f"{folder}/{day}")
