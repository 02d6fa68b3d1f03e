"""Find messages: QUERY_MESSAGE (12) by key, VIEW_MESSAGE_BY_ID (33) by commit log offset.

Source: semantics §1.11, protocol §3.14 (`QueryMessageProcessor.java`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.dispatch import answer_later
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import FRAME_BYTES_MAX
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.broker import QueryMessageRequestHeader, ViewMessageRequestHeader
from brokerd.store.cold_pages import gathered
from brokerd.store.errors import LookupTooLong
from brokerd.store.results import QueryMessageResult

VISITS_AT_ONCE = 2_000  # index entries looked at in the event loop: 2 ms, in memory or not 8 ms
LONG_LOOKUPS_MAX = 8  # of those that wait for the thread
ANSWER_BYTES_MAX = FRAME_BYTES_MAX - 65_536  # the rest is for the header


def query_message(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand | None:
    """Return the newest maxNum hits, in order of their offsets. Hash collisions are possible: the client checks keys.

    A key that very many messages share is looked up in a thread, one at a time, and answered later.
    """
    header = QueryMessageRequestHeader.from_ext_fields(command.ext_fields)
    max_num = broker.config.broker.default_query_max_num if header.is_unique_key else header.max_num
    look_up = partial(
        broker.store.query_by_key,
        header.topic,
        header.key,
        min(max(max_num, 1), broker.store_config.max_msgs_num_batch),
        header.begin_timestamp,
        header.end_timestamp,
    )
    try:
        return answer_of(broker, command, look_up(visits_max=VISITS_AT_ONCE))
    except LookupTooLong:
        if broker.long_lookups >= LONG_LOOKUPS_MAX:
            raise error_for(
                ResponseCode.SYSTEM_BUSY,
                f"[OVERLOAD]system busy, {broker.long_lookups} lookups of keys with very many messages wait",
            ) from None
    broker.long_lookups += 1
    answer_later(broker, channel, command, found_in_thread(broker, command, look_up))
    return None


async def found_in_thread(
    broker: Broker, command: RemotingCommand, look_up: Callable[[], QueryMessageResult]
) -> RemotingCommand:
    try:
        async with broker.long_lookup:
            found = await broker.cold_reads.run(look_up)
    finally:
        broker.long_lookups -= 1
    return await broker.cold_reads.when_read(partial(answer_of, broker, command, found))


def answer_of(broker: Broker, command: RemotingCommand, found: QueryMessageResult) -> RemotingCommand:
    fields = {
        "indexLastUpdateTimestamp": str(found.index_last_update_timestamp_ms),
        "indexLastUpdatePhyoffset": str(found.index_last_update_physic_offset),
    }
    body = found_records(broker, found.commit_log_offsets)
    if not body:
        return command.response(
            ResponseCode.QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
            ext_fields=fields,
        )
    return command.response(ResponseCode.SUCCESS, ext_fields=fields, body=body)


def found_records(broker: Broker, commit_log_offsets: Iterable[int]) -> bytes:
    """Return the newest of the records, as many as one frame holds: a longer answer ends the client's connection."""
    views: list[memoryview] = []
    free_bytes = ANSWER_BYTES_MAX
    newest_first = sorted(commit_log_offsets, reverse=True)
    for view in gathered(partial(broker.store.look_message, offset) for offset in newest_first):
        if view is None:
            continue
        free_bytes -= len(view)
        if free_bytes < 0:
            break
        views.append(view)
    return b"".join(reversed(views))


def view_message_by_id(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    offset = ViewMessageRequestHeader.from_ext_fields(command.ext_fields).offset
    view = broker.store.look_message(offset)
    if view is None:
        raise error_for(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
    return command.response(ResponseCode.SUCCESS, body=bytes(view))


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.QUERY_MESSAGE: query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: view_message_by_id,
}
