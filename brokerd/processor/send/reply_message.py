"""SEND_REPLY_MESSAGE (324, 325): a consumer's reply goes to the client that requested it (326).

Source: semantics §1.8, protocol §3.4 (`ReplyMessageProcessor.java`). The reply is stored first: a queue that has no
file yet has this request handled anew, and nothing may be pushed twice for that.
"""

from __future__ import annotations

import logging

from brokerd.clock import wall_ms
from brokerd.connections.channel import Channel, address_text
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.dispatch import answer_later
from brokerd.processor.send.send_message import SendOutcome, outcome_fields
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, error_for
from brokerd.remoting.header.headers import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.properties import encode_properties, parse_properties

logger = logging.getLogger(__name__)

PUSH_TIMEOUT_MS = 10_000
PUSHED_BYTES_MAX = 64 * 1024 * 1024  # of replies that requesters have not confirmed
REPLY_OVERHEAD_BYTES = 4096  # a task, a future and the fields of a header
NOT_STORED_ID = "0"  # Java's clients cannot read an answer without an id

ReplyHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2


def send_reply_message(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand | None:
    """Store the reply unless that is switched off, push it, and answer what came of the push."""
    header_class: type[ReplyHeader] = SendMessageRequestHeaderV2
    if command.code == RequestCode.SEND_REPLY_MESSAGE:
        header_class = SendMessageRequestHeader
    header = header_class.from_ext_fields(command.ext_fields)
    region_fields = broker.sender.region_fields
    try:
        check(broker, header, command.body, now_ms)
    except MQBrokerError as error:
        return command.response(error.code, error.remark, ext_fields=dict(region_fields))
    outcome = stored(broker, header, command, channel, now_ms)
    size_bytes = len(command.body) + len(header.properties or "") + REPLY_OVERHEAD_BYTES

    async def push_and_answer() -> RemotingCommand:
        broker.pushed_reply_bytes += size_bytes
        try:
            failure = await push(broker, header, command.body, channel)
        finally:
            broker.pushed_reply_bytes -= size_bytes
        if failure:
            fields = outcome_fields(region_fields, outcome) if outcome else dict(region_fields)
            return command.response(ResponseCode.SYSTEM_ERROR, failure, ext_fields=fields)
        placed = outcome or (NOT_STORED_ID, max(0, header.queue_id), 0, None, None)
        return command.response(ResponseCode.SUCCESS, ext_fields=outcome_fields(region_fields, placed))

    answer_later(broker, channel, command, push_and_answer())
    return None


def check(broker: Broker, header: ReplyHeader, body: bytes, now_ms: int) -> None:
    """Raise MQBrokerError for a reply that is neither stored nor pushed."""
    broker.sender.check(header, now_ms)
    limit = broker.store_config.max_message_size
    if len(body) > limit:
        raise error_for(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the reply has {len(body)} bytes, at most {limit} are allowed",
        )
    if broker.pushed_reply_bytes > PUSHED_BYTES_MAX:
        raise error_for(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD]system busy, {broker.pushed_reply_bytes} bytes of replies wait for their requesters",
        )


def stored(
    broker: Broker, header: ReplyHeader, command: RemotingCommand, channel: Channel, now_ms: int
) -> SendOutcome | None:
    """Store it and return where it is; None when that is switched off, or failed: the requester gets it still."""
    if not broker.config.broker.store_reply_message_enable:
        return None
    try:
        return broker.sender.send(header, False, command.version, command.body, channel, now_ms)
    except MQBrokerError as error:
        logger.warning("reply not stored topic=%s code=%d: %s", header.topic, error.code, error.remark)
        return None


async def push(broker: Broker, header: ReplyHeader, body: bytes, replier: Channel) -> str:
    """Push a reply and await that the requester's client took it; the reason if it did not, in Java's words."""
    properties = parse_properties(header.properties or "")
    client_id = properties.get(MessageProperty.REPLY_TO_CLIENT)
    if client_id is None:
        return f"reply message properties[{MessageProperty.REPLY_TO_CLIENT}] is null"
    requester = broker.producers.channel_of(client_id)
    if requester is None:
        failure = f"push reply message fail, channel of <{client_id}> not found."
        logger.warning("%s", failure)
        return failure
    properties[MessageProperty.PUSH_REPLY_TIME] = str(wall_ms())
    request = push_request(broker, header, properties, body, replier)
    reason = ""
    try:
        response = await requester.request(request, PUSH_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS:
            reason = f"code {response.code}, {response.remark}"
    except TimeoutError:
        reason = f"no answer within {PUSH_TIMEOUT_MS} ms"
    except ConnectionError as error:
        reason = str(error)
    if not reason:
        return ""
    logger.warning("reply not taken client_id=%s: %s", client_id, reason)
    return f"push reply message to {client_id}fail."


def push_request(
    broker: Broker, header: ReplyHeader, properties: dict[str, str], body: bytes, replier: Channel
) -> RemotingCommand:
    """Return PUSH_REPLY_MESSAGE_TO_CLIENT (326)."""
    pushed = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=encode_properties(properties).decode(),
        reconsume_times=header.reconsume_times,
        unit_mode=bool(header.unit_mode),
        born_host=address_text(replier.remote_address),
        store_host=broker.address,
        store_timestamp=wall_ms(),
    )
    return RemotingCommand.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed.to_ext_fields(), body)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.SEND_REPLY_MESSAGE: send_reply_message,
    RequestCode.SEND_REPLY_MESSAGE_V2: send_reply_message,
}
