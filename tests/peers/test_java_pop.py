"""An unmodified RocketMQ Java 5.3.3 push consumer that lets the broker assign, in POP mode, on brokerd."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.message.queue import MessageQueue
from consumers import MQAdmin
from tests.peers.test_java_client import create_topic, expected, has_started, keys
from tests.support.apache_server import OLD_APACHE, Server, server_kind
from tests.support.java_peer import JavaPeer

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(400),
    pytest.mark.skipif(server_kind() == OLD_APACHE, reason="4.9.7 has no POP"),
    pytest.mark.parametrize("release", ["5.3.3"], indirect=True),
]

Start = Callable[..., JavaPeer]


def set_pop(broker: Server, topic: str, group: str) -> None:
    async def change() -> None:
        async with MQAdmin([broker.namesrv]) as admin:
            await admin.create_subscription_group(broker.address, SubscriptionGroupConfig(group_name=group))
            await admin.set_message_request_mode(broker.address, topic, group, "POP")

    asyncio.run(change())


def committed(broker: Server, topic: str, group: str) -> int:
    """The sum of a group's offsets on a topic, 0 before it has any."""

    async def read() -> int:
        async with MQAdmin([broker.namesrv]) as admin:
            stats = await admin.consume_stats(broker.address, group, topic)
            queues = {
                queue: each for queue, each in stats.offset_table.items() if isinstance(queue, MessageQueue)
            }
            return sum(each.consumer_offset for each in queues.values())

    return asyncio.run(read())


def test_it_pops_acknowledges_and_gets_again_what_failed(peer: Start, broker: Server) -> None:
    create_topic(broker, "Popped")
    set_pop(broker, "Popped", "poppers")
    options = {"topic": "Popped", "group": "poppers", "broker_assigns": "true", "seconds": 300}
    consumer = peer("consume", **options, instance="first", fail_key="k7", retry_level=0)
    consumer.wait_for(has_started, "start of the consumer")
    assert peer("produce", topic="Popped", count=300, threads=4).finish() == 0
    consumer.wait_for(lambda p: keys(p) == expected(300), "300 messages")
    # The client gives it 10 s more; then it is in the retry topic.
    consumer.wait_for(lambda p: sum(m.key == "k7" for m in p.consumed) >= 2, "k7 again")
    times = Counter(m.key for m in consumer.consumed)
    assert {key for key, count in times.items() if count > 1} == {"k7"}, "nothing acknowledged comes again"
    assert [m.reconsume_times for m in consumer.consumed if m.key == "k7"][:2] == [0, 1]
    assert committed(broker, "Popped", "poppers") == 300

    # Killed with k7 in the consumer's hands: another member gets it, and nothing else.
    broker.kill()
    broker.start()
    consumer.stop()
    second = peer("consume", **options, instance="second")
    second.wait_for(lambda p: "k7" in keys(p), "k7 at another member")
    assert all(m.reconsume_times >= 1 for m in second.consumed if m.key == "k7")
