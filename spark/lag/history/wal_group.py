"""One group's series out of log segments, without the others: a chart of the last hour looks at 20 queues of 240,000.

The names of a segment give the places of the group's series; of every frame only their bits and bytes are read.
`spark.lag.history.wal` describes the format and reads everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import numpy as np

from spark.lag.codes import ByteArray
from spark.lag.history import wal
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
    """The group's series of one sort: where they stand in the segment, in order, and their numbers so far."""

    rows: Int64Array
    numbers: dict[str, Int64Array] = field(default_factory=dict)

    def take(
        self, body: bytes, position: int, count: int, names: Sequence[str]
    ) -> tuple[BoolArray, dict[str, Int64Array], int]:
        """Read these series from a frame; return (which are in the round, their columns, position behind).

        `count` series are named so far.
        """
        width = (count + 7) // 8
        if position + width > len(body):
            raise wal.WalError(f"bits of {count} series do not end within the frame")
        rows = self.rows[: int(np.searchsorted(self.rows, count))]
        places, bits = rows >> 3, (rows & 7).astype(np.uint8)
        octets = np.frombuffer(body, dtype=np.uint8, count=width, offset=position)
        present = np.zeros(len(self.rows), dtype=np.bool_)
        present[: len(rows)] = (octets[places] >> bits) & 1
        position += width
        found = {}
        for name, column in wal.columns_in(body, position, names):
            position += wal.LENGTH.size + len(column)
            if name in wal.COLUMNS:
                numbers = self.numbers.setdefault(name, np.zeros(len(self.rows), dtype=np.int64))
                if column:
                    moved, deltas = _changes(column, width, places, bits)
                    numbers[moved] += deltas
                found[name] = numbers[present]
        return present, found, position


def _changes(column: bytes, width: int, places: Int64Array, bits: ByteArray) -> tuple[Int64Array, Int64Array]:
    """Return which of some series a column changes, and by how much."""
    if len(column) < width:
        raise wal.WalError("bits of a column do not end with it")
    data = np.frombuffer(column, dtype=np.uint8)
    changed = data[:width]
    before = np.zeros(width + 1, dtype=np.int64)
    np.cumsum(np.bitwise_count(changed), out=before[1:])
    moved = np.flatnonzero((changed[places] >> bits) & 1)
    lower = (np.left_shift(1, bits[moved].astype(np.int64)) - 1).astype(np.uint8)
    ranks = before[places[moved]] + np.bitwise_count(changed[places[moved]] & lower)
    count = int(before[-1])
    zigzag = np.zeros(len(ranks), dtype=np.uint64)
    for plane in range(wal.planes_of(column, width, count)):
        zigzag |= data[width + 1 + plane * count + ranks].astype(np.uint64) << np.uint64(8 * plane)
    return moved, wal.undo_zigzag(zigzag)


class GroupReader:
    """Read segments of one cluster, one after the other; mostly the next one begins with the same names."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._first: tuple[bytes, _Names] = b"", _Names()
        self.before: Snapshot | None = None  # the round before the segment read last, where that has it

    def read(self, data: bytes) -> list[Snapshot]:
        """Return a segment's rounds with only the group's queues, without a torn tail. Raises WalError."""
        _, _, position = wal.decode_header(data)
        self.before = None
        frames = []
        while (frame := wal.whole_frame(data, position)) is not None:
            frames.append(frame)
            position += frame.size
        named = self._named(frames)
        last = named[-1] if named else _Names()
        heads = _Own(np.array(sorted(set(last.head_rows)), dtype=np.int64))
        commits = _Own(np.array(last.commit_rows, dtype=np.int64))
        head_keys = [last.heads[row] for row in heads.rows.tolist()]
        commit_keys = [CommitKey(self._group, *last.heads[row]) for row in last.head_rows]
        snapshots = []
        for frame, names in zip(frames, named, strict=True):
            body = wal.decompressed(frame.body)
            head, position = wal.frame_head(body)
            seen_heads, of_heads, position = heads.take(body, position, len(names.heads), head.head_columns)
            seen, of_commits, position = commits.take(body, position, names.commits, head.commit_columns)
            if position != len(body):
                raise wal.WalError(f"frame {head.number} has {len(body) - position} bytes too many")
            own_heads, own_commits = _kept(head_keys, seen_heads), _kept(commit_keys, seen)
            one = wal.snapshot_from(frame.ts_ms, head, own_heads, of_heads, own_commits, of_commits)
            if frame.magic == wal.FRAME_MAGIC:
                snapshots.append(one)
            else:
                self.before = one
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
