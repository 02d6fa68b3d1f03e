"""The commit log: one sequence of records over files of equal size, appended by one writer.

Source: `store/.../CommitLog.java`, reference store-format §2 and §12. A record never spans two files: when it
and a blank record of 8 bytes do not fit any more, a blank record closes the file (§2.2).

The writer only touches pages that were made ready (allocated and mapped) before. While it fills one stretch
of `prefault_bytes`, a thread readies the next one, creating the next file in time. So an append never waits
for a page fault or for a new file, and a full disk is an error of `append` rather than a SIGBUS.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerd.store.errors import ServiceNotAvailable, TornRecord
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.files.mapped_file_queue import MappedFileQueue
from brokerd.store.log.record import BLANK, BLANK_BYTES, BLANK_MAGIC, TWO_INTS, read_record

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 0.1  # on a full disk: thousands of senders a second must not each try to make a file
# A wrong time zone or summer time; a clock that was off by days was wrong.
STORE_TIME_HELD_MAX_MS = 2 * 3_600_000


class Readying:
    """One stretch of a file being made ready by a thread; a new file when `mapped_file` is None."""

    def __init__(
        self, queue: MappedFileQueue, mapped_file: MappedFile | None, start: int, length_bytes: int
    ) -> None:
        self.mapped_file = mapped_file
        self.start = start  # position in the file, or the start offset of the file to create
        self.end = start + length_bytes if mapped_file is not None else length_bytes  # position
        self.error: OSError | None = None
        self._queue = queue
        self._thread = threading.Thread(target=self._run, name="commit-log-prefault", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            if self.mapped_file is None:
                self.mapped_file = self._queue.create_file(self.start)
                self.mapped_file.allocate(0, self.end)
            else:
                self.mapped_file.allocate(self.start, self.end - self.start)
        except OSError as error:
            self.error = error

    def result(self) -> MappedFile:
        """Wait for the thread. Raises the OSError it met."""
        self._thread.join()
        if self.error is not None:
            raise self.error
        assert self.mapped_file is not None
        return self.mapped_file


class CommitLog:
    """Append records, read them, flush them. Single writer; `flush` may run in another thread."""

    def __init__(self, directory: Path, file_size_bytes: int, prefault_bytes: int) -> None:
        self.files = MappedFileQueue(directory, file_size_bytes)
        self.max_offset = 0  # after the last record
        self.opened_at = 0  # what lies before it was written by an earlier process
        self.last_store_timestamp_ms = 0  # of the last record appended; what a flush makes durable
        self._prefault_bytes = min(prefault_bytes, file_size_bytes)
        self._file: MappedFile | None = None
        self._base = 0  # start offset of the current file
        self._ready = 0  # position in the current file up to which pages are ready
        self._writable_end = 0  # position a record may reach: ready, and 8 bytes before the end of the file
        self._readying: Readying | None = None
        self.on_failure: Callable[[OSError], None] = lambda _: None
        self._no_room = ""
        self._no_room_until = 0.0  # by the monotonic clock

    def __repr__(self) -> str:
        return f"<CommitLog {self.min_offset}..{self.max_offset} flushed {self.flushed_offset}>"

    @property
    def min_offset(self) -> int:
        return self.files.min_offset

    @property
    def flushed_offset(self) -> int:
        return self.files.flushed_offset

    @property
    def file_size_bytes(self) -> int:
        return self.files.file_size_bytes

    # Writing

    def start_at(self, max_offset: int) -> None:
        """Continue after the last record that recovery accepted. Caller: recovery, once, before the first append."""
        self.max_offset = self.opened_at = max_offset
        self.files.flushed_offset = max_offset
        self._file = self.files.find(max_offset)
        self._base = self._file.start_offset if self._file else max_offset
        self._ready = max_offset - self._base
        self._writable_end = 0

    def store_time(self, now_ms: int) -> int:
        """Store times ascend in the log, on which the search by time relies: a clock set back stands still for it.

        Set back by more than STORE_TIME_HELD_MAX_MS it was wrong before, and the true time counts from now on.
        """
        last_ms = self.last_store_timestamp_ms
        if last_ms - now_ms > STORE_TIME_HELD_MAX_MS:
            logger.error(
                "store times go back by %d ms: the clock was set back. Offsets by time are not exact for messages"
                " stored before",
                last_ms - now_ms,
            )
            return now_ms
        return max(now_ms, last_ms)

    def reserve(self, size_bytes: int) -> int:
        """Return the offset at which the next record (or batch) of `size_bytes` goes; write it with `append`.

        Rolls to the next file when it does not fit. Raises ServiceNotAvailable when the disk is full.
        """
        if self.max_offset - self._base + size_bytes > self._writable_end:
            self._make_room(size_bytes)
        return self.max_offset

    @property
    def room(self) -> int:
        """How many bytes can be appended at `max_offset` without `reserve`; 0 or less: none."""
        return self._writable_end - (self.max_offset - self._base)

    def append(self, record: bytes, store_timestamp_ms: int) -> None:
        """Write what was encoded for the offset `reserve` gave."""
        assert self._file is not None
        position = self.max_offset - self._base
        size_bytes = len(record)
        assert position + size_bytes <= self._writable_end, "append without reserve"
        # Size and magic of the first record come last: a process killed in between leaves zeros there, so
        # that half a record (its properties have no CRC) or half a batch is never found by recovery.
        mapped = self._file.map
        mapped[position + BLANK_BYTES : position + size_bytes] = memoryview(record)[BLANK_BYTES:]
        mapped[position : position + BLANK_BYTES] = record[:BLANK_BYTES]
        # The order matters to a flush in another thread: it reads the time first, then the offset.
        self.max_offset += size_bytes
        self.last_store_timestamp_ms = store_timestamp_ms

    def _make_room(self, size_bytes: int) -> None:
        """Roll if needed and wait until the pages are ready; off the hot path, once per stretch or file."""
        assert size_bytes + BLANK_BYTES <= self.file_size_bytes, size_bytes
        with self._growing():
            position = self.max_offset - self._base
            if self._file is None or position + size_bytes + BLANK_BYTES > self.file_size_bytes:
                self._roll()
                position = 0
            while position + size_bytes + BLANK_BYTES > self._ready:
                self._extend_ready()
            self._writable_end = min(self._ready, self.file_size_bytes) - BLANK_BYTES
            self._start_readying()

    def close_file(self) -> None:
        """Close the current file, as the master of this log did. Raises ServiceNotAvailable when the disk is full."""
        with self._growing():
            self._roll()
            self._writable_end = 0

    @contextmanager
    def _growing(self) -> Iterator[None]:
        """Refuse what a full disk has no room for, and let no caller try again at once."""
        if time.monotonic() < self._no_room_until:
            raise ServiceNotAvailable(self._no_room)
        try:
            yield
        except OSError as error:
            self._readying = None
            self._writable_end = 0
            # A new file's name may not be on the disk, and would not be synced again.
            if error.errno == errno.EIO:
                self.on_failure(error)
            self._no_room = f"the commit log cannot grow: {error}"
            self._no_room_until = time.monotonic() + TRY_AGAIN_S
            raise ServiceNotAvailable(self._no_room) from error

    def _roll(self) -> None:
        """Close the current file with a blank record and go on in the next one."""
        next_start = self.files.end_offset if self.files.files else self.max_offset
        new_file, ready = self._take_readied_file(next_start)
        if self._file is not None:
            position = self.max_offset - self._base
            if position + BLANK_BYTES > self._ready:  # nothing was put since the store was opened
                self._file.allocate(position, BLANK_BYTES)
            remaining = self.file_size_bytes - position
            self._file.map[position : position + BLANK_BYTES] = BLANK.pack(remaining, BLANK_MAGIC)
        self.files.files.append(new_file)
        self._file, self._base, self._ready = new_file, next_start, ready
        self.max_offset = next_start
        logger.info("commit log file %s created", new_file.path.name)

    def _take_readied_file(self, start_offset: int) -> tuple[MappedFile, int]:
        readying, self._readying = self._readying, None
        if readying is not None:
            mapped_file = readying.result()
            if mapped_file.start_offset == start_offset:
                return mapped_file, readying.end
        return self.files.create_file(start_offset), 0

    def _extend_ready(self) -> None:
        """Take the stretch the thread made ready, or make one here."""
        assert self._file is not None
        readying, self._readying = self._readying, None
        if readying is None:
            length_bytes = min(self._prefault_bytes, self.file_size_bytes - self._ready)
            self._file.allocate(self._ready, length_bytes)
            self._ready += length_bytes
            return
        readying.result()
        assert readying.mapped_file is self._file
        self._ready = readying.end

    def _start_readying(self) -> None:
        if self._readying is not None:
            return
        assert self._file is not None
        left = self.file_size_bytes - self._ready
        if left > 0:
            length_bytes = min(self._prefault_bytes, left)
            self._readying = Readying(self.files, self._file, self._ready, length_bytes)
        else:
            self._readying = Readying(self.files, None, self._file.end_offset, self._prefault_bytes)

    def close(self) -> None:
        """Wait for the readying thread; a next file that holds nothing yet is removed again."""
        readying, self._readying = self._readying, None
        if readying is None:
            return
        try:
            mapped_file = readying.result()
        except OSError as error:
            logger.warning("readying the commit log failed: %s", error)
            return
        if mapped_file is not self._file:
            mapped_file.delete()

    # Reading

    def view(self, offset: int, size_bytes: int) -> memoryview | None:
        """Return the bytes of the mapped file, or None when they are deleted, not written, or span two files."""
        mapped_file = self.files.find(offset)
        if mapped_file is None or offset + size_bytes > self.max_offset:
            return None
        position = offset - mapped_file.start_offset
        if position + size_bytes > mapped_file.size_bytes:
            return None
        return mapped_file.view[position : position + size_bytes]

    def sized_view(self, offset: int) -> memoryview | None:
        """Return as many bytes from `offset` on as a record there would have: they may be no record."""
        start = self.view(offset, BLANK_BYTES)
        return None if start is None else self.view(offset, TWO_INTS.unpack(start)[0])

    def record_view(self, offset: int) -> memoryview | None:
        """Return the whole record at `offset`, or None when no record starts there. `offset` may be anything."""
        view = self.sized_view(offset)
        try:
            if view is None or read_record(view, 0, offset, check_crc=False) is None:
                return None
        except TornRecord:
            return None
        return view

    def next_file_offset(self, offset: int) -> int:
        """Return the start of the file after the one that holds (or held) `offset`."""
        return offset - offset % self.file_size_bytes + self.file_size_bytes

    # Flushing

    def flush(self) -> tuple[int, int]:
        """Make all that was appended durable; return (flushed offset, store time in ms of its last record).

        Caller: any one thread at a time. Affects: flushed_offset.
        """
        timestamp_ms = self.last_store_timestamp_ms
        flushed_offset = self.files.flush_to(self.max_offset)
        return flushed_offset, timestamp_ms

    @property
    def dirty_bytes(self) -> int:
        return self.max_offset - self.files.flushed_offset
