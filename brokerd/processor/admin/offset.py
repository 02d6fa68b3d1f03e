"""The administrators' view of progress: consume stats, all offsets, time spans, status of clients.

Source: semantics §11, protocol §3.13 (`AdminBrokerProcessor.java`). Resetting is processor/consumer/offset_reset.py.
"""

from __future__ import annotations

import asyncio
from functools import partial

from brokerd.clients.consumer_manager import ClientChannelInfo
from brokerd.connections.channel import Channel, ChannelClosed, address_text
from brokerd.processor.admin.topic import existing_topic
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.processor.consumer.offset_reset import RESET_PUSH_VERSION, invoke_reset_offset
from brokerd.processor.dispatch import answer_later
from brokerd.remoting.body import fastjson
from brokerd.remoting.body.json_body import LONG_MAX
from brokerd.remoting.body.offset import (
    ConsumeStats,
    GetConsumerStatusBody,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueTimeSpan,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import RemotingError, error_for
from brokerd.remoting.header.group import ConsumeTimeSpanRequestHeader
from brokerd.remoting.header.offset import (
    CloneGroupOffsetRequestHeader,
    GetBrokerConsumeStatsRequestHeader,
    GetConsumerStatusRequestHeader,
    GetConsumeStatsRequestHeader,
    QueryCorrectionOffsetRequestHeader,
)
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX
from brokerd.remoting.message.queue import MessageQueue
from brokerd.store.cold_pages import gathered

STATUS_TIMEOUT_MS = 5_000
QUEUES_A_TURN = 200  # 10 ms of the event loop
STATUS_DIALECT_BYTES_MAX = 128 * 1024  # about 2,000 queues of one member, with queues as keys


def topics_of(broker: Broker, group: str) -> list[str]:
    """Return topics the group has offsets on; while it is online only those it subscribes to."""
    return subscribed(broker, group, broker.offsets.topics_of_group(group))


def subscribed(broker: Broker, group: str, topics: list[str]) -> list[str]:
    info = broker.consumers.get(group)
    if info is None:
        return topics
    return [topic for topic in topics if topic in info.subscriptions]


def consume_stats_of(broker: Broker, group: str, topics: list[str]) -> ConsumeStats:
    """Return offsets of every read queue of the topics; a topic that does not exist any more is left out.

    Raises NotInMemory.
    """
    queues: list[MessageQueue] = []
    tps = 0.0
    for topic in topics:
        config = broker.topics.get(topic)
        if config is None:
            continue
        tps += broker.stats.group_get_tps(topic, group)
        queues += [MessageQueue(topic, broker.broker_name, q) for q in range(config.read_queue_nums)]
    found = gathered(partial(offsets_of_queue, broker, group, each.topic, each.queue_id) for each in queues)
    return ConsumeStats(offset_table=dict(zip(queues, found, strict=True)), consume_tps=tps)


def offsets_of_queue(broker: Broker, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    committed = broker.offsets.committed(group, topic, queue_id)
    pulled = broker.offsets.pulled(group, topic, queue_id)
    consumer_offset = 0 if committed is None else committed
    last_ms = 0
    if consumer_offset > 0:
        last_ms = max(0, broker.store.store_timestamp(topic, queue_id, consumer_offset - 1))
    return OffsetWrapper(
        broker_offset=max(0, broker.store.max_offset(topic, queue_id)),
        consumer_offset=consumer_offset,
        pull_offset=max(consumer_offset, pulled or 0),
        last_timestamp=last_ms,
    )


def get_consume_stats(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_CONSUME_STATS (208)."""
    header = GetConsumeStatsRequestHeader.from_ext_fields(command.ext_fields)
    group = header.consumer_group
    topics = [topic for topic in (*(header.topic_list or "").split(";"), header.topic) if topic]
    stats = consume_stats_of(broker, group, topics or topics_of(broker, group))
    return command.response(ResponseCode.SUCCESS, body=stats.to_body())


def get_broker_consume_stats(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> None:
    """GET_BROKER_CONSUME_STATS (317): every group; with isOrder only orderly topics.

    Tens of thousands of queues: made over several turns of the event loop, and answered after the last.
    """
    only_orderly = GetBrokerConsumeStatsRequestHeader.from_ext_fields(command.ext_fields).is_order or False
    with_offsets: dict[str, list[str]] = {}
    for topic, group in sorted(broker.offsets.offsets):  # once, not once for each of ten thousand groups
        with_offsets.setdefault(group, []).append(topic)

    async def collect() -> RemotingCommand:
        entries: list[bytes] = []
        total_diff = total_inflight = queues_of_turn = 0
        for group in sorted(broker.groups.groups.keys() & with_offsets.keys()):
            stats = await broker.cold_reads.when_read(
                partial(consume_stats_by_topic, broker, group, with_offsets[group], only_orderly=only_orderly)
            )
            if not stats:
                continue
            entries.append(fastjson.dumps({group: [each.to_value() for each in stats]}))
            for queue in (queue for each in stats for queue in each.offset_table.values()):
                total_diff += queue.broker_offset - queue.consumer_offset
                total_inflight += (queue.pull_offset or 0) - queue.consumer_offset
                queues_of_turn += 1
            if queues_of_turn > QUEUES_A_TURN:
                queues_of_turn = 0
                await asyncio.sleep(0)
        body = b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d,"totalInflightDiff":%d}' % (
            fastjson.dumps(broker.address),
            b",".join(entries),
            total_diff,
            total_inflight,
        )
        return command.response(ResponseCode.SUCCESS, body=body)

    answer_later(broker, channel, command, collect())


def consume_stats_by_topic(
    broker: Broker, group: str, topics: list[str], *, only_orderly: bool
) -> list[ConsumeStats]:
    """Return the figures of each existing topic of the group, as 317 lists them. Raises NotInMemory."""
    configs = [broker.topics.get(topic) for topic in subscribed(broker, group, topics)]
    return gathered(
        partial(consume_stats_of, broker, group, [config.topic_name])
        for config in configs
        if config is not None and (config.order or not only_orderly)
    )


def get_all_consumer_offset(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_ALL_CONSUMER_OFFSET (43)."""
    return command.response(ResponseCode.SUCCESS, body=broker.offsets.body())


def get_all_delay_offset(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_ALL_DELAY_OFFSET (45): progress per delay level."""
    return command.response(ResponseCode.SUCCESS, body=broker.schedule.document())


def query_consume_time_span(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """QUERY_CONSUME_TIME_SPAN (303): per write queue the time of its first, last and next consumed message."""
    header = ConsumeTimeSpanRequestHeader.from_ext_fields(command.ext_fields)
    topic, group = header.topic, header.group
    config, store = existing_topic(broker, topic), broker.store

    def span_of(queue_id: int) -> QueueTimeSpan:
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        committed = broker.offsets.committed(group, topic, queue_id) or 0
        min_ms = store.earliest_store_timestamp(topic, queue_id)
        consumed_ms = store.store_timestamp(topic, queue_id, committed - 1) if committed > 0 else min_ms
        next_ms = store.store_timestamp(topic, queue_id, committed) if committed < high else -1
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, broker.broker_name, queue_id),
            min_time_stamp=min_ms,
            max_time_stamp=store.store_timestamp(topic, queue_id, high - 1) if high > low else -1,
            consume_time_stamp=consumed_ms,
            delay_time=max(0, now_ms - next_ms) if next_ms > 0 else 0,
        )

    spans = gathered(partial(span_of, queue_id) for queue_id in range(config.write_queue_nums))
    body = QueryConsumeTimeSpanBody(consume_time_span_set=spans)
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def get_consumer_status(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand | None:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): relay it to every member (221); answer when all have."""
    header = GetConsumerStatusRequestHeader.from_ext_fields(command.ext_fields)
    topic, group, client_addr = header.topic, header.group, header.client_addr
    info = broker.consumers.get(group)
    if info is None:
        raise error_for(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]")
    members = [
        member
        for member in info.members.values()
        if not client_addr or address_text(member.channel.remote_address) == client_addr
    ]

    async def collect() -> None:
        table = {}
        for member in members:
            table[member.client_id] = await ask_status(member, topic, group)
        body = GetConsumerStatusBody(message_queue_table={}, consumer_table=table)
        channel.send(command.response(ResponseCode.SUCCESS, body=body.to_body()))

    broker.spawn(collect())
    return None


async def ask_status(member: ClientChannelInfo, topic: str, group: str) -> dict[MessageQueue, int]:
    """Return one member's offsets; empty when it is too old, silent or gone."""
    if member.version < RESET_PUSH_VERSION:
        return {}
    request = RemotingCommand.request(
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": topic, "group": group}
    )
    try:
        response = await member.channel.request(request, STATUS_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS or not response.body:
            return {}
        status = fastjson.loads_request(response.body, STATUS_DIALECT_BYTES_MAX)
        return dict(GetConsumerStatusBody.from_value(status).message_queue_table)
    except (TimeoutError, ChannelClosed, RemotingError):
        return {}


def clone_group_offset(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """CLONE_GROUP_OFFSET (314): one topic, or all topics of the source but its retry topic."""
    header = CloneGroupOffsetRequestHeader.from_ext_fields(command.ext_fields)
    source, topic = header.src_group, header.topic
    topics = [topic] if topic else broker.offsets.topics_of_group(source)
    for each in topics:
        if topic or not each.startswith(RETRY_TOPIC_PREFIX):
            broker.offsets.clone(source, header.dest_group, each, now_ms)
    broker.offsets.save()
    return Saved(command.response(ResponseCode.SUCCESS))


def query_correction_offset(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """QUERY_CORRECTION_OFFSET (308): least offset of all groups by queue; LONG_MAX where `compareGroup` is behind.

    Offsets below a queue's first message do not count. `filterGroups` are left out; Java deletes their offsets on all
    topics for it.
    """
    header = QueryCorrectionOffsetRequestHeader.from_ext_fields(command.ext_fields)
    left_out = set((header.filter_groups or "").split(","))
    least: dict[int, int] = {}
    for group in broker.offsets.groups_of_topic(header.topic):
        if group in left_out:
            continue
        for queue_id, offset in broker.offsets.offsets[header.topic, group].items():
            if offset >= broker.store.min_offset(header.topic, queue_id):
                least[queue_id] = min(offset, least.get(queue_id, offset))
    compared = broker.offsets.offsets.get((header.topic, header.compare_group or ""), {})
    for queue_id, offset in compared.items():
        if least.get(queue_id, LONG_MAX) > offset:
            least[queue_id] = LONG_MAX
    body = QueryCorrectionOffsetBody(correction_offsets=least)
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: invoke_reset_offset,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: get_consumer_status,
    RequestCode.GET_CONSUME_STATS: get_consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: get_broker_consume_stats,
    RequestCode.GET_ALL_CONSUMER_OFFSET: get_all_consumer_offset,
    RequestCode.GET_ALL_DELAY_OFFSET: get_all_delay_offset,
    RequestCode.QUERY_CONSUME_TIME_SPAN: query_consume_time_span,
    RequestCode.CLONE_GROUP_OFFSET: clone_group_offset,
    RequestCode.QUERY_CORRECTION_OFFSET: query_correction_offset,
}
