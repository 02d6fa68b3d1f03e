"""Unmodified RocketMQ Java clients, 5.3.3 and 4.9.7, use brokerd as they use Apache RocketMQ."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.errors import MQBrokerError
from consumers import CompressionType, Message, MQAdmin, Producer, ProducerConfig
from tests.support.apache_server import Server
from tests.support.java_peer import JavaPeer
from tests.support.peer_process import Peer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

Start = Callable[..., JavaPeer]


def has_started(peer: Peer) -> bool:
    return ["READY"] in peer.lines


def create_topic(broker: Server, name: str, queues: int = 4) -> None:
    """Before its consumers start: a client that finds no route looks again only 30 s later."""

    async def create() -> None:
        async with MQAdmin([broker.namesrv]) as admin:
            config = TopicConfig(name, read_queue_nums=queues, write_queue_nums=queues)
            await admin.create_topic(broker.address, config)

    asyncio.run(create())


def keys(*peers: Peer) -> set[str]:
    return {message.key for peer in peers for message in peer.consumed}


def expected(count: int) -> set[str]:
    return {f"k{i}" for i in range(count)}


def test_it_delivers_ten_thousand_to_two_consumers_of_a_group(peer: Start, broker: Server) -> None:
    create_topic(broker, "Many")
    first = peer("consume", topic="Many", group="two", instance="first", seconds=240)
    second = peer("consume", topic="Many", group="two", instance="second", seconds=240)
    for consumer in (first, second):
        consumer.wait_for(has_started, "start of a consumer")
    producer = peer("produce", topic="Many", count=10_000, threads=8, tags="a,b")
    assert producer.finish() == 0
    assert producer.failures() == []
    first.wait_for(lambda _: len(keys(first, second)) >= 10_000, "10,000 messages")
    assert keys(first, second) == expected(10_000)
    bodies = {message.key: message.body for message in first.consumed + second.consumed}
    assert all(body == f"body-{key[1:]} " for key, body in bodies.items())
    # Both had work: the queues were shared, not owned by one.
    assert first.consumed and second.consumed
    assert {m.queue_id for m in first.consumed} | {m.queue_id for m in second.consumed} == {0, 1, 2, 3}


def test_it_filters_by_tag(peer: Start) -> None:
    assert peer("produce", topic="Tagged", count=300, tags="red,green,blue").finish() == 0
    consumer = peer("consume", topic="Tagged", group="greens", filter="green || blue", seconds=90)
    consumer.wait_for(lambda p: len(keys(p)) >= 200, "200 green and blue messages")
    time.sleep(1)  # a wrong third colour would come with the next pull
    assert Counter(m.tag for m in consumer.consumed) == {"green": 100, "blue": 100}


def test_it_filters_by_properties(peer: Start, broker: Server) -> None:
    create_topic(broker, "Sold")
    # A group each: Apache's broker keeps a client that did not start as a member, and with it half of the queues.
    asked = {"topic": "Sold", "seconds": 240}
    refused = peer("consume", **asked, group="sql-refused", sql="n > 1")
    assert refused.finish() != 0, (
        "enablePropertyFilter is off at first: 46 answers 1 and the client does not start"
    )

    async def allow() -> None:
        async with MQAdmin([broker.namesrv]) as admin:
            await admin.update_broker_config(broker.address, {"enablePropertyFilter": "true"})

    asyncio.run(allow())
    wrong = peer("consume", **asked, group="sql-wrong", sql="n > > 1")
    assert wrong.finish() == 1
    assert "line 1, column 5" in wrong.failures()[0][1]
    consumer = peer("consume", **asked, group="sql", sql="n BETWEEN 100 AND 149 AND TAGS <> 'red' OR n = 299")
    consumer.wait_for(has_started, "start of the consumer")
    assert peer("produce", topic="Sold", count=300, tags="red,green").finish() == 0
    wanted = {f"k{n}" for n in [*range(101, 150, 2), 299]}
    consumer.wait_for(lambda p: keys(p) >= wanted, "26 messages")
    assert sorted(m.key for m in consumer.consumed) == sorted(wanted), "none else, none twice"


@pytest.mark.parametrize("mode", ["batch", "oneway"])
def test_it_accepts_batches_and_one_way_sends(peer: Start, mode: str) -> None:
    assert peer("produce", topic=f"Mode-{mode}", count=400, mode=mode, size=200).finish() == 0
    consumer = peer("consume", topic=f"Mode-{mode}", group="modes", seconds=90)
    consumer.wait_for(lambda p: len(keys(p)) >= 400, f"400 {mode} messages")
    assert keys(consumer) == expected(400)


def test_it_compresses_large_bodies(peer: Start) -> None:
    assert peer("produce", topic="Large", count=20, size=20_000).finish() == 0
    consumer = peer("consume", topic="Large", group="large", seconds=90)
    consumer.wait_for(lambda p: len(keys(p)) >= 20, "20 large messages")
    assert {len(m.body) for m in consumer.consumed} == {20_000}


def test_it_reads_what_our_producer_compressed(peer: Start, broker: Server, release: str) -> None:
    """Clients before 5.0 read zlib only."""
    kinds = [CompressionType.ZLIB] if release == "4.9.7" else list(CompressionType)
    create_topic(broker, "Packed")

    async def send() -> None:
        for kind in kinds:
            async with Producer("packer", broker.namesrv, ProducerConfig(compress_type=kind)) as producer:
                await producer.send(Message("Packed", b"Tidemark " * 20_000, {"KEYS": kind.value}))

    consumer = peer("consume", topic="Packed", group="packed", seconds=90)
    consumer.wait_for(has_started, "start of the consumer")
    asyncio.run(send())
    consumer.wait_for(lambda p: len(keys(p)) >= len(kinds), "a message of each kind")
    assert {message.key: message.body for message in consumer.consumed} == {
        kind.value: "Tidemark " * 20_000 for kind in kinds
    }


def test_it_retries_a_failing_message_and_then_keeps_it_as_dead_letter(peer: Start, broker: Server) -> None:
    create_topic(broker, "Fails")
    consumer = peer(
        "consume", topic="Fails", group="failing", fail_key="k3", max_reconsume=2, retry_level=1, seconds=240
    )
    consumer.wait_for(has_started, "start of the consumer")
    assert peer("produce", topic="Fails", count=5).finish() == 0
    consumer.wait_for(lambda p: sum(m.key == "k3" for m in p.consumed) >= 3, "the first try and two retries")
    assert [m.reconsume_times for m in consumer.consumed if m.key == "k3"] == [0, 1, 2]
    assert keys(consumer) == expected(5)

    async def dead_letters() -> int:
        async with MQAdmin([broker.namesrv]) as admin:
            return await admin.max_offset(broker.address, "%DLQ%failing", 0)

    deadline = time.monotonic() + 60
    count = 0
    while count == 0 and time.monotonic() < deadline:
        time.sleep(0.5)
        count = asyncio.run(_or_zero(dead_letters))
    assert count == 1


async def _or_zero(call: Callable[[], object]) -> int:
    try:
        return int(await call())  # type: ignore[misc, call-overload]
    except MQBrokerError:
        return 0  # the dead-letter topic is made by its first message


def test_it_keeps_the_order_of_each_queue_for_orderly_consumers(peer: Start, broker: Server) -> None:
    create_topic(broker, "Ordered")
    first = peer("consume", topic="Ordered", group="orderly", orderly="true", instance="first", seconds=240)
    second = peer("consume", topic="Ordered", group="orderly", orderly="true", instance="second", seconds=240)
    for consumer in (first, second):
        consumer.wait_for(has_started, "start of a consumer")
    assert peer("produce", topic="Ordered", count=2_000, mode="ordered", shards=8).finish() == 0
    first.wait_for(lambda _: len(keys(first, second)) >= 2_000, "2,000 ordered messages")
    for consumer in (first, second):
        offsets = defaultdict(list)
        for message in consumer.consumed:
            offsets[message.queue_id].append(message.queue_offset)
        for queue_id, seen in offsets.items():
            assert seen == sorted(seen), f"queue {queue_id} of {consumer.consumed[0].instance} out of order"


def test_it_loses_nothing_over_a_kill_and_restart_in_the_middle(peer: Start, broker: Server) -> None:
    create_topic(broker, "Killed")
    consumer = peer("consume", topic="Killed", group="survivors", seconds=300)
    consumer.wait_for(has_started, "start of the consumer")
    producer = peer("produce", topic="Killed", count=3_000, threads=4, pause=2, retries=30, timeout=3_000)
    consumer.wait_for(lambda p: len(keys(p)) >= 500, "the first 500 messages")
    broker.kill()
    broker.start()
    assert producer.finish() == 0
    refused = {f"k{line[1]}" for line in producer.failures()}
    acknowledged = expected(3_000) - refused
    consumer.wait_for(lambda p: acknowledged <= keys(p), "every acknowledged message")


def test_it_serves_delay_levels(peer: Start, broker: Server) -> None:
    create_topic(broker, "Later")
    consumer = peer("consume", topic="Later", group="later", seconds=120)
    consumer.wait_for(has_started, "start of the consumer")
    started = time.monotonic()
    assert peer("produce", topic="Later", count=3, delay=2).finish() == 0  # level 2 is 5 s
    consumer.wait_for(lambda p: len(keys(p)) >= 3, "the delayed messages")
    assert time.monotonic() - started >= 5
