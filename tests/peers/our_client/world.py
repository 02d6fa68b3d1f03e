"""What scenarios of our client share: topics, groups, a handler that remembers, waiting."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from consumers import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageQueue,
    MessageRecord,
    MQAdmin,
    MQBrokerError,
    Producer,
    PullConsumer,
    PullConsumerConfig,
    PushConsumerConfig,
)

WITHIN_S = 90
SENT_WITHIN_MS = 30_000


class Place(Protocol):
    """A broker with its name server."""

    @property
    def namesrv(self) -> str: ...
    @property
    def address(self) -> str: ...


def config(**settings: object) -> PushConsumerConfig:
    """Members that begin at the start of a queue and look often."""
    often = {
        "consume_from_where": ConsumeFromWhere.FIRST_OFFSET,
        "persist_consumer_offset_interval_ms": 200,
        "rebalance_interval_ms": 1_000,
        "broker_suspend_max_ms": 2_000,
    }
    return PushConsumerConfig(**{**often, **settings})  # type: ignore[arg-type]


def pull_config(**settings: object) -> PullConsumerConfig:
    often = {"consume_from_where": ConsumeFromWhere.FIRST_OFFSET, "rebalance_interval_ms": 1_000}
    return PullConsumerConfig(**{**often, **settings})  # type: ignore[arg-type]


class Reader:
    """A handler that remembers what it was given; messages with one of the `bad` keys fail."""

    def __init__(self, *bad: str) -> None:
        self.bad = bad
        self.messages: list[MessageRecord] = []
        self.offsets: defaultdict[MessageQueue, list[int]] = defaultdict(list)

    async def __call__(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            self.messages.append(message)
            self.offsets[context.message_queue].append(message.queue_offset)
        if any(message.keys in self.bad for message in messages):
            return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS

    @property
    def keys(self) -> list[str]:
        return [message.keys for message in self.messages]

    def times(self, key: str) -> list[int]:
        """How often a message had been tried before, each time that it came."""
        return [message.reconsume_times for message in self.messages if message.keys == key]


def expected(count: int) -> set[str]:
    return {f"k{number}" for number in range(count)}


def numbered(topic: str, number: int, tags: Sequence[str] = (), size: int = 0) -> Message:
    """As the Java peer makes them."""
    properties = {"KEYS": f"k{number}", "n": str(number)}
    if tags:
        properties["TAGS"] = tags[number % len(tags)]
    return Message(topic, f"body-{number} ".encode().ljust(size, b"."), properties)


async def send_numbered(producer: Producer, topic: str, count: int, tags: Sequence[str] = ()) -> None:
    messages = [numbered(topic, number, tags) for number in range(count)]
    # A JVM that has just started on a busy machine needs more than the 3 s that a send has by default.
    await asyncio.gather(*[await producer.send_async(each, timeout_ms=SENT_WITHIN_MS) for each in messages])


async def create_topic(broker: Place, name: str, queues: int = 4) -> None:
    async with MQAdmin([broker.namesrv]) as admin:
        config = TopicConfig(name, read_queue_nums=queues, write_queue_nums=queues)
        await admin.create_topic(broker.address, config)
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    await admin.topic_route(name)
                    return
                except MQBrokerError:  # not registered yet
                    await asyncio.sleep(0.1)


async def set_pop(broker: Place, topic: str, group: str) -> None:
    async with MQAdmin([broker.namesrv]) as admin:
        await admin.create_subscription_group(broker.address, SubscriptionGroupConfig(group_name=group))
        await admin.set_message_request_mode(broker.address, topic, group, "POP")


async def committed(broker: Place, topic: str, group: str) -> int:
    """The sum of a group's stored offsets."""
    async with MQAdmin([broker.namesrv]) as admin:
        table = (await admin.all_consumer_offsets(broker.address)).offset_table
    return sum(table.get((topic, group), {}).values())


async def read_all(broker: Place, topic: str, count: int) -> list[MessageRecord]:
    """Read the first messages of a topic, which may not exist yet, without a group."""
    found: list[MessageRecord] = []
    async with asyncio.timeout(WITHIN_S), PullConsumer(None, broker.namesrv, config=pull_config()) as reader:
        while True:
            try:
                await reader.assign(await reader.queues(topic))
                break
            except MQBrokerError:
                await asyncio.sleep(0.2)
        while len(found) < count:
            found += await reader.poll()
    return found


async def until(holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.02)
