"""Consume queue files: 20-byte units that point to a queue's messages in the commit log.

    0                               8                12                              20
    +-------------------------------+----------------+-------------------------------+
    | commit log offset             | record size    | tagsCode                      |
    +-------------------------------+----------------+-------------------------------+

Unit n lies at byte 20·n of the queue's files, so the queue offset of a message is the number of its unit.
Source: `store/.../ConsumeQueue.java`, reference store-format §5. Files hold zeros after the last unit.
"""

from __future__ import annotations

import logging
import struct
import sys
from pathlib import Path

from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.files.mapped_file_queue import MappedFileQueue
from brokerd.store.log.record import encode_topic

logger = logging.getLogger(__name__)

CQ_UNIT = struct.Struct(">qiq")  # commit_log_offset, size_bytes, tags_code
UNIT_BYTES = CQ_UNIT.size
assert UNIT_BYTES == 20
# Fills the offsets a queue never had, because its first message got a higher one ("pre-blank").
BLANK_SIZE = 0x7FFFFFFF
BLANK_UNIT = CQ_UNIT.pack(0, BLANK_SIZE, 0)
# Pages are made ready ahead of the units: as much again as the file holds, so that a small queue stays small.
READY_BYTES_MIN = 204 * UNIT_BYTES  # what fits one page
READY_BYTES_MAX = 16 * READY_BYTES_MIN
FOLDERS_ABOVE = 3  # <root>/consumequeue/<topic>, for <queue id> below


class ConsumeQueue:
    """One queue of one topic. Single writer; `flush` may run in another thread.

    `next_offset` is given to the next message put; `max_offset` counts the units built, which is what
    consumers see. They differ while messages wait for dispatch.
    """

    __slots__ = (
        "_end",
        "_file",
        "_position",
        "files",
        "magic_and_topic",
        "max_offset",
        "max_physic_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
        "topic_hash",
    )

    def __init__(self, topic: str, queue_id: int, directory: Path | str, file_size_bytes: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.magic_and_topic = encode_topic(topic)
        self.topic_hash: int | None = None  # the key index keeps the hash of "topic#" here
        self.files = MappedFileQueue(directory, file_size_bytes, FOLDERS_ABOVE)
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0
        self.max_physic_offset = -1  # after the last record that has a unit
        self._file: MappedFile | None = None
        self._position = 0
        self._end = 0

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic} {self.queue_id}: {self.min_offset}..{self.max_offset}>"

    # Writing

    def append(self, queue_offset: int, commit_log_offset: int, size_bytes: int, tags_code: int) -> bool:
        """Add the unit of a record; False when it is there already (recovery dispatches again). Raises OSError."""
        unit = CQ_UNIT.pack(commit_log_offset, size_bytes, tags_code)
        return self.append_units(queue_offset, unit, commit_log_offset + size_bytes)

    def append_units(self, queue_offset: int, units: bytes, end_offset: int) -> bool:
        """Add the units of records that follow each other up to `end_offset` in the log; False when all are there.

        A first unit above offset 0, or one behind a gap (files lost together with the log that could rebuild
        them), is preceded by blank units: queue offsets in records never change. Raises OSError: then some may be
        there, and adding all again is right.
        """
        if end_offset <= self.max_physic_offset:
            return False
        if queue_offset < self.max_offset:
            units = units[(self.max_offset - queue_offset) * UNIT_BYTES :]
        elif queue_offset > self.max_offset:
            self._fill_blank(queue_offset, CQ_UNIT.unpack_from(units)[0])
        if not units:
            return False
        while units:
            if self._position == self._end:
                self.make_room()
            assert self._file is not None
            position = self._position
            end = min(position + len(units), self._end)
            self._file.map[position:end] = units[: end - position]
            units = units[end - position :]
            self._position = end
            self.max_offset += (end - position) // UNIT_BYTES
            self.max_physic_offset = CQ_UNIT.unpack_from(units)[0] if units else end_offset
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset
        return True

    def begin_at(self, queue_offset: int) -> None:
        """Let the first unit of a queue without units be `queue_offset`, in the file it belongs to. Raises OSError."""
        assert not self.max_offset, self.max_offset
        if queue_offset:
            while self.files.files:
                self.files.delete_first()
            self._file, self._position, self._end = None, 0, 0

    def make_room(self) -> None:
        """Every 204 to 3,264 units: start the next file if need be, and ready its next pages. Raises OSError.

        No page is written that was not made ready: on a full disk it would be a SIGBUS.
        """
        if self._file is None or self._end == self._file.size_bytes:
            start = self.files.end_offset if self.files.files else self._file_start(self.max_offset)
            self._file = self.files.append_file(start)
            self._position = self._end = 0
        length_bytes = min(max(self._position, READY_BYTES_MIN), READY_BYTES_MAX)
        self._file.prefault(self._end, length_bytes)
        self._end = min(self._end + length_bytes, self._file.size_bytes)

    def _file_start(self, queue_offset: int) -> int:
        byte_offset = queue_offset * UNIT_BYTES
        return byte_offset - byte_offset % self.files.file_size_bytes

    def _fill_blank(self, queue_offset: int, commit_log_offset: int) -> None:
        """Blank units up to `queue_offset`. Behind others they name the next record's offset, so that units ascend."""
        is_first = not self.files.files
        blank = BLANK_UNIT if is_first else CQ_UNIT.pack(commit_log_offset, BLANK_SIZE, 0)
        if is_first:
            self.max_offset = self._file_start(queue_offset) // UNIT_BYTES
        else:
            logger.error(
                "consume queue has a gap topic=%s queue_id=%d offset=%d expected=%d",
                self.topic, self.queue_id, queue_offset, self.max_offset,
            )  # fmt: skip
        while self.max_offset < queue_offset:
            if self._position == self._end:
                self.make_room()
            assert self._file is not None
            units = min(queue_offset - self.max_offset, (self._end - self._position) // UNIT_BYTES)
            end = self._position + units * UNIT_BYTES
            self._file.map[self._position : end] = blank * units
            self._position = end
            self.max_offset += units
        if is_first:
            self.min_offset = queue_offset

    # Reading

    def units(self, offset: int, count_max: int) -> memoryview | None:
        """Return the bytes of up to `count_max` units from `offset` on, of one file. None when the file is gone."""
        byte_offset = offset * UNIT_BYTES
        mapped_file = self.files.find(byte_offset)
        if mapped_file is None or not self.min_offset <= offset < self.max_offset:
            return None
        start = byte_offset - mapped_file.start_offset
        end = min(
            start + count_max * UNIT_BYTES,
            mapped_file.size_bytes,
            self.max_offset * UNIT_BYTES - mapped_file.start_offset,
        )
        return mapped_file.view[start:end]

    def unit(self, offset: int) -> tuple[int, int, int]:
        """(commit log offset, size, tags code) of a unit below max_offset. Raises IndexError otherwise."""
        if offset >= self.max_offset:
            raise IndexError(f"no unit {offset} in {self!r}")
        return self.peek(offset)

    def next_file_offset(self, offset: int) -> int:
        """Return the first queue offset of the file after the one of `offset`."""
        units = self.files.file_size_bytes // UNIT_BYTES
        return offset - offset % units + units

    # Loading. Nothing is written before `go_on_at`.

    def load(self) -> None:
        """Map the files and find the last unit, as a clean stop left it. Raises StoreFilesInvalid.

        Pages come alone until recovery is through: with their neighbours, holes mostly, those of 10,000 queues that
        were not in memory took 20 s of CPU where a disk reads 8 MiB ahead, alone 0.4 s.
        """
        self.files.load()
        self.files.read_around(is_wanted=False)
        self._set_end(self.units_before(sys.maxsize))
        self.min_offset = self.files.min_offset // UNIT_BYTES

    def units_before(self, commit_log_offset: int) -> int:
        """Return the end of the units that point before `commit_log_offset`: they ascend, zeros follow.

        From the first unit on in steps that double, then by halving the last step: what a large file has no unit for
        is not read. Where units may be torn (after a crash) the last one must be compared with the log.
        """
        low = high = self.files.min_offset // UNIT_BYTES
        end, step = self.files.end_offset // UNIT_BYTES, 1
        while high < end and self._points_before(high, commit_log_offset):
            low, high, step = high + 1, high + step, step * 2
        high = min(high, end)
        while low < high:
            middle = (low + high) // 2
            if self._points_before(middle, commit_log_offset):
                low = middle + 1
            else:
                high = middle
        return low

    def _points_before(self, offset: int, commit_log_offset: int) -> bool:
        unit_offset, size_bytes, _ = self.peek(offset)
        return size_bytes > 0 and 0 <= unit_offset < commit_log_offset

    def peek(self, offset: int) -> tuple[int, int, int]:
        """Return the bytes of a unit whether it was written or not. Raises IndexError when no file holds it."""
        mapped_file = self.files.find(offset * UNIT_BYTES)
        if mapped_file is None:
            raise IndexError(f"no file of {self!r} holds unit {offset}")
        position = offset * UNIT_BYTES - mapped_file.start_offset
        unit: tuple[int, int, int] = CQ_UNIT.unpack_from(mapped_file.map, position)
        return unit

    def go_on_at(self, max_offset: int) -> None:
        """Drop all units from `max_offset` on, durably: what is cleared here never comes back. Raises OSError."""
        self.files.truncate(max_offset * UNIT_BYTES)
        for mapped_file in self.files.files[-1:]:
            mapped_file.flush()
        self._set_end(max_offset)
        self.min_offset = min(self.min_offset, max_offset)

    def fill_to(self, max_offset: int, commit_log_max_offset: int) -> None:
        """Add blank units, so that the next message gets queue offset `max_offset`. Raises OSError."""
        if self.max_offset < max_offset:
            self._fill_blank(max_offset, commit_log_max_offset)
            self.next_offset = self.max_offset

    def _set_end(self, max_offset: int) -> None:
        byte_offset = max_offset * UNIT_BYTES
        self.max_offset = self.next_offset = max_offset
        self.files.flushed_offset = byte_offset
        mapped_file = self.files.find(byte_offset)
        self._file = mapped_file
        if mapped_file is None:  # no file, or the last one is full
            self._position = self._end = 0
        else:
            self._position = self._end = byte_offset - mapped_file.start_offset
        self.max_physic_offset = -1
        if max_offset > self.files.min_offset // UNIT_BYTES:
            commit_log_offset, size_bytes, _ = self.unit(max_offset - 1)
            if size_bytes != BLANK_SIZE:
                self.max_physic_offset = commit_log_offset + size_bytes

    @property
    def last_commit_log_offset(self) -> int:
        """Of the newest record that has a unit, -1 without one."""
        if self.max_physic_offset < 0:
            return -1
        return self.unit(self.max_offset - 1)[0]

    def correct_min_offset(self, commit_log_min_offset: int) -> None:
        """Set min_offset to the first unit whose record is still in the log (binary search; §5.4)."""
        low, high = max(self.min_offset, self.files.min_offset // UNIT_BYTES), self.max_offset
        while low < high:
            middle = (low + high) // 2
            commit_log_offset, size_bytes, _ = self.unit(middle)
            is_leading_blank = size_bytes == BLANK_SIZE and commit_log_offset == 0
            if is_leading_blank or commit_log_offset < commit_log_min_offset:
                low = middle + 1
            else:
                high = middle
        self.min_offset = low

    # Keeping

    def delete_expired(self, commit_log_min_offset: int) -> int:
        """Delete files whose last unit points below the log's start, never the last file; return how many."""
        deleted = 0
        while len(self.files.files) > 1:
            first = self.files.files[0]
            commit_log_offset = CQ_UNIT.unpack_from(first.map, first.size_bytes - UNIT_BYTES)[0]
            if commit_log_offset >= commit_log_min_offset:
                break
            del first
            self.files.delete_first()
            deleted += 1
        self.correct_min_offset(commit_log_min_offset)
        return deleted

    @property
    def dirty_bytes(self) -> int:
        return self.max_offset * UNIT_BYTES - self.files.flushed_offset

    def flush(self) -> None:
        """Make all units durable. Caller: one thread at a time."""
        self.files.flush_to(self.max_offset * UNIT_BYTES)
