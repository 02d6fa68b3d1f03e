"""Reads and writes of messages that wait for their time.

Raises what the store raises: PutRefused, NotReady, OSError.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from brokerd.remoting.errors import RemotingError
from brokerd.remoting.message.java_hash import java_hash, tag_code
from brokerd.remoting.message.names import HALF_TOPIC, TIMER_TOPIC, MessageProperty, TimerProperty
from brokerd.remoting.message.properties import PROPERTIES_BYTES_MAX, encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.errors import TornRecord
from brokerd.store.log.record import StoredRecord, find_property, read_properties, read_record
from brokerd.store.message_store import MessageStore
from brokerd.timer.timer_log import TimerUnit
from brokerd.timer.timer_message import QUEUE_ID, delete_key, number

logger = logging.getLogger(__name__)

OUT_MS = TimerProperty.OUT_MS.encode() + b"\x01"
DELETE_UNIQUE_KEY = TimerProperty.DELETE_UNIQUE_KEY.encode() + b"\x01"
REAL_TOPIC = MessageProperty.REAL_TOPIC.encode() + b"\x01"
ROOM_BYTES = 1_024  # what a delivered copy is longer than the message that waited: properties, topic


class Waiting(NamedTuple):
    """What the timer needs of a message that comes into its topic: a tuple, one per message."""

    deliver_ms: int
    is_delete: bool
    topic: str
    topic_hash: int
    store_timestamp_ms: int


class TimerMessage(NamedTuple):
    """A message that waits; `properties` is the encoded string."""

    record: MessageRecord
    properties: bytes

    @property
    def real_topic(self) -> str:
        return self.record.properties.get(MessageProperty.REAL_TOPIC, "")

    @property
    def delete_key(self) -> str:
        return delete_key(self.real_topic, self.record.properties.get(MessageProperty.UNIQ_KEY, ""))


class Copy(NamedTuple):
    """The message that a slot's unit becomes: in its real topic, or in the timer topic once more."""

    topic: str
    queue_id: int
    message: TimerMessage
    properties: bytes

    @property
    def size_bytes_max(self) -> int:
        return self.message.record.store_size_bytes + ROOM_BYTES


def waiting_of(view: memoryview | None, offset: int) -> Waiting | None:
    """Read a message of the timer topic; None, with a log line, for one the timer cannot keep."""
    if view is None:
        logger.error("timer message lost offset=%d: its file is gone", offset)
        return None
    try:
        record = read_record(view, 0, offset)
    except TornRecord as error:
        logger.error("timer message passed over offset=%d: it is damaged (%s)", offset, error)  # noqa: TRY400
        return None
    deliver_ms = None if record is None else number(find_property(record.properties, OUT_MS).decode())
    if record is None or record.topic != TIMER_TOPIC or deliver_ms is None:
        logger.error("timer message passed over offset=%d: it has no time", offset)
        return None
    topic = find_property(record.properties, REAL_TOPIC)
    is_delete = find_property(record.properties, DELETE_UNIQUE_KEY) != b""
    return Waiting(deliver_ms, is_delete, topic.decode(), java_hash(topic), record.store_timestamp_ms)


def message_of(store: MessageStore, unit: TimerUnit, *, waits: bool = False) -> TimerMessage | None:
    """Return a unit's message; None, with a log line, where there is none any more.

    Raises NotInMemory, or `waits` for the disk.
    """
    offset = unit.commit_log_offset
    view = store.look_message(offset, unit.size_bytes if waits else None)
    try:
        record = None if view is None else decode_record(view, check_crc=True)
    except RemotingError as error:
        logger.error("timer message passed over offset=%d: it is damaged (%s)", offset, error)  # noqa: TRY400
        return None
    if view is None or record is None or (record.topic, record.commit_log_offset) != (TIMER_TOPIC, offset):
        logger.error("timer message lost offset=%d: it expired or is damaged", offset)
        return None
    return TimerMessage(record, read_properties(view))


def copy_of(unit: TimerUnit, message: TimerMessage, now_ms: int) -> Copy | None:
    """Return what a unit's message is put as; None, with a log line, for one without a real topic."""
    record, properties = message
    added = {TimerProperty.ENQUEUE_MS: str(unit.enqueue_ms), TimerProperty.DEQUEUE_MS: str(now_ms)}
    topic, queue_id = TIMER_TOPIC, QUEUE_ID
    if unit.is_rolled:
        rolled = number(record.properties.get(TimerProperty.ROLL_TIMES, "0")) or 0
        added[TimerProperty.ROLL_TIMES] = str(rolled + 1)
    else:
        topic = message.real_topic
        queue_id = number(record.properties.get(MessageProperty.REAL_QUEUE_ID, "")) or 0
        if not topic or topic in (HALF_TOPIC, TIMER_TOPIC) or queue_id < 0:
            logger.error(
                "timer message dropped offset=%d: its real topic is %r", record.commit_log_offset, topic
            )
            return None
    separator = b"" if properties.endswith(b"\x02") else b"\x02"
    longer = properties + separator + encode_properties(added)
    return Copy(topic, queue_id, message, longer if len(longer) <= PROPERTIES_BYTES_MAX else properties)


def is_delivered(store: MessageStore, unit: TimerUnit, message: TimerMessage) -> bool:
    """Whether the copy that was noted before a kill came into the log."""
    if not unit.delivered_as:
        return False
    offset = unit.delivered_as - 1
    if offset < store.commit_log_min_offset:
        return True
    view = store.look_message(offset)
    try:
        record: StoredRecord | None = None if view is None else read_record(view, 0, offset)
    except TornRecord:
        return False
    return record is not None and record.properties.startswith(message.properties)


def put(store: MessageStore, copy: Copy, now_ms: int) -> None:
    """Store a copy, where room has been made for it."""
    record = copy.message.record
    store.put_message(
        copy.topic,
        copy.queue_id,
        record.body,
        copy.properties,
        tag_code(record.tags) if record.tags else 0,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        now_ms=now_ms,
    )
