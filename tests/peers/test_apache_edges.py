"""States of lag.md 1.3 that only Apache RocketMQ can be brought into: timer wheel, half messages, POP,
topics whose offsets are not a count of messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import pytest

from console.broker import selectors as broker_selectors
from console.broker import services as broker_services
from console.broker.survey.held_back import HeldBack
from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin, MQBrokerError, TopicConfig
from console.group import selectors as group_selectors
from console.lag import services as lag_services
from console.lag.models import ClientRow, GroupRow, TopicRow
from console.rebalance.observed.group import group_ownership
from console.templatetags.cells import count_cell
from spark.lag.round.status import POP_QUIET_MS
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support import java_peer, sample_queues
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def held_by(world: ApacheWorld, broker_name: str) -> HeldBack:
    """What a survey counts now."""
    broker_services.request_survey(NAME)
    assert broker_services.survey_cluster(NAME, now_ms=world.now_ms) is not None
    view = broker_selectors.broker(NAME, broker_name)
    assert view is not None
    return view.held_back


def test_messages_that_are_held_back_are_counted_by_what_they_wait_for(world: ApacheWorld) -> None:
    world.create_topic("later")
    world.collect()
    place = ("broker-a", 0)
    world.send("later", place, 5, DELAY="18")
    world.send("later", place, 4, TIMER_DELAY_SEC="600")
    world.send("later", place, 6, TRAN_MSG="true", PGROUP="nobody")
    addr = world.cluster.addrs["broker-a"]
    wait_for(lambda: world.admin.runtime_info(addr)["timerCongestNum"] == "4", "the wheel", within_s=60)
    world.collect()
    held = held_by(world, "broker-a")
    # The level is at 0 or in no table at all, for nothing of it was ever delivered.
    assert [(one.level, one.delay_ms, one.waiting) for one in held.levels] == [(18, 7_200_000, 5)]
    assert (held.delayed, held.late, held.timed, held.timed_topics) == (5, [], 4, [("later", 4)])
    assert held.half is not None and held.half >= 6  # at most: each check stores what it asks about anew
    assert world.admin.max_offset(addr, "later", 0) == 0  # none of them is in its topic, so in any lag
    other = held_by(world, "broker-b")
    assert (other.delayed, other.timed, other.half) == (0, 0, 0)


def make_pop(admin: BlockingMQAdmin, addrs: Iterable[str], topic: str, group: str) -> None:
    """Let the brokers tell members of the group that ask them to pop."""

    def ask(addr: str) -> Callable[[MQAdmin], Awaitable[None]]:
        return lambda one: one.set_message_request_mode(addr, topic, group, "POP")

    outcomes = admin.gather({addr: ask(addr) for addr in addrs}, deadline_ms=10_000)
    assert not any(outcomes.values()), outcomes


def test_what_a_java_member_popped_and_holds_is_in_the_lag(world: ApacheWorld) -> None:
    """Its committed offsets are at the end, none of 60 messages is handled, and a dashboard would say zero."""
    world.create_topic("popped")
    world.create_group("poppers")
    make_pop(world.admin, world.cluster.addrs.values(), "popped", "poppers")
    arguments = ["--namesrv", world.cluster.namesrv, "--topic", "popped", "--group", "poppers"]
    slow = ["--broker-assigns", "true", "--threads", "1", "--work", "600000", "--seconds", "240"]
    peer = JavaPeer(java_peer.build("5.3.3"), ["consume", *arguments, *slow])
    try:
        wait_for(lambda: any(line[0] == "READY" for line in peer.lines), "the Java member", within_s=60)
        world.send("popped", ("broker-a", 0), 30)
        world.send("popped", ("broker-b", 1), 30)
        taken = {("broker-a", 0): 30, ("broker-b", 1): 30}
        wait_for(lambda: taken.items() <= world.committed("poppers", "popped").items(), within_s=90)
        world.collect()
        world.sweep()
        world.collect()
        row = GroupRow.objects.get(group="poppers")
        assert (row.consume_mode, row.clients, row.available) == ("POP", 1, 0)
        # 60; after a minute the broker hands out again what was not acknowledged, and it holds more.
        assert row.in_flight is not None and row.in_flight >= 60
        assert (row.lag, row.lag_lower_bound, row.time_lag_lower_bound) == (row.in_flight, True, True)
        assert f"{row.in_flight} messages and not acknowledged" in row.reason
        (client,) = ClientRow.objects.filter(group="poppers")
        popped = {one["broker_name"]: one["popped"] for one in client.queues or () if "popped" in one}
        assert popped.keys() == {"broker-a", "broker-b"} and min(popped.values()) >= 30
        # Nobody owns a queue that is popped, and that is as it should be.
        assert group_ownership(row, world.now_ms).findings == ()
        # No offset shows that nothing is ever acknowledged; what the member holds does, in time.
        world.now_ms += POP_QUIET_MS
        world.collect()
        world.sweep()
        world.collect()
        row = GroupRow.objects.get(group="poppers")
        assert (row.status, row.attention, row.drain_never) == ("STALLED", 6, True)
        assert "none is acknowledged" in row.reason
    finally:
        peer.stop()


def test_a_java_member_that_broadcasts_tells_how_far_it_is(world: ApacheWorld) -> None:
    """It hangs in its first message; its offsets are in a file of its own, and brokers know none of them."""
    world.create_topic("cast")
    world.create_group("casters")
    arguments = ["--namesrv", world.cluster.namesrv, "--topic", "cast", "--group", "casters"]
    hangs = ["--model", "BROADCASTING", "--threads", "1", "--work", "600000", "--seconds", "240"]
    peer = JavaPeer(java_peer.build("5.3.3"), ["consume", *arguments, *hangs])

    def row() -> GroupRow:
        world.collect()
        world.sweep()
        world.collect()
        return GroupRow.objects.get(group="casters")

    try:
        wait_for(lambda: any(line[0] == "READY" for line in peer.lines), "the Java member", within_s=60)
        world.send("cast", ("broker-a", 0), 5)
        world.send("cast", ("broker-b", 1), 3)
        wait_for(lambda: (one := row()).lag == 8 and not one.partial, "what it has not consumed", within_s=60)
        assert world.committed("casters", "cast") == {}
        world.now_ms += 120_000  # the next answers are two minutes younger, and nothing was done
        found = row()
        assert (found.model, found.clients, found.clients_told) == ("BROADCASTING", 1, 1)
        assert (found.status, found.lag, found.lag_lower_bound) == ("STALLED", 8, False)
        assert (found.time_lag_ms or 0) >= 120_000
        (client,) = ClientRow.objects.filter(group="casters")
        said = {
            (one.broker_name, one.queue_id): (one.committed_offset, one.lag)
            for one in group_selectors.client_queues(client)
        }
        assert said == {
            ("broker-a", 0): (0, 5),
            ("broker-a", 1): (0, 0),
            ("broker-b", 0): (0, 0),
            ("broker-b", 1): (0, 3),
        }
    finally:
        peer.stop()


@pytest.mark.parametrize(
    ("topic", "attributes", "kind", "words"),
    [
        ("compacted", {"cleanup.policy": "COMPACTION"}, "COMPACTION", "keeps the newest message of each key"),
        ("batched", {"queue.type": "BatchCQ"}, "BATCH", "kept in batches"),
    ],
)
def test_lag_is_an_upper_bound_where_offsets_are_no_count(
    world: ApacheWorld, topic: str, attributes: dict[str, str], kind: str, words: str
) -> None:
    addr = world.cluster.addrs["broker-a"]
    world.admin.create_topic(addr, TopicConfig(topic, 1, 1, 6, attributes=attributes))
    world.create_group(f"of-{topic}")
    wait_for(lambda: world.routed(topic) == {"broker-a"}, within_s=60)
    for number in range(9):
        world.send(topic, ("broker-a", 0), 1, KEYS=f"k{number % 3}")
    wait_for(lambda: world.end(topic) == 9, "what was sent, in its queue", within_s=60)
    world.commit(f"of-{topic}", topic, {("broker-a", 0): 2})
    lag_services.request_refresh(NAME)
    world.collect()
    row = TopicRow.objects.get(topic=topic)
    assert (row.offset_kind, row.offset_is_not_count) == (kind, True)
    group = GroupRow.objects.get(group=f"of-{topic}")
    assert (group.lag, group.offset_is_not_count, group.topics[0]["offset_is_not_count"]) == (7, True, True)
    assert words in group.reason and words in row.reason
    assert "≤" in count_cell(group, "lag", world.now_ms) and "≤" not in count_cell(group, "clients", 0)
    (queue,) = sample_queues.find(NAME, group=f"of-{topic}", topic=topic)
    assert (queue.lag, queue.offset_is_not_count) == (7, True)
    assert not TopicRow.objects.get(topic="broker-a").offset_is_not_count


def test_a_light_queue_is_one_although_no_table_of_topics_has_it(world: ApacheWorld) -> None:
    world.create_topic("carrier")
    world.create_group("lights")
    world.send("carrier", ("broker-a", 0), 6, INNER_MULTI_DISPATCH="%LMQ%light")
    addr = world.cluster.addrs["broker-a"]
    wait_for(lambda: world.admin.max_offset(addr, "%LMQ%light", 0) == 6, "the light queue", within_s=60)
    world.commit("lights", "%LMQ%light", {("broker-a", 0): 2})
    world.collect()
    (queue,) = sample_queues.find(NAME, group="lights", topic="%LMQ%light")
    assert (queue.lag, queue.offset_is_not_count) == (4, True)
    group = GroupRow.objects.get(group="lights")
    assert (group.lag, group.offset_is_not_count) == (4, True)
    assert "a light queue over other topics' messages" in group.reason
    assert TopicRow.objects.get(topic="%LMQ%light").offset_kind == "LIGHT"


def test_a_static_topic_is_one(world: ApacheWorld) -> None:
    """Made as an operator makes it: by mqadmin, over both brokers."""
    command = f"updateStaticTopic -n {world.cluster.namesrv} -t fixed -qn 2 -c apache"
    (written,) = java_peer.mqadmin(java_peer.build("5.3.3"), command)
    assert "fixed" in written, written
    wait_for(lambda: world.routed("fixed") != set(), within_s=60)
    lag_services.request_refresh(NAME)
    world.collect()
    row = TopicRow.objects.get(topic="fixed")
    assert (row.offset_kind, row.offset_is_not_count) == ("STATIC", True)
    world.create_group("fixers")

    def is_committed() -> bool:
        """mqadmin deals the queues out by chance: one of the brokers has the first."""
        for name in world.routed("fixed"):
            with suppress(MQBrokerError):
                world.commit("fixers", "fixed", {(name, 0): 0})
                return True
        return False

    wait_for(is_committed, within_s=60)
    world.collect()
    group = GroupRow.objects.get(group="fixers")
    assert group.offset_is_not_count and "fixed: a static topic" in group.reason
