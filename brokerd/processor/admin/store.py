"""Requests about the files of the store: units of a queue, expired files, topics that are gone, POP's records.

Source: protocol §3.14 (`AdminBrokerProcessor.java`, `DefaultMessageStore.java`).
"""

from __future__ import annotations

import asyncio
import logging

from brokerd.clock import wall_ms
from brokerd.connections.channel import Channel
from brokerd.processor.admin.topic import drop_topic_data
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.processor.dispatch import answer_later
from brokerd.remoting.body.client import SubscriptionData
from brokerd.remoting.body.consume_queue import ConsumeQueueData, QueryConsumeQueueResponseBody
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.broker import QueryConsumeQueueRequestHeader
from brokerd.remoting.message.names import is_broker_topic, is_light
from brokerd.store.cold_pages import NotInMemory

logger = logging.getLogger(__name__)

UNITS_MAX = 1_000  # of one answer; the tool requests 10
UNITS_AT_ONCE = 32  # looked up in memory together, as a pull's


def query_consume_queue(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """QUERY_CONSUME_QUEUE (321): units as they lie in the file. Raises NotInMemory."""
    header = QueryConsumeQueueRequestHeader.from_ext_fields(command.ext_fields)
    if not 1 <= header.count <= UNITS_MAX:
        raise error_for(
            ResponseCode.INVALID_PARAMETER, f"count {header.count} is not within 1 and {UNITS_MAX}"
        )
    topic, queue_id, store = header.topic, header.queue_id, broker.store
    if (topic, queue_id) not in store.table.queues:
        raise error_for(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    units: list[ConsumeQueueData] = []
    while len(units) < header.count:
        offset, room = header.index + len(units), min(UNITS_AT_ONCE, header.count - len(units))
        cold = store.cold_pages(topic, queue_id, offset, room)
        if cold:
            raise NotInMemory(cold)
        found = store.units(topic, queue_id, offset, room)
        if not found:
            break
        units += [ConsumeQueueData(*unit) for unit in found]
    subscription, filter_data = filter_of(broker, topic, header.consumer_group)
    body = QueryConsumeQueueResponseBody(
        subscription_data=subscription,
        filter_data=filter_data,
        queue_data=units,
        max_queue_index=store.max_offset(topic, queue_id),
        min_queue_index=store.min_offset(topic, queue_id),
    )
    remark = "" if units else f"Index {header.index} of {queue_id}@{topic} is not exist!"
    return command.response(ResponseCode.SUCCESS, remark, body=body.to_body())


def filter_of(broker: Broker, topic: str, group: str | None) -> tuple[SubscriptionData | None, str | None]:
    """Return what a group subscribes to, and Java's words about its SQL92 filter, which has no bit map here."""
    if group is None:
        return None, None
    info = broker.consumers.get(group)
    subscription = info.subscriptions.get(topic) if info is not None else None
    return subscription, f"{group}@{topic} is not online!" if subscription is None else "null"


def delete_expired_commit_log(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> None:
    """DELETE_EXPIRED_COMMITLOG (329): now instead of at `deleteWhen`. Answered when the files are gone."""

    async def delete() -> RemotingCommand:
        ratio = await asyncio.to_thread(broker.store.cleaner.disk_used_ratio)
        deleted = await asyncio.to_thread(broker.store.cleaner.delete_expired, wall_ms(), ratio, by_hand=True)
        broker.store.note_disk_use(ratio)
        logger.info("expired files deleted by request count=%d", deleted)
        return command.response(ResponseCode.SUCCESS)

    answer_later(broker, channel, command, delete())


def clean_expired_consume_queue(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> None:
    """CLEAN_EXPIRED_CONSUMEQUEUE (306): delete files of queues and index that point below the log's start.

    A queue keeps its last file and goes on counting. Java removes the queue, counts from 0 again and leaves the
    committed offsets of groups above that.
    """

    async def clean() -> RemotingCommand:
        deleted = await asyncio.to_thread(broker.store.cleaner.delete_expired_of_queues)
        logger.info("expired files of queues deleted by request count=%d", deleted)
        return command.response(ResponseCode.SUCCESS)

    answer_later(broker, channel, command, clean())


def clean_unused_topic(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> None:
    """CLEAN_UNUSED_TOPIC (316): forget topics that have no settings any more, their offsets too (Java keeps those)."""
    topics = {*broker.store.topics(), *(topic for topic, _ in broker.offsets.offsets)}
    unused = sorted(
        t for t in topics - broker.topics.topics.keys() if not (is_broker_topic(t) or is_light(t))
    )
    for topic in unused:
        drop_topic_data(broker, topic)
    broker.offsets.save()
    logger.info("unused topics cleaned topics=%s", unused)

    async def remove() -> Saved:
        await broker.queue_files.remove_dropped()
        return Saved(command.response(ResponseCode.SUCCESS))

    answer_later(broker, channel, command, remove())


def move_pop_records(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """POP_ROLLBACK (200056): POP's records go from RocksDB to the log, where this broker has them always."""
    return command.response(ResponseCode.SUCCESS)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.QUERY_CONSUME_QUEUE: query_consume_queue,
    RequestCode.DELETE_EXPIRED_COMMITLOG: delete_expired_commit_log,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: clean_expired_consume_queue,
    RequestCode.CLEAN_UNUSED_TOPIC: clean_unused_topic,
    RequestCode.POP_ROLLBACK: move_pop_records,
}
