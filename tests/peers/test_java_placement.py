"""Unmodified RocketMQ Java 5.3.3 push consumers that let the broker assign keep to pins and drains, on brokerd."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.placement import Placement, place
from consumers import MQAdmin
from consumers.client import client_instance
from tests.console.lag.running_consumers import RunningConsumers
from tests.peers.test_java_client import create_topic, has_started
from tests.support.apache_server import Server
from tests.support.java_peer import JavaPeer

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("release", ["5.3.3"], indirect=True),
]
TOPIC, GROUP = "Placed", "placed"
NEWER = 481  # MQVersion of 5.3.4


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

    def place(self, shares: dict[str, list[MessageQueue]], placement: Placement, version: int = 1) -> None:
        async def put() -> None:
            async with MQAdmin([self.broker.namesrv]) as admin:
                await admin.put_assignment(self.broker.address, GROUP, TOPIC, shares, version, placement)

        asyncio.run(put())

    def has_members(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.clients()) != count:
            assert time.monotonic() < deadline, self.clients()

    def settles(self, counts: dict[str, int], *, any_of: bool = False) -> float:
        """Wait until members report so many queues, or with `any_of` these numbers; return the seconds it took."""
        began_s = time.monotonic()

        def is_reached(held: dict[str, list[int]]) -> bool:
            found = {name: len(share) for name, share in held.items()}
            if any_of:
                return found.keys() == counts.keys() and sorted(found.values()) == sorted(counts.values())
            return found == counts

        self.holds(is_reached)
        return time.monotonic() - began_s

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


class Newer(RemotingCommand):
    """Requests of a client of a release to come."""

    @classmethod
    def request(cls, *args: Any, **options: Any) -> RemotingCommand:
        command = RemotingCommand.request(*args, **options)
        command.version = NEWER
        return command


def test_weights_and_a_canary_share_queues_among_live_members(
    peer: Callable[..., JavaPeer],
    broker: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The figures: from the broker's list of members to the report of each about its queues."""
    create_topic(broker, TOPIC, 8)
    options = {"topic": TOPIC, "group": GROUP, "broker_assigns": "true", "seconds": 250}
    for name in ("one", "two"):
        peer("consume", **options, instance=name).wait_for(has_started, f"start of {name}")
    group = Group(broker)
    group.holds(lambda held: sorted(map(len, held.values())) == [4, 4])
    one, two = group.clients()
    queues = [
        MessageQueue(TOPIC, next(iter(asyncio.run(broker_names(broker)))), number) for number in range(8)
    ]
    took_s = {}

    weighed = Placement(weights={one: 3})
    group.place(place(queues, [one, two], {}, weighed), weighed)
    took_s["weights"] = group.settles({"one": 6, "two": 2})
    peer("consume", **options, instance="three")
    group.has_members(3)
    took_s["a client joins"] = group.settles({"one": 5, "two": 2, "three": 1})

    canary = Placement(canary_version=NEWER, canary_percent=50)
    group.place(place(queues, group.clients(), {}, canary), canary, version=2)
    group.holds(lambda held: sorted(map(len, held.values())) == [2, 3, 3])
    running = RunningConsumers(broker.namesrv)
    with monkeypatch.context() as patch:
        patch.setattr(client_instance, "RemotingCommand", Newer)
        newer = running.start(GROUP, {TOPIC: "*"})
        name = newer.client.client_id.rpartition("@")[2]
        group.has_members(4)
        took_s["a canary joins"] = group.settles({name: 4, "one": 1, "two": 1, "three": 2}, any_of=True)
        running.stop(newer)
    group.has_members(3)
    took_s["the canary leaves"] = group.settles({"one": 3, "two": 3, "three": 2}, any_of=True)
    running.close()
    with capsys.disabled():
        print(
            "\nqueues are read as placed:", ", ".join(f"{what} {took:.2f} s" for what, took in took_s.items())
        )
    assert max(took_s.values()) < 10  # 2 s on a machine that is not busy


async def broker_names(broker: Server) -> list[str]:
    async with MQAdmin([broker.namesrv]) as admin:
        return sorted((await admin.cluster_info()).broker_addr_table)
