"""The runtime against a real brokerd process: producing, consuming, retries, order, resets, restarts."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter, defaultdict

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import dead_letter_topic
from brokerd.remoting.message.queue import MessageQueue
from consumers import (
    ConsumeFromWhere,
    ConsumeStatus,
    MessageNotSent,
    MQAdmin,
    MQBrokerError,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
)
from tests.consumers.fake_broker import wait_until
from tests.support.documented import example

FROM_FIRST = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    persist_consumer_offset_interval_ms=200,
    rebalance_interval_ms=2_000,
)


async def create_topic(brokerd, name: str = "orders", queues: int = 4) -> None:
    async with MQAdmin(brokerd.namesrv) as admin:
        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6)
        await admin.create_topic(brokerd.address, config)


class Seen:
    """A handler that remembers what it was given."""

    def __init__(self, status: ConsumeStatus = ConsumeStatus.CONSUME_SUCCESS) -> None:
        self.status = status
        self.bodies: Counter[bytes] = Counter()
        self.by_queue: defaultdict[MessageQueue, list[int]] = defaultdict(list)
        self.times: defaultdict[bytes, list[int]] = defaultdict(list)

    async def __call__(self, messages, context) -> ConsumeStatus:
        for message in messages:
            self.bodies[message.body] += 1
            self.by_queue[context.message_queue].append(message.queue_offset)
            self.times[message.body].append(message.reconsume_times)
        return self.status


async def send_numbered(producer: Producer, count: int, topic: str = "orders", first: int = 0) -> None:
    for start in range(first, first + count, 100):
        numbers = range(start, min(start + 100, first + count))
        await asyncio.gather(*(producer.send(Message(topic, b"%d" % number, {})) for number in numbers))


async def test_it_gives_2000_messages_to_two_consumers(brokerd):
    await create_topic(brokerd)
    first, second = Seen(), Seen()
    async with (
        Producer("shop", brokerd.namesrv) as producer,
        PushConsumer("billing", brokerd.namesrv, first, {"orders": "*"}, config=FROM_FIRST) as one,
        PushConsumer("billing", brokerd.namesrv, second, {"orders": "*"}, config=FROM_FIRST) as two,
    ):
        await wait_until(lambda: own(one) == own(two) == 2)
        await send_numbered(producer, 2_000)
        expected = {b"%d" % number for number in range(2_000)}
        await wait_until(lambda: (first.bodies | second.bodies).keys() >= expected)
    assert first.bodies.keys() | second.bodies.keys() == expected
    assert first.bodies and second.bodies
    assert sum((first.bodies + second.bodies).values()) == 2_000
    async with MQAdmin(brokerd.namesrv) as admin:
        offsets = await admin.all_consumer_offsets(brokerd.address)
    assert sum(offsets.offset_table["orders", "billing"].values()) == 2_000


def own(consumer: PushConsumer) -> int:
    return sum(1 for queue in consumer.table if queue.topic == "orders")


async def test_it_takes_over_the_queues_of_a_consumer_that_leaves(brokerd):
    await create_topic(brokerd)
    seen = Seen()
    async with PushConsumer("billing", brokerd.namesrv, seen, {"orders": "*"}, config=FROM_FIRST) as one:
        async with PushConsumer("billing", brokerd.namesrv, seen, {"orders": "*"}, config=FROM_FIRST):
            await wait_until(lambda: own(one) == 2)
        await wait_until(lambda: own(one) == 4)


async def test_it_filters_by_properties(brokerd):
    await create_topic(brokerd)
    seen = Seen()
    consumer = PushConsumer("billing", brokerd.namesrv, seen, config=FROM_FIRST)
    consumer.subscribe("orders", "n > 5 AND TAGS IN ('a', 'b')", "SQL92")
    with pytest.raises(MQBrokerError, match="does not support consumer to filter message by SQL92.*orders"):
        await consumer.start()
    async with MQAdmin(brokerd.namesrv) as admin:
        await admin.update_broker_config(brokerd.address, {"enablePropertyFilter": "true"})
    wrong = PushConsumer("billing", brokerd.namesrv, seen, {}, config=FROM_FIRST)
    wrong.subscribe("orders", "n > ", "SQL92")
    with pytest.raises(MQBrokerError, match="line 1, column 5"):
        await wrong.start()
    consumer = PushConsumer("billing", brokerd.namesrv, seen, {}, config=FROM_FIRST)
    consumer.subscribe("orders", "n > 5 AND TAGS IN ('a', 'b')", "SQL92")
    async with Producer("shop", brokerd.namesrv) as producer, consumer:
        for number in range(30):
            properties = {"n": str(number), "TAGS": "abc"[number % 3]}
            await producer.send(Message("orders", b"%d" % number, properties))
        wanted = {b"%d" % number for number in range(6, 30) if number % 3 < 2}
        await wait_until(lambda: seen.bodies.keys() >= wanted)
    assert seen.bodies.keys() == wanted


async def test_the_documented_filter_runs(brokerd, capsys):
    async with MQAdmin(brokerd.namesrv) as admin:
        await admin.update_broker_config(brokerd.address, {"enablePropertyFilter": "true"})
    await asyncio.wait_for(example("consumers.md", "Filters")(brokerd.namesrv), 60)
    assert capsys.readouterr().out == "150\n"


async def test_it_keeps_order_and_never_runs_a_queue_twice(brokerd):
    await create_topic(brokerd)
    seen = Seen()
    async with Producer("shop", brokerd.namesrv) as producer:
        for number in range(200):
            key = f"account-{number % 7}"
            await producer.send(Message("orders", f"{key} {number}".encode(), {}), sharding_key=key)
        async with (
            PushConsumer(
                "ledger", brokerd.namesrv, seen, {"orders": "*"}, orderly=True, config=FROM_FIRST
            ) as one,
            PushConsumer(
                "ledger", brokerd.namesrv, seen, {"orders": "*"}, orderly=True, config=FROM_FIRST
            ) as two,
        ):
            await wait_until(lambda: own(one) + own(two) == 4)
            await wait_until(lambda: len(seen.bodies) == 200)
    for offsets in seen.by_queue.values():
        assert offsets == sorted(offsets)
    assert sum(seen.bodies.values()) == 200


async def test_it_repeats_a_failed_message_and_then_makes_a_dead_letter_of_it(brokerd):
    await create_topic(brokerd)
    seen = Seen()

    async def handle(messages, context):
        await seen(messages, context)
        if messages[0].body != b"poison":
            return ConsumeStatus.CONSUME_SUCCESS
        context.delay_level_when_next_consume = 1
        return ConsumeStatus.RECONSUME_LATER

    async with MQAdmin(brokerd.namesrv) as admin:
        group = SubscriptionGroupConfig(group_name="notifier", retry_max_times=1)
        await admin.create_subscription_group(brokerd.address, group)
        async with (
            Producer("shop", brokerd.namesrv) as producer,
            PushConsumer("notifier", brokerd.namesrv, handle, {"orders": "*"}, config=FROM_FIRST),
        ):
            await producer.send(Message("orders", b"poison", {"KEYS": "A-1"}))
            await producer.send(Message("orders", b"good", {}))
            await wait_until(lambda: seen.times[b"poison"] == [0, 1])
            dead: list[object] = []
            deadline = time.monotonic() + 60
            while not dead and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
                try:
                    dead = (await admin.pull(brokerd.address, dead_letter_topic("notifier"), 0, 0)).messages
                except MQBrokerError:
                    dead = []
    (letter,) = dead
    assert (letter.body, letter.reconsume_times, letter.keys) == (b"poison", 2, "A-1")
    assert letter.properties["RETRY_TOPIC"] == "orders"
    assert seen.times[b"good"] == [0]


async def test_it_moves_when_an_operator_resets_it(brokerd):
    await create_topic(brokerd)
    seen = Seen()
    async with (
        MQAdmin(brokerd.namesrv) as admin,
        Producer("shop", brokerd.namesrv) as producer,
        PushConsumer("billing", brokerd.namesrv, seen, {"orders": "*"}, config=FROM_FIRST) as consumer,
    ):
        await send_numbered(producer, 40)
        await wait_until(lambda: len(seen.bodies) == 40)
        await consumer.persist_offsets()
        result = await admin.reset_offset(brokerd.address, "billing", "orders", 0)
        assert set(result.offset_table.values()) == {0}
        await wait_until(lambda: min(seen.bodies.values()) == 2)
        assert sum(seen.bodies.values()) == 80


async def test_it_goes_on_after_a_restart_of_the_broker(brokerd):
    await create_topic(brokerd)
    seen = Seen()
    async with (
        Producer("shop", brokerd.namesrv, ProducerConfig(send_timeout_ms=60_000)) as producer,
        PushConsumer("billing", brokerd.namesrv, seen, {"orders": "*"}, config=FROM_FIRST),
    ):
        await send_numbered(producer, 200)
        await wait_until(lambda: len(seen.bodies) == 200)
        await asyncio.to_thread(brokerd.stop)
        with pytest.raises(MessageNotSent) as refused:
            await producer.send(Message("orders", b"lost", {}))
        assert refused.value.attempts == 3
        await asyncio.to_thread(brokerd.start)
        await send_when_back(producer)
        await send_numbered(producer, 200, first=200)
        expected = {b"%d" % number for number in range(400)}
        await wait_until(lambda: seen.bodies.keys() >= expected)


async def send_when_back(producer: Producer) -> None:
    """A client that found nobody there waits a little before it looks again."""
    deadline = time.monotonic() + 60
    while True:
        try:
            await producer.send(Message("orders", b"back", {}))
            return
        except MessageNotSent:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def test_it_loses_nothing_when_the_broker_is_killed(brokerd):
    await create_topic(brokerd)
    seen = Seen()
    acknowledged: set[bytes] = set()

    async def produce(producer: Producer) -> None:
        for number in range(400):
            body = b"%d" % number
            try:
                await producer.send(Message("orders", body, {}))
                acknowledged.add(body)
            except MessageNotSent:
                await asyncio.sleep(0.1)

    async with (
        Producer("shop", brokerd.namesrv, ProducerConfig(send_timeout_ms=500)) as producer,
        PushConsumer("billing", brokerd.namesrv, seen, {"orders": "*"}, config=FROM_FIRST),
    ):
        producing = asyncio.create_task(produce(producer))
        await wait_until(lambda: len(acknowledged) > 100)
        await asyncio.to_thread(brokerd.kill)
        await asyncio.to_thread(brokerd.start)
        await producing
        await wait_until(lambda: seen.bodies.keys() >= acknowledged)
    assert len(acknowledged) > 100


async def test_it_stops_beside_pulls_that_are_held(brokerd):
    await create_topic(brokerd)
    patient = dataclasses.replace(FROM_FIRST, broker_suspend_max_ms=600_000, pull_timeout_ms=1_200_000)
    consumer = PushConsumer("billing", brokerd.namesrv, Seen(), {"orders": "*"}, config=patient)
    await consumer.start()
    await wait_until(lambda: own(consumer) == 4)
    async with asyncio.timeout(60):
        await consumer.close()
    async with MQAdmin(brokerd.namesrv) as admin:
        assert await admin.consumer_connection(brokerd.address, "billing") is None
