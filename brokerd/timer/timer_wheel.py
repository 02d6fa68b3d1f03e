"""The timer wheel: for each moment of fourteen days a slot that names the newest unit due then.

Slot, 32 bytes: time in units of the precision, position of the first and of the last unit, how many wait (recalls count
-1), an unused number. A slot is that of a time only when it holds it: each place serves every fourteen days. Source:
store-format §11.2 (`TimerWheel.java`). Written with calls of the system, for the reasons of the timer log.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from brokerd.store.files.mapped_file import reserve_blocks
from brokerd.timer.timer_log import NONE

SLOT = struct.Struct(">qqqii")
SLOT_BYTES = 32
assert SLOT.size == SLOT_BYTES
SLOTS = 2 * 7 * 24 * 3600  # independent of the precision
WHEEL_BYTES = SLOTS * SLOT_BYTES
READ_BYTES = 64 * 1024


class Slot(NamedTuple):
    time: int  # in units of the precision
    first: int
    last: int
    waiting_count: int


EMPTY = Slot(NONE, NONE, NONE, 0)


class TimerWheel:
    """One file, made with the first message that waits. Raises OSError. Single-threaded but for `sync`."""

    def __init__(self, path: Path, precision_ms: int) -> None:
        self._path = path
        self.precision_ms = precision_ms
        self._descriptor: int | None = None

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    def open(self) -> bool:
        """Return whether there is one, of the right size."""
        if not self._path.exists() or self._path.stat().st_size != WHEEL_BYTES:
            return False
        self._descriptor = os.open(self._path, os.O_RDWR)
        return True

    def make(self) -> None:
        """Make an empty one, with all its room on the disk: no slot may fail for want of it later."""
        self.close()
        self._path.unlink(missing_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, WHEEL_BYTES)
            reserve_blocks(descriptor, 0, WHEEL_BYTES)
        except OSError:
            os.close(descriptor)
            self._path.unlink()
            raise
        self._descriptor = descriptor

    def slot(self, time_ms: int) -> Slot:
        """Return the slot of a time; EMPTY when its place holds none or another time's."""
        if self._descriptor is None:
            return EMPTY
        time = time_ms // self.precision_ms
        data = os.pread(self._descriptor, SLOT_BYTES, time % SLOTS * SLOT_BYTES)
        slot = Slot(*SLOT.unpack(data)[:4])
        return slot if slot.time == time else EMPTY

    def first_slot(self, begin_ms: int, end_ms: int) -> Slot | None:
        """Return the first slot in use of a range of times, which may be long: long ones are read in large pieces."""
        time, end = begin_ms // self.precision_ms, end_ms // self.precision_ms
        while self._descriptor is not None and time < end:
            place = time % SLOTS
            count = min(end - time, SLOTS - place, READ_BYTES // SLOT_BYTES)
            data = os.pread(self._descriptor, count * SLOT_BYTES, place * SLOT_BYTES)
            if data.strip(b"\0"):
                for number, fields in enumerate(SLOT.iter_unpack(data), time):
                    if fields[0] == number:
                        return Slot(*fields[:4])
            time += count
        return None

    def put(self, slot: Slot) -> None:
        assert self._descriptor is not None
        os.pwrite(self._descriptor, SLOT.pack(*slot, 0), slot.time % SLOTS * SLOT_BYTES)

    def slots(self) -> Iterator[Slot]:
        """Yield all slots that were ever used. Parts of the file that hold nothing are not read."""
        descriptor, position = self._descriptor, 0
        while descriptor is not None and position < WHEEL_BYTES:
            try:
                position = os.lseek(descriptor, position, os.SEEK_DATA) // SLOT_BYTES * SLOT_BYTES
            except OSError:  # nothing behind
                return
            data = os.pread(descriptor, READ_BYTES, position)
            if data.strip(b"\0"):
                yield from (Slot(*fields[:4]) for fields in SLOT.iter_unpack(data) if fields[0] > 0)
            position += READ_BYTES

    def sync(self) -> None:
        """Bring it to the disk. Caller: any thread."""
        if self._descriptor is not None:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
