"""Offsets that a queue has, read from its broker: the first, the next, and the first at a time."""

from __future__ import annotations

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.headers import OffsetResponseHeader
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance


async def min_offset(client: ClientInstance, queue: MessageQueue) -> int:
    """Return the first offset still stored. GET_MIN_OFFSET (31). Raises MQBrokerError, MQClientError."""
    return await _offset(client, queue, RequestCode.GET_MIN_OFFSET)


async def max_offset(client: ClientInstance, queue: MessageQueue) -> int:
    """Return the offset of the next message to be stored. GET_MAX_OFFSET (30). Raises as `min_offset`."""
    return await _offset(client, queue, RequestCode.GET_MAX_OFFSET)


async def offset_at(client: ClientInstance, queue: MessageQueue, timestamp_ms: int) -> int:
    """Return the first offset stored at or after a Unix time. SEARCH_OFFSET_BY_TIMESTAMP (29). Raises as above."""
    return await _offset(
        client, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(timestamp_ms)}
    )


async def _offset(
    client: ClientInstance, queue: MessageQueue, code: RequestCode, fields: dict[str, str] | None = None
) -> int:
    place = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}
    response = await client.invoke_broker(
        queue.broker_name, RemotingCommand.request(code, place | (fields or {}))
    )
    if response.code != ResponseCode.SUCCESS:
        raise error_for(response.code, response.remark)
    return OffsetResponseHeader.from_ext_fields(response.ext_fields).offset
