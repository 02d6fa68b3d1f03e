"""How clients come and go: heartbeats, unregistering, the check of a consumer's filter.

Source: protocol §6.1 (`ClientManageProcessor.java`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from brokerd.clients.consumer_manager import ClientChannelInfo
from brokerd.clients.producer_manager import ProducerChannelInfo
from brokerd.clock import steady_ms
from brokerd.connections.channel import Channel
from brokerd.filter.sql_parser import compile_expression
from brokerd.filter.sql_tokens import ExpressionError
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.client.expression_type import TAG_TYPES, check_expression_type
from brokerd.processor.dispatch import answer_later
from brokerd.remoting.body.client import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatParts,
    ProducerData,
    part_from,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.client import UnregisterClientRequestHeader
from brokerd.remoting.message.names import retry_topic

# One client process has a handful of groups; the largest seen have some hundred subscriptions, with ten tags.
GROUPS_A_HEARTBEAT_MAX = 1_000
GROUP_BYTES_MAX = 256 * 1024  # 1,700 subscriptions
TAGS_A_SUBSCRIPTION_MAX = 1_000
GROUPS_A_TURN, BYTES_A_TURN = 100, 64 * 1024  # 10 ms of the event loop


def heart_beat(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand | None:
    """HEART_BEAT (34). Every heartbeat is taken as V1: complete, and answered as changed.

    One of many groups is taken in over several turns of the event loop and answered after the last.
    """
    data = HeartbeatParts.from_request(command.body)
    refuse_many(len(data.consumers), "consumer groups", GROUPS_A_HEARTBEAT_MAX)
    refuse_many(len(data.producers), "producer groups", GROUPS_A_HEARTBEAT_MAX)
    parts = parts_of(data.consumers)
    client = Client(channel, data.client_id, str(command.language), command.version)
    response = command.response(
        ResponseCode.SUCCESS, ext_fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    )
    producers = [part_from(ProducerData, each).group_name for each in data.producers]
    if len(parts) <= 1:
        for part in parts:
            join(broker, client, part, now_ms)
        produce(broker, client, producers)
        return response

    async def take_in() -> RemotingCommand:
        for part in parts:
            if not channel.is_open:
                break
            join(broker, client, part, now_ms)
            await asyncio.sleep(0)
        else:
            produce(broker, client, producers)
        return response

    answer_later(broker, channel, command, take_in())
    return None


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a heartbeat."""

    channel: Channel
    client_id: str
    language: str
    version: int


def parts_of(consumers: list[Any]) -> list[list[Any]]:
    """Return the groups of a heartbeat, so many together as one turn of the event loop takes in."""
    parts: list[list[Any]] = []
    bytes_left = groups_left = 0
    for consumer in consumers:
        size_bytes = len(bytes(consumer)) if isinstance(consumer, msgspec.Raw) else 0
        refuse_many(size_bytes, "bytes of one group", GROUP_BYTES_MAX)
        if not groups_left or size_bytes > bytes_left:
            parts.append([])
            bytes_left, groups_left = BYTES_A_TURN, GROUPS_A_TURN
        parts[-1].append(consumer)
        bytes_left, groups_left = bytes_left - size_bytes, groups_left - 1
    return parts


def refuse_many(count: int, what: str, limit: int) -> None:
    if count > limit:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"the heartbeat has {count} {what}, at most {limit} are taken: use several groups or client instances",
        )


def join(broker: Broker, client: Client, consumers: list[Any], now_ms: int) -> None:
    """Take in some groups of a heartbeat: all of them or none. Raises BodyError or INVALID_PARAMETER."""
    found = [part_from(ConsumerData, each) for each in consumers]
    tags = (len(each.code_set) for consumer in found for each in consumer.subscription_data_set)
    refuse_many(max(tags, default=0), "tags of one topic", TAGS_A_SUBSCRIPTION_MAX)
    for consumer in found:
        if ensure_group(broker, consumer, now_ms):
            member = ClientChannelInfo(
                client.channel, client.client_id, client.language, client.version, steady_ms()
            )
            broker.consumers.register(consumer, member)


def produce(broker: Broker, client: Client, groups: list[str]) -> None:
    now_ms = steady_ms()
    for group in groups:
        broker.producers.register(
            group,
            ProducerChannelInfo(client.channel, client.client_id, client.language, client.version, now_ms),
        )


def ensure_group(broker: Broker, consumer: ConsumerData, now_ms: int) -> bool:
    """Make the group and its retry topic if need be; False when the group cannot be made (it is skipped)."""
    group = consumer.group_name
    config = broker.groups.find_or_create(group, now_ms)
    if config is None:
        return False
    configs = (broker.topics.get(s.topic) for s in consumer.subscription_data_set)
    is_orderly = any(topic is not None and topic.order for topic in configs)
    if config.retry_queue_nums > 0:
        broker.topics.create_for_send_back(
            retry_topic(group), config.retry_queue_nums, now_ms, order=is_orderly
        )
    return True


def unregister_client(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = UnregisterClientRequestHeader.from_ext_fields(command.ext_fields)
    if header.producer_group:
        broker.producers.unregister(header.producer_group, channel)
    if header.consumer_group:
        broker.consumers.unregister(header.consumer_group, channel)
    return command.response(ResponseCode.SUCCESS)


def check_client_config(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """CHECK_CLIENT_CONFIG (46): sent before it starts by a consumer whose filter is not a tag list."""
    subscription = CheckClientRequestBody.from_request(command.body).subscription_data
    if subscription is not None and subscription.expression_type not in TAG_TYPES:
        check_expression_type(broker, subscription.expression_type)
        try:
            compile_expression(subscription.sub_string)
        except ExpressionError as error:
            raise error_for(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
    return command.response(ResponseCode.SUCCESS)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.HEART_BEAT: heart_beat,
    RequestCode.UNREGISTER_CLIENT: unregister_client,
    RequestCode.CHECK_CLIENT_CONFIG: check_client_config,
}
