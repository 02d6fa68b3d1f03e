"""Reads by queue: one pull, and the offset at a time.

Source: `DefaultMessageStore.getMessage`, reference semantics §2.3 and §2.4, store-format §17. Nothing is
decoded: an answer is a list of memoryviews of the mapped files (hot-path.md rules 16 and 22).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from brokerd.store.cold_pages import ColdPages
from brokerd.store.errors import TornRecord
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.log.record import read_record, read_store_timestamp
from brokerd.store.queue.consume_queue import BLANK_SIZE, CQ_UNIT, UNIT_BYTES, ConsumeQueue
from brokerd.store.queue.light_queues import is_record_of
from brokerd.store.results import BoundaryType, GetMessageResult, GetMessageStatus
from brokerd.store.store_config import MessageStoreConfig

logger = logging.getLogger(__name__)

DAMAGED_NAMED_MAX = 1_000  # damaged records that are logged; more add nothing
PULL_BYTES_MAX = 128 * 1024 * 1024  # DefaultMessageStore.MAX_PULL_MSG_SIZE


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """What must hold for a whole stored record, and how many queue entries one pull may look at for it."""

    matches: Callable[[memoryview], bool]
    entries_max: int


class QueueReader:
    """Reads what was dispatched. The last `in_memory_bytes` of the log count as being in the page cache."""

    def __init__(self, config: MessageStoreConfig, log: CommitLog, cold_pages: ColdPages) -> None:
        self.config = config
        self._log = log
        self._cold_pages = cold_pages
        self._damaged: set[int] = set()
        self._ram_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    @property
    def in_memory_bytes(self) -> int:
        """Return how much of the log's end counts as being in memory."""
        return self._ram_bytes * self.config.access_message_in_memory_max_ratio // 100

    def get_message(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_num: int,
        tags_codes: frozenset[int] | None,
        record_filter: RecordFilter | None,
        max_bytes: int,
    ) -> GetMessageResult:
        """Read for one pull, with status and next offset of semantics §2.3."""
        if queue is None:
            return GetMessageResult(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if high == 0:
            return GetMessageResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return GetMessageResult(GetMessageStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return GetMessageResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetMessageResult(GetMessageStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        units_max = max(self.config.max_filter_message_size, max_num * UNIT_BYTES) // UNIT_BYTES
        matches_record = None
        if record_filter is not None:
            matches_record, units_max = record_filter.matches, min(units_max, record_filter.entries_max)
        units = queue.units(offset, units_max)
        if units is None:
            next_file = queue.next_file_offset(offset)
            return GetMessageResult(GetMessageStatus.OFFSET_FOUND_NULL, next_file, low, high)
        result = GetMessageResult(GetMessageStatus.NO_MATCHED_MESSAGE, offset, low, high)
        self._collect(
            queue,
            units,
            result,
            max_num,
            tags_codes,
            matches_record,
            min(max(max_bytes, 100), PULL_BYTES_MAX),
        )
        return result

    def _collect(
        self,
        queue: ConsumeQueue,
        units: memoryview,
        result: GetMessageResult,
        max_num: int,
        tags_codes: frozenset[int] | None,
        matches_record: Callable[[memoryview], bool] | None,
        max_bytes: int,
    ) -> None:
        """The scan loop of reference §2.4, in Java's order of checks.

        Hot path, so the file of the last record is kept in locals: records of one pull mostly share it.
        """
        views = result.views
        log = self._log
        log_end = log.max_offset
        config, in_memory_bytes = self.config, self.in_memory_bytes
        in_memory_from = log_end - in_memory_bytes
        of_memory = (
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_memory,
        )
        of_disk = config.max_transfer_bytes_on_message_in_disk, config.max_transfer_count_on_message_in_disk
        opened_at = log.opened_at
        view, view_start, view_end = memoryview(b""), 0, 0
        total = count = 0
        next_offset = result.next_begin_offset
        removed_before = -1  # the file of a removed record ends here: no later unit before it can be read
        last_offset = -1
        for commit_log_offset, size_bytes, code in CQ_UNIT.iter_unpack(units):
            if count:
                bytes_max, count_max = of_memory if commit_log_offset >= in_memory_from else of_disk
                new_total = total + size_bytes
                if count >= max_num or count >= count_max or new_total > max_bytes or new_total > bytes_max:
                    break
            next_offset += 1
            last_offset = commit_log_offset
            if commit_log_offset < removed_before or size_bytes == BLANK_SIZE:
                continue
            if tags_codes is not None and code not in tags_codes:
                continue
            end = commit_log_offset + size_bytes
            if not view_start <= commit_log_offset < view_end:
                mapped_file = log.files.find(commit_log_offset)
                if mapped_file is not None:
                    view = mapped_file.view
                    view_start, view_end = mapped_file.start_offset, mapped_file.end_offset
            if not view_start <= commit_log_offset < end <= view_end or end > log_end:
                if not count:
                    result.status = GetMessageStatus.MESSAGE_WAS_REMOVING
                removed_before = log.next_file_offset(commit_log_offset)
                continue
            record = view[commit_log_offset - view_start : end - view_start]
            if (
                commit_log_offset < opened_at
                and not self._is_whole(queue, next_offset - 1, record, commit_log_offset)
            ) or (matches_record is not None and not matches_record(record)):
                continue
            views.append(record)
            total += size_bytes
            count += 1
            removed_before = -1
        result.next_begin_offset = next_offset
        result.message_count = count
        result.size_bytes = total
        if count:
            result.status = GetMessageStatus.FOUND
        if last_offset >= 0:
            result.suggest_pulling_from_slave = log_end - last_offset > in_memory_bytes

    def _is_whole(self, queue: ConsumeQueue, number: int, view: memoryview, offset: int) -> bool:
        """Is this the whole record of the queue's unit? What an earlier process wrote may have been damaged since.

        A start does not read it all, so it is compared when it is served (3 µs a record). One that is damaged is left
        out: nothing can be done with it, and what follows must not wait.
        """
        try:
            record = read_record(view, 0, offset)
        except TornRecord as error:
            what = error.reason
        else:
            if record is not None and record.size_bytes == len(view) and is_record_of(queue, number, record):
                return True
            what = "the record is another message's"
        if offset not in self._damaged and len(self._damaged) < DAMAGED_NAMED_MAX:
            self._damaged.add(offset)
            logger.error(
                "damaged message left out topic=%s queue_id=%d offset=%d commit_log_offset=%d: %s;"
                " stop the broker and run `python -m brokerd check`",
                queue.topic, queue.queue_id, number, offset, what,
            )  # fmt: skip
        return False

    def store_timestamp(self, queue: ConsumeQueue, offset: int) -> int:
        """Store time in ms of the message at a queue offset; -1 when it is not there (any more). Raises NotInMemory."""
        if not queue.min_offset <= offset < queue.max_offset:
            return -1
        self._cold_pages.ready_unit(queue, offset)
        commit_log_offset, size_bytes, _ = queue.unit(offset)
        view = self._log.view(commit_log_offset, size_bytes)
        return -1 if view is None else read_store_timestamp(view)

    def offset_by_time(self, queue: ConsumeQueue, timestamp_ms: int, boundary: BoundaryType) -> int:
        """LOWER: the smallest offset stored at or after the time, max_offset if none.

        UPPER: the largest stored at or before it, min_offset if none. Store times are taken to ascend;
        removed messages count as too early. Raises NotInMemory.
        """
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            stored_ms = self.store_timestamp(queue, middle)
            if stored_ms < timestamp_ms or (boundary is BoundaryType.UPPER and stored_ms == timestamp_ms):
                low = middle + 1
            else:
                high = middle
        if boundary is BoundaryType.UPPER:
            return max(low - 1, queue.min_offset)
        return low
