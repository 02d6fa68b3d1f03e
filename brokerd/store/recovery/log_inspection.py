"""Reading the commit log when a store is opened: where it ends, and whether that end is a torn tail or damage.

Source: `CommitLog.recoverNormally/recoverAbnormally`, reference store-format §15. One difference: Java cuts the log at
the first bad record, whatever follows. Here the durable point of the checkpoint decides: a bad record behind it is
a torn tail (half a batch, pages that reached the disk out of order, a lost closing blank) and may be cut with what
follows; one before it is damage, and so is a log that ends before it. A store without a point (a Java broker's) is
judged by the times of its checkpoint. Nothing is written here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from brokerd.remoting.message.names import LIGHT_QUEUE_ID
from brokerd.store.dispatcher import gets_unit
from brokerd.store.errors import TornRecord
from brokerd.store.files.checkpoint import StoreCheckpoint
from brokerd.store.files.deleted_topics import DeletedTopics
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.files.mapped_file_queue import MappedFileQueue
from brokerd.store.log.record import StoredRecord, decode_topic, read_record
from brokerd.store.queue.light_queues import has_units, light_units
from brokerd.store.recovery.record_walk import walk_file

MAGIC_PREFIX = b"\xda\xa3\x20"  # of V1 and V2
SEARCH_CHUNK_BYTES = 1 << 20
TAIL_LOOK_BYTES = 8 * 1024 * 1024  # how far a torn tail is measured for the report

QueueKey = tuple[str, int]  # topic, queue id


@dataclass(frozen=True, slots=True)
class LogState:
    """One walk over the log. `first_records`: of each queue, after the durable part of the queues."""

    walked_from: int
    end_offset: int
    records: int
    last_store_timestamp_ms: int
    first_records: dict[QueueKey, tuple[int, int]]  # queue offset, commit log offset
    reason: str = ""  # why the walk ended before the end of the files
    torn_bytes: int = 0  # after the end, to be cut
    following: StoredRecord | None = None  # a whole record after the end
    damage: str = ""  # why the store may not be opened like this


class LogInspection:
    """Walks and judges. Caller: recovery and the check command."""

    def __init__(
        self,
        files: MappedFileQueue,
        checkpoint: StoreCheckpoint,
        deleted: DeletedTopics,
        *,
        check_crc: bool,
    ) -> None:
        self._files = files
        self._checkpoint = checkpoint
        self._deleted = deleted
        self._check_crc = check_crc
        self.has_light = False  # whether to look for the records of light queues, which costs a tenth
        point = checkpoint.point
        self._durable_offset = point.log_offset if point else 0

    def walk(self, start_offset: int, derived_offset: int) -> LogState:
        """Walk from a record's start to the first that is not whole; note first records from `derived_offset` on."""
        files, ends = self._files, self._deleted.ends
        firsts: dict[QueueKey, tuple[int, int]] = {}
        seen: set[tuple[bytes, int]] = set()
        topics: set[bytes] = set()
        light_from = derived_offset if self.has_light else sys.maxsize
        offset, records, last_ms, newest_ms, reason = start_offset, 0, 0, 0, ""
        try:
            while (mapped_file := files.find(offset)) is not None:
                base = mapped_file.start_offset
                for end, topic, queue_id, queue_offset, sys_flag, last_ms, properties_start in walk_file(
                    mapped_file,
                    offset,
                    mapped_file.end_offset,
                    check_crc=self._check_crc,
                    durable_offset=self._durable_offset,
                ):
                    if topic not in topics:
                        topics.add(checked_topic(topic, offset))
                    if offset >= derived_offset and (topic, queue_id) not in seen:
                        name = topic.decode()
                        if offset >= ends.get(name, 0) and gets_unit(sys_flag):
                            seen.add((topic, queue_id))
                            firsts.setdefault((name, queue_id), (queue_offset, offset))
                    if offset >= light_from and gets_unit(sys_flag) and has_units(topic.decode()):
                        for name, number in light_units(mapped_file.map[properties_start:end]):
                            if offset >= ends.get(name, 0):
                                firsts.setdefault((name, LIGHT_QUEUE_ID), (number, offset))
                    newest_ms = max(newest_ms, last_ms)
                    records += 1
                    offset = base + end
                offset = mapped_file.end_offset
        except TornRecord as error:
            offset, reason = error.offset, error.reason
        return self._judge(LogState(start_offset, offset, records, last_ms, firsts, reason), newest_ms)

    def _judge(self, walked: LogState, newest_ms: int) -> LogState:
        end = walked.end_offset
        mapped_file = self._files.find(end)
        tail, following = b"", None
        if mapped_file is not None:
            position = end - mapped_file.start_offset
            tail = mapped_file.view[position : position + TAIL_LOOK_BYTES].tobytes().rstrip(b"\0")
            following = self.following_record(end)
        is_torn = bool(tail) or following is not None
        torn_bytes = len(tail)
        if following is not None:
            torn_bytes = max(torn_bytes, following.commit_log_offset + following.size_bytes - end)
        return LogState(
            walked.walked_from,
            end,
            walked.records,
            walked.last_store_timestamp_ms,
            walked.first_records,
            walked.reason if is_torn else "",  # zeros: the ordinary end
            torn_bytes,
            following,
            self._damage(walked, following, newest_ms),
        )

    def _damage(self, walked: LogState, following: StoredRecord | None, newest_ms: int) -> str:
        """Return why the end cannot be a torn tail; "" when it can."""
        end, physic_ms = walked.end_offset, self._checkpoint.physic_msg_timestamp_ms
        if self._checkpoint.point is not None:
            if end >= self._durable_offset:
                return ""
            was = f"the log was flushed up to offset {self._durable_offset}"
        else:
            if newest_ms >= physic_ms and (following is None or following.store_timestamp_ms > physic_ms):
                return ""
            was = f"the log was flushed up to the store time {physic_ms} ms"
        reason = walked.reason or "no record"
        if following is None:
            return f"{reason}; nothing readable follows, but {was}: messages are missing"
        return (
            f"{reason}; whole records follow from offset {following.commit_log_offset} on"
            f" (stored at {following.store_timestamp_ms} ms), and {was}: this is not a torn tail"
        )

    def following_record(self, offset: int) -> StoredRecord | None:
        """Return the first whole record anywhere after a bad one at `offset`."""
        for mapped_file in self._files.files:
            if mapped_file.end_offset <= offset:
                continue
            record = next_record(mapped_file, max(offset + 1 - mapped_file.start_offset, 0))
            if record is not None:
                return record
        return None


def checked_topic(topic: bytes, offset: int) -> bytes:
    """Raise TornRecord for a name that is not UTF-8."""
    try:
        decode_topic(topic)
    except UnicodeDecodeError:
        raise TornRecord(offset, "the topic is not UTF-8") from None
    return topic


def next_record(mapped_file: MappedFile, position: int) -> StoredRecord | None:
    """Return the first whole record at or after `position`, found by its magic code; holes are skipped."""
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
    """Return the parts after `position` that have blocks, so that a mostly empty 1 GiB file is not read whole."""
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
