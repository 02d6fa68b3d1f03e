"""RECALL_MESSAGE (370): take back a message that waits for its time.

Source: `RecallMessageProcessor.java`. A recall is itself a message of the same slot: stored, it takes effect when the
slot is read, so the answer does not say whether the message is there.
"""

from __future__ import annotations

from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.send.send_message import PUT_CODES
from brokerd.remoting.codes import Permission, RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, error_for
from brokerd.remoting.header.headers import RecallMessageRequestHeader
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.names import MessageProperty, TimerProperty
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.recall_handle import RecallHandle, decode_recall_handle
from brokerd.store.errors import PutRefused
from brokerd.timer.timer_message import RECALL_BODY, RECALL_TAG, delete_key, number


def recall_message(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """Store the recall and answer with the unique key of the message."""
    header = RecallMessageRequestHeader.from_ext_fields(command.ext_fields)
    fields = {"MSG_REGION": broker.sender.region_fields["MSG_REGION"]}
    try:
        handle = checked_handle(broker, header, now_ms)
        put_recall(broker, header, handle, channel, now_ms)
    except MQBrokerError as error:
        return command.response(error.code, error.remark, ext_fields=fields)
    return command.response(ResponseCode.SUCCESS, ext_fields={**fields, "msgId": handle.unique_key})


def checked_handle(broker: Broker, header: RecallMessageRequestHeader, now_ms: int) -> RecallHandle:
    """Check in Java's order, with its codes and words. Raises MQBrokerError."""
    settings = broker.config.broker
    if not settings.recall_message_enable:
        raise error_for(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if (
        now_ms < settings.start_accept_send_request_time_stamp
        or not settings.broker_permission & Permission.WRITE
    ):
        raise error_for(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
    if broker.topics.get(header.topic) is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
    try:
        handle = decode_recall_handle(header.recall_handle)
    except ValueError as error:
        raise error_for(ResponseCode.ILLEGAL_OPERATION, str(error)) from error
    if handle.topic != header.topic:
        raise error_for(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
    if handle.broker_name != broker.broker_name:
        raise error_for(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
    time_left_ms = (number(handle.timestamp_text) or 0) - now_ms
    if not 0 < time_left_ms < settings.timer_max_delay_sec * 1000:
        raise error_for(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    return handle


def put_recall(
    broker: Broker, header: RecallMessageRequestHeader, handle: RecallHandle, channel: Channel, now_ms: int
) -> None:
    """Store the message that takes the other one out of its slot. Raises MQBrokerError, QueueMissing."""
    properties = {
        MessageProperty.TAGS: RECALL_TAG,
        TimerProperty.DELETE_UNIQUE_KEY: delete_key(handle.topic, handle.unique_key),
        MessageProperty.UNIQ_KEY: handle.unique_key,
        MessageProperty.TIMER_DELIVER_MS: handle.timestamp_text,
        MessageProperty.BORN_TIMESTAMP: str(now_ms),
        MessageProperty.TRACE_CONTEXT: "",
        MessageProperty.PRODUCER_GROUP: header.producer_group or "",
    }
    try:
        topic, queue_id = broker.sender.parking.park(properties, handle.topic, 0, now_ms)
        result = broker.store.put_message(
            topic,
            queue_id,
            RECALL_BODY,
            encode_properties(properties),
            tag_code(RECALL_TAG),
            born_timestamp_ms=now_ms,
            born_host=channel.remote_address,
            store_host=broker.store_host,
            now_ms=now_ms,
        )
    except PutRefused as error:
        broker.stats.put_failed_total += 1
        code = PUT_CODES.get(error.status, ResponseCode.SYSTEM_ERROR)
        raise error_for(code, f"recall failed, execute error: {error}") from error
    broker.sender.count_put(topic, result.size_bytes)


HANDLERS: dict[int, BrokerHandler] = {RequestCode.RECALL_MESSAGE: recall_message}
