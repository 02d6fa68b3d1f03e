"""Half messages and the op messages that end them: how a transaction lies in the store.

A half message is stored in RMQ_SYS_TRANS_HALF_TOPIC with its real topic and queue among its properties; a check puts a
copy of it behind the others, with one more check counted. An op message in RMQ_SYS_TRANS_OP_HALF_TOPIC names the queue
offset of a half message that is done with (TransactionalMessageBridge.java, TransactionalMessageUtil.java).

    op messages of 5.x    tag d, several offsets, each followed by a comma
    of 4.9.7, and ours    tag d, one offset: both releases read it
    ours for a copy       the same with TRANSACTION_CHECK_TIMES: the transaction goes on with its next copy
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from brokerd.remoting.message.hosts import encode_host
from brokerd.remoting.message.names import HALF_TOPIC, MessageProperty
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord
from brokerd.store.log.record import encode_record, encode_topic
from brokerd.store.results import PutResult

REMOVE_TAG = "d"
OFFSET_SEPARATOR = b","
OF_CHECKS = frozenset(
    {MessageProperty.TRANSACTION_CHECK_TIMES, MessageProperty.TRANSACTION_PREPARED_QUEUE_OFFSET}
)
NOT_STORED = -1
DIGITS_MAX = 18  # of a number in a property or an op message; Java's longs have 19


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """A record of the half topic: one copy of a message whose transaction goes on, or went on when it was stored."""

    record: MessageRecord
    encoded_properties: bytes = b""  # as they are stored, where they were read to be stored again

    @property
    def first_offset(self) -> int:
        """The queue offset of the transaction's first copy: what all its copies have in common."""
        first = number(self.record.properties.get(MessageProperty.TRANSACTION_PREPARED_QUEUE_OFFSET))
        return self.record.queue_offset if first is None else min(first, self.record.queue_offset)

    @property
    def check_times(self) -> int | None:
        """How often its producers were asked; None before the first check."""
        return number(self.record.properties.get(MessageProperty.TRANSACTION_CHECK_TIMES))

    @property
    def producer_group(self) -> str:
        return self.record.properties.get(MessageProperty.PRODUCER_GROUP, "")

    @property
    def unique_key(self) -> str:
        return self.record.properties.get(MessageProperty.UNIQ_KEY, "")

    @property
    def real_topic(self) -> str:
        return self.record.properties.get(MessageProperty.REAL_TOPIC, "")

    @property
    def real_queue_id(self) -> int:
        return number(self.record.properties.get(MessageProperty.REAL_QUEUE_ID)) or 0

    @property
    def has_own_immunity(self) -> bool:
        return bool(self.record.properties.get(MessageProperty.CHECK_IMMUNITY_TIME_IN_SECONDS))

    def first_check_ms(self, time_out_ms: int) -> int:
        """Return when its producers are asked first: its own time, at least the broker's, after it was stored.

        A copy counts from when the message was born: by its producer's clock, so not later than it was stored.
        """
        record = self.record
        is_copy = self.first_offset != record.queue_offset
        begin_ms = (
            min(record.born_timestamp_ms, record.store_timestamp_ms) if is_copy else record.store_timestamp_ms
        )
        return begin_ms + self.immunity_ms(time_out_ms)

    def immunity_ms(self, time_out_ms: int) -> int:
        own_s = number(self.record.properties.get(MessageProperty.CHECK_IMMUNITY_TIME_IN_SECONDS)) or 0
        return max(own_s * 1000, time_out_ms)

    def stored_at(self, result: PutResult) -> HalfMessage:
        """Return it as it was stored."""
        return HalfMessage(
            replace(
                self.record,
                topic=HALF_TOPIC,
                queue_offset=result.queue_offset,
                commit_log_offset=result.commit_log_offset,
                store_size_bytes=result.size_bytes,
                store_timestamp_ms=result.store_timestamp_ms,
            )
        )

    def begun_anew(self) -> HalfMessage:
        """Return it as the first copy of a new transaction, which no producer was asked about."""
        kept = {name: value for name, value in self.record.properties.items() if name not in OF_CHECKS}
        return HalfMessage(replace(self.record, properties=kept))

    def copy_properties(self, check_times: int) -> dict[str, str]:
        """Return the properties of the copy that a check puts behind the others."""
        return {
            **self.record.properties,
            MessageProperty.TRANSACTION_CHECK_TIMES: str(check_times),
            MessageProperty.TRANSACTION_PREPARED_QUEUE_OFFSET: str(self.first_offset),
        }


def half_of_send(
    topic: str,
    queue_id: int,
    body: bytes,
    properties: dict[str, str],
    *,
    flag: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: tuple[str, int],
    store_host: tuple[str, int],
    reconsume_times: int,
) -> HalfMessage:
    """Return what a producer sent, with the properties of a half message, not stored yet (parseHalfMessageInner).

    `properties` are its own from here on. Those of a check are the broker's: a sender's are left out.
    """
    for name in OF_CHECKS:
        properties.pop(name, None)
    unique_key = properties.get(MessageProperty.UNIQ_KEY)
    if unique_key:
        properties[MessageProperty.TRANSACTION_ID] = unique_key
    properties[MessageProperty.REAL_TOPIC] = topic
    properties[MessageProperty.REAL_QUEUE_ID] = str(queue_id)
    return HalfMessage(
        MessageRecord(
            topic=HALF_TOPIC,
            queue_id=0,
            queue_offset=NOT_STORED,
            commit_log_offset=NOT_STORED,
            store_size_bytes=0,
            body=body,
            body_crc=0,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
            store_timestamp_ms=0,
            store_host=store_host,
            reconsume_times=reconsume_times,
            prepared_transaction_offset=0,
            properties=properties,
        )
    )


def check_body(half: HalfMessage) -> bytes:
    """Return the body of CHECK_TRANSACTION_STATE: a copy, with the topic and queue the message will have."""
    record = half.record
    return encode_record(
        encode_topic(half.real_topic),
        half.real_queue_id,
        record.queue_offset,
        record.commit_log_offset,
        record.body,
        encode_properties(record.properties),
        record.flag,
        record.sys_flag,
        record.born_timestamp_ms,
        encode_host(record.born_host),
        record.store_timestamp_ms,
        encode_host(record.store_host),
        record.reconsume_times,
        0,
    )


def ended_offsets(body: bytes) -> list[int]:
    """Return the half messages that an op message is about, of either release. What is no number is passed over."""
    texts = body.decode(errors="replace").split(OFFSET_SEPARATOR.decode())
    return [offset for text in texts if (offset := number(text)) is not None]


def number(text: str | None) -> int | None:
    """Return a number of a property; None for what is missing or none."""
    if text is None or len(text) > DIGITS_MAX or not text.isascii() or not text.isdecimal():
        return None
    return int(text)
