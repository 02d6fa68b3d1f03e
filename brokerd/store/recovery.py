"""Owns opening a store's files: where the log ends, what was not dispatched, what must be cut off.

Source: `CommitLog.recoverNormally/recoverAbnormally`, reference store-format §15. Two differences. (1) After
a clean stop the scan starts at the newest record a consume queue knows, not at a file's start: starting takes
milliseconds. (2) Java cuts the log at the first bad record, whatever follows. Here a bad record in front of
good ones stops the start, unless a lost page (a sector of zeros: power failure before the flush) explains it.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

from brokerd.store.checkpoint import StoreCheckpoint
from brokerd.store.commit_log import CommitLog
from brokerd.store.consume_queue import ConsumeQueue
from brokerd.store.consume_queue_table import ConsumeQueueTable
from brokerd.store.dispatcher import Dispatcher, dispatch_tags_code, gets_unit
from brokerd.store.errors import CorruptRecord, MessageIllegal, TornRecord
from brokerd.store.key_index import KeyIndex
from brokerd.store.mapped_file import MappedFile
from brokerd.store.record import BLANK_BYTES, HEADER_BYTES_MIN, StoredRecord, read_record
from brokerd.store.record_walk import walk_records
from brokerd.store.results import RecoveryReport
from brokerd.store.store_config import MessageStoreConfig

logger = logging.getLogger(__name__)

MAGIC_PREFIX = b"\xda\xa3\x20"  # of V1 and V2
SECTOR_BYTES = 512
ZERO_SECTOR = bytes(SECTOR_BYTES)
SEARCH_CHUNK_BYTES = 1 << 20
TAIL_LOOK_BYTES = 8 * 1024 * 1024  # how far a torn tail is measured for the report


@dataclass(slots=True)
class Scan:
    """One walk over the log. `gap` says that dispatch needs records from before its start."""

    start_offset: int
    end_offset: int
    reason: str = ""  # why it ended before the end of the files
    records: int = 0
    dispatched: int = 0
    last_store_timestamp_ms: int = 0
    gap: bool = False


class Recovery:
    """One opening of a store. Caller: MessageStore.open, once."""

    def __init__(
        self,
        config: MessageStoreConfig,
        log: CommitLog,
        table: ConsumeQueueTable,
        key_index: KeyIndex,
        dispatcher: Dispatcher,
        checkpoint: StoreCheckpoint,
    ) -> None:
        self._config = config
        self._log = log
        self._table = table
        self._key_index = key_index
        self._dispatcher = dispatcher
        self._checkpoint = checkpoint
        self._delay_levels_ms = config.delay_levels_ms
        self._known_queues: dict[tuple[bytes, int], ConsumeQueue] = {}
        # Records before it need no index entry: they have one, or nobody wants one.
        self._indexed_to = 0 if config.message_index_enable else sys.maxsize

    def run(self, *, clean_shutdown: bool) -> RecoveryReport:
        """Raises StoreFilesInvalid, CorruptRecord.

        1. Map the log, the consume queues and the index files.
        2. Without a log, everything derived from it goes too.
        3. Walk the log from where dispatch may be behind; dispatch what has no unit yet.
        4. Walk again from the first file when units are missing from before that.
        5. Decide whether the end is a torn tail or corruption; cut the log.
        6. Cut the consume queues to the log and correct their minimum offsets.
        """
        log, table = self._log, self._table
        log.files.load()
        table.load(thorough=not clean_shutdown)
        self._key_index.load(
            clean_shutdown=clean_shutdown, safe_timestamp_ms=self._checkpoint.index_msg_timestamp_ms
        )
        if self._key_index.files and self._config.message_index_enable:
            self._indexed_to = self._key_index.files[-1].end_offset
        if not log.files.files:
            table.delete_all()
            self._key_index.delete_all()
            log.start_at(0)
            return RecoveryReport(clean_shutdown, 0, 0, 0, 0, 0, 0, "")

        self._known_queues = {(queue.topic.encode(), queue.queue_id): queue for queue in table}
        start, dispatch_above = self._clean_start() if clean_shutdown else (self._abnormal_start(), -1)
        trust_end = clean_shutdown and start == dispatch_above
        scan = self._scan(start, dispatch_above)
        if not scan.gap and clean_shutdown:
            missing = table.missing_queues(scan.end_offset)
            scan.gap = bool(missing)
            for topic, queue_id in missing:
                logger.warning("consume queue damaged, rebuilding topic=%s queue_id=%d", topic, queue_id)
                table.reset_queue(topic, queue_id)
        self._known_queues = {(queue.topic.encode(), queue.queue_id): queue for queue in table}
        if scan.gap and scan.start_offset > log.min_offset:
            scan = self._scan(log.min_offset, -1)

        trust_end = trust_end and not any(log.files.bytes_at(scan.end_offset, BLANK_BYTES))
        removed_bytes = 0
        if trust_end:
            scan.reason = ""
        else:
            removed_bytes = self._judge_end(scan)
        log.files.truncate(scan.end_offset, clear=not trust_end)
        log.start_at(scan.end_offset)
        log.last_store_timestamp_ms = scan.last_store_timestamp_ms or self._checkpoint.physic_msg_timestamp_ms
        self._fit_derived_files()
        report = RecoveryReport(
            clean_shutdown,
            log.min_offset,
            log.max_offset,
            scan.start_offset,
            scan.records,
            scan.dispatched,
            removed_bytes,
            scan.reason,
        )
        logger.info("store recovered %s", report)
        return report

    def _fit_derived_files(self) -> None:
        log = self._log
        for queue in self._table:
            if queue.max_physic_offset > log.max_offset:
                queue.truncate_to_log(log.max_offset)
            queue.correct_min_offset(log.min_offset)
        while self._key_index.files and self._key_index.files[-1].end_offset >= max(1, log.max_offset):
            logger.warning("the newest index file points behind the log, removed")
            self._key_index.files.pop().mapped_file.delete()
        self._dispatcher.finish_recovery()

    # Where to start

    def _clean_start(self) -> tuple[int, int]:
        """(scan from, dispatch only above) after a clean stop.

        The newest record with a unit is a record start, so the walk may begin there. Is it not readable, the
        files were changed since and are treated as after a crash.
        """
        newest = max((queue.last_commit_log_offset for queue in self._table), default=-1)
        mapped_file = self._log.files.find(newest) if newest >= 0 else None
        if mapped_file is None:
            return self._log.min_offset, -1
        try:
            if read_record(mapped_file.view, newest - mapped_file.start_offset, newest) is not None:
                return newest, newest
        except TornRecord as error:
            logger.warning("after a clean stop: %s", error)
        return self._abnormal_start(), -1

    def _abnormal_start(self) -> int:
        """The newest file whose first record is older than everything that may not be durable."""
        limit_ms = self._checkpoint.min_timestamp_ms
        if self._config.message_index_safe:
            limit_ms = min(limit_ms, self._checkpoint.index_msg_timestamp_ms)
        for mapped_file in reversed(self._log.files.files):
            try:
                first = read_record(mapped_file.view, 0, mapped_file.start_offset)
            except TornRecord:
                continue
            if first is not None and 0 < first.store_timestamp_ms <= limit_ms:
                return mapped_file.start_offset
        return self._log.min_offset

    # Walking

    def _scan(self, start_offset: int, dispatch_above: int) -> Scan:
        """Walk records from `start_offset` until one is not whole; dispatch those above `dispatch_above`."""
        scan = Scan(start_offset, start_offset)
        files = self._log.files
        try:
            while not scan.gap and (mapped_file := files.find(scan.end_offset)) is not None:
                self._scan_file(mapped_file, scan, dispatch_above)
        except TornRecord as error:
            scan.reason = error.reason
        return scan

    def _scan_file(self, mapped_file: MappedFile, scan: Scan, dispatch_above: int) -> None:
        """Walk to the end of one file, or to a gap. Raises TornRecord; scan.end_offset says where."""
        view, base = mapped_file.view, mapped_file.start_offset
        check_crc = self._config.check_crc_on_recover
        while True:
            self._walk(mapped_file, scan, dispatch_above)
            if scan.gap:
                return
            offset = scan.end_offset  # of a record the fast walk does not know
            record = read_record(view, offset - base, offset, check_crc=check_crc)
            if record is None:
                scan.end_offset = mapped_file.end_offset
                return
            if record.properties.endswith(b"\0"):
                self._check_lost_page(view, offset - base, record)
            if offset > dispatch_above and not self._dispatch(record, scan):
                return
            self._count(scan, offset + record.size_bytes, record.store_timestamp_ms)

    def _walk(self, mapped_file: MappedFile, scan: Scan, dispatch_above: int) -> None:
        """Most records of a crashed store have their unit and key: for them two look-ups are all."""
        mapped, base, known = mapped_file.map, mapped_file.start_offset, self._known_queues
        indexed_to = self._indexed_to
        position = scan.end_offset - base
        for walked in walk_records(mapped_file, position, check_crc=self._config.check_crc_on_recover):
            end, topic, queue_id, queue_offset, sys_flag, timestamp_ms, properties_start = walked
            offset = base + position
            queue = known.get((topic, queue_id))
            is_done = queue is not None and offset < indexed_to and base + end <= queue.max_physic_offset
            if not is_done and offset > dispatch_above:
                try:
                    name = topic.decode()
                except UnicodeDecodeError:
                    return  # read_record says what is wrong
                record = StoredRecord(
                    end - position,
                    name,
                    queue_id,
                    queue_offset,
                    offset,
                    sys_flag,
                    timestamp_ms,
                    mapped[properties_start:end],
                )
                if not self._dispatch(record, scan):
                    return
            position = end
            self._count(scan, base + end, timestamp_ms)

    @staticmethod
    def _count(scan: Scan, end_offset: int, timestamp_ms: int) -> None:
        scan.end_offset = end_offset
        scan.records += 1
        scan.last_store_timestamp_ms = timestamp_ms

    def _check_lost_page(self, view: memoryview, position: int, record: StoredRecord) -> None:
        """Properties have no CRC: zeros at their end and no record behind them are a page that was lost."""
        following = record.commit_log_offset + record.size_bytes
        try:
            read_record(view, position + record.size_bytes, following)
        except TornRecord:
            raise TornRecord(record.commit_log_offset, "its properties end in zeros") from None

    def _dispatch(self, record: StoredRecord, scan: Scan) -> bool:
        """False when units before this one are missing, so that an earlier start may find their records."""
        try:
            queue = self._table.find_or_create(record.topic, record.queue_id)
        except MessageIllegal as error:
            logger.warning("record at %d is not dispatched: %s", record.commit_log_offset, error)
            return True
        self._known_queues[record.topic.encode(), record.queue_id] = queue
        if (
            record.queue_offset > queue.max_offset
            and gets_unit(record.sys_flag)
            and scan.start_offset > self._log.min_offset
        ):
            scan.gap = True
            return False
        code = dispatch_tags_code(
            record.topic, record.properties, record.store_timestamp_ms, self._delay_levels_ms
        )
        added = self._dispatcher.dispatch_recovered(
            (
                queue,
                record.queue_offset,
                record.commit_log_offset,
                record.size_bytes,
                code,
                record.store_timestamp_ms,
                record.sys_flag,
                record.properties,
            )
        )
        scan.dispatched += added
        return True

    # Judging the end

    def _judge_end(self, scan: Scan) -> int:
        """How many bytes of a torn tail to cut at the scan's end. Raises CorruptRecord."""
        mapped_file = self._log.files.find(scan.end_offset)
        if mapped_file is None:
            return 0
        position = scan.end_offset - mapped_file.start_offset
        tail = mapped_file.view[position : position + TAIL_LOOK_BYTES].tobytes().rstrip(b"\0")
        following = self._following_record(scan.end_offset)
        if not tail and following is None:
            scan.reason = ""  # zeros: the ordinary end of the log
            return 0
        if following is not None:
            self._refuse_corruption(scan, following)
            return following.commit_log_offset + following.size_bytes - scan.end_offset
        logger.warning(
            "torn record cut off offset=%d bytes=%d reason=%s", scan.end_offset, len(tail), scan.reason
        )
        return len(tail)

    def _refuse_corruption(self, scan: Scan, following: StoredRecord) -> None:
        was_flushed = following.store_timestamp_ms <= self._checkpoint.physic_msg_timestamp_ms
        page_lost = self._lost_page(scan.end_offset, following.commit_log_offset)
        message = (
            f"{scan.reason}; whole records follow from offset {following.commit_log_offset} on"
            f" (stored at {following.store_timestamp_ms} ms)"
        )
        if self._config.truncate_corrupt_log or (page_lost and not was_flushed):
            logger.warning("commit log cut at offset=%d: %s", scan.end_offset, message)
            return
        raise CorruptRecord(
            scan.end_offset,
            f"{message}. This is not a torn tail. Restore the file from a replica or a backup,"
            " or set truncate_corrupt_log to cut the log here and lose what follows",
        )

    def _following_record(self, offset: int) -> StoredRecord | None:
        """The first whole record anywhere behind a bad one at `offset`."""
        for mapped_file in self._log.files.files:
            if mapped_file.end_offset <= offset:
                continue
            position = max(offset + 1 - mapped_file.start_offset, 0)
            record = next_record(mapped_file, position)
            if record is not None:
                return record
        return None

    def _lost_page(self, start: int, end: int) -> bool:
        """Does a sector of zeros explain the bad record at `start`? If its header is bad: one beginning there."""
        head = self._log.files.bytes_at(start, HEADER_BYTES_MIN)
        header_is_good = (
            len(head) == HEADER_BYTES_MIN
            and head[4:7] == MAGIC_PREFIX
            and int.from_bytes(head[28:36]) == start
        )
        first = start + -start % SECTOR_BYTES
        last_first = (
            end - SECTOR_BYTES if header_is_good else min(end - SECTOR_BYTES, start + HEADER_BYTES_MIN)
        )
        return any(
            self._log.files.bytes_at(offset, SECTOR_BYTES) == ZERO_SECTOR
            for offset in range(first, last_first + 1, SECTOR_BYTES)
        )


def next_record(mapped_file: MappedFile, position: int) -> StoredRecord | None:
    """The first whole record at or behind `position`, found by its magic code; holes are skipped."""
    for extent_start, extent_end in data_extents(mapped_file, position):
        for start in range(extent_start, extent_end, SEARCH_CHUNK_BYTES):
            # A copy, because bytes.find is several times faster than mmap.find; magic codes may span chunks.
            chunk = bytes(mapped_file.view[start : min(start + SEARCH_CHUNK_BYTES + 2, extent_end)])
            hit = chunk.find(MAGIC_PREFIX)
            while hit >= 0:
                record = record_at(mapped_file, start + hit - 4, position)
                if record is not None:
                    return record
                hit = chunk.find(MAGIC_PREFIX, hit + 1)
    return None


def record_at(mapped_file: MappedFile, candidate: int, position_min: int) -> StoredRecord | None:
    if candidate < position_min:
        return None
    try:
        return read_record(mapped_file.view, candidate, mapped_file.start_offset + candidate)
    except TornRecord:
        return None


def data_extents(mapped_file: MappedFile, position: int) -> list[tuple[int, int]]:
    """The parts behind `position` that have blocks, so that a mostly empty 1 GiB file is not read whole."""
    descriptor = os.open(mapped_file.path, os.O_RDONLY)
    extents = []
    try:
        while position < mapped_file.size_bytes:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
            position = os.lseek(descriptor, start, os.SEEK_HOLE)
            extents.append((start, position))
    except OSError:  # ENXIO: no data behind position
        pass
    finally:
        os.close(descriptor)
    return extents
