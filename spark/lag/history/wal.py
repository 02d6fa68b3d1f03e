"""Encode the write-ahead log of lag history: a segment per cluster and five minutes, a frame per snapshot.

A frame is durable once appended and fsynced; compaction turns the segments of an hour into one Parquet chunk
(`spark.lag.history.chunk`). This module is pure: it turns snapshots into bytes and back, files belong to the caller.

Segment header (little-endian), then the cluster's name in UTF-8, then frames:

      0       8         10             12              20             24
      | magic | version | name length | started_at_ms  | crc32 of all before and the name |
      | 8s    | u16     | u16         | i64            | u32                              |

Frame header, then the payload:

      0       4               8             12      16      24
      | magic | payload bytes | names bytes | crc32 | ts_ms |
      | 4s    | u32           | u32         | u32   | i64   |

`crc32` covers payload bytes, names bytes, ts_ms and the payload. The payload is two zstd-1 frames:

    names    `FrameNames` in JSON, the series that appear for the first time in this segment; names bytes 0: none
    body     u32 length, `FrameHead` in JSON: round number, brokers, names of columns

Then the body has for heads and again for commits:

    present  bit per known series, little bit order: which series are in this round
    columns  each in the order of their names: u32 length, and so many bytes:
             bit per known series: whose number differs from the last time it was in a round
             deltas of those: u8 number of byte-planes, 1 to 8, then so many x (number of changed) bytes of
             zigzag(delta), all lowest bytes first
             length 0: no number differs

A series is known by its order of appearance in its segment, so a segment can be read alone. Naming all of them takes
as long as ten rounds: a segment may begin with a frame that is no round (magic LKEY), the names and numbers of a round
of the segment before. It is written ahead, while no round waits; without it the first round names them. Byte-planes
put what small deltas have in common side by side, and planes of zeros only are left out; zstd then makes less than a
byte of a number that changed. Mostly the next segment begins with the same names: they are compressed once and read
once.

A frame without names of columns has those of `HEAD_COLUMNS` and `COMMIT_COLUMNS`. A later version of this program may
write more: a reader skips unknown columns, and one that a frame lacks is the default of `Snapshot`. The
version in the header names the writer and excludes no reader.

Behind the last frame there may be zeros, room for frames to come (`history.log`). A frame cut by a crash ends
the segment: `read_segment` returns what is whole and where it ends, the writer truncates there and goes on. A bad frame
*before* whole ones is damage, not a torn tail; reading stops there too and `damaged` is true.
"""

import struct
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from spark.lag.snapshot import (
    BoolArray,
    BrokerRead,
    CommitKey,
    HeadKey,
    Int64Array,
    Snapshot,
    from_tenths,
    in_tenths,
)

SEGMENT_MS = 5 * 60 * 1000  # what a crash between compaction and upload can cost to read again
SEGMENT_HEADER = struct.Struct("<8sHHq")
FRAME_HEADER = struct.Struct("<4sIIIq")
FRAME_CHECKED = struct.Struct("<IIq")  # the header fields that the checksum covers
CRC = struct.Struct("<I")
LENGTH = struct.Struct("<I")
assert SEGMENT_HEADER.size == 20
assert FRAME_HEADER.size == 24
SEGMENT_MAGIC = b"TMLAGLOG"
FRAME_MAGIC = b"LFRM"
KEY_MAGIC = b"LKEY"
VERSION = 1
HEADER_BYTES_MAX = SEGMENT_HEADER.size + 2**16 + CRC.size
PART_BYTES_MAX = 256 * 1024 * 1024  # 1,000,000 series at 200 bytes of names or 74 of numbers, with room
ZSTD_LEVEL = 1
# The columns of version 1, what frames have that name none: never changed. A later version adds some behind them.
HEAD_COLUMNS = ("max_offset", "min_offset", "head_status", "oldest_tenths")
COMMIT_COLUMNS = ("committed", "pulled", "time_lag_tenths", "status", "flags")
IN_TENTHS = {"time_lag_tenths": "time_lag_ms", "oldest_tenths": "oldest_ms"}
COLUMNS = frozenset({*HEAD_COLUMNS, *COMMIT_COLUMNS})

Numbers = npt.NDArray[Any]


class WalError(Exception):
    """The bytes are not a segment, or a frame does not follow from those before it."""


class CutHeader(WalError):
    """The header is not all there: a crash cut it when the segment began, nothing of it is lost."""


class FrameHead(msgspec.Struct, omit_defaults=True):
    """The JSON head of every frame."""

    number: int
    brokers: list[BrokerRead]
    head_columns: tuple[str, ...] = HEAD_COLUMNS
    commit_columns: tuple[str, ...] = COMMIT_COLUMNS


class FrameNames(msgspec.Struct):
    """Names of series."""

    new_heads: list[HeadKey]
    new_commits: list[tuple[str, int]]  # group, index of the head in this segment


Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Known(Generic[Key]):
    """Series of one sort in order of appearance and their numbers, by column, when they were in a round last."""

    keys: list[Key] = field(default_factory=list)
    index: dict[Key, int] = field(default_factory=dict)
    numbers: dict[str, Numbers] = field(
        default_factory=dict
    )  # the arrays may be a snapshot's: never written to
    # The series of the frame before: mostly those of the next one too. 200,000 keys are looked up in 50 ms.
    last_keys: Sequence[Key] = ()
    last_rows: Int64Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    last_is_all: bool = False  # all known series, in their order

    def renewed(self) -> "_Known[Key]":
        """Return the same names without any numbers."""
        return _Known(self.keys, self.index, {}, self.last_keys, self.last_rows, self.last_is_all)

    def last(self, column: str) -> Numbers:
        """Return the numbers of all series; 0 of those that had none."""
        found = self.numbers.get(column)
        missing = len(self.keys) - (0 if found is None else len(found))
        if found is None or missing:
            grown = np.zeros(missing, dtype=np.int64)
            found = self.numbers[column] = grown if found is None else np.concatenate([found, grown])
        return found

    def rows_of(self, keys: Sequence[Key]) -> Int64Array:
        """Return where known keys stand."""
        if keys is not self.last_keys:
            self.last_rows = np.fromiter((self.index[key] for key in keys), dtype=np.int64, count=len(keys))
            self.last_keys = keys
            in_order = bool(np.all(self.last_rows[1:] == self.last_rows[:-1] + 1))
            self.last_is_all = in_order and len(keys) == len(self.keys)
        return self.last_rows

    def keys_at(self, rows: Int64Array) -> Sequence[Key]:
        """Return the keys of some rows: the very list of the frame before where they are the same."""
        if not np.array_equal(rows, self.last_rows) or not len(self.last_keys):
            self.last_keys = [self.keys[row] for row in rows.tolist()]
            self.last_rows = rows
            self.last_is_all = len(rows) == len(self.keys)
        return self.last_keys

    def add(self, keys: Sequence[Key]) -> None:
        if not keys:
            return
        self.index = dict(self.index)  # another segment may use the same tables
        self.index.update(zip(keys, range(len(self.keys), len(self.keys) + len(keys)), strict=True))
        self.keys = [*self.keys, *keys]
        self.last_is_all = False


@dataclass(slots=True)
class SegmentState:
    """Hold the state of a reader or writer after the frames so far; `position` is the end of the last one."""

    position: int = 0
    heads: _Known[HeadKey] = field(default_factory=_Known)
    commits: _Known[CommitKey] = field(default_factory=_Known)
    older: "SegmentState | None" = None
    names: bytes = b""  # of the first frame as they are written, while no other one brought more
    before: Snapshot | None = None  # the round before the first one, where a frame of names has it

    def successor(self) -> "SegmentState":
        """Return the state of the next segment: it names all series again, mostly the same ones in the same words.

        Naming 240,000 series takes 0.4 s anew and nothing taken over.
        """
        self.older = None
        return SegmentState(older=self)

    def adopt(self, older: "SegmentState") -> None:
        """Take over the names of a segment that began with the same ones, and none of its numbers."""
        self.names = older.names
        self.heads, self.commits = older.heads.renewed(), older.commits.renewed()


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment's whole frames. `state.position` is where they end; bytes after it are torn or `damaged`."""

    cluster: str
    started_at_ms: int
    snapshots: list[Snapshot]
    state: SegmentState
    damaged: bool


def encode_header(cluster: str, started_at_ms: int) -> bytes:
    """Return the first bytes of a segment."""
    name = cluster.encode()
    head = SEGMENT_HEADER.pack(SEGMENT_MAGIC, VERSION, len(name), started_at_ms) + name
    return head + CRC.pack(zlib.crc32(head))


def encode_beginning(state: SegmentState, cluster: str, started_at_ms: int, snapshot: Snapshot) -> bytes:
    """Return the first bytes of a segment that names the series of an earlier round, and advance the state.

    The round itself is not in the segment.
    """
    header = encode_header(cluster, started_at_ms)
    state.position = len(header)
    return header + _encode(KEY_MAGIC, state, replace(snapshot, brokers=()))


def encode_frame(state: SegmentState, snapshot: Snapshot) -> bytes:
    """Return the frame that follows `state` and move the state behind it. The caller appends and fsyncs."""
    return _encode(FRAME_MAGIC, state, snapshot)


def _encode(magic: bytes, state: SegmentState, snapshot: Snapshot) -> bytes:
    names = _new_names(state, snapshot)
    head = msgspec.json.encode(FrameHead(snapshot.number, list(snapshot.brokers)))
    numbers = b"".join(
        [
            *_encode_columns(state.heads, snapshot.head_keys, snapshot, HEAD_COLUMNS),
            *_encode_columns(state.commits, snapshot.commit_keys, snapshot, COMMIT_COLUMNS),
        ]
    )
    payload = names + _compressed(LENGTH.pack(len(head)) + head + numbers)
    checked = FRAME_CHECKED.pack(len(payload), len(names), snapshot.ts_ms)
    crc = zlib.crc32(payload, zlib.crc32(checked))
    frame = FRAME_HEADER.pack(magic, len(payload), len(names), crc, snapshot.ts_ms) + payload
    state.position += len(frame)
    return frame


def _compressed(data: bytes) -> bytes:
    if len(data) > PART_BYTES_MAX:
        raise WalError(f"snapshot of {len(data)} bytes, limit {PART_BYTES_MAX}")
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data)


def decompressed(data: bytes) -> bytes:
    """Return a part of a frame as it was before. Raises WalError."""
    size = zstandard.get_frame_parameters(data).content_size
    if size > PART_BYTES_MAX:
        raise WalError(f"part of a frame of {size} bytes, limit {PART_BYTES_MAX}")
    return zstandard.ZstdDecompressor().decompress(data)


def _new_names(state: SegmentState, snapshot: Snapshot) -> bytes:
    """Return the names that the segment does not have yet, as they are written, and add them to the state."""
    older, state.older = state.older, None
    if older is not None and older.names:
        is_same = (
            snapshot.head_keys is older.heads.last_keys
            and snapshot.commit_keys is older.commits.last_keys
            and len(older.heads.keys) == len(snapshot.head_keys)
            and len(older.commits.keys) == len(snapshot.commit_keys)
        )
        if is_same:
            state.adopt(older)
            return state.names
    new_heads: list[HeadKey] = []
    if snapshot.head_keys is not state.heads.last_keys:
        new_heads = [key for key in snapshot.head_keys if key not in state.heads.index]
        state.heads.add(new_heads)
    new_commits: list[CommitKey] = []
    if snapshot.commit_keys is not state.commits.last_keys:
        new_commits = [key for key in snapshot.commit_keys if key not in state.commits.index]
        state.commits.add(new_commits)
        # a group may have committed to a queue whose max offset was not read
        unread = dict.fromkeys(key.head for key in new_commits if key.head not in state.heads.index)
        state.heads.add(list(unread))
        new_heads += unread
    if not new_heads and not new_commits:
        return b""
    placed = [(key.group, state.heads.index[key.head]) for key in new_commits]
    names = _compressed(msgspec.json.encode(FrameNames(new_heads, placed)))
    is_first = len(new_heads) == len(state.heads.keys) and len(new_commits) == len(state.commits.keys)
    state.names = names if is_first else b""
    return names


def read_segment(data: bytes, before: SegmentState | None = None) -> Segment:
    """Decode a whole segment; a torn tail is left out.

    `before` is the state behind the segment before, if that was read: its names are taken over where they are
    the same.

    Raises WalError when the header is not one of ours (a header cut short by a crash too: such a file holds
    nothing).
    """
    cluster, started_at_ms, position = decode_header(data)
    state = SegmentState(position=position, older=before)
    snapshots = read_frames(data, state)
    damaged = data.find(FRAME_MAGIC, state.position + 1) != -1
    return Segment(cluster, started_at_ms, snapshots, state, damaged)


def decode_header(data: bytes) -> tuple[str, int, int]:
    """Return (cluster, started_at_ms, position of the first frame). Raises WalError."""
    if len(data) < SEGMENT_HEADER.size:
        raise CutHeader(f"segment of {len(data)} bytes has no header")
    magic, _, name_length, started_at_ms = SEGMENT_HEADER.unpack_from(data)
    end = SEGMENT_HEADER.size + name_length
    if magic != SEGMENT_MAGIC:
        raise WalError(f"not a lag history segment: starts with {data[:8]!r}")
    if len(data) < end + CRC.size:
        raise CutHeader(f"segment of {len(data)} bytes has no whole header")
    if CRC.unpack_from(data, end)[0] != zlib.crc32(data[:end]):
        raise WalError("segment header is damaged")
    return data[SEGMENT_HEADER.size : end].decode(), started_at_ms, end + CRC.size


def read_frames(data: bytes, state: SegmentState, base: int = 0) -> list[Snapshot]:
    """Decode the whole frames from `state.position` on and move the state behind them.

    `data` holds the segment from byte `base`, so that a reader who has seen the beginning reads only what was
    appended.
    """
    snapshots: list[Snapshot] = []
    while (frame := whole_frame(data, state.position - base)) is not None:
        _learn_names(state, frame.names)
        snapshot = _decode_body(state, frame.ts_ms, decompressed(frame.body))
        if frame.magic == FRAME_MAGIC:
            snapshots.append(snapshot)
        else:
            state.before = snapshot
        state.position += frame.size
    return snapshots


class Frame(NamedTuple):
    """A whole frame as it lies in a segment: its two parts are still compressed, `size` is that of all of it."""

    magic: bytes
    ts_ms: int
    names: bytes
    body: bytes
    size: int


def whole_frame(data: bytes, position: int) -> Frame | None:
    """Return the frame at `position`; None: it is torn, damaged or absent."""
    if position + FRAME_HEADER.size > len(data):
        return None
    magic, payload_bytes, names_bytes, crc, ts_ms = FRAME_HEADER.unpack_from(data, position)
    start = position + FRAME_HEADER.size
    if magic not in (FRAME_MAGIC, KEY_MAGIC) or start + payload_bytes > len(data):
        return None
    payload = data[start : start + payload_bytes]
    if zlib.crc32(payload, zlib.crc32(FRAME_CHECKED.pack(payload_bytes, names_bytes, ts_ms))) != crc:
        return None
    return Frame(
        magic, ts_ms, payload[:names_bytes], payload[names_bytes:], FRAME_HEADER.size + payload_bytes
    )


def _learn_names(state: SegmentState, names: bytes) -> None:
    """Add the names of a frame. Raises WalError when they refer to a queue that the segment does not name."""
    older, state.older = state.older, None
    if not names:
        return
    if older is not None and names == older.names:
        state.adopt(older)
        return
    is_first = not state.heads.keys and not state.commits.keys
    found = msgspec.json.decode(decompressed(names), type=FrameNames)
    state.heads.add(found.new_heads)
    highest = max(found.new_commits, key=itemgetter(1), default=("", -1))
    if highest[1] >= len(state.heads.keys):
        raise WalError("a frame refers to a queue that its segment does not name")
    state.commits.add([CommitKey(group, *state.heads.keys[head]) for group, head in found.new_commits])
    state.names = names if is_first else b""


def _decode_body(state: SegmentState, ts_ms: int, body: bytes) -> Snapshot:
    """Return the snapshot of a checked body."""
    head, position = frame_head(body)
    head_keys, heads, position = _decode_columns(state.heads, body, position, head.head_columns)
    commit_keys, commits, position = _decode_columns(state.commits, body, position, head.commit_columns)
    if position != len(body):
        raise WalError(f"frame {head.number} has {len(body) - position} bytes too many")
    return snapshot_from(ts_ms, head, head_keys, heads, commit_keys, commits)


def snapshot_from(
    ts_ms: int,
    head: FrameHead,
    head_keys: Sequence[HeadKey],
    heads: Mapping[str, Int64Array],
    commit_keys: Sequence[CommitKey],
    commits: Mapping[str, Int64Array],
) -> Snapshot:
    """Return a round from the columns of a frame. Raises WalError when it has no offsets."""
    try:
        columns: dict[str, Any] = {**heads, **commits}
        for tenths, name in IN_TENTHS.items():
            if tenths in columns:
                columns[name] = from_tenths(columns.pop(tenths))
        for name in ("head_status", "status", "flags"):
            if name in columns:
                columns[name] = columns[name].astype(np.uint8)
        return Snapshot(
            ts_ms, head.number, head.brokers, head_keys=head_keys, commit_keys=commit_keys, **columns
        )
    except (TypeError, AssertionError) as error:
        raise WalError(f"frame {head.number} lacks offsets") from error


def frame_head(body: bytes) -> tuple[FrameHead, int]:
    """Return the JSON head of a frame, and where its numbers begin."""
    (length,) = LENGTH.unpack_from(body)
    position = LENGTH.size + length
    return msgspec.json.decode(body[LENGTH.size : position], type=FrameHead), position


def _column(snapshot: Snapshot, name: str) -> Numbers:
    """Return a column as frames have it."""
    if name in IN_TENTHS:
        return in_tenths(getattr(snapshot, IN_TENTHS[name]))
    found: Numbers = getattr(snapshot, name)
    return found


def _encode_columns(
    known: _Known[Key], keys: Sequence[Key], snapshot: Snapshot, names: Sequence[str]
) -> Iterator[bytes]:
    """Yield present bits and columns; remember the numbers in `known`."""
    rows = known.rows_of(keys)
    present = np.zeros(len(known.keys), dtype=np.bool_)
    present[rows] = True
    yield _encode_bits(present)
    for name in names:
        before, now = known.last(name), _column(snapshot, name)
        if not known.last_is_all:
            own, now = now, before.astype(np.int64)
            now[rows] = own
        known.numbers[name] = now
        changed = now != before
        moved = np.flatnonzero(changed)  # taking by number is 3 times as fast as by mask
        column = b""
        if len(moved):
            deltas = now.take(moved).astype(np.int64) - before.take(moved).astype(np.int64)
            column = _encode_bits(changed) + _encode_deltas(deltas)
        yield LENGTH.pack(len(column))
        yield column


def _decode_columns(
    known: _Known[Key], body: bytes, position: int, names: Sequence[str]
) -> tuple[Sequence[Key], dict[str, Int64Array], int]:
    """Return (keys in the round, their columns as far as they are known, position behind)."""
    count = len(known.keys)
    width = (count + 7) // 8
    rows = np.flatnonzero(_decode_bits(body, position, count))
    position += width
    keys = known.keys_at(rows)
    found = {}
    for name, data in columns_in(body, position, names):
        position += LENGTH.size + len(data)
        if name not in COLUMNS:
            continue  # of a later version
        numbers = known.last(name)
        if data:
            moved = np.flatnonzero(_decode_bits(data, 0, count))
            numbers = known.numbers[name] = numbers.astype(np.int64)
            numbers[moved] += _decode_deltas(data, width, len(moved))
        found[name] = numbers[rows]
    return keys, found, position


def columns_in(body: bytes, position: int, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the columns at a position of a body as they were encoded. Raises WalError when they are not all there."""
    for name in names:
        end = position + LENGTH.size
        if end > len(body):
            raise WalError(f"column {name} does not begin within the frame")
        position, end = end, end + LENGTH.unpack_from(body, position)[0]
        if end > len(body):
            raise WalError(f"column {name} does not end within the frame")
        yield name, body[position:end]
        position = end


def _encode_bits(bits: BoolArray) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes()


def _decode_bits(data: bytes, position: int, count: int) -> BoolArray:
    width = (count + 7) // 8
    if position + width > len(data):
        raise WalError(f"bits of {count} series do not end within the frame")
    octets = np.frombuffer(data, dtype=np.uint8, count=width, offset=position)
    return np.unpackbits(octets, count=count, bitorder="little").astype(np.bool_)


def _encode_deltas(deltas: Int64Array) -> bytes:
    zigzag = ((deltas << 1) ^ (deltas >> 63)).view(np.uint64)  # small negative numbers get small codes too
    planes = -(-int(zigzag.max(initial=0)).bit_length() // 8)
    return bytes([planes]) + b"".join(
        [(zigzag >> np.uint64(8 * plane)).astype(np.uint8).tobytes() for plane in range(planes)]
    )


def _decode_deltas(column: bytes, position: int, count: int) -> Int64Array:
    """Return the deltas behind the bits of a column. Raises WalError when they are not all there."""
    planes = planes_of(column, position, count)
    zigzag = np.zeros(count, dtype=np.uint64)
    for plane in range(planes):
        start = position + 1 + plane * count
        own = np.frombuffer(column, dtype=np.uint8, count=count, offset=start)
        zigzag |= own.astype(np.uint64) << np.uint64(8 * plane)
    return undo_zigzag(zigzag)


def planes_of(column: bytes, position: int, count: int) -> int:
    """Return how many byte-planes of so many deltas follow. Raises WalError when the column ends elsewhere."""
    planes = column[position] if position < len(column) else 0
    if not 0 < planes <= 8 or position + 1 + planes * count != len(column):
        raise WalError(f"{planes} byte-planes of {count} numbers do not end with their column")
    return planes


def undo_zigzag(zigzag: npt.NDArray[np.uint64]) -> Int64Array:
    """Return the numbers that zigzag codes stand for."""
    half = (zigzag >> np.uint64(1)).astype(np.int64)
    sign = -(zigzag & np.uint64(1)).astype(np.int64)
    decoded: Int64Array = half ^ sign
    return decoded
