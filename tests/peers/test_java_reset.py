"""An operator moves the offsets of unmodified Java consumers that are online at brokerd."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from brokerd.remoting.message.queue import MessageQueue
from consumers import MQAdmin
from tests.peers.test_java_client import create_topic, has_started
from tests.support.apache_server import Server
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

Start = Callable[..., JavaPeer]
MOVED_WITHIN_S = 60  # how soon is measured by tests/benchmark/java_reset.py; here it is only that they move


def reset(broker: Server, topic: str, group: str) -> dict[MessageQueue, int]:
    """To the first message, as `mqadmin resetOffsetByTime` does."""

    async def ask() -> dict[MessageQueue, int]:
        async with MQAdmin([broker.namesrv]) as admin:
            return dict((await admin.reset_offset(broker.address, group, topic, 0)).offset_table)

    return asyncio.run(ask())


def committed(broker: Server, topic: str, group: str) -> dict[int, int]:
    async def ask() -> dict[int, int]:
        async with MQAdmin([broker.namesrv]) as admin:
            return dict(
                (await admin.all_consumer_offsets(broker.address)).offset_table.get((topic, group), {})
            )

    return asyncio.run(ask())


def consumed(members: Sequence[JavaPeer]) -> int:
    return sum(len(member.consumed) for member in members)


def has_consumed(members: Sequence[JavaPeer], count: int, _: JavaPeer) -> bool:
    return consumed(members) >= count


def wait_for_commits(broker: Server, group: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum((found := committed(broker, "Moved", group)).values()) < count:
        assert time.monotonic() < deadline, (group, found)
        time.sleep(0.2)


def test_it_moves_members_that_run(peer: Start, broker: Server) -> None:
    create_topic(broker, "Moved")
    members = {
        "shared": [peer("consume", topic="Moved", group="shared", instance=n, seconds=200) for n in "ab"],
        "orderly": [peer("consume", topic="Moved", group="orderly", orderly="true", seconds=200)],
    }
    for each in (*members["shared"], *members["orderly"]):
        each.wait_for(has_started, "start of a consumer")
    assert peer("produce", topic="Moved", count=200, threads=4).finish() == 0

    for group, (first, *_) in members.items():
        first.wait_for(partial(has_consumed, members[group], 200), f"200 messages in {group}")
        wait_for_commits(broker, group, 200)
        before = consumed(members[group])
        targets = reset(broker, "Moved", group)
        assert targets == {MessageQueue("Moved", "broker-a", queue_id): 0 for queue_id in range(4)}
        first.wait_for(
            partial(has_consumed, members[group], before + 200), "all messages once more", MOVED_WITHIN_S
        )
        wait_for_commits(broker, group, 200)
