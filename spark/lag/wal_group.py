"""One group's series out of log segments, without the others: a chart of the last hour looks at 20 queues of 240,000.

The names of a segment say where the group's series stand in it; of every frame only their bits and bytes are looked at.
`spark.lag.wal` describes the format and reads everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import numpy as np

from spark.lag import wal
from spark.lag.snapshot import BoolArray, CommitKey, HeadKey, Int64Array, Snapshot

Key = TypeVar("Key", HeadKey, CommitKey)


@dataclass(frozen=True, slots=True)
class _Names:
    """What the first frame of a segment names, with the numbers of the group's queues and of what it committed."""

    heads: list[HeadKey] = field(default_factory=list)
    commits: int = 0
    head_rows: list[int] = field(default_factory=list)
    commit_rows: list[int] = field(default_factory=list)

    def with_more(self, found: wal.FrameNames, group: str) -> "_Names":
        """Return the names after another frame. Raises WalError when it refers to a queue that is not named."""
        heads = [*self.heads, *found.new_heads]
        own = [(at, head) for at, (name, head) in enumerate(found.new_commits, self.commits) if name == group]
        if any(head >= len(heads) for _, head in own):
            raise wal.WalError("a frame refers to a queue that its segment does not name")
        return _Names(
            heads,
            self.commits + len(found.new_commits),
            [*self.head_rows, *(head for _, head in own)],
            [*self.commit_rows, *(at for at, _ in own)],
        )


@dataclass(slots=True)
class _Own:
    """The group's series of one sort: where they stand in the segment, in order, and their two numbers so far."""

    rows: Int64Array
    first: Int64Array
    second: Int64Array

    @classmethod
    def at(cls, rows: Sequence[int]) -> "_Own":
        count = len(rows)
        return cls(np.array(rows, dtype=np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64))

    def take(self, body: bytes, position: int, count: int) -> tuple[BoolArray, int]:
        """Take what a frame says of these; `count` series are named so far. Return (which it saw, position behind)."""
        width = (count + 7) // 8
        data = np.frombuffer(body, dtype=np.uint8)
        if position + 2 * width >= len(data):
            raise wal.WalError(f"bits of {count} series do not end within the frame")
        rows = self.rows[: int(np.searchsorted(self.rows, count))]
        places, bits = rows >> 3, (rows & 7).astype(np.uint8)
        present = np.zeros(len(self.rows), dtype=np.bool_)
        present[: len(rows)] = (data[position : position + width][places] >> bits) & 1
        changed = data[position + width : position + 2 * width]
        before = np.zeros(width + 1, dtype=np.int64)
        np.cumsum(np.bitwise_count(changed), out=before[1:])
        moved = np.flatnonzero((changed[places] >> bits) & 1)
        lower = (np.left_shift(1, bits[moved].astype(np.int64)) - 1).astype(np.uint8)
        ranks = before[places[moved]] + np.bitwise_count(changed[places[moved]] & lower)
        position += 2 * width
        for numbers in (self.first, self.second):
            deltas, position = _deltas_at(data, position, int(before[-1]), ranks)
            numbers[moved] += deltas
        return present, position


def _deltas_at(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]], position: int, count: int, ranks: Int64Array
) -> tuple[Int64Array, int]:
    """Return some of `count` deltas, and the position behind all of them."""
    if position >= len(data):
        raise wal.WalError(f"{count} numbers do not end within the frame")
    planes = int(data[position])
    end = position + 1 + planes * count
    if planes > 8 or end > len(data):
        raise wal.WalError(f"{planes} byte-planes of {count} numbers do not end within the frame")
    zigzag = np.zeros(len(ranks), dtype=np.uint64)
    for plane in range(planes):
        zigzag |= data[position + 1 + plane * count + ranks].astype(np.uint64) << np.uint64(8 * plane)
    return wal.undo_zigzag(zigzag), end


class GroupReader:
    """Reads segments of one cluster, one after the other; mostly the next one begins with the same names."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._first: tuple[bytes, _Names] = b"", _Names()

    def read(self, data: bytes) -> list[Snapshot]:
        """Return the rounds of a segment with nothing but the group's queues; a torn tail is left out. Raises
        WalError.
        """
        _, _, position = wal.decode_header(data)
        frames = []
        while (frame := wal.whole_frame(data, position)) is not None:
            frames.append(frame)
            position += frame.size
        named = self._named(frames)
        last = named[-1] if named else _Names()
        heads, commits = _Own.at(sorted(set(last.head_rows))), _Own.at(last.commit_rows)
        head_keys = [last.heads[row] for row in heads.rows.tolist()]
        commit_keys = [CommitKey(self._group, *last.heads[row]) for row in last.head_rows]
        snapshots = []
        for frame, names in zip(frames, named, strict=True):
            body = wal.decompressed(frame.body)
            head, position = wal.frame_head(body)
            seen_heads, position = heads.take(body, position, len(names.heads))
            seen_commits, position = commits.take(body, position, names.commits)
            if position != len(body):
                raise wal.WalError(f"frame {head.number} has {len(body) - position} bytes too many")
            if frame.magic == wal.FRAME_MAGIC:
                snapshots.append(
                    Snapshot(
                        frame.ts_ms,
                        head.number,
                        head.brokers,
                        _kept(head_keys, seen_heads),
                        heads.first[seen_heads],
                        heads.second[seen_heads],
                        _kept(commit_keys, seen_commits),
                        commits.first[seen_commits],
                        commits.second[seen_commits],
                    )
                )
        return snapshots

    def _named(self, frames: Sequence[wal.Frame]) -> list[_Names]:
        """Return what is named after each frame."""
        found, names = [], _Names()
        for number, frame in enumerate(frames):
            if number == 0 and frame.names and frame.names == self._first[0]:
                names = self._first[1]
            elif frame.names:
                more = msgspec.json.decode(wal.decompressed(frame.names), type=wal.FrameNames)
                names = names.with_more(more, self._group)
                if number == 0:
                    self._first = frame.names, names
            found.append(names)
        return found


def _kept(keys: list[Key], seen: BoolArray) -> list[Key]:
    return keys if seen.all() else [keys[at] for at in np.flatnonzero(seen).tolist()]
