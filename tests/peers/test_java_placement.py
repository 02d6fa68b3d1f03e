"""Unmodified RocketMQ Java 5.3.3 push consumers that let the broker assign keep to pins and drains, on brokerd."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.placement import Placement
from consumers import MQAdmin
from tests.peers.test_java_client import create_topic, has_started
from tests.support.apache_server import Server
from tests.support.java_peer import JavaPeer

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("release", ["5.3.3"], indirect=True),
]
TOPIC, GROUP = "Placed", "placed"


class Group:
    """What brokers and members report of the group, and its placement."""

    def __init__(self, broker: Server) -> None:
        self.broker = broker

    def clients(self) -> list[str]:
        """Return the client ids, in order."""

        async def read() -> list[str]:
            async with MQAdmin([self.broker.namesrv]) as admin:
                found = await admin.consumer_connection(self.broker.address, GROUP)
                return sorted(one.client_id for one in found.connection_set) if found else []

        return asyncio.run(read())

    def held(self) -> dict[str, list[int]]:
        """Return the queues that each member reports (307), by the instance in its id."""

        async def read() -> dict[str, list[int]]:
            async with MQAdmin([self.broker.namesrv]) as admin:
                found = await admin.consumer_connection(self.broker.address, GROUP)
                shares = {}
                for one in found.connection_set if found else ():
                    info = await admin.consumer_running_info(self.broker.address, GROUP, one.client_id)
                    queues = [queue.queue_id for queue in info.mq_table if queue.topic == TOPIC]
                    shares[one.client_id.rpartition("@")[2]] = sorted(queues)
                return shares

        return asyncio.run(read())

    def place(self, shares: dict[str, list[MessageQueue]], placement: Placement) -> None:
        async def put() -> None:
            async with MQAdmin([self.broker.namesrv]) as admin:
                await admin.put_assignment(self.broker.address, GROUP, TOPIC, shares, 1, placement)

        asyncio.run(put())

    def holds(self, expected: Callable[[dict[str, list[int]]], bool]) -> None:
        deadline = time.monotonic() + 60
        while not expected(self.held()):
            assert time.monotonic() < deadline, self.held()
            time.sleep(0.2)


def test_members_keep_to_a_placement_when_one_joins(peer: Callable[..., JavaPeer], broker: Server) -> None:
    create_topic(broker, TOPIC)
    options = {"topic": TOPIC, "group": GROUP, "broker_assigns": "true", "seconds": 250}
    for name in ("one", "two"):
        peer("consume", **options, instance=name).wait_for(has_started, f"start of {name}")
    group = Group(broker)
    group.holds(lambda held: set(held) == {"one", "two"} and all(held.values()))
    one, two = group.clients()
    count = sum(map(len, group.held().values()))
    name = next(iter(asyncio.run(broker_names(broker))))
    queues = [MessageQueue(TOPIC, name, number) for number in range(count)]
    pinned = Placement({queues[0]: two.replace("@two", "@three")}, frozenset({one}))
    group.place({one: [], two: queues}, pinned)
    group.holds(lambda held: held == {"one": [], "two": list(range(count))})
    # Its queue was pinned to it before it came; the first one stays drained, without any console.
    peer("consume", **options, instance="three").wait_for(has_started, "start of three")
    group.holds(lambda held: held.get("one") == [] and 0 in held.get("three", ()) and bool(held["two"]))


async def broker_names(broker: Server) -> list[str]:
    async with MQAdmin([broker.namesrv]) as admin:
        return sorted((await admin.cluster_info()).broker_addr_table)
