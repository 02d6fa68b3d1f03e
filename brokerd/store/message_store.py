"""The message store as the broker sees it: put, dispatch, get, query, flush, clean up.

    put_message → commit log ─┐
                              ├─ dispatch_pending → consume queues, key index, arrivals
    get_message ← commit log ←┘

Source: `store/.../DefaultMessageStore.java`. Synchronous and single writer: every method belongs to the
thread that puts, except the flushes, `cleaner` and `query_by_key`, which others may call. Deleting
does not wait for a flush: a flush passes over files that went meanwhile.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Sequence

from brokerd.remoting.message.hosts import encode_host
from brokerd.remoting.message.java_hash import tags_code as hash_of_tags
from brokerd.remoting.message.names import SCHEDULE_TOPIC
from brokerd.remoting.message.properties import PROPERTIES_BYTES_MAX
from brokerd.store.cold_pages import ColdPages, FileRange
from brokerd.store.derived_flush import DerivedFlush
from brokerd.store.dispatcher import Arrivals, Dispatcher, dispatch_tags_code, gets_unit, has_keys
from brokerd.store.encoded import EncodedRecords
from brokerd.store.errors import FlushFailed, MessageIllegal, PropertiesSizeExceeded, ServiceNotAvailable
from brokerd.store.file_cleaner import FileCleaner
from brokerd.store.files.checkpoint import StoreCheckpoint
from brokerd.store.files.deleted_topics import FILE_NAME as DELETED_TOPICS_NAME
from brokerd.store.files.deleted_topics import DeletedTopics
from brokerd.store.files.mapped_file import drop_cached_files
from brokerd.store.files.store_lock import AbortFile, StoreLock
from brokerd.store.flushing import Flusher
from brokerd.store.index.key_index import KEYED_OFFSET, KeyedRecord, KeyIndex
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.log.record import (
    BLANK_BYTES,
    HEADERS,
    HOST_V6_BYTES,
    TAGS,
    TRANSACTION_MASK,
    encode_record,
    find_property,
    flag_hosts,
)
from brokerd.store.queue.consume_queue import CQ_UNIT, UNIT_BYTES
from brokerd.store.queue.consume_queue_table import ConsumeQueueTable
from brokerd.store.queue_reader import PULL_BYTES_MAX, QueueReader, RecordFilter
from brokerd.store.recovery.opening import Recovery
from brokerd.store.results import (
    BatchMessage,
    BatchResult,
    BoundaryType,
    GetMessageResult,
    PutResult,
    QueryMessageResult,
    RecoveryReport,
)
from brokerd.store.store_config import MessageStoreConfig
from brokerd.store.transferred import LogPieces, TransferredLog

logger = logging.getLogger(__name__)

RECORD_OVERHEAD_MAX = 65_536  # topic, properties and fixed fields on top of maxMessageSize (CommitLog.java)
BATCH_ENTRY_BYTES = 22  # fixed bytes of a message in a batch body: 4 total, magic, crc, flag, lengths


class MessageStore:
    """One store directory. `open` before anything else, `close` at the end."""

    def __init__(self, config: MessageStoreConfig, arrivals: Arrivals | None = None) -> None:
        """`arrivals` are notified by dispatch."""
        self.config = config
        self._root = config.store_path_root_dir
        self._log = CommitLog(
            config.commit_log_dir, config.mapped_file_size_commit_log, config.prefault_bytes
        )
        self.table = ConsumeQueueTable(config.consume_queue_dir, config.mapped_file_size_consume_queue)
        self._queues = self.table.queues
        self._key_index = KeyIndex(config)
        self._dispatcher = Dispatcher(self._key_index if config.message_index_enable else None, arrivals)
        self._pending = self._dispatcher.pending
        self.cleaner = FileCleaner(config, self._log, self.table, self._key_index)
        self._cold_pages = ColdPages(self._log)
        self._reader = QueueReader(config, self._log, self._cold_pages)
        self._deleted = DeletedTopics(self._root / DELETED_TOPICS_NAME)
        self._log.on_failure = self._log_failed
        self._lock = StoreLock(self._root)
        self._abort = AbortFile(self._root)
        derived = DerivedFlush(self._log, self.table, self._key_index, self._dispatcher)
        self._flusher = Flusher(config, self._log, derived, self._flush_failed)
        self._delay_levels_ms = config.delay_levels_ms
        self.pieces = LogPieces(self._log)
        self.encoded = EncodedRecords(self._log, self._queues, self._dispatcher)
        self.transferred = TransferredLog(self._log, self.table, self._dispatcher, config)
        self._is_sync_flush = config.is_sync_flush
        self._refusal = "the store is not open"  # why puts are refused; "" accepts them
        self._refusal_lock = threading.Lock()  # a flush that fails sets it from another thread
        self._dispatch_error = ""
        self._opened_at_offset = 0
        self.reconfigure(config)

    def reconfigure(self, config: MessageStoreConfig) -> None:
        """Take over settings of which STORE_HOT_KEYS differ from those in force. Caller: the event loop."""
        self.config = self.cleaner.config = self._reader.config = config
        self._flusher.config = self._key_index.config = config
        self._record_bytes_max = min(
            config.max_message_size + RECORD_OVERHEAD_MAX,
            config.mapped_file_size_commit_log - BLANK_BYTES,
        )

    def __repr__(self) -> str:
        return f"<MessageStore {self._log!r} queues {len(self._queues)} {self._refusal or 'open'}>"

    @property
    def _checkpoint(self) -> StoreCheckpoint | None:
        """None while the store is not open."""
        return self._flusher.checkpoint

    # Opening and closing

    def open(self, now_ms: int) -> RecoveryReport:
        """Lock, recover, accept puts. A store that is refused is left as it was, and so is this object.

        Raises StoreLocked, StoreFilesInvalid, CorruptRecord, OSError.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            if self._abort.flush_failed:
                logger.warning("a flush failed before the last stop: the files are read from the disk anew")
                folders = (self.config.commit_log_dir, self.config.consume_queue_dir, self.config.index_dir)
                drop_cached_files(folders)
            checkpoint = StoreCheckpoint(self._root / "checkpoint")
            recovery = Recovery(
                self.config,
                self._log,
                self.table,
                self._key_index,
                self._dispatcher,
                checkpoint,
                self._deleted,
            )
            plan = recovery.inspect(clean_shutdown=not self._abort.exists)
            self._abort.create()
            try:
                report = recovery.apply(plan)
            except OSError:
                self._abort.note_failed_flush()
                raise
            self.cleaner.set_disk_mark(self.cleaner.disk_used_ratio())
        except BaseException:
            self._lock.release()
            raise
        self._opened_at_offset = self._log.max_offset
        self._flusher.checkpoint = checkpoint
        self._set_refusal()
        return report

    def close(self, now_ms: int) -> None:
        """Dispatch and flush everything, mark the stop as clean, unlock. Does nothing unless the store is open.

        After a failed flush the mark stays away and the log gives the reason: the next start inspects the disk.
        """
        if self._checkpoint is None:
            return
        self._refusal = "the store is closed"
        self._log.close()
        try:
            self._flusher.flush_log()
            self.dispatch_pending()
            self.index_pending()
            self._key_index.close()
            self.remove_dropped()
            self._flusher.flush_queues()
        except (FlushFailed, OSError) as error:
            logger.error("store closed without a clean end: %s", error)  # noqa: TRY400
        else:
            if self._dispatcher.is_done:  # else the next start has to dispatch: keep the abort file
                self._abort.remove()
        self._checkpoint.close()
        self._flusher.checkpoint = None
        self._lock.release()
        logger.info("store closed at_ms=%d offset=%d", now_ms, self._log.max_offset)

    def _set_refusal(self) -> None:
        with self._refusal_lock:
            if self._checkpoint is None:
                self._refusal = "the store is not open"
            elif self._flusher.failure:
                self._refusal = self._flusher.failure
            elif self.config.is_slave:
                self._refusal = "this broker is a slave: its master takes messages"
            elif self.cleaner.is_disk_full:
                self._refusal = (
                    f"the disk is fuller than {self.config.disk_space_warning_level_ratio} %:"
                    " delete files or lower the retention"
                )
            else:
                self._refusal = self._dispatch_error

    def _log_failed(self, error: OSError) -> None:
        self._flusher.fail("the commit log's folder", error)

    def _flush_failed(self) -> None:
        """Take no more puts, and leave a note for the next start. Caller: the thread whose flush failed."""
        self._set_refusal()
        try:
            self._abort.note_failed_flush()
        except OSError as error:
            logger.error("the abort file cannot be written: %s", error)  # noqa: TRY400

    # Writing

    def put_message(
        self,
        topic: str,
        queue_id: int,
        body: bytes | memoryview,
        properties: bytes,
        tags_code: int | None = None,
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp_ms: int,
        born_host: tuple[str, int],
        store_host: tuple[str, int],
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        now_ms: int,
    ) -> PutResult:
        """Append one message; its unit follows with dispatch_pending.

        `properties` is the encoded string; without `tags_code` it is searched for TAGS. Raises MessageIllegal,
        PropertiesSizeExceeded or ServiceNotAvailable (all PutRefused, with the put status), or QueueMissing.
        """
        if self._refusal:
            raise ServiceNotAvailable(self._refusal)
        queue = self._queues.get((topic, queue_id)) or self.table.find_or_create(topic, queue_id)
        born, stored = encode_host(born_host), encode_host(store_host)
        if len(born) == HOST_V6_BYTES or len(stored) == HOST_V6_BYTES:
            sys_flag = flag_hosts(sys_flag, born, stored)
        topic_field = queue.magic_and_topic
        size_bytes = HEADERS[sys_flag >> 4 & 3].size + len(body) + len(topic_field[1]) + 2 + len(properties)
        if (
            len(body) > self.config.max_message_size
            or len(properties) > PROPERTIES_BYTES_MAX
            or size_bytes > self._record_bytes_max
        ):
            self._refuse_size(len(body), len(properties), size_bytes)
        has_unit = not sys_flag & TRANSACTION_MASK or gets_unit(sys_flag)
        queue_offset = queue.next_offset if has_unit else 0
        log = self._log
        offset = log.reserve(size_bytes)
        stored_ms = now_ms if now_ms >= log.last_store_timestamp_ms else log.store_time(now_ms)
        try:
            record = encode_record(
                topic_field,
                queue_id,
                queue_offset,
                offset,
                body,
                properties,
                flag,
                sys_flag,
                born_timestamp_ms,
                born,
                stored_ms,
                stored,
                reconsume_times,
                prepared_transaction_offset,
            )
        except struct.error as error:
            raise MessageIllegal(f"a number of the message does not fit its field: {error}") from error
        units = b""
        if has_unit:
            if tags_code is None or topic == SCHEDULE_TOPIC:
                tags_code = dispatch_tags_code(topic, properties, now_ms, self._delay_levels_ms)
            units = CQ_UNIT.pack(offset, size_bytes, tags_code)
            queue.next_offset = queue_offset + 1
        log.append(record, stored_ms)
        keyed = ((queue, offset, stored_ms, properties),) if has_unit or has_keys(sys_flag) else ()
        self._pending.append((queue, queue_offset, offset, size_bytes, units, stored_ms, keyed))
        return PutResult(offset, queue_offset, stored_ms, size_bytes)

    def put_messages(
        self,
        topic: str,
        queue_id: int,
        batch: Sequence[BatchMessage],
        *,
        sys_flag: int = 0,
        born_timestamp_ms: int,
        born_host: tuple[str, int],
        store_host: tuple[str, int],
        reconsume_times: int = 0,
        now_ms: int,
    ) -> BatchResult:
        """Append a batch as one write of consecutive records: all of it is stored or nothing (§2.2, §12).

        Raises as put_message; delayed and transactional batches are MessageIllegal.
        """
        if self._refusal:
            raise ServiceNotAvailable(self._refusal)
        if not batch or topic == SCHEDULE_TOPIC or sys_flag & TRANSACTION_MASK:
            raise MessageIllegal("a batch must hold messages that are neither delayed nor transactional")
        queue = self.table.find_or_create(topic, queue_id)
        born, stored = encode_host(born_host), encode_host(store_host)
        sys_flag = flag_hosts(sys_flag, born, stored)
        fixed_bytes = HEADERS[sys_flag >> 4 & 3].size + len(queue.magic_and_topic[1]) + 2
        body_bytes = total_bytes = 0
        for body, properties, _ in batch:
            body_bytes += BATCH_ENTRY_BYTES + len(body) + len(properties)
            total_bytes += fixed_bytes + len(body) + len(properties)
            if len(properties) > PROPERTIES_BYTES_MAX:
                self._refuse_size(len(body), len(properties), total_bytes)
        if body_bytes > self.config.max_message_size or total_bytes > self._log.file_size_bytes - BLANK_BYTES:
            self._refuse_size(body_bytes, 0, total_bytes)
        start = offset = self._log.reserve(total_bytes)
        queue_offset = queue.next_offset
        now_ms = self._log.store_time(now_ms)
        records: list[bytes] = []
        units: list[bytes] = []
        keyed: list[KeyedRecord] = []
        try:
            for body, properties, flag in batch:
                record = encode_record(
                    queue.magic_and_topic,
                    queue_id,
                    queue_offset,
                    offset,
                    body,
                    properties,
                    flag,
                    sys_flag,
                    born_timestamp_ms,
                    born,
                    now_ms,
                    stored,
                    reconsume_times,
                    0,
                )
                code = hash_of_tags(find_property(properties, TAGS))
                units.append(CQ_UNIT.pack(offset, len(record), code))
                keyed.append((queue, offset, now_ms, properties))
                records.append(record)
                queue_offset += 1
                offset += len(record)
        except struct.error as error:
            raise MessageIllegal(f"a number of the batch does not fit its field: {error}") from error
        assert offset - start == total_bytes
        self._log.append(b"".join(records), now_ms)
        first, queue.next_offset = queue.next_offset, queue_offset
        self._pending.append((queue, first, start, total_bytes, b"".join(units), now_ms, keyed))
        return BatchResult(first, [each[KEYED_OFFSET] for each in keyed], now_ms, total_bytes)

    def make_room(self, size_bytes: int) -> None:
        """Let records of so many bytes in all follow each other in one file, on a full disk too.

        Raises ServiceNotAvailable. Nothing is put; what is put next takes the room.
        """
        if self._refusal:
            raise ServiceNotAvailable(self._refusal)
        self._log.reserve(min(size_bytes, self._log.file_size_bytes - BLANK_BYTES))

    def _refuse_size(self, body_bytes: int, properties_bytes: int, record_bytes: int) -> None:
        if properties_bytes > PROPERTIES_BYTES_MAX:
            raise PropertiesSizeExceeded(
                f"properties of {properties_bytes} bytes, at most {PROPERTIES_BYTES_MAX}"
            )
        if body_bytes > self.config.max_message_size:
            raise MessageIllegal(f"body of {body_bytes} bytes, at most {self.config.max_message_size}")
        raise MessageIllegal(f"record of {record_bytes} bytes, at most {self._record_bytes_max}")

    def dispatch_pending(self) -> int:
        """Build the units of everything put since, and index the keys of many at once; return how many messages.

        Call it once per read of a socket, before replying. With SYNC_FLUSH consumers see only what is flushed
        (as 5.x), so call it again after `flush`. When a file cannot be made, puts are refused until it can.
        """
        end_offset = self._log.flushed_offset if self._is_sync_flush else self._log.max_offset
        try:
            count = self._dispatcher.dispatch_until(end_offset)
            if self._dispatch_error:
                self._dispatcher.index_pending()
        except OSError as error:
            self._dispatch_failed(error)
            return 0
        if self._dispatch_error:
            logger.info("dispatch continues offset=%d", end_offset)
            self._dispatch_error = ""
            self._set_refusal()
        return count

    def _dispatch_failed(self, error: OSError) -> None:
        if not self._dispatch_error:  # logged once
            first_offset = self._dispatcher.first_offset
            logger.error("dispatch failed offset=%s: %s; trying again", first_offset, error)
        self._dispatch_error = f"consume queues or index cannot be written: {error}"
        self._set_refusal()

    def index_pending(self) -> None:
        """Index the keys of everything dispatched. Call it every tenth of a second. A failure refuses puts."""
        try:
            self._dispatcher.index_pending()
        except OSError as error:
            self._dispatch_failed(error)

    # Reading

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_num: int,
        *,
        tags_codes: frozenset[int] | None = None,
        record_filter: RecordFilter | None = None,
        max_bytes: int = PULL_BYTES_MAX,
    ) -> GetMessageResult:
        """Read for one pull: up to `max_num` messages from `offset` on, and where to go on (reference §2.3, §2.4).

        `tags_codes` are hashes of the subscribed tags (None = all); `record_filter` (SQL92) then decides
        about the whole stored record. The views stay valid when the file is deleted meanwhile.
        """
        queue = self._queues.get((topic, queue_id))
        return self._reader.get_message(queue, offset, max_num, tags_codes, record_filter, max_bytes)

    def cold_pages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_num: int,
        tags_codes: frozenset[int] | None = None,
        record_filter: RecordFilter | None = None,
    ) -> list[FileRange]:
        """Return what get_message would have to wait for the disk for; [] when everything is in memory."""
        queue = self._queues.get((topic, queue_id))
        if record_filter is not None:
            return self._cold_pages.of_pull(queue, offset, record_filter.entries_max)
        if tags_codes is not None:
            units_max = self.config.max_filter_message_size // UNIT_BYTES
            return self._cold_pages.of_pull(queue, offset, units_max, tags_codes)
        return self._cold_pages.of_pull(
            queue, offset, min(max_num, self.config.max_transfer_count_on_message_in_memory)
        )

    def units(self, topic: str, queue_id: int, offset: int, count_max: int) -> list[tuple[int, int, int]]:
        """(commit log offset, size, tags code) of up to `count_max` messages from a queue offset on."""
        queue = self._queues.get((topic, queue_id))
        units = queue.units(offset, count_max) if queue is not None else None
        return list(CQ_UNIT.iter_unpack(units)) if units is not None else []

    def min_offset(self, topic: str, queue_id: int) -> int:
        """0 for a queue that does not exist."""
        queue = self._queues.get((topic, queue_id))
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset after the last message that consumers can see; 0 for a queue that does not exist."""
        queue = self._queues.get((topic, queue_id))
        return queue.max_offset if queue else 0

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """See QueueReader.offset_by_time; 0 for a queue that does not exist."""
        queue = self._queues.get((topic, queue_id))
        return self._reader.offset_by_time(queue, timestamp_ms, boundary) if queue else 0

    def store_timestamp(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time in ms of one message, -1 when it is not (or no longer) there."""
        queue = self._queues.get((topic, queue_id))
        return self._reader.store_timestamp(queue, offset) if queue else -1

    def earliest_store_timestamp(self, topic: str, queue_id: int) -> int:
        """Store time in ms of the oldest message of a queue, -1 for an empty one."""
        return self.store_timestamp(topic, queue_id, self.min_offset(topic, queue_id))

    def look_message(
        self, commit_log_offset: int, size_bytes: int | None = None, *, is_checked: bool = True
    ) -> memoryview | None:
        """Return the stored record at an offset a client named; None when no record starts there. Raises NotInMemory.

        Given its size, `cold_pages` has seen to it that it is in memory. Not checked, the bytes may be no record: the
        caller decodes them.
        """
        if size_bytes is not None:
            return self._log.view(commit_log_offset, size_bytes)
        self._cold_pages.ready_record(commit_log_offset)
        return (self._log.record_view if is_checked else self._log.sized_view)(commit_log_offset)

    def query_by_key(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, visits_max: int | None = None
    ) -> QueryMessageResult:
        """Find records by UNIQ_KEY or a word of KEYS. Only hashes: compare topic and key of what is found.

        In the event loop with a limit of index entries to look at: raises LookupTooLong, NotInMemory. Any other thread
        without: it waits for the disk, and finds what was indexed before.
        """
        arguments = (topic, key, max_num, begin_ms, end_ms)
        if visits_max is None:
            return self._key_index.query(*arguments)
        self.index_pending()
        return self._key_index.query(*arguments, visits_max, self._cold_pages.ready)

    @property
    def commit_log_max_offset(self) -> int:
        return self._log.max_offset

    @property
    def commit_log_min_offset(self) -> int:
        return self._log.min_offset

    @property
    def in_memory_bytes(self) -> int:
        """Return how much of the log's end counts as being in memory."""
        return self._reader.in_memory_bytes

    @property
    def written_bytes(self) -> int:
        """Of the commit log since the store was opened."""
        return self._log.max_offset - self._opened_at_offset

    @property
    def flushed_offset(self) -> int:
        """Everything before it survives a power failure."""
        return self._log.flushed_offset

    @property
    def dispatch_behind_bytes(self) -> int:
        first_offset = self._dispatcher.first_offset
        return 0 if first_offset is None else self._log.max_offset - first_offset

    @property
    def is_dispatch_failing(self) -> bool:
        """Whether messages wait for room for their units or keys: dispatch_pending is to be tried again."""
        return self._dispatch_error != ""

    @property
    def refusal(self) -> str:
        """Why puts are refused; "" when they are accepted."""
        return self._refusal

    def topics(self) -> list[str]:
        return self.table.topics()

    def queue_counts(self) -> dict[str, int]:
        """Topic → highest queue id with messages, and one."""
        counts: dict[str, int] = {}
        for topic, queue_id in self._queues:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        return counts

    # Flushing

    def flush(self) -> int:
        """Make everything put so far durable; return flushed_offset. Not on the event loop. Raises FlushFailed."""
        return self._flusher.flush_log()

    def flush_soon(self) -> None:
        """Let the next flush of the log that is due take every dirty page, however few."""
        self._flusher.is_awaited = True

    def flush_log_if_due(self, elapsed_ms: int) -> None:
        """Flush the log when its interval has passed. Caller: a background thread, every 100 to 500 ms."""
        self._flusher.flush_log_if_due(elapsed_ms)

    def flush_queues_if_due(self, elapsed_ms: int) -> None:
        """Flush consume queues, index and checkpoint when it is time. Caller: another background thread."""
        self._flusher.flush_queues_if_due(elapsed_ms)

    # Keeping

    def note_disk_use(self, disk_used_ratio: float) -> None:
        """Refuse or accept puts by how full the disk is."""
        self.cleaner.set_disk_mark(disk_used_ratio)
        self._set_refusal()
        if self._dispatch_error:  # no put comes any more to retry it
            self.dispatch_pending()

    def drop_topic(self, topic: str) -> int:
        """Take a deleted topic's queues out, not its records; return how many. `remove_dropped` must follow."""
        if not self.table.queue_ids(topic):
            return 0
        self._deleted.add(topic, self._log.max_offset)
        self._dispatcher.drop_topic(topic, self._log.max_offset)
        return self.table.drop_topic(topic)

    def remove_dropped(self) -> None:
        """Make drops durable, so that no rebuilding brings the topics back, then remove their files. Raises OSError.

        Caller: any thread; thousands of queues take long.
        """
        self._deleted.save()
        self.table.remove_dropped()
