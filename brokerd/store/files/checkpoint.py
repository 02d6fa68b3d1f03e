"""The checkpoint file: how far the log, and what is derived from it, reached the disk.

    0        8        16       24       32       40     448      452      460      468      476     480    484
    +--------+--------+--------+--------+--------+- … --+--------+--------+--------+--------+-------+------+
    | physic | logics | index  | master | confirm| zero | "TMDP" | log    | derived| index  | index | CRC  |
    | time   | time   | time   | offset | offset |      |        | offset | offset | file   | count |      |
    +--------+--------+--------+--------+--------+- … --+--------+--------+--------+--------+-------+------+

The first 40 bytes are RocketMQ's (`StoreCheckpoint.java`, reference store-format §9; times in ms). They also hold
little: records of one millisecond are many, and a clock can be set back. The *durable point* at byte 448 is ours and
counts in bytes of the commit log. A Java broker leaves it alone, but changes the times; the CRC covers both, so a
point that another program made stale is not believed, and the times decide then.

The point may lag behind the disk and never leads: it is written (not synced) after each sync of the log, and synced
once a second with the times. So it is exact after kill -9, and up to a second old after a power failure. That costs
a group commit 3 µs instead of a second sync. What lag costs: damage within that last second is taken for a torn
tail. Whole records after the point are kept all the same.

All of it lies in one sector of 512 bytes, which a disk writes whole or not at all.
"""

from __future__ import annotations

import os
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

TIMES = struct.Struct(">qqqqq")
assert TIMES.size == 40
POINT = struct.Struct(">4sqqqi")
POINT_POSITION = 448
POINT_MAGIC = b"TMDP"
CRC = struct.Struct(">I")
CRC_POSITION = POINT_POSITION + POINT.size
SECTOR_BYTES = 512
assert CRC_POSITION + CRC.size <= SECTOR_BYTES
CHECKPOINT_FILE_BYTES = 4096
SAFETY_MS = 3_000  # StoreCheckpoint.getMinTimestamp


@dataclass(frozen=True, slots=True)
class DurablePoint:
    """What is on the disk for certain. Offsets are starts of records, or the end of the log."""

    log_offset: int = 0  # the log before it
    derived_offset: int = 0  # queue units and index entries of the records before it
    index_file: int = 0  # name of the newest index file at that time as a number, 0 without one
    index_count: int = 0  # and the number its next entry had


class StoreCheckpoint:
    """The times, the durable point and their file."""

    def __init__(self, path: Path) -> None:
        """Read the file if it is there; a shorter or missing one counts as all zero, without a point."""
        self.path = path
        data = path.read_bytes()[:SECTOR_BYTES] if path.exists() else b""
        self.is_present = len(data) >= TIMES.size
        self._sector = bytearray(data.ljust(SECTOR_BYTES, b"\0"))
        (
            self.physic_msg_timestamp_ms,
            self.logics_msg_timestamp_ms,
            self.index_msg_timestamp_ms,
            self.master_flushed_offset,
            self.confirm_offset,
        ) = TIMES.unpack_from(self._sector)
        self.point: DurablePoint | None = read_point(self._sector)
        self._written = self._synced = data
        self._descriptor = -1
        self._lock = threading.Lock()  # held for a pwrite, never for a sync

    @property
    def min_timestamp_ms(self) -> int:
        """Records stored before this are in the durable part of log and consume queues."""
        oldest_ms: int = min(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms)
        return max(0, oldest_ms - SAFETY_MS)

    def log_flushed(self, offset: int, store_timestamp_ms: int) -> None:
        """Record that the log is durable before `offset`. Caller: any thread, after a flush. Raises OSError."""
        with self._lock:
            point = self.point or DurablePoint()
            self.physic_msg_timestamp_ms = store_timestamp_ms
            self.point = DurablePoint(offset, point.derived_offset, point.index_file, point.index_count)
        self.write()

    def derived_flushed(self, offset: int, index_file: int, index_count: int) -> None:
        """Record that queues and index are durable for the records before `offset`; `flush` must follow."""
        with self._lock:
            point = self.point or DurablePoint()
            self.point = DurablePoint(point.log_offset, offset, index_file, index_count)

    def write(self) -> None:
        """Give the numbers to the operating system: kill -9 does not lose them, a power failure may."""
        with self._lock:
            data = self._encode()
            if data == self._written:
                return
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
                if os.fstat(self._descriptor).st_size < CHECKPOINT_FILE_BYTES:
                    os.ftruncate(self._descriptor, CHECKPOINT_FILE_BYTES)
            os.pwrite(self._descriptor, data, 0)
            self._written = data

    def flush(self) -> None:
        """Write and sync the file, if a number changed."""
        self.write()
        written = self._written
        if written != self._synced:
            os.fdatasync(self._descriptor)
            self._synced = written

    def close(self) -> None:
        """Close the file. No other thread may use it any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _encode(self) -> bytes:
        sector = self._sector
        TIMES.pack_into(
            sector,
            0,
            self.physic_msg_timestamp_ms,
            self.logics_msg_timestamp_ms,
            self.index_msg_timestamp_ms,
            self.master_flushed_offset,
            self.confirm_offset,
        )
        point = self.point
        if point is not None:
            POINT.pack_into(
                sector,
                POINT_POSITION,
                POINT_MAGIC,
                point.log_offset,
                point.derived_offset,
                point.index_file,
                point.index_count,
            )
            CRC.pack_into(sector, CRC_POSITION, crc32(sector[:CRC_POSITION]))
        return bytes(sector)


def read_point(sector: bytes | bytearray) -> DurablePoint | None:
    """Return the durable point, unless it is missing, damaged or older than the times next to it."""
    magic, log_offset, derived_offset, index_file, index_count = POINT.unpack_from(sector, POINT_POSITION)
    if magic != POINT_MAGIC or CRC.unpack_from(sector, CRC_POSITION)[0] != crc32(sector[:CRC_POSITION]):
        return None
    return DurablePoint(log_offset, derived_offset, index_file, index_count)
