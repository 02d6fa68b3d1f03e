"""Read rows of some groups and some time from a chunk file, by the statistics of its row groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.lag.history import chunk
from spark.lag.local_time import HOUR_MS

LAST_NAME = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """The statistics of a row group; without them it may hold anything."""

    number: int
    rows: int
    group: tuple[str, str]
    topic: tuple[str, str]
    t0_ms: tuple[int, int]


class ChunkFile:
    """Opened once and read range by range: the footer of a large file takes longer to read than a row group.

    Raises pa.ArrowException or OSError, on opening as on reading. What may be null may be missing: an earlier version
    of this program had no such column.
    """

    def __init__(self, path: str, *, keeps: bool = False) -> None:
        """`keeps`: the row groups whose columns were all read last stay in memory for later reads."""
        self.path = path
        self._file = chunk.opened(path)
        try:
            self._parquet = pq.ParquetFile(self._file, read_dictionary=["dt_ms"])
            chunk.check_columns(self._parquet.metadata)
        except Exception:
            self._file.close()
            raise
        self.row_groups = self._statistics()
        self._keeps = keeps
        self._kept: tuple[frozenset[int], pa.Table] | None = None
        self._whole: tuple[str, str, pa.Table] | None = None  # all rows of the groups in (after, upto]
        begins = [one.t0_ms for one in self.row_groups]
        self._t0_ms = min((low for low, _ in begins), default=0), max((high for _, high in begins), default=0)

    def is_whole_in(self, from_ms: int, to_ms: int) -> bool:
        """Return whether `rows` returns all that the file holds of some groups."""
        return from_ms - HOUR_MS <= self._t0_ms[0] and self._t0_ms[1] < to_ms

    def close(self) -> None:
        self._parquet.close()
        self._file.close()

    def group_ends(self) -> list[tuple[str, int]]:
        """Return (last group, rows) of each row group that holds groups, in order."""
        return [(one.group[1], one.rows) for one in self.row_groups if one.group[1]]

    def rows(
        self,
        after: str,
        upto: str,
        from_ms: int,
        to_ms: int,
        columns: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return rows of the groups in (after, upto] that may hold samples of [from_ms, to_ms).

        With `groups`, only row groups with one of them are read.
        """
        lowest_ms = from_ms - HOUR_MS  # a row spans an hour at most
        is_whole = self.is_whole_in(from_ms, to_ms)
        if is_whole and self._whole is not None and self._whole[:2] == (after, upto):
            return self._whole[2] if columns is None else self._whole[2].select(columns)
        numbers = [
            one.number
            for one in self.row_groups
            if one.group[1] > after
            and one.group[0] <= upto
            and one.t0_ms[1] >= lowest_ms
            and one.t0_ms[0] < to_ms
            and (groups is None or any(one.group[0] <= group <= one.group[1] for group in groups))
        ]
        table = self._read(numbers, columns)
        group, t0_ms = table["group"], table["t0_ms"]
        wanted = pc.and_(pc.greater(group, after), pc.less_equal(group, upto))
        in_time = pc.and_(pc.greater_equal(t0_ms, lowest_ms), pc.less(t0_ms, to_ms))
        kept = pc.and_(wanted, in_time)
        found = table if pc.all(kept).as_py() else table.filter(kept)
        if self._keeps and is_whole and columns is None:
            found = found.combine_chunks()
            self._kept, self._whole = None, (after, upto, found)
        return found

    def heads(self, topic_prefix: str, from_ms: int, to_ms: int) -> pa.Table:
        """Return rows of queues without a group, of the topics with a prefix."""
        last = topic_prefix + LAST_NAME
        numbers = [
            one.number
            for one in self.row_groups
            if not one.group[0]
            and (one.group[1] or (one.topic[1] >= topic_prefix and one.topic[0] <= last))
            and one.t0_ms[0] < to_ms
            and one.t0_ms[1] >= from_ms - HOUR_MS
        ]
        table = self._read(numbers, None)
        own = pc.and_(pc.equal(table["group"], ""), pc.starts_with(table["topic"], topic_prefix))
        return table.filter(own)

    def _read(self, numbers: list[int], columns: Sequence[str] | None) -> pa.Table:
        names = list(columns or chunk.CHUNK_SCHEMA.names)
        schema = pa.schema([chunk.CHUNK_SCHEMA.field(name) for name in names])
        if not numbers:
            return schema.empty_table()
        if self._kept is not None and self._kept[0].issuperset(numbers):
            return self._kept[1].select(names)
        table = chunk.completed(
            self._parquet.read_row_groups(numbers, columns=names, use_threads=False), names
        )
        if self._keeps and columns is None:
            # it is filtered hour by hour, and that takes time for each chunk
            table = table.combine_chunks()
            self._kept = frozenset(numbers), table
        return table

    def release(self) -> None:
        """Release the kept row groups."""
        self._kept = self._whole = None

    def _statistics(self) -> list[_RowGroup]:
        metadata = self._parquet.metadata
        if not metadata.num_row_groups:
            return []
        first = metadata.row_group(0)
        place = {first.column(i).path_in_schema: i for i in range(metadata.num_columns)}
        found = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)

            def ends(
                name: str, lowest: object, highest: object, group: object = group
            ) -> tuple[object, object]:
                statistics = group.column(place[name]).statistics  # type: ignore[attr-defined]
                if statistics is None or not statistics.has_min_max:
                    return lowest, highest
                return statistics.min, statistics.max

            found.append(
                _RowGroup(
                    number,
                    group.num_rows,
                    ends("group", "", LAST_NAME),  # type: ignore[arg-type]
                    ends("topic", "", LAST_NAME),  # type: ignore[arg-type]
                    ends("t0_ms", 0, 2**62),  # type: ignore[arg-type]
                )
            )
        return found
