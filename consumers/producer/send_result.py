"""The send request and its answer (protocol 3.3), for the producer and the admin alike."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.headers import SendMessageResponseHeader
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import REPLY_TYPE, MessageProperty
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.queue import MessageQueue


class SendStatus(StrEnum):
    """The message is stored in every case; the others name what the broker could not add to that."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


STATUS_OF_CODE: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message was stored.

    `message_id` is the unique key the client gave it (what RocketMQ shows to users); `offset_message_id`
    names the place in the broker's commit log (for a batch: one per message, joined by commas).
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    recall_handle: str | None = None  # of a message that waits for its time, for `Producer.recall`


def send_request(
    message: Message,
    body: bytes,
    *,
    queue_id: int,
    broker_name: str,
    producer_group: str,
    sys_flag: int,
    born_timestamp_ms: int,
    default_topic: str = "TBW102",
    default_topic_queue_nums: int = 4,
    is_batch: bool = False,
    oneway: bool = False,
) -> RemotingCommand:
    """Return SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) or SEND_REPLY_MESSAGE_V2 (325).

    The fields have single letters, as SendMessageRequestHeaderV2.

    RECONSUME_TIME and MAX_RECONSUME_TIMES move from the properties to header fields, as Java's producer does
    for messages to a retry topic.
    """
    properties = message.properties
    reconsume_times = properties.get(MessageProperty.RECONSUME_TIME)
    max_reconsume_times = properties.get(MessageProperty.MAX_RECONSUME_TIMES)
    if reconsume_times is not None:
        moved = (MessageProperty.RECONSUME_TIME, MessageProperty.MAX_RECONSUME_TIMES)
        properties = {key: value for key, value in properties.items() if key not in moved}
    # Hot path: the fields of SendMessageRequestHeaderV2 written down, 1.1 instead of 4.4 µs (twin in the tests).
    fields = {
        "a": producer_group,
        "b": message.topic,
        "c": default_topic,
        "d": str(default_topic_queue_nums),
        "e": str(queue_id),
        "f": str(sys_flag),
        "g": str(born_timestamp_ms),
        "h": str(message.flag),
        "i": encode_properties(properties).decode(),
        "j": str(int(reconsume_times or 0)),
        "k": "false",
        "m": "true" if is_batch else "false",
        "n": broker_name,
    }
    if max_reconsume_times is not None:
        fields["l"] = str(int(max_reconsume_times))
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    if properties.get(MessageProperty.MESSAGE_TYPE) == REPLY_TYPE:
        code = RequestCode.SEND_REPLY_MESSAGE_V2
    return RemotingCommand.request(code, fields, body, oneway=oneway)


def send_result(response: RemotingCommand, message: Message, sent_to: MessageQueue) -> SendResult:
    """Read the answer to a send. The broker may have chosen another queue than `sent_to`.

    Raises MQBrokerError when the message was not stored, HeaderFieldError when the answer does not name its
    place.
    """
    status = STATUS_OF_CODE.get(response.code)
    if status is None:
        raise error_for(response.code, response.remark)
    fields = response.ext_fields
    unique_key = message.properties.get(MessageProperty.UNIQ_KEY)
    queue_id, queue_offset = fields.get("queueId", ""), fields.get("queueOffset", "")
    if unique_key and queue_id.isdecimal() and queue_offset.isdecimal() and "msgId" in fields:
        # Hot path: what every broker answers, read in 1.3 instead of 4.0 µs; the rest goes the plain way.
        return SendResult(
            status,
            unique_key,
            fields["msgId"],
            _stored_in(sent_to, int(queue_id)),
            int(queue_offset),
            fields.get("recallHandle"),
        )
    header = SendMessageResponseHeader.from_ext_fields(fields)
    return SendResult(
        status=status,
        message_id=unique_key or header.transaction_id or header.msg_id,
        offset_message_id=header.msg_id,
        queue=_stored_in(sent_to, header.queue_id),
        queue_offset=header.queue_offset,
        recall_handle=fields.get("recallHandle"),
    )


def _stored_in(sent_to: MessageQueue, queue_id: int) -> MessageQueue:
    if queue_id == sent_to.queue_id:
        return sent_to
    return MessageQueue(sent_to.topic, sent_to.broker_name, queue_id)
