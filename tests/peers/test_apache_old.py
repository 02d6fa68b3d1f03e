"""Apache RocketMQ 4.9.7: searches and offset changes by time, and a client that is faster than the look at it.

A broker before 5.1.1 answers the nearest message to a time, and can pass on to its members nothing but a time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from uuid import uuid4

import pytest

from console.message import services
from console.message.search.query import Query
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import ApacheWorld, moves, wait_for_places
from tests.peers.our_client import consuming, sending
from tests.peers.our_client.world import Place
from tests.support import java_peer
from tests.support.apache_cluster import OLD_RELEASE, ApacheCluster
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
BROKER = "broker-a"
PLACES = [(BROKER, 0), (BROKER, 1)]
RESETS_MAX, READ_AGAIN_S = 3, 30


def fresh_name(word: str) -> str:
    """Of a topic and a group that no earlier run of the test left behind."""
    return f"{word}-{uuid4().hex[:6]}"


def stored_ms(world: ApacheWorld, topic: str, queue_id: int) -> list[int]:
    """Store times of all messages of a queue."""
    times: list[int] = []
    while True:
        found = world.admin.pull(world.cluster.addrs[BROKER], topic, queue_id, len(times), 32)
        if not found.messages:
            return times
        times += [message.store_timestamp_ms for message in found.messages]


@pytest.fixture
def member(old_world: ApacheWorld) -> Iterator[Callable[[str, str], JavaPeer]]:
    """Starts a push consumer of 4.9.7 that handles as fast as it can: a topic and a group."""
    started: list[JavaPeer] = []

    def start(topic: str, group: str) -> JavaPeer:
        options = {"namesrv": old_world.cluster.namesrv, "topic": topic, "group": group, "seconds": "250"}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        started.append(JavaPeer(java_peer.build(OLD_RELEASE), ["consume", *words]))
        started[-1].wait_for(lambda peer: ["READY"] in peer.lines, "start")
        return started[-1]

    yield start
    for each in started:
        each.stop()


def reset(world: ApacheWorld, group: str, peer: JavaPeer, count: int, **target: object) -> tuple[Plan, Job]:
    """Plan and apply until the member has consumed `count` messages; return the last plan and its job.

    A commit of this client that is under way may undo its broker's reset, rarely: RocketMQ's advice is to reset again
    (apache/rocketmq, issues 4206 and 4742).
    """
    for _ in range(RESETS_MAX):
        plan = world.plan("offset_change", group, dict(target))
        job = world.apply(plan)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        with contextlib.suppress(AssertionError):
            peer.wait_for(lambda one: len(one.consumed) >= count, f"{count} messages", READ_AGAIN_S)
            return plan, job
    raise AssertionError(f"{count} messages after {RESETS_MAX} resets, not {peer.consumed}")


def test_a_search_by_time_finds_what_was_stored_then_and_nothing_else(old_world: ApacheWorld) -> None:
    world = old_world
    world.create_topic("aged")
    for _ in range(3):
        for place in PLACES:
            world.send("aged", place, 1)
        time.sleep(0.4)
    world.send("aged", PLACES[0], 3)  # very likely in one millisecond
    wait_for(lambda: world.end("aged") == 9)
    world.collect()
    for queue_id in (0, 1):
        times = stored_ms(world, "aged", queue_id)
        only = frozenset({(BROKER, queue_id)})
        for from_ms in {*times, *(at + 1 for at in times), *(at + 100 for at in times), times[0] - 50}:
            query = Query("aged", from_ms=from_ms, queues=only)
            page = services.find("apache", query, limit=100, time_ms=60_000)
            assert len(page.rows) == sum(at >= from_ms for at in times), (queue_id, from_ms, times)
        for to_ms in {*times, *(at - 1 for at in times), times[-1] + 60_000}:
            query = Query("aged", to_ms=to_ms, queues=only)
            page = services.find("apache", query, limit=100, time_ms=60_000)
            assert len(page.rows) == sum(at <= to_ms for at in times), (queue_id, to_ms, times)


def test_an_offline_group_goes_to_the_first_message_at_a_time(old_world: ApacheWorld) -> None:
    world = old_world
    world.create_topic("timed")
    world.create_group("timers")
    for _ in range(3):
        for place in PLACES:
            world.send("timed", place, 2)
        time.sleep(0.4)
    wait_for(lambda: world.end("timed") == 12)
    world.commit("timers", "timed", dict.fromkeys(PLACES, 6))
    times = [stored_ms(world, "timed", queue_id) for queue_id in (0, 1)]
    at_ms = max(each[1] for each in times) + 50  # nearer to the second message, 350 ms before the third
    plan = world.plan("offset_change", "timers", {"target": "time", "time_ms": at_ms})
    assert moves(plan) == [(*place, 6, 2) for place in PLACES]
    assert world.apply(plan).state == "SUCCEEDED"
    late = world.plan("offset_change", "timers", {"target": "time", "time_ms": max(map(max, times)) + 60_000})
    assert [row["after"] for row in late.diff] == [6, 6], "after the newest message, not at it"


def test_a_fast_member_that_read_everything_again_is_no_failure(
    old_world: ApacheWorld, member: Callable[[str, str], JavaPeer]
) -> None:
    world = old_world
    name = fresh_name("swift")
    world.create_topic(name)
    peer = member(name, name)
    for place in PLACES:
        world.send(name, place, 20, KEYS="k")  # the peer fails a message without a key
    peer.wait_for(lambda one: len(one.consumed) == 40, "40 messages")
    wait_for_places(world, name, name, dict.fromkeys(PLACES, 20))
    plan, job = reset(world, name, peer, 80, target="earliest")
    assert {row["how"] for row in plan.diff} == {"222_time"}
    assert [row["state"] for row in job.result["queues"]] == ["verified", "verified"]


def test_an_online_group_is_planned_to_where_its_broker_will_send_it(
    old_world: ApacheWorld, member: Callable[[str, str], JavaPeer]
) -> None:
    world = old_world
    name = fresh_name("nearest")
    world.create_topic(name)
    peer = member(name, name)
    for _ in range(3):
        for place in PLACES:
            world.send(name, place, 1, KEYS="k")
        time.sleep(0.4)
    peer.wait_for(lambda one: len(one.consumed) == 6, "6 messages")
    wait_for_places(world, name, name, dict.fromkeys(PLACES, 3))
    at_ms = max(stored_ms(world, name, queue_id)[1] for queue_id in (0, 1)) + 50
    plan, job = reset(world, name, peer, 10, target="time", time_ms=at_ms)
    assert moves(plan) == [(*place, 3, 1) for place in PLACES]
    assert {row["note"] for row in plan.diff} == {
        "this release moves to the nearest message; the first at that time is 2"
    }
    assert [row["target"] for row in job.result["queues"]] == [1, 1]
    again = {(each.queue_id, each.queue_offset) for each in peer.consumed[6:]}
    assert again == {(0, 1), (0, 2), (1, 1), (1, 2)}


@pytest.mark.parametrize(
    "scenario",
    [
        sending.test_it_chooses_queues_by_selector_and_by_key,
        sending.test_a_request_returns_its_reply,
        consuming.test_an_orderly_queue_waits_for_its_failing_message,
        consuming.test_a_pull_consumer_assigns_commits_and_seeks,
    ],
)
async def test_our_client_uses_it(
    old_cluster: ApacheCluster, scenario: Callable[[Place], Awaitable[None]]
) -> None:
    """A sample; `python -m tests.peers.our_client` runs every scenario on every broker."""
    await scenario(old_cluster)
