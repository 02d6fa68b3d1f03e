"""Read a day of history in several files as if it were one: each is complete for some of the groups."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark.lag.history import buckets
from spark.sources.chunk_file import ChunkFile


class ChunkBuckets:
    """The buckets of a day, in the order of their groups. Raises as `ChunkFile` does: a day lacks no part silently."""

    def __init__(self, path: str, *, keeps: bool = False) -> None:
        """`path` stands for all of them, see `spark.lag.history.buckets`; `keeps` as of a `ChunkFile`."""
        self.path = path
        self._files: list[ChunkFile] = []
        try:
            for one in buckets.split_path(path):
                self._files.append(ChunkFile(one, keeps=keeps))
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        for file in self._files:
            file.close()

    def release(self) -> None:
        """Release the kept row groups."""
        for file in self._files:
            file.release()

    def is_whole_in(self, from_ms: int, to_ms: int) -> bool:
        """Return whether `rows` returns all that the files hold of some groups."""
        return all(file.is_whole_in(from_ms, to_ms) for file in self._files)

    def group_ends(self) -> list[tuple[str, int]]:
        """Return (last group, rows) of each row group that holds groups, in order."""
        return [end for file in self._files for end in file.group_ends()]

    def rows(
        self,
        after: str,
        upto: str,
        from_ms: int,
        to_ms: int,
        columns: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return rows as a `ChunkFile` does: a file without groups of (after, upto] is not read."""
        found = [file.rows(after, upto, from_ms, to_ms, columns, groups) for file in self._files]
        return _joined(found)

    def heads(self, topic_prefix: str, from_ms: int, to_ms: int) -> pa.Table:
        """Return rows of queues without a group, of the topics with a prefix."""
        return _joined([file.heads(topic_prefix, from_ms, to_ms) for file in self._files])


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    found = [table for table in tables if table.num_rows]
    if not found:
        return tables[0]
    return found[0] if len(found) == 1 else pa.concat_tables(found)


def open_chunk(path: str, *, keeps: bool = False) -> ChunkFile | ChunkBuckets:
    """Open a chunk file, or all buckets of a day."""
    is_file = buckets.split_path(path) == [path]
    return ChunkFile(path, keeps=keeps) if is_file else ChunkBuckets(path, keeps=keeps)
