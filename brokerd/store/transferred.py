"""The log between a master and its slave: pieces of it to send, and records that arrived, checked, then written.

Source: store-format §18 (`DefaultHAClient.dispatchReadRequest`, `DefaultMessageStore.appendToCommitLog`). Java appends
whatever it is sent where it ends; here only whole records are written, byte for byte at the master's offsets, whose
magic, size, checksum and own offset are right: the log ends behind a record at every moment, and a master with another
history is found out.
"""

from __future__ import annotations

import logging

from brokerd.remoting.message.names import LIGHT_QUEUE_ID
from brokerd.store.dispatcher import Dispatcher, dispatch_tags_code, gets_unit, has_keys
from brokerd.store.errors import MessageIllegal, TornRecord, TransferDiverged
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.log.record import BLANK_BYTES, BLANK_MAGIC, TWO_INTS, StoredRecord, read_record
from brokerd.store.queue.consume_queue import CQ_UNIT, ConsumeQueue
from brokerd.store.queue.consume_queue_table import ConsumeQueueTable
from brokerd.store.queue.light_queues import GAP_MAX, goes_behind, light_units
from brokerd.store.store_config import MessageStoreConfig

logger = logging.getLogger(__name__)

RECORD_BYTES_MAX = (
    64 * 1024 * 1024
)  # of memory for one that has not arrived completely; Java's limit is 4 MiB


class LogPieces:
    """What a master sends. Caller: the event loop, but for `read_ahead`."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log

    def piece(self, offset: int, size_max: int) -> memoryview:
        """Return up to `size_max` bytes of one file from `offset` on. Raises TransferDiverged: they were deleted."""
        log = self._log
        mapped_file = log.files.find(offset)
        if mapped_file is None:
            raise TransferDiverged(
                f"offset {offset} is not here any more, the log begins at {log.min_offset}: start the slave with an"
                " empty store"
            )
        end = min(offset + size_max, log.max_offset, mapped_file.end_offset)
        return mapped_file.view[offset - mapped_file.start_offset : end - mapped_file.start_offset]

    def read_ahead(self, offset: int, size_bytes: int) -> None:
        """Bring what follows into memory. Caller: a thread. Raises OSError."""
        mapped_file = self._log.files.find(offset)
        if mapped_file is not None:
            position = offset - mapped_file.start_offset
            mapped_file.ready_now(position, min(size_bytes, mapped_file.size_bytes - position))


class TransferredLog:
    """Appends what the master sends. Caller: the store's single writer."""

    def __init__(
        self,
        log: CommitLog,
        table: ConsumeQueueTable,
        dispatcher: Dispatcher,
        config: MessageStoreConfig,
    ) -> None:
        self._log = log
        self._has_light = config.has_light_queues
        self._table = table
        self._dispatcher = dispatcher
        self._delay_levels_ms = config.delay_levels_ms
        self._rest = bytearray()  # of a record that has not arrived completely

    def begin(self) -> int:
        """Drop what an earlier connection left; returns where the master is to go on."""
        self._rest.clear()
        return self._log.max_offset

    def receive(self, offset: int, data: bytes) -> None:
        """Take bytes of the master's log; a sign of life has none.

        Raises TransferDiverged when they are not what follows here; ServiceNotAvailable on a full disk or QueueMissing:
        what is complete is kept and written by the next call of `append`.
        """
        log = self._log
        if not log.files.files and not self._rest and offset != log.max_offset:
            self._start_at(offset)
        expected = log.max_offset + len(self._rest)
        if offset != expected:
            raise TransferDiverged(f"the master sent offset {offset}, this log goes on at {expected}")
        self._rest += data
        self.append()

    def _start_at(self, offset: int) -> None:
        """Begin an empty log where the master does: at the start of its newest file."""
        if offset % self._log.file_size_bytes:
            raise TransferDiverged(
                f"the master begins at offset {offset}, where no file of {self._log.file_size_bytes} bytes starts:"
                " set mappedFileSizeCommitLog as the master has it"
            )
        self._log.start_at(offset)
        logger.info("the log begins at offset=%d, as the master sends it", offset)

    def append(self) -> None:
        """Write the complete records of what was received. Raises as `receive`."""
        position = 0
        try:
            while size_bytes := self._append_one(position):
                position += size_bytes
        finally:
            del self._rest[:position]

    def _append_one(self, position: int) -> int:
        """Write the record or close the file; return how many bytes that takes, 0 when they are not complete."""
        received, log = self._rest, self._log
        left = len(received) - position
        if left < BLANK_BYTES:
            return 0
        size_bytes, magic = TWO_INTS.unpack_from(received, position)
        offset = log.max_offset
        room = log.file_size_bytes - offset % log.file_size_bytes
        if magic == BLANK_MAGIC:
            if size_bytes != room:
                raise self._other_files(f"a file that ends at {offset + size_bytes}", offset + room)
            if left < size_bytes:
                return 0
            log.close_file()
            return int(size_bytes)
        if not BLANK_BYTES < size_bytes <= RECORD_BYTES_MAX:
            raise TransferDiverged(f"the master's bytes at offset {offset} are no record: size {size_bytes}")
        if size_bytes + BLANK_BYTES > room:
            raise self._other_files(f"a record of {size_bytes} bytes at {offset}", offset + room)
        if left < size_bytes:
            return 0
        data = bytes(received[position : position + size_bytes])
        try:
            record = read_record(memoryview(data), 0, offset)
        except TornRecord as error:
            raise TransferDiverged(
                f"the master's bytes at offset {offset} are no record: {error.reason}"
            ) from None
        assert record is not None  # no blank one
        self._put(record, data)
        return int(size_bytes)

    @staticmethod
    def _other_files(what: str, end: int) -> TransferDiverged:
        return TransferDiverged(
            f"the master sent {what}, the file here ends at {end}: set mappedFileSizeCommitLog as the master has it"
        )

    def _put(self, record: StoredRecord, data: bytes) -> None:
        queue = self._queue_of(record)
        lights = self._light_queues(record) if self._has_light else []
        offset = self._log.reserve(record.size_bytes)
        assert offset == record.commit_log_offset
        self._log.append(data, record.store_timestamp_ms)
        if queue is None:
            return
        size_bytes, stored_ms, properties = record.size_bytes, record.store_timestamp_ms, record.properties
        units = b""
        if gets_unit(record.sys_flag):
            queue.next_offset = record.queue_offset + 1
            code = dispatch_tags_code(record.topic, properties, stored_ms, self._delay_levels_ms)
            units = CQ_UNIT.pack(offset, size_bytes, code)
        keyed = ((queue, offset, stored_ms, properties),) if has_keys(record.sys_flag) else ()
        pending = self._dispatcher.pending
        pending.append((queue, record.queue_offset, offset, size_bytes, units, stored_ms, keyed))
        for light, number in lights:
            light.next_offset = number + 1
            pending.append((light, number, offset, size_bytes, units, stored_ms, ()))

    def _light_queues(self, record: StoredRecord) -> list[tuple[ConsumeQueue, int]]:
        """Return the light queues that the record is new in, and its numbers there. Raises as `_queue_of`."""
        if not gets_unit(record.sys_flag):
            return []
        found = []
        for name, number in light_units(record.properties):
            queue = self._table.find_or_create(name, LIGHT_QUEUE_ID)
            if not goes_behind(queue.next_offset, record.topic, number):
                continue
            if not queue.next_offset:
                queue.begin_at(number)
            elif not queue.next_offset <= number <= queue.next_offset + GAP_MAX:
                continue  # sent again to where it is not new, or of a producer's making
            found.append((queue, number))
        return found

    def _queue_of(self, record: StoredRecord) -> ConsumeQueue | None:
        """None for a name that cannot be a folder, as in recovery. Raises QueueMissing, StoreError or OSError."""
        try:
            queue = self._table.find_or_create(record.topic, record.queue_id)
        except MessageIllegal as error:
            logger.warning("record at %d is not dispatched: %s", record.commit_log_offset, error)
            return None
        if gets_unit(record.sys_flag) and record.queue_offset < queue.next_offset:
            # The topic was deleted and created again at the master, as recovery finds it too.
            if record.queue_offset:
                raise TransferDiverged(
                    f"the master's record at offset {record.commit_log_offset} is message {record.queue_offset} of"
                    f" {record.topic} queue {record.queue_id}, which has {queue.next_offset} here"
                )
            self._dispatcher.dispatch_until(self._log.max_offset)
            queue.go_on_at(0)
            queue.next_offset = 0
        elif not queue.next_offset:
            queue.begin_at(record.queue_offset)
        return queue
