"""Which pages of a read are not in memory, and reading them ahead: the event loop must not wait for a disk.

A page fault on a mapped file stops the whole interpreter until the disk has answered, however many producers wait. So
what a pull will touch is looked up first (mincore, 1 µs), and read in a thread when it is missing (madvise, GIL
released).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from brokerd.store.errors import NotReady
from brokerd.store.files.mapped_file import PAGE_BYTES, MappedFile
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.log.record import BLANK_BYTES, TWO_INTS
from brokerd.store.queue.consume_queue import BLANK_SIZE, CQ_UNIT, UNIT_BYTES, ConsumeQueue

Result = TypeVar("Result")

HOT_BYTES = 64 << 20  # the end of the log, written moments ago
BLOCK_BYTES = 256 * 1024  # Looked up and read at once: a consumer that lags mostly continues right there.
UNITS_BLOCK_BYTES = 16 * 1024
SPAN_MAX = (
    16  # blocks from a pull's first record to its last that are all looked up; else those of its records
)
RESIDENT_S = 1.0  # how long a block that was in memory is taken to be still
BLOCKS_MAX = 65_536  # remembered at once
RECORDS_MAX = 32  # that one pull of them answers with
RECORD_BYTES_MAX = 16 << 20  # Read ahead for one: the size in bytes that are not a record may be anything.


class FileRange(NamedTuple):
    """A part of a mapped file that is not in memory."""

    mapped_file: MappedFile
    position: int
    length_bytes: int


class NotInMemory(NotReady):
    """What was to be read lies on the disk: `ranges` are to be read ahead in a thread, and the read tried again."""

    def __init__(self, ranges: list[FileRange]) -> None:
        super().__init__(f"{len(ranges)} parts of files")
        self.ranges = ranges


class ColdPages:
    """Looks up what reads will touch. Single-threaded: the event loop."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        # Block of a file → when to look again. Keyed by the log's offset, or by file and block of a queue.
        self._resident_until: dict[int | tuple[MappedFile, int], float] = {}

    def of_pull(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        units_max: int,
        tags_codes: frozenset[int] | None = None,
    ) -> list[FileRange]:
        """Return what a pull from `offset` needs and memory lacks: units first, then their records. [] mostly.

        `units_max`: how many units it may look at; with `tags_codes` it touches the records of those only. Hot path:
        2 µs for what was looked up a moment ago.
        """
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return []
        mapped_file = queue.files.find(offset * UNIT_BYTES)
        if mapped_file is None:
            return []
        log, now = self._log, time.monotonic()
        start = offset * UNIT_BYTES - mapped_file.start_offset
        left_bytes = (queue.max_offset - offset) * UNIT_BYTES
        end = min(start + max(units_max, 1) * UNIT_BYTES, start + left_bytes, mapped_file.size_bytes)
        if left_bytes > PAGE_BYTES or queue.max_physic_offset <= log.opened_at:
            cold = self._cold_units(mapped_file, start, end, start + left_bytes, now)
            if cold:
                return cold
        hot_from = max(log.opened_at, log.max_offset - HOT_BYTES)
        first_offset: int = CQ_UNIT.unpack_from(mapped_file.map, start)[0]
        if first_offset >= hot_from:
            return []
        last_offset, last_bytes, _ = CQ_UNIT.unpack_from(mapped_file.map, end - UNIT_BYTES)
        first, last = first_offset // BLOCK_BYTES, (last_offset + last_bytes - 1) // BLOCK_BYTES
        if 0 <= last - first < SPAN_MAX and last_bytes != BLANK_SIZE:
            return self._cold_blocks(range(first, last + 1), now)
        blocks = scattered_blocks(mapped_file.view[start:end], hot_from, tags_codes)
        return self._cold_blocks(blocks, now)

    def ready_unit(self, queue: ConsumeQueue, offset: int) -> None:
        """Raise NotInMemory when a unit of the queue, or its record, would have to come from the disk."""
        cold = self.of_pull(queue, offset, 1)
        if cold:
            raise NotInMemory(cold)

    def ready_record(self, offset: int) -> None:
        """The same for the record at an offset of the log, which may be any number."""
        head = self._log.view(offset, BLANK_BYTES)
        if head is None or offset >= max(self._log.opened_at, self._log.max_offset - HOT_BYTES):
            return
        cold = self._cold_log(offset, BLANK_BYTES)
        if not cold:
            cold = self._cold_log(offset, min(TWO_INTS.unpack(head)[0], RECORD_BYTES_MAX))
        if cold:
            raise NotInMemory(cold)

    def ready(self, mapped_file: MappedFile, position: int, length_bytes: int) -> None:
        """The same for a part of any file (see mapped_file.Ready)."""
        end = position + length_bytes
        cold = self._cold_units(mapped_file, position, end, mapped_file.size_bytes, time.monotonic())
        if cold:
            raise NotInMemory(cold)

    def _cold_log(self, offset: int, size_bytes: int) -> list[FileRange]:
        blocks = range(offset // BLOCK_BYTES, (offset + size_bytes - 1) // BLOCK_BYTES + 1)
        return self._cold_blocks(blocks, time.monotonic())

    def _cold_units(
        self, mapped_file: MappedFile, start: int, end: int, written_end: int, now: float
    ) -> list[FileRange]:
        for block in range(start // UNITS_BLOCK_BYTES, (end - 1) // UNITS_BLOCK_BYTES + 1):
            key = (mapped_file, block)
            if self._resident_until.get(key, 0.0) > now:
                continue
            position = block * UNITS_BLOCK_BYTES
            length_bytes = min(UNITS_BLOCK_BYTES, mapped_file.size_bytes - position, written_end - position)
            if not mapped_file.is_resident(position, length_bytes):
                return [FileRange(mapped_file, position, length_bytes)]
            self._remember(key, now)
        return []

    def _cold_blocks(self, blocks: Iterable[int], now: float) -> list[FileRange]:
        cold = []
        for block in blocks:
            if self._resident_until.get(block, 0.0) > now:
                continue
            missing = self._missing(block)
            if missing is not None:
                cold.append(missing)
            else:
                self._remember(block, now)
        return cold

    def _missing(self, block: int) -> FileRange | None:
        mapped_file = self._log.files.find(block * BLOCK_BYTES)
        if mapped_file is None:
            return None
        position = block * BLOCK_BYTES - mapped_file.start_offset
        log_end = self._log.max_offset - mapped_file.start_offset
        length_bytes = min(BLOCK_BYTES, mapped_file.size_bytes - position, log_end - position)
        if length_bytes <= 0 or mapped_file.is_resident(position, length_bytes):
            return None
        return FileRange(mapped_file, position, length_bytes)

    def _remember(self, key: int | tuple[MappedFile, int], now: float) -> None:
        if len(self._resident_until) >= BLOCKS_MAX:
            self._resident_until.clear()
        self._resident_until[key] = now + RESIDENT_S


def scattered_blocks(units: memoryview, hot_from: int, tags_codes: frozenset[int] | None) -> list[int]:
    """The blocks of the log that hold the records of units, of those with a requested tag if tags are requested."""
    blocks: dict[int, None] = {}
    records = 0
    for commit_log_offset, size_bytes, code in CQ_UNIT.iter_unpack(units):
        if commit_log_offset >= hot_from or records == RECORDS_MAX:
            break
        if size_bytes == BLANK_SIZE or (tags_codes is not None and code not in tags_codes):
            continue
        records += tags_codes is not None
        first, last = (
            commit_log_offset // BLOCK_BYTES,
            (commit_log_offset + size_bytes - 1) // BLOCK_BYTES,
        )
        blocks.update(dict.fromkeys(range(first, last + 1)))
    return list(blocks)


def gathered(reads: Iterable[Callable[[], Result]]) -> list[Result]:
    """Return the results of all reads. Raises NotInMemory once, with what any of them lacks."""
    results, cold = [], []
    for read in reads:
        try:
            results.append(read())
        except NotInMemory as missing:
            cold += missing.ranges
    if cold:
        raise NotInMemory(cold)
    return results


def read_ahead(ranges: list[FileRange]) -> None:
    """Bring ranges into memory. Caller: any thread but the event loop's. Raises OSError where the disk cannot read."""
    for mapped_file, position, length_bytes in ranges:
        mapped_file.read_ahead(position, length_bytes)
