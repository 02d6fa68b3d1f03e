"""Reads and writes of a transaction's messages: half, op, real, and those whose producers never answered.

Raises what the store raises: PutRefused, QueueMissing, OSError. Single-threaded: the broker's event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from brokerd.remoting.errors import RemotingError
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.names import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    MessageProperty,
    SysFlag,
)
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.cold_pages import FileRange
from brokerd.store.log.record import TWO_INTS, read_properties
from brokerd.store.message_store import MessageStore
from brokerd.store.results import PutResult
from brokerd.timer.timer_message import OF_PARKING, Parking
from brokerd.transaction.half_message import REMOVE_TAG, HalfMessage

logger = logging.getLogger(__name__)

QUEUE_ID = 0  # of the half, op and discard topics
UNITS_AT_ONCE = 1_000
NOT_TRANSACTIONAL = ~SysFlag.TRANSACTION_MASK
REMOVE_TAG_CODE = tag_code(REMOVE_TAG)
OP_PROPERTIES = encode_properties(
    {MessageProperty.TAGS: REMOVE_TAG, MessageProperty.WAIT_STORE_MSG_OK: "true"}
)
# What a committed message may be longer than its half message, and an op message.
ROOM_BYTES = 1_024


class HalfStore:
    """The messages of transactions in the message store."""

    def __init__(self, store: MessageStore, store_host: tuple[str, int], parking: Parking) -> None:
        self._store = store
        self._store_host = store_host
        self._parking = parking

    # Reading

    def cold_pages(self, queue_offset: int) -> list[FileRange]:
        return self._store.cold_pages(HALF_TOPIC, QUEUE_ID, queue_offset, 1)

    def half(self, queue_offset: int) -> HalfMessage | None:
        """Return the half message at a queue offset; None for one that expired or is damaged."""
        return next((half for half in self.halves(queue_offset, queue_offset + 1)), None)

    def half_at(self, commit_log_offset: int) -> HalfMessage | None:
        """Return the half message at an offset that a client named. Raises NotInMemory."""
        view = self._store.look_message(commit_log_offset, is_checked=False)
        record = record_of(view, commit_log_offset)
        if view is None or record is None or record.topic != HALF_TOPIC:
            return None
        return HalfMessage(record, read_properties(view))

    def discarded_at(self, commit_log_offset: int) -> HalfMessage | None:
        """The same among those that were checked too often."""
        record = record_of(self._store.look_message(commit_log_offset, is_checked=False), commit_log_offset)
        return HalfMessage(record) if record is not None and record.topic == CHECK_MAX_TIME_TOPIC else None

    def ended_last(self) -> HalfMessage | None:
        """Return the half message that the newest message of all ends: committed or given up. None for any other.

        Its op message follows it in the log at once: a kill or a power cut came between. Waits for the disk.
        """
        queue = max(self._store.table, key=lambda each: each.max_physic_offset, default=None)
        if queue is None or queue.max_physic_offset < 0:
            return None
        offset, size_bytes, _ = queue.unit(queue.max_offset - 1)
        newest = record_of(self._store.look_message(offset, size_bytes), offset)
        if newest is None:
            return None
        is_committed = newest.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_COMMIT
        if not is_committed and newest.topic != CHECK_MAX_TIME_TOPIC:
            return None
        prepared_at = newest.prepared_transaction_offset
        head = self._store.look_message(prepared_at, TWO_INTS.size)
        size_bytes = 0 if head is None else TWO_INTS.unpack(head)[0]
        record = record_of(self._store.look_message(prepared_at, max(size_bytes, 0)), prepared_at)
        # Apache's broker names no half message where it gives one up.
        if record is None or (record.topic, record.body) != (HALF_TOPIC, newest.body):
            return None
        half = HalfMessage(record)
        return half if half.unique_key == HalfMessage(newest).unique_key else None

    def halves(
        self, start: int, end: int, done: frozenset[int] | set[int] = frozenset()
    ) -> Iterator[HalfMessage]:
        """Read the half messages from one queue offset up to another, but for those that are done with."""
        return (HalfMessage(record) for record in self._records(HALF_TOPIC, start, end, done))

    def ops(self, start: int, end: int) -> Iterator[MessageRecord]:
        return self._records(OP_HALF_TOPIC, start, end, frozenset())

    def _records(
        self, topic: str, start: int, end: int, done: frozenset[int] | set[int]
    ) -> Iterator[MessageRecord]:
        """Pass over what is damaged, with a log line: the others must not wait for it."""
        store, offset = self._store, start
        while offset < end:
            units = store.units(topic, QUEUE_ID, offset, min(end - offset, UNITS_AT_ONCE))
            if not units:
                return
            for number, (commit_log_offset, size_bytes, _) in enumerate(units, offset):
                if number in done:
                    continue
                view = store.look_message(commit_log_offset, size_bytes)
                try:
                    record = None if view is None else decode_record(view, check_crc=True)
                except RemotingError as error:
                    logger.error("message is damaged topic=%s offset=%d: %s", topic, number, error)  # noqa: TRY400
                    continue
                if record is not None and (record.topic, record.queue_offset) == (topic, number):
                    yield record
            offset += len(units)

    # Writing

    def need_op_queue(self) -> None:
        """Raise QueueMissing before anything is stored: what follows may not happen twice."""
        self._store.table.find_or_create(OP_HALF_TOPIC, QUEUE_ID)

    def put_half(self, half: HalfMessage, properties: Mapping[str, str], now_ms: int) -> PutResult:
        """Put it into the half topic, the first time or once more."""
        return self._put(HALF_TOPIC, QUEUE_ID, half, encode_properties(properties), 0, 0, now_ms)

    def put_discarded(self, half: HalfMessage, now_ms: int) -> PutResult:
        """Keep one that was given up, with room for its op message behind it."""
        self._store.make_room(half.record.store_size_bytes + ROOM_BYTES)
        encoded, prepared_at = encode_properties(half.record.properties), half.record.commit_log_offset
        return self._put(CHECK_MAX_TIME_TOPIC, QUEUE_ID, half, encoded, 0, prepared_at, now_ms)

    def put_real(self, half: HalfMessage, now_ms: int) -> PutResult:
        """Make a committed message visible, where its op message has room behind it, on a full disk too.

        Its property string stays that of the half message, as Java's does.
        """
        record, encoded = half.record, half.encoded_properties
        self._store.make_room(record.store_size_bytes + ROOM_BYTES)
        topic, queue_id = half.real_topic, half.real_queue_id
        if not (encoded and OF_PARKING.isdisjoint(record.properties)):
            properties = dict(record.properties)
            topic, queue_id = self._parking.park(properties, topic, queue_id, now_ms)
            encoded = encode_properties(properties)
        return self._put(
            topic, queue_id, half, encoded, SysFlag.TRANSACTION_COMMIT, record.commit_log_offset, now_ms
        )

    def _put(
        self,
        topic: str,
        queue_id: int,
        half: HalfMessage,
        encoded_properties: bytes,
        transaction_flag: int,
        prepared_transaction_offset: int,
        now_ms: int,
    ) -> PutResult:
        record = half.record
        return self._store.put_message(
            topic,
            queue_id,
            record.body,
            encoded_properties,
            tag_code(record.tags) if record.tags else 0,
            flag=record.flag,
            sys_flag=record.sys_flag & NOT_TRANSACTIONAL | transaction_flag,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=record.born_host,
            store_host=record.store_host,
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=prepared_transaction_offset,
            now_ms=now_ms,
        )

    def put_op(self, half_offset: int, check_times: int | None, now_ms: int) -> None:
        """Note that a half message is done with: its transaction ended or, with `check_times`, has a newer copy."""
        properties = OP_PROPERTIES
        if check_times is not None:
            properties += encode_properties({MessageProperty.TRANSACTION_CHECK_TIMES: str(check_times)})
        self._store.put_message(
            OP_HALF_TOPIC,
            QUEUE_ID,
            str(half_offset).encode(),
            properties,
            REMOVE_TAG_CODE,
            born_timestamp_ms=now_ms,
            born_host=self._store_host,
            store_host=self._store_host,
            now_ms=now_ms,
        )


def record_of(view: memoryview | None, commit_log_offset: int) -> MessageRecord | None:
    """Return the record of a view; None where no record of that offset is."""
    try:
        record = None if view is None else decode_record(view)
    except RemotingError:
        return None
    return record if record is not None and record.commit_log_offset == commit_log_offset else None
