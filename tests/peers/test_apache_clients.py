"""consumers.Producer and PushConsumer with Apache RocketMQ: sharing, order, retries, dead letters, resets."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.errors import MQBrokerError, TopicNotExist
from consumers import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageQueue,
    MessageRecord,
    MQAdmin,
    Producer,
    PullConsumer,
    PullConsumerConfig,
    PushConsumer,
    PushConsumerConfig,
    RebalanceMode,
)
from tests.support.apache_cluster import ApacheCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def config(**settings: object) -> PushConsumerConfig:
    """Members that begin at the start of a queue and look often."""
    return PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        persist_consumer_offset_interval_ms=200,
        rebalance_interval_ms=1_000,
        **settings,  # type: ignore[arg-type]
    )


class Reader:
    """A handler that remembers where each message came from; messages with the key `bad` fail."""

    def __init__(self) -> None:
        self.seen: list[tuple[MessageQueue, MessageRecord]] = []

    async def __call__(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        self.seen += [(context.message_queue, message) for message in messages]
        bad = any(message.keys == "bad" for message in messages)
        return ConsumeStatus.RECONSUME_LATER if bad else ConsumeStatus.CONSUME_SUCCESS

    @property
    def bodies(self) -> list[bytes]:
        return [message.decoded_body() for _, message in self.seen]


@pytest.fixture
async def admin(apache: ApacheCluster) -> AsyncIterator[MQAdmin]:
    async with MQAdmin([apache.namesrv]) as made:
        yield made


async def create(admin: MQAdmin, apache: ApacheCluster, topic: str) -> None:
    with pytest.raises(TopicNotExist):  # another test's messages would be read too
        await admin.topic_route(topic)
    for addr in apache.addrs.values():
        await admin.create_topic(addr, TopicConfig(topic, read_queue_nums=2, write_queue_nums=2, perm=6))
    async with asyncio.timeout(20):
        while True:
            try:
                if len((await admin.topic_route(topic)).queue_datas) == 2:
                    return
            except MQBrokerError:
                pass  # not registered yet
            await asyncio.sleep(0.1)


async def until(holds: Callable[[], bool], within_s: float = 40) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.05)


async def test_it_shares_the_queues_of_both_brokers_among_two_members(
    apache: ApacheCluster, admin: MQAdmin
) -> None:
    await create(admin, apache, "shared")
    first, second = Reader(), Reader()
    async with (
        PushConsumer("sharers", apache.namesrv, first, {"shared": "*"}, config=config()) as one,
        PushConsumer("sharers", apache.namesrv, second, {"shared": "*"}, config=config()) as two,
        Producer("shop", apache.namesrv) as producer,
    ):

        def owned(member: PushConsumer) -> set[MessageQueue]:
            return {queue for queue in member.table if queue.topic == "shared"}

        await until(lambda: len(owned(one)) == len(owned(two)) == 2)
        assert owned(one) & owned(two) == set()
        sent = [Message("shared", b"%d" % n + b"x" * (5_000 if n % 10 == 0 else 0)) for n in range(200)]
        results = await asyncio.gather(*(producer.send(message) for message in sent))
        assert {result.queue.broker_name for result in results} == {"broker-a", "broker-b"}
        await until(lambda: len(first.seen) + len(second.seen) >= 200)
        assert Counter(first.bodies + second.bodies) == Counter(message.body for message in sent)
        assert len(first.seen) == len(second.seen) == 100


async def test_it_pulls_shared_queues_and_commits_them(apache: ApacheCluster, admin: MQAdmin) -> None:
    await create(admin, apache, "pulled")
    first = PullConsumerConfig(
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET, auto_commit=False, rebalance_interval_ms=1_000
    )
    async with (
        Producer("shop", apache.namesrv) as producer,
        PullConsumer("pullers", apache.namesrv, {"pulled": "a"}, config=first) as consumer,
    ):
        for number in range(40):
            await producer.send(Message("pulled", b"%d" % number, {"TAGS": "ab"[number // 20]}))
        await until(lambda: len(consumer.assignment) == 4)
        bodies: list[bytes] = []
        async with asyncio.timeout(40):
            while len(bodies) < 20:
                bodies += [message.body for message in await consumer.poll()]
        assert sorted(bodies) == sorted(b"%d" % number for number in range(20))
        queue = consumer.assignment[0]
        assert await consumer.committed(queue) is None
        await consumer.commit()
        assert await consumer.committed(queue) == consumer.position(queue)
        await consumer.seek_to_time(queue, 0)
        again = await consumer.poll(20_000)
        assert {message.queue_id for message in again} == {queue.queue_id}


async def test_it_sends_batches_and_one_way(apache: ApacheCluster, admin: MQAdmin) -> None:
    await create(admin, apache, "modes")
    reader = Reader()
    async with (
        PushConsumer("batch-readers", apache.namesrv, reader, {"modes": "a || c"}, config=config()),
        Producer("shop", apache.namesrv) as producer,
    ):
        await producer.send_batch(
            [Message("modes", b"batch %d" % n, {"TAGS": "abc"[n % 3]}) for n in range(9)]
        )
        for number in range(3):
            await producer.send_oneway(Message("modes", b"one way %d" % number, {"TAGS": "c"}))
        await until(lambda: len(reader.seen) == 9)
    expected = {b"batch %d" % n for n in range(9) if n % 3 != 1} | {b"one way %d" % n for n in range(3)}
    assert set(reader.bodies) == expected


async def test_it_keeps_the_order_of_a_sharding_key(apache: ApacheCluster, admin: MQAdmin) -> None:
    await create(admin, apache, "ordered")
    first, second = Reader(), Reader()
    async with (
        PushConsumer("orderly", apache.namesrv, first, {"ordered": "*"}, orderly=True, config=config()),
        PushConsumer("orderly", apache.namesrv, second, {"ordered": "*"}, orderly=True, config=config()),
        Producer("shop", apache.namesrv) as producer,
    ):

        async def send_all(key: str) -> None:
            for number in range(30):
                message = Message("ordered", b"%s %d" % (key.encode(), number))
                await producer.send(message, sharding_key=key)

        await asyncio.gather(*(send_all(f"key-{n}") for n in range(8)))
        await until(lambda: len(set(first.bodies + second.bodies)) == 240, 60)
        read: dict[str, list[int]] = defaultdict(list)
        for reader in (first, second):
            for body in reader.bodies:
                key, number = body.decode().split()
                read[key].append(int(number))
        assert {key: numbers[-30:] for key, numbers in read.items()} == {
            f"key-{n}": list(range(30)) for n in range(8)
        }


async def test_it_retries_and_then_gives_up_a_message_as_dead_letter(
    apache: ApacheCluster, admin: MQAdmin
) -> None:
    await create(admin, apache, "failing")
    reader = Reader()
    settings = config(max_reconsume_times=2, delay_level_when_next_consume=1)  # level 1 is a second
    async with (
        PushConsumer("failers", apache.namesrv, reader, {"failing": "*"}, config=settings),
        Producer("shop", apache.namesrv) as producer,
    ):
        await producer.send(Message("failing", b"good", {"KEYS": "good"}))
        await producer.send(Message("failing", b"bad", {"KEYS": "bad", "TAGS": "paid"}))
        await until(lambda: reader.bodies.count(b"bad") == 3)
        tries = [message for _, message in reader.seen if message.keys == "bad"]
        assert [message.reconsume_times for message in tries] == [0, 1, 2]
        assert {message.topic for message in tries} == {"failing"}
        letters: list[MessageRecord] = []
        async with asyncio.timeout(20):
            while not letters:
                await asyncio.sleep(0.2)
                letters = await dead_letters(admin, apache, "%DLQ%failers")
    assert [(letter.body, letter.tags, letter.reconsume_times) for letter in letters] == [(b"bad", "paid", 3)]
    assert reader.bodies.count(b"good") == 1


async def dead_letters(admin: MQAdmin, apache: ApacheCluster, topic: str) -> list[MessageRecord]:
    found: list[MessageRecord] = []
    for addr in apache.addrs.values():
        with contextlib.suppress(MQBrokerError):  # this broker has none
            found += (await admin.pull(addr, topic, 0, 0)).messages
    return found


@pytest.mark.parametrize("orderly", [False, True])
async def test_it_goes_where_the_broker_resets_it_to(
    apache: ApacheCluster, admin: MQAdmin, orderly: bool
) -> None:
    topic, group = f"moved-{orderly}", f"movers-{orderly}"
    await create(admin, apache, topic)
    reader = Reader()
    async with (
        PushConsumer(
            group,
            apache.namesrv,
            reader,
            {topic: "*"},
            orderly=orderly,
            config=config(broker_suspend_max_ms=2_000),
        ),
        Producer("shop", apache.namesrv) as producer,
    ):
        for number in range(40):
            await producer.send(Message(topic, b"%d" % number))
        await until(lambda: len(reader.seen) == 40)
        for addr in apache.addrs.values():
            await admin.reset_offset(addr, group, topic, 0)
        await until(lambda: len(reader.seen) == 80, 30)
        assert set(Counter(reader.bodies).values()) == {2}


async def test_it_pops_where_the_mode_of_the_group_is_pop(apache: ApacheCluster, admin: MQAdmin) -> None:
    await create(admin, apache, "pop-mode")
    for addr in apache.addrs.values():
        await admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name="pop-mode-readers"))
        await admin.set_message_request_mode(addr, "pop-mode", "pop-mode-readers", "POP")
    first, second = Reader(), Reader()
    settings = config(rebalance_mode=RebalanceMode.SERVER, broker_suspend_max_ms=2_000)
    async with (
        PushConsumer("pop-mode-readers", apache.namesrv, first, {"pop-mode": "*"}, config=settings) as one,
        PushConsumer("pop-mode-readers", apache.namesrv, second, {"pop-mode": "*"}, config=settings) as two,
        Producer("shop", apache.namesrv) as producer,
    ):
        await until(lambda: len(one.poppers.queues) == len(two.poppers.queues) == 2)
        assert {queue.queue_id for queue in one.poppers.queues} == {-1}
        for number in range(60):
            await producer.send(Message("pop-mode", b"%d" % number))
        await producer.send(Message("pop-mode", b"bad", {"KEYS": "bad"}))
        await until(lambda: len(first.seen) + len(second.seen) >= 61)
        # It failed: given 10 s more, then put to the retry topic. What was acknowledged is not.
        await until(lambda: (first.bodies + second.bodies).count(b"bad") == 2, within_s=60)
        repeated = [message for _, message in first.seen + second.seen if message.reconsume_times]
        assert [(message.topic, message.body, message.reconsume_times) for message in repeated] == [
            ("pop-mode", b"bad", 1)
        ]
    assert Counter(first.bodies + second.bodies) == {b"%d" % n: 1 for n in range(60)} | {b"bad": 2}
