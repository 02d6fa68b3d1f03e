"""Store what producers send: SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320).

Source: semantics §1, protocol §3.3 (`SendMessageProcessor.java`); the checks keep the reference's order.
`Sender.send` is the one implementation; the fast path (processor/hot_path.py) and the handler here only read its
input and write its output.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from brokerd.broker_stats import TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, StatsItem
from brokerd.clock import steady_ms
from brokerd.compiled.functions import compiled_functions
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.send.compiled_sends import CompiledSends
from brokerd.processor.send.message_properties import has_no_special, make_unique_key
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import Permission, RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, error_for
from brokerd.remoting.header.headers import SendMessageRequestHeader, SendMessageRequestHeaderV2
from brokerd.remoting.header.send_header import SendFields, SendFieldsV2
from brokerd.remoting.message.ids import create_offset_message_id
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.names import (
    DLQ_TOPIC_PREFIX,
    HALF_TOPIC,
    RETRY_TOPIC_PREFIX,
    TIMER_TOPIC,
    MessageProperty,
    SysFlag,
    TimerProperty,
    dead_letter_topic,
    validate_topic,
)
from brokerd.remoting.message.properties import encode_properties, parse_properties
from brokerd.remoting.message.recall_handle import RecallHandle
from brokerd.store.errors import PutRefused
from brokerd.store.light_store import LightMessageStore
from brokerd.store.results import BatchMessage, PutMessageStatus
from brokerd.tables.topic_config import DEAD_LETTER_QUEUE_NUMS, NOT_SENDABLE
from brokerd.timer.timer_message import Parking
from brokerd.transaction.half_message import half_of_send

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
MULTI_TAG = "MULTI_TAG"
MULTI_TAGS_FLAG = 0x2
TRANSACTION_MASK = SysFlag.TRANSACTION_MASK
UNUSUAL_FLAGS = SysFlag.TRANSACTION_MASK | SysFlag.INNER_BATCH
MAX_RECONSUME_HEADER_VERSION = 121  # V3_4_9: from there on the header's maxReconsumeTimes counts
BATCH_HEAD = struct.Struct(">iiiii")  # total size, magic, body CRC, flag, body length
BATCH_MESSAGES_MAX = 65_536  # 4 MiB of 22-byte entries are 190 000: no client sends that
TOPIC_ENTRIES_MAX = 100_000
NO_INNER_BATCH = (
    "messages kept as one (sysFlag 128) are for topics with queue.type=BatchCQ, which this broker does not serve;"
    " a batch without the flag is stored as its messages"
)

PUT_CODES = {
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
}


# A send's header, whichever way it was read.
SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2 | SendFields | SendFieldsV2


# The answer to the producer: message id (a comma list for a batch), queue id, queue offset (its first message's),
# transaction id, handle to recall it. A plain tuple: one is made per message.
SendOutcome = tuple[str, int, int, str | None, str | None]


class TopicEntry:
    """What sends to one topic need again and again."""

    __slots__ = (
        "config",
        "is_forbidden",
        "is_ordinary",
        "is_retry",
        "put_nums",
        "put_size",
        "queue_limit",
        "sys_flag",
    )

    def __init__(self, config: TopicConfig, put_nums: StatsItem, put_size: StatsItem) -> None:
        self.config = config
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        self.sys_flag = MULTI_TAGS_FLAG if config.topic_filter_type == MULTI_TAG else 0
        self.is_forbidden = config.topic_name in NOT_SENDABLE
        self.is_retry = config.topic_name.startswith(RETRY_TOPIC_PREFIX)
        self.is_ordinary = not self.is_forbidden and not self.is_retry  # for the compiled functions
        self.put_nums = put_nums
        self.put_size = put_size


class Sender:
    """Checks and stores messages. One per broker; single-threaded: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._entries: dict[str, TopicEntry] = {}
        self._topics = broker.topics.topics
        store = broker.store
        self._put = store.put_ordinary if isinstance(store, LightMessageStore) else store.put_message
        self._broker_put = broker.stats.broker_put
        host, port = broker.store_host
        self._store_host = broker.store_host
        self._id_prefix = create_offset_message_id(host, port, 0)[:-16]  # the rest is the commit log offset
        self._functions = compiled_functions(is_wanted=broker.store_config.compiled_sends)
        self.on_region_change: Callable[[], None] = lambda: None
        self._read_region()
        self.parking = Parking(
            broker.config,
            broker.schedule.max_level,
            broker.store_config.timer_precision_ms,
            broker.timer.is_congested,
        )

    def _read_region(self) -> None:
        config = self._broker.config.broker
        self.region_fields = {"MSG_REGION": config.region_id, "TRACE_ON": str(config.trace_on).lower()}
        self._added_properties = {
            **self.region_fields, MessageProperty.CLUSTER: config.broker_cluster_name
        }  # fmt: skip
        self._added = encode_properties(self._added_properties).decode()
        self.compiled: CompiledSends | None = None
        if self._functions is not None:
            self.compiled = CompiledSends(
                self._functions,
                self._broker,
                self._entries,
                self._added.encode(),
                self._id_prefix,
                self.region_fields,
            )

    def settings_changed(self) -> None:
        """Read anew what is kept of the settings."""
        self._read_region()
        self.drop_topics()
        self.on_region_change()

    def send(
        self, header: SendHeader, is_batch: bool, version: int, body: bytes, channel: Channel, now_ms: int
    ) -> SendOutcome:
        """Store one message or one batch. Raises MQBrokerError with the code to answer.

        Hot path: every message passes here. The order of the checks is semantics §1.1.
        """
        topic = header.topic
        config = self._topics.get(topic)
        entry = self._entries.get(topic)
        if entry is None or entry.config is not config:
            entry = self._entry(header, now_ms)
        queue_id = header.queue_id
        if entry.is_forbidden or queue_id >= entry.queue_limit:
            self._refuse(entry, queue_id)
        if queue_id < 0:
            queue_id = random.randrange(max(1, entry.config.write_queue_nums))
        if is_batch:
            return self._send_batch(header, entry, queue_id, body, channel, now_ms)
        text = header.properties or ""
        properties = parse_properties(text)
        unique_key = properties.get("UNIQ_KEY")
        if unique_key is None:
            unique_key = make_unique_key(self._store_host[0], now_ms)
            text = f"{text}\x02UNIQ_KEY\x01{unique_key}" if text else f"UNIQ_KEY\x01{unique_key}"
            if "\x02\x02" in text:
                text = text.replace("\x02\x02", "\x02")
        sys_flag = header.sys_flag | entry.sys_flag
        put, stored_queue_id, recall_handle = self._put, queue_id, None
        if entry.is_retry or not has_no_special(properties) or sys_flag & UNUSUAL_FLAGS:
            self._check_unusual(entry, sys_flag, properties)
            put = self._broker.store.put_message
            if begins_transaction(header, properties):
                return self._send_half(
                    header, sys_flag, queue_id, properties, unique_key, body, channel, now_ms
                )
            # A message that is sent back keeps its properties and flags of then.
            sys_flag &= ~TRANSACTION_MASK
            topic, stored_queue_id, text = self._special(
                header, version, entry, queue_id, properties, unique_key, now_ms
            )
            recall_handle = self._recall_handle(topic, properties)
        stored = f"{text}{self._added}" if text[-1:] == "\x02" or not text else f"{text}\x02{self._added}"
        tag = properties.get("TAGS")
        try:
            result = put(
                topic,
                stored_queue_id,
                body,
                stored.encode(),
                tag_code(tag) if tag else 0,
                flag=header.flag,
                sys_flag=sys_flag,
                born_timestamp_ms=header.born_timestamp,
                born_host=channel.remote_address,
                store_host=self._store_host,
                reconsume_times=header.reconsume_times or 0,
                now_ms=now_ms,
            )
        except PutRefused as error:
            raise self._put_error(error) from error
        entry.put_nums.value += 1
        entry.put_nums.times += 1
        entry.put_size.value += result.size_bytes
        entry.put_size.times += 1
        self._broker_put.value += 1
        self._broker_put.times += 1
        message_id = f"{self._id_prefix}{result.commit_log_offset:016X}"
        return message_id, queue_id, result.queue_offset, unique_key, recall_handle

    def check(self, header: SendHeader, now_ms: int) -> None:
        """Refuse what `send` refuses before it looks at the message; raises MQBrokerError."""
        entry = self._entry(header, now_ms)
        if entry.is_forbidden or header.queue_id >= entry.queue_limit:
            self._refuse(entry, header.queue_id)

    def drop_topics(self) -> None:
        """A setting changed: make the slow checks again at the next send of every topic."""
        self._entries.clear()

    def _put_error(self, error: PutRefused) -> MQBrokerError:
        self._broker.stats.put_failed_total += 1
        return error_for(PUT_CODES.get(error.status, ResponseCode.SYSTEM_ERROR), str(error))

    def _refuse(self, entry: TopicEntry, queue_id: int) -> None:
        config = entry.config
        if entry.is_forbidden:
            raise error_for(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{config.topic_name}] is forbidden."
            )
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{queue_id}] is illegal, topic {config.topic_name} has readQueueNums="
            f"{config.read_queue_nums}, writeQueueNums={config.write_queue_nums}",
        )

    def _entry(self, header: SendHeader, now_ms: int) -> TopicEntry:
        """Run the slow half of the checks, at a topic's first send and after each of its changes."""
        broker, topic = self._broker, header.topic
        settings = broker.config.broker
        if now_ms < settings.start_accept_send_request_time_stamp:
            raise error_for(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until, {settings.start_accept_send_request_time_stamp}",
            )
        config = broker.topics.get(topic)
        if config is None:
            config = self._create_topic(header, now_ms)
        if reason := broker.topics.unserved.get(topic):
            raise error_for(ResponseCode.NO_PERMISSION, reason)
        if config.order and not settings.broker_permission & Permission.WRITE:
            raise error_for(
                ResponseCode.NO_PERMISSION, f"the broker[{broker.address}] sending message is forbidden"
            )
        stats = broker.stats
        entry = TopicEntry(config, stats.item(TOPIC_PUT_NUMS, topic), stats.item(TOPIC_PUT_SIZE, topic))
        if len(self._entries) >= TOPIC_ENTRIES_MAX:
            self._entries.clear()
        self._entries[topic] = entry
        return entry

    def _create_topic(self, header: SendHeader, now_ms: int) -> TopicConfig:
        topic, topics = header.topic, self._broker.topics
        try:
            validate_topic(topic)
        except ValueError as error:
            raise error_for(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if topic in NOT_SENDABLE:
            raise error_for(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        config = topics.create_in_send(
            topic, header.default_topic or "", header.default_topic_queue_nums or 0, now_ms
        ) or topics.create_retry_topic_of_send(topic, now_ms)
        if config is None:
            raise error_for(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{FAQ}"
            )
        return config

    def _special(
        self,
        header: SendHeader,
        version: int,
        entry: TopicEntry,
        queue_id: int,
        properties: dict[str, str],
        unique_key: str,
        now_ms: int,
    ) -> tuple[str, int, str]:
        """Retry topics, delays and what is refused; (topic, queue id, properties) the message is stored with."""
        topic = header.topic
        properties["UNIQ_KEY"] = unique_key
        properties.pop(MessageProperty.POP_CK, None)
        if header.sys_flag & TRANSACTION_MASK and MessageProperty.TRANSACTION_PREPARED not in properties:
            raise error_for(
                ResponseCode.MESSAGE_ILLEGAL, "flags of a transaction need the property TRAN_MSG=true"
            )
        if entry.is_retry:
            topic, queue_id = self._divert_retry(header, version, queue_id, properties, now_ms)
        try:
            topic, queue_id = self.parking.park(properties, topic, queue_id, now_ms)
        except PutRefused as error:
            raise self._put_error(error) from error
        return topic, queue_id, encode_properties(properties).decode()

    def _check_unusual(self, entry: TopicEntry, sys_flag: int, properties: dict[str, str]) -> None:
        """Refuse inner batches, and light queues that cannot be. What is sent back was checked before."""
        if entry.is_retry:
            return
        if sys_flag & SysFlag.INNER_BATCH:
            raise error_for(ResponseCode.MESSAGE_ILLEGAL, NO_INNER_BATCH)
        store = self._broker.store
        if isinstance(store, LightMessageStore):
            try:
                store.check_light(
                    entry.config.topic_name, properties.get(MessageProperty.INNER_MULTI_DISPATCH, "")
                )
            except PutRefused as error:
                raise self._put_error(error) from error

    def _recall_handle(self, topic: str, properties: dict[str, str]) -> str | None:
        """Return what its producer recalls a message with that waits for its time; None for any other."""
        real_topic = properties.get(MessageProperty.REAL_TOPIC, "")
        if topic != TIMER_TOPIC or real_topic.startswith(RETRY_TOPIC_PREFIX):
            return None
        # 1 ms later lies in the same slot, and after it: the time of the message of the recall.
        timestamp = str(int(properties[TimerProperty.OUT_MS]) + 1)
        return RecallHandle(
            real_topic, self._broker.broker_name, timestamp, properties[MessageProperty.UNIQ_KEY]
        ).encode()

    def _send_half(
        self,
        header: SendHeader,
        sys_flag: int,
        queue_id: int,
        properties: dict[str, str],
        unique_key: str,
        body: bytes,
        channel: Channel,
        now_ms: int,
    ) -> SendOutcome:
        """Store a message that stays invisible until its transaction is committed."""
        broker = self._broker
        if broker.config.broker.reject_transaction_message:
            raise error_for(
                ResponseCode.NO_PERMISSION,
                f"the broker[{broker.address}] sending transaction message is forbidden",
            )
        properties["UNIQ_KEY"] = unique_key
        properties |= self._added_properties
        half = half_of_send(
            header.topic,
            queue_id,
            body,
            properties,
            flag=header.flag,
            sys_flag=sys_flag,
            born_timestamp_ms=header.born_timestamp,
            born_host=channel.remote_address,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
        )
        try:
            result = broker.transactions.put_half(half, now_ms)
        except PutRefused as error:
            raise self._put_error(error) from error
        self.count_put(HALF_TOPIC, result.size_bytes)
        message_id = f"{self._id_prefix}{result.commit_log_offset:016X}"
        return message_id, queue_id, result.queue_offset, unique_key, None

    def count_put(self, topic: str, size_bytes: int) -> None:
        """Count a message that came by another way than the hot path's."""
        stats = self._broker.stats
        stats.item(TOPIC_PUT_NUMS, topic).add(1)
        stats.item(TOPIC_PUT_SIZE, topic).add(size_bytes)
        self._broker_put.add(1)

    def _divert_retry(
        self,
        header: SendHeader,
        version: int,
        queue_id: int,
        properties: dict[str, str],
        now_ms: int,
    ) -> tuple[str, int]:
        """Redirect a send to `%RETRY%group` that was tried often enough to `%DLQ%group` (semantics §1.5)."""
        broker, group = self._broker, header.topic[len(RETRY_TOPIC_PREFIX) :]
        config = broker.groups.find_or_create(group, now_ms)
        if config is None:
            raise error_for(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}{FAQ}"
            )
        times_max = config.retry_max_times
        if version >= MAX_RECONSUME_HEADER_VERSION and header.max_reconsume_times is not None:
            times_max = header.max_reconsume_times
        is_last = (header.reconsume_times or 0) > times_max
        if not is_last and not broker.locks.is_group_locked(group, steady_ms()):
            return header.topic, queue_id
        topic = dead_letter_topic(group)
        broker.topics.create_of_message(topic, DEAD_LETTER_QUEUE_NUMS, now_ms)
        properties[MessageProperty.DELAY] = "0"
        return topic, 0

    def _send_batch(
        self,
        header: SendHeader,
        entry: TopicEntry,
        queue_id: int,
        body: bytes,
        channel: Channel,
        now_ms: int,
    ) -> SendOutcome:
        """Store a batch; each message keeps its own properties and key, as in 4.9.7 (5.3.3 overwrites the key)."""
        if entry.is_retry or header.topic.startswith(DLQ_TOPIC_PREFIX):
            raise error_for(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group")
        sys_flag, reconsume_times = header.sys_flag | entry.sys_flag, header.reconsume_times or 0
        if sys_flag & SysFlag.INNER_BATCH:
            raise error_for(ResponseCode.MESSAGE_ILLEGAL, NO_INNER_BATCH)
        stored = None
        if self.compiled is not None:
            born = header.born_timestamp, channel.remote_address
            stored = self.compiled.batch(
                header.topic, queue_id, body, sys_flag, *born, reconsume_times, now_ms
            )
        if stored is None:
            stored = self._put_batch(header, queue_id, body, sys_flag, channel, now_ms)
        count, size_bytes, queue_offset, ids = stored
        entry.put_nums.add(count)
        entry.put_size.add(size_bytes)
        self._broker_put.add(count)
        unique_key = parse_properties(header.properties or "").get("UNIQ_KEY")
        return ids, queue_id, queue_offset, unique_key, None

    def _put_batch(
        self, header: SendHeader, queue_id: int, body: bytes, sys_flag: int, channel: Channel, now_ms: int
    ) -> tuple[int, int, int, str]:
        """As CompiledSends.batch; stored or refused. Raises MQBrokerError."""
        try:
            result = self._broker.store.put_messages(
                header.topic,
                queue_id,
                read_batch(body, self._added),
                sys_flag=sys_flag,
                born_timestamp_ms=header.born_timestamp,
                born_host=channel.remote_address,
                store_host=self._store_host,
                reconsume_times=header.reconsume_times or 0,
                now_ms=now_ms,
            )
        except PutRefused as error:
            raise self._put_error(error) from error
        offsets, prefix = result.commit_log_offsets, self._id_prefix
        ids = ",".join([f"{prefix}{offset:016X}" for offset in offsets])
        return len(offsets), result.size_bytes, result.queue_offset, ids


def begins_transaction(header: SendHeader, properties: dict[str, str]) -> bool:
    """Whether it is a half message. One of a client before 4.6.1 that is sent back has the property still."""
    is_sent_back = (header.reconsume_times or 0) > 0 and properties.get(MessageProperty.DELAY, "0") > "0"
    return properties.get(MessageProperty.TRANSACTION_PREPARED, "").lower() == "true" and not is_sent_back


def read_batch(body: bytes, added: str) -> list[BatchMessage]:
    """The messages of a batch body (protocol §4.2) with `added` behind their properties. Raises MESSAGE_ILLEGAL."""
    batch: list[BatchMessage] = []
    position, end = 0, len(body)
    suffix = added.encode()
    while position < end:
        if end - position < BATCH_HEAD.size + 2 or len(batch) == BATCH_MESSAGES_MAX:
            raise error_for(ResponseCode.MESSAGE_ILLEGAL, f"the batch is malformed at byte {position}")
        total, _, _, flag, body_length = BATCH_HEAD.unpack_from(body, position)
        body_start = position + BATCH_HEAD.size
        body_end = body_start + body_length
        properties_start = body_end + 2
        if body_length < 0 or properties_start > end:
            raise error_for(ResponseCode.MESSAGE_ILLEGAL, f"the batch is malformed at byte {position}")
        properties_end = properties_start + int.from_bytes(body[body_end:properties_start], "big")
        if properties_end != position + total or properties_end > end:
            raise error_for(ResponseCode.MESSAGE_ILLEGAL, f"the batch is malformed at byte {position}")
        properties = body[properties_start:properties_end]
        if properties and properties[-1] != 2:
            properties += b"\x02"
        batch.append((body[body_start:body_end], properties + suffix, flag))
        position = properties_end
    if not batch:
        raise error_for(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
    return batch


def handle(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """Send the plain way: any header form, any order of fields."""
    header_class = (
        SendMessageRequestHeader if command.code == RequestCode.SEND_MESSAGE else SendMessageRequestHeaderV2
    )
    header = header_class.from_ext_fields(command.ext_fields)
    sender = broker.sender
    try:
        if command.code == RequestCode.SEND_BATCH_MESSAGE and not header.batch:
            raise error_for(ResponseCode.MESSAGE_ILLEGAL, "a batch request without the batch flag")
        outcome = sender.send(header, bool(header.batch), command.version, command.body, channel, now_ms)
    except MQBrokerError as error:
        return command.response(error.code, error.remark, ext_fields=dict(sender.region_fields))
    return command.response(ResponseCode.SUCCESS, ext_fields=outcome_fields(sender.region_fields, outcome))


def outcome_fields(region_fields: dict[str, str], outcome: SendOutcome) -> dict[str, str]:
    """Return the response header of a stored send."""
    message_id, queue_id, queue_offset, transaction_id, recall_handle = outcome
    fields = {
        **region_fields,
        "msgId": message_id,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
    }
    if transaction_id:
        fields["transactionId"] = transaction_id
    if recall_handle:
        fields["recallHandle"] = recall_handle
    return fields


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.SEND_MESSAGE: handle,
    RequestCode.SEND_MESSAGE_V2: handle,
    RequestCode.SEND_BATCH_MESSAGE: handle,
}
