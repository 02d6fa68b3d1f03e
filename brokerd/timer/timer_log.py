"""The timer log: one unit for each message that waits, in the order they came; those of a slot form a chain backwards.

    0      4             12      16            24           28             36        40       44          52
    +------+-------------+-------+-------------+------------+--------------+---------+--------+-----------+
    | size | previous of | magic | time when   | slot time  | commit log   | record  | hash   | ours:     |
    | (52) | the slot    |       | it came, ms | minus that | offset       | size    | of the | delivered |
    |      | (-1: none)  |       |             |            |              |         | topic  | as        |
    +------+-------------+-------+-------------+------------+--------------+---------+--------+-----------+

Source: store-format §11.2 (`TimerLog.java`). Java writes 0 in the last field and never reads it. Here it is one more
than the commit log offset that the delivered copy was to get, noted before the copy is put: with the log it shows
after a kill which messages of a slot were delivered. Written with calls of the system, not through a map: a full disk
is an error then and no signal, and no page of it counts as this process's memory.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from brokerd.store.files.mapped_file import clear_range, fsync_directory

UNIT = struct.Struct(">iqiqiqiIq")
UNIT_BYTES = 52
assert UNIT.size == UNIT_BYTES
BLANK = struct.Struct(">iqI")
BLANK_MAGIC = 0xCBD43194
DELIVERED_AT = 44  # of the field in a unit
LONG = struct.Struct(">q")
MAGIC_DEFAULT, MAGIC_ROLL, MAGIC_DELETE, MAGIC_MAX = 1, 2, 4, 0xF
NONE = -1
BLOCK_UNITS = 1_260  # 64 KiB at once: a chain runs through neighbours mostly
BLOCK_BYTES = BLOCK_UNITS * UNIT_BYTES
ZERO_UNIT = bytes(UNIT_BYTES)
NAME_DIGITS = 20


class TimerUnit(NamedTuple):
    """One message in a slot: a tuple, as one is made per message."""

    previous: int
    magic: int
    enqueue_ms: int
    slot_ms: int
    commit_log_offset: int
    size_bytes: int
    topic_hash: int
    delivered_as: int = 0

    @property
    def is_rolled(self) -> bool:
        """Whether it is too far for the wheel: at its slot it comes into the timer topic once more."""
        return bool(self.magic & MAGIC_ROLL)

    @property
    def is_delete(self) -> bool:
        return bool(self.magic & MAGIC_DELETE) and not self.is_rolled

    def encode(self) -> bytes:
        return UNIT.pack(
            UNIT_BYTES, self.previous, self.magic, self.enqueue_ms, self.slot_ms - self.enqueue_ms,
            self.commit_log_offset, self.size_bytes, self.topic_hash, self.delivered_as,
        )  # fmt: skip


def decode_unit(data: bytes, position: int = 0) -> TimerUnit | None:
    """Return the unit at a position; None where none was written."""
    if position + UNIT_BYTES > len(data):
        return None
    fields = UNIT.unpack_from(data, position)
    size, previous, magic, enqueue_ms, delay_ms = fields[:5]
    if size != UNIT_BYTES or not 0 < magic <= MAGIC_MAX:
        return None
    return TimerUnit(previous, magic, enqueue_ms, enqueue_ms + delay_ms, *fields[5:])


class TimerLog:
    """Files of one size in a folder, named by the position of their first byte. Raises OSError.

    Single-threaded but for `sync`.
    """

    def __init__(self, folder: Path, file_size_bytes: int) -> None:
        self._folder = folder
        self.file_size_bytes = file_size_bytes
        self._files: dict[int, int] = {}  # start → file descriptor, ascending
        self.end = 0  # where the next unit goes

    @property
    def start(self) -> int:
        return next(iter(self._files), 0)

    @property
    def has_files(self) -> bool:
        return bool(self._files)

    @property
    def units_bytes(self) -> int:
        """Of a full file, before its blank end."""
        return (self.file_size_bytes - BLANK.size) // UNIT_BYTES * UNIT_BYTES

    def open(self) -> None:
        """Find the files; recovery then says where the end is.

        A kill between making a file and giving it its size leaves an empty one: it gets its size here.
        """
        names = sorted(int(path.name) for path in self._folder.glob("[0-9]*") if path.name.isdecimal())
        for start in names:
            self._files[start] = os.open(self._path(start), os.O_RDWR)
        if self._files:
            # Positions depend on the size that the first one has, whatever the settings say now.
            self.file_size_bytes = os.fstat(self._files[names[0]]).st_size or self.file_size_bytes
        for descriptor in self._files.values():
            if os.fstat(descriptor).st_size < self.file_size_bytes:
                os.ftruncate(descriptor, self.file_size_bytes)
        self.end = self.start

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:0{NAME_DIGITS}d}"

    def position_for(self, position: int) -> int:
        """Return where a unit goes that would begin at a position: at a file's end in the next one."""
        left = self.file_size_bytes - position % self.file_size_bytes
        return position + left if left < UNIT_BYTES + BLANK.size else position

    def append(self, units: list[bytes]) -> None:
        """Write units; their positions are those of `position_for`, one after the other from `end`."""
        position, run_start, run = self.end, self.end, bytearray()
        for unit in units:
            place = self.position_for(position)
            if place != position:
                blank = BLANK.pack(place - position, 0, BLANK_MAGIC)
                self._write(run_start, bytes(run) + blank)
                run_start, run = place, bytearray()
            run += unit
            position = place + UNIT_BYTES
        self._write(run_start, bytes(run))
        self.end = position

    def _write(self, position: int, data: bytes) -> None:
        start = position - position % self.file_size_bytes
        if start not in self._files:
            self._make_file(start)
        os.pwrite(self._files[start], data, position - start)

    def _make_file(self, start: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path(start), os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(descriptor, self.file_size_bytes)
        self._files[start] = descriptor
        fsync_directory(self._folder)

    def unit(self, position: int) -> TimerUnit | None:
        """Return the unit at a position; None where none is."""
        return decode_unit(self._read(position, UNIT_BYTES))

    def chain(self, last: int) -> Iterator[tuple[int, TimerUnit]]:
        """Yield the units of a slot, newest first. Neighbours are read at once."""
        position, block_start, block = last, 0, b""
        while position >= self.start:
            if not block_start <= position <= block_start + len(block) - UNIT_BYTES:
                file_start = position - position % self.file_size_bytes
                block_start = max(file_start, position + UNIT_BYTES - BLOCK_BYTES)
                block = self._read(block_start, position + UNIT_BYTES - block_start)
            unit = decode_unit(block, position - block_start)
            if unit is None:
                return
            yield position, unit
            if unit.previous >= position:
                return  # it would never end
            position = unit.previous

    def _read(self, position: int, length_bytes: int) -> bytes:
        start = position - position % self.file_size_bytes
        descriptor = self._files.get(start)
        return b"" if descriptor is None else os.pread(descriptor, length_bytes, position - start)

    def mark_delivered(self, position: int, copy_offset: int) -> None:
        """Note in a unit where its delivered copy goes."""
        start = position - position % self.file_size_bytes
        os.pwrite(self._files[start], LONG.pack(copy_offset + 1), position - start + DELIVERED_AT)

    def scan(self, position: int) -> Iterator[tuple[int, TimerUnit]]:
        """Yield units from a position on, to the first place where none is."""
        position = max(position, self.start)
        while position - position % self.file_size_bytes in self._files:
            file_end = position - position % self.file_size_bytes + self.file_size_bytes
            while position < file_end:
                data = self._read(position, min(BLOCK_BYTES, file_end - position))
                if not data:
                    return
                for offset in range(0, len(data), UNIT_BYTES):
                    unit = decode_unit(data, offset)
                    if unit is None:
                        if data[offset + 12 : offset + 16] != BLANK_MAGIC.to_bytes(4):
                            return
                        position = file_end
                        break
                    yield position, unit
                    position += UNIT_BYTES

    def cut(self, end: int) -> None:
        """Remove what lies behind the last whole unit, so that no later start takes it for units."""
        self.end = end
        for start in [start for start in self._files if start > end]:
            self._remove(start)
        start = end - end % self.file_size_bytes
        if start in self._files and self._read(end, UNIT_BYTES).strip(b"\0"):
            clear_range(self._files[start], end - start, self.file_size_bytes)

    def _remove(self, start: int) -> None:
        os.close(self._files.pop(start))
        self._path(start).unlink()

    def delete_expired(self, commit_log_min_offset: int) -> int:
        """Remove files whose last message expired; return how many. The last file stays."""
        last_unit = self.units_bytes - UNIT_BYTES
        removed = 0
        for start in list(self._files)[:-1]:
            unit = decode_unit(self._read(start + last_unit, UNIT_BYTES))
            if unit is not None and unit.commit_log_offset >= commit_log_min_offset:
                break
            self._remove(start)
            removed += 1
        return removed

    def sync(self) -> None:
        """Bring the newest files to the disk. Caller: any thread."""
        for descriptor in list(self._files.values())[-2:]:
            os.fdatasync(descriptor)

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
