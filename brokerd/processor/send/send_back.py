"""CONSUMER_SEND_MSG_BACK (36): a message that a consumer failed on goes to its group's retry or dead-letter topic.

Source: semantics §4.1, protocol §3.8 (`AbstractSendMessageProcessor.consumerSendMsgBack`).
"""

from __future__ import annotations

import random

from brokerd.broker_stats import SNDBCK_PUT_NUMS
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.send.send_message import PUT_CODES
from brokerd.remoting.codes import Permission, RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import RemotingError, error_for
from brokerd.remoting.header.headers import ConsumerSendMsgBackRequestHeader
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.names import MessageProperty, dead_letter_topic, retry_topic
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.schedule_message import park
from brokerd.store.errors import PutRefused
from brokerd.tables.topic_config import DEAD_LETTER_QUEUE_NUMS

FIRST_RETRY_LEVEL = 3  # 10 s; each further retry one level up
MAX_RECONSUME_HEADER_VERSION = 121


def consumer_send_msg_back(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """Numbers as in semantics §4.1."""
    header = ConsumerSendMsgBackRequestHeader.from_ext_fields(command.ext_fields)
    group = header.group
    config = broker.groups.find_or_create(group, now_ms)  # 1
    if config is None:
        raise error_for(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")
    if not broker.config.broker.broker_permission & Permission.WRITE:
        raise error_for(
            ResponseCode.NO_PERMISSION, f"the broker[{broker.address}] sending message is forbidden"
        )
    if config.retry_queue_nums <= 0:
        return command.response(ResponseCode.SUCCESS)
    broker.store.look_message(header.offset)  # raises NotInMemory before anything is changed
    topic = retry_topic(group)  # 2
    topic_config = broker.topics.get(topic) or broker.topics.create_of_message(
        topic, config.retry_queue_nums, now_ms
    )
    if not topic_config.perm & Permission.WRITE:
        raise error_for(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
    queue_id = random.randrange(config.retry_queue_nums)
    record = look(broker, header.offset)  # 3
    properties = dict(record.properties)
    properties.setdefault(MessageProperty.RETRY_TOPIC, record.topic)
    properties.setdefault(MessageProperty.ORIGIN_MESSAGE_ID, header.origin_msg_id or record.message_id)
    properties[MessageProperty.WAIT_STORE_MSG_OK] = "false"
    times_max = config.retry_max_times  # 4
    if command.version >= MAX_RECONSUME_HEADER_VERSION and header.max_reconsume_times is not None:
        times_max = header.max_reconsume_times
    delay_level = header.delay_level
    if record.reconsume_times >= times_max or delay_level < 0:  # 5
        topic, queue_id = dead_letter_topic(group), 0
        broker.topics.create_of_message(topic, DEAD_LETTER_QUEUE_NUMS, now_ms)
        delay_level = 0
    elif delay_level == 0:
        delay_level = FIRST_RETRY_LEVEL + record.reconsume_times
    properties[MessageProperty.DELAY] = str(delay_level)
    store_copy(broker, record, topic, queue_id, properties, now_ms)  # 6, 7
    broker.stats.item(SNDBCK_PUT_NUMS, f"{record.topic}@{group}").add(1)
    return command.response(ResponseCode.SUCCESS)


def look(broker: Broker, commit_log_offset: int) -> MessageRecord:
    view = broker.store.look_message(commit_log_offset)
    try:
        if view is not None:
            return decode_record(view)
    except RemotingError:
        pass  # no record starts there: the same answer
    raise error_for(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {commit_log_offset}")


def store_copy(
    broker: Broker,
    record: MessageRecord,
    topic: str,
    queue_id: int,
    properties: dict[str, str],
    now_ms: int,
) -> None:
    """Store the same message with one more attempt counted. Raises MQBrokerError when it cannot be stored."""
    topic, queue_id = park(properties, topic, queue_id, broker.schedule.max_level)
    tag = properties.get(MessageProperty.TAGS)
    try:
        broker.store.put_message(
            topic,
            queue_id,
            record.body,
            encode_properties(properties),
            tag_code(tag) if tag else 0,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=record.born_host,
            store_host=broker.store_host,
            reconsume_times=record.reconsume_times + 1,
            now_ms=now_ms,
        )
    except PutRefused as error:
        code = PUT_CODES.get(error.status, ResponseCode.SYSTEM_ERROR)
        raise error_for(code, f"{error.status}: {error}") from error
    broker.stats.broker_put.add(1)


HANDLERS: dict[int, BrokerHandler] = {RequestCode.CONSUMER_SEND_MSG_BACK: consumer_send_msg_back}
