"""The console on Apache RocketMQ: rounds, messages, dead letters, a broker that is gone."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from django.test import Client

from brokerd.remoting.body.assignment import LockBatchRequestBody
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from console.brokers.mqadmin import MessageQueue
from console.cluster import services as cluster_services
from console.cluster.errors import NameServerUnreachable
from console.deadletter import selectors as letter_selectors
from console.deadletter import services as letter_services
from console.lag.models import BrokerRow, ClientRow, GroupRow, TopicRow
from console.message import services as message_services
from console.templatetags.cells import count_cell
from consumers.client.remoting_client import RemotingClient
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support import browsed, sample_queues
from tests.support.ports import free_port

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

# Topics that a broker of this cluster makes for itself.
ROCKETMQ_S_OWN = {
    "BenchmarkTest",
    "OFFSET_MOVED_EVENT",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "SELF_TEST_TOPIC",
    "TBW102",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "apache",
    "apache_REPLY_TOPIC",
    "broker-a",
    "broker-b",
    "rmq_sys_wheel_timer",
}


def test_it_asks_an_address_before_it_adds_a_cluster(world: ApacheWorld) -> None:
    with pytest.raises(NameServerUnreachable):
        cluster_services.add_cluster("wrong", f"127.0.0.1:{free_port()}", world.actor)
    with pytest.raises(NameServerUnreachable):  # a broker is no name server
        cluster_services.add_cluster("wrong", world.cluster.addrs["broker-a"], world.actor)


def test_it_collects_rows_over_both_brokers(world: ApacheWorld) -> None:
    world.create_topic("collected")
    world.create_group("collectors")
    world.fill("collected", 10)
    world.commit(
        "collectors",
        "collected",
        {("broker-a", 0): 4, ("broker-a", 1): 10, ("broker-b", 0): 0},
    )
    wait_for(lambda: world.end("collected") == 40)
    world.cluster.wait_for_figures()
    done = world.collect()
    assert (done.brokers_answered, done.brokers_total, done.error) == (2, 2, "")
    group = GroupRow.objects.get(cluster=NAME, group="collectors")
    assert (group.lag, group.partial, group.lag_lower_bound, group.is_system) == (16, False, False, False)
    queues = {
        (row.broker_name, row.queue_id): (row.committed_offset, row.max_offset, row.lag)
        for row in sample_queues.find(NAME, group="collectors")
    }
    assert queues == {
        ("broker-a", 0): (4, 10, 6),
        ("broker-a", 1): (10, 10, 0),
        ("broker-b", 0): (0, 10, 10),
        ("broker-b", 1): (None, 10, None),  # never committed: not 0, and no lag made up
    }
    topic = TopicRow.objects.get(cluster=NAME, topic="collected")
    assert (topic.kind, topic.messages, sorted(topic.brokers), topic.read_queues, topic.perm) == (
        "NORMAL",
        40,
        ["broker-a", "broker-b"],
        4,
        6,
    )
    brokers = BrokerRow.objects.filter(cluster=NAME).order_by("broker_name")
    assert [(row.broker_name, row.broker_id, row.version, row.answered) for row in brokers] == [
        ("broker-a", 0, "V5_3_3", True),
        ("broker-b", 0, "V5_3_3", True),
    ]
    assert all(row.disk_ratio is not None and 0 < row.disk_ratio < 1 for row in brokers)
    shown = set(TopicRow.objects.filter(cluster=NAME).exclude(kind="SYSTEM").values_list("topic", flat=True))
    assert shown & ROCKETMQ_S_OWN == set()
    groups = GroupRow.objects.filter(cluster=NAME, group__in=("TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"))
    assert [row.is_system for row in groups] == [True, True]


@pytest.mark.parametrize("path", ["", "topics", "groups", "brokers", "dead-letters", "messages"])
def test_it_shows_pages(world: ApacheWorld, client: Client, path: str) -> None:
    client.force_login(world.actor)
    world.collect()
    answer = client.get(f"/c/{NAME}/{path}")
    assert answer.status_code == 200


def test_it_knows_who_is_connected(world: ApacheWorld) -> None:
    world.create_topic("connected")
    live = LiveCluster(world.cluster)  # type: ignore[arg-type]
    with live.member("connecters", "connected", persist_consumer_offset_interval_ms=200) as seen:
        world.fill("connected", 5)
        wait_for(lambda: len(seen) == 20)
        world.collect()
        assert world.sweep() == 1
        world.collect()
        client = ClientRow.objects.get(cluster=NAME, group="connecters")
        owned = {(one["topic"], one["broker_name"], one["queue_id"]) for one in client.queues or ()}
        assert owned >= {("connected", name, queue_id) for name in world.cluster.addrs for queue_id in (0, 1)}
        assert (client.version, client.reason) == ("5.3.3", "")
        wait_for(lambda: sum(world.committed("connecters", "connected").values()) == 20)
        world.collect()
        group = GroupRow.objects.get(cluster=NAME, group="connecters")
        assert (group.clients, group.lag, group.status, group.model) == (1, 0, "OK", "CLUSTERING")
        owners = sample_queues.find(NAME, group="connecters", topic="connected")
        assert {row.owner for row in owners} == {client.client_id}
        assert {row.in_flight for row in owners} == {0}


def test_it_finds_messages(world: ApacheWorld) -> None:
    world.create_topic("searched")
    first = world.send("searched", ("broker-a", 0), 3, KEYS="order-1", TAGS="paid")
    time.sleep(0.05)
    middle_ms = int(time.time() * 1000)
    time.sleep(0.05)
    second = world.send("searched", ("broker-b", 1), 3, KEYS="order-2", TAGS="open")
    wait_for(lambda: world.end("searched") == 6)
    page = browsed.browse(NAME, "searched", limit=4)
    assert [row.broker_name for row in page.rows] == ["broker-b"] * 3 + ["broker-a"]
    assert page.cursor is not None and not page.silent
    rest = browsed.browse(NAME, "searched", limit=4, cursor=page.cursor)
    assert ([row.queue_offset for row in rest.rows], rest.cursor) == ([1, 0], None)
    later = browsed.browse(NAME, "searched", newest=False, from_ms=middle_ms)
    assert [row.broker_name for row in later.rows] == ["broker-b"] * 3
    paid = browsed.browse(NAME, "searched", tag="paid")
    assert [row.tags for row in paid.rows] == ["paid"] * 3
    found = browsed.message_by_id(NAME, first[0].offset_message_id)
    assert found is not None and (found.topic, found.keys) == ("searched", "order-1")
    wait_for(lambda: len(message_services.by_key(NAME, "searched", "order-2")) == 3)
    for result in (first[1], second[2]):
        by_unique_key = browsed.message_by_id(NAME, result.message_id, topic="searched")
        assert by_unique_key is not None and by_unique_key.message_id == result.message_id
        assert by_unique_key.queue_offset == result.queue_offset
    at = message_services.message_at(NAME, "searched", "broker-b", 1, 2)
    assert at is not None and at.keys == "order-2"
    assert message_services.message_at(NAME, "searched", "broker-b", 1, 3) is None
    assert browsed.message_by_id(NAME, "7F00000100000000000000000000FFFF", topic="searched") is None


def test_it_replays_dead_letters_to_the_failed_group_only(world: ApacheWorld) -> None:
    world.create_topic("dying")
    live = LiveCluster(world.cluster)  # type: ignore[arg-type]
    dlq, retry = "%DLQ%undertakers", "%RETRY%undertakers"
    with live.member("undertakers", "dying", lambda message: False, max_reconsume_times=0) as tried:
        for name in world.cluster.addrs:
            world.send("dying", (name, 0), 3, KEYS=f"of-{name}", TAGS="paid")
        wait_for(lambda: len(tried) == 6)
        wait_for(lambda: world.end(dlq) == 6)
    world.collect()
    assert TopicRow.objects.get(cluster=NAME, topic=dlq).perm == 6, "5.3.3 makes it readable"
    (row,) = letter_selectors.dead_letter_page(NAME, query=dlq)
    assert (row.group, row.count, row.readable) == ("undertakers", 6, True)
    sample = letter_services.sample(NAME, "undertakers")
    assert sample.problem == "" and {letter.message.keys for letter in sample.rows} == {
        "of-broker-a",
        "of-broker-b",
    }
    others: dict[str, Any] = {"target": "failed_group"}
    plan = world.plan("dead_letter_replay", "undertakers", others)
    assert (plan.messages, plan.blocked) == (6, "")
    retries_before = world.end(retry)
    job = world.apply(plan)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert {key: job.result[key] for key in ("matched", "sent", "failed", "unknown")} == {
        "matched": 6,
        "sent": 6,
        "failed": 0,
        "unknown": 0,
    }
    wait_for(lambda: world.end(retry) == retries_before + 6)
    assert world.end("dying") == 6, "the original topic, and so other groups, see nothing"
    with live.member("undertakers", "dying") as seen:
        wait_for(lambda: len(seen) >= 6)
    assert {message.topic for message in seen} == {"dying"}
    assert sorted(message.keys for message in seen) == ["of-broker-a"] * 3 + ["of-broker-b"] * 3
    assert world.end(dlq) == 6, "nothing died again"
    again = world.plan("dead_letter_replay", "undertakers", others)
    assert (again.messages, again.blocked) == (0, "No dead letter is left to send.")


def test_it_lets_a_write_only_dead_letter_topic_be_read_and_takes_it_back(world: ApacheWorld) -> None:
    topic = "%DLQ%closed"
    world.create_topic(topic, queues=1, perm=2)
    world.create_group("closed")
    world.send(topic, ("broker-a", 0), 2)
    world.collect()
    (row,) = letter_selectors.dead_letter_page(NAME, query=topic)
    assert (row.count, row.readable) == (2, False)
    plan = world.plan("dead_letter_replay", "closed", {"target": "failed_group"})
    assert "write-only (perm 2)" in plan.blocked and "updateTopicPerm" in plan.blocked
    assert "write-only" in letter_services.sample(NAME, "closed").problem
    allowing = world.plan("dlq_readable", "closed", {})
    assert [row["broker_name"] for row in allowing.diff] == ["broker-a", "broker-b"]
    job = world.apply(allowing)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert [world.admin.topic_config(addr, topic).perm for addr in world.cluster.addrs.values()] == [6, 6]
    assert len(letter_services.sample(NAME, "closed").rows) == 2
    assert world.apply(world.undo(allowing)).state == "SUCCEEDED"
    assert [world.admin.topic_config(addr, topic).perm for addr in world.cluster.addrs.values()] == [2, 2]


def test_it_replays_dead_letters_to_a_client_and_to_other_topics(world: ApacheWorld) -> None:
    world.create_topic("tried")
    world.create_topic("parking")
    live = LiveCluster(world.cluster)  # type: ignore[arg-type]
    with live.member("triers", "tried", lambda message: False, max_reconsume_times=0) as seen:
        world.send(
            "tried", ("broker-b", 1), 3, KEYS="k", TAGS="paid", UNIQ_KEY="7F00000100002A9F0000000000004711"
        )
        wait_for(lambda: len(seen) == 3 and world.end("%DLQ%triers") == 3)
        (client_id,) = world.admin.consumer_ids(world.cluster.addrs["broker-b"], "triers")
        asked = {"target": "client", "client_id": client_id}
        refused = world.apply(world.plan("dead_letter_replay", "triers", asked))
        assert (refused.state, refused.result["client"]["consume_result"]) == ("FAILED", "CR_LATER")
        assert len(seen) == 4, "one message, once"
    with live.member("triers", "tried") as seen:
        wait_for(lambda: bool(world.admin.consumer_ids(world.cluster.addrs["broker-b"], "triers")))
        (client_id,) = world.admin.consumer_ids(world.cluster.addrs["broker-b"], "triers")
        taken = world.apply(world.plan("dead_letter_replay", "triers", {**asked, "client_id": client_id}))
        assert (taken.state, taken.result["client"]["consume_result"]) == ("SUCCEEDED", "CR_SUCCESS")
    elsewhere = {"target": "other_topic", "topic": "parking"}
    parked = world.apply(world.plan("dead_letter_replay", "triers", elsewhere))
    assert (parked.state, parked.result["sent"], parked.result["skipped"]) == ("SUCCEEDED", 2, 1)
    wait_for(lambda: world.end("parking") == 2)
    original = world.apply(
        world.plan("dead_letter_replay", "triers", {"target": "original_topic", "skip_replayed": False})
    )
    assert (original.state, original.result["sent"]) == ("SUCCEEDED", 3)
    wait_for(lambda: world.end("tried") == 6)


def test_it_shows_what_it_can_not_know_while_a_broker_is_gone(world: ApacheWorld) -> None:
    world.create_topic("halved")
    world.create_group("halvers")
    world.fill("halved", 10)
    every = {(name, queue_id): 4 for name in world.cluster.addrs for queue_id in (0, 1)}
    world.commit("halvers", "halved", every)
    wait_for(lambda: world.end("halved") == 40)
    world.collect()
    assert GroupRow.objects.get(cluster=NAME, group="halvers").lag == 24
    broker_b = world.cluster.brokers[1]
    # A broker that is killed has forgotten what was committed in the last second.
    saved = broker_b.folder / "store" / "config" / "consumerOffset.json"
    wait_for(lambda: saved.exists() and "halved@halvers" in saved.read_text())
    broker_b.kill()
    done = world.collect()
    assert (done.brokers_answered, done.brokers_total) == (1, 2)
    group = GroupRow.objects.get(cluster=NAME, group="halvers")
    assert (group.lag, group.lag_lower_bound, group.partial) == (12, True, True)
    assert "2 of 4 queues unknown: " in group.reason and "broker-b" in group.reason
    assert group.known_lag == 24
    assert "≥" in count_cell(group, "lag", world.now_ms)
    unknown = sample_queues.find(NAME, group="halvers", broker_name="broker-b")
    assert {(row.status, row.lag) for row in unknown} == {("UNKNOWN", None)}
    row = BrokerRow.objects.get(cluster=NAME, broker_name="broker-b")
    assert (row.answered, row.since_ms) == (False, world.now_ms) and row.reason
    page = browsed.browse(NAME, "halved", limit=5)
    assert len(page.rows) == 5 and "broker-b" in page.silent
    world.cluster.start_brokers()
    wait_for(lambda: world.collect().brokers_answered == 2, "both brokers", every_s=0.2)
    # a broker that was killed answers before all that its log holds is in its consume queues again
    wait_for(lambda: world.end("halved") == 40, "all messages of both brokers", every_s=0.2)
    world.collect()
    group = GroupRow.objects.get(cluster=NAME, group="halvers")
    assert (group.lag, group.lag_lower_bound, group.partial) == (24, False, False)
    assert "broker-b" not in group.reason


def test_it_does_not_send_an_orderly_group_what_the_broker_would_bury_again(world: ApacheWorld) -> None:
    """5.x: while queue locks of the group live, its retry topic's messages become dead letters at once."""
    world.create_topic("locked")
    live = LiveCluster(world.cluster)  # type: ignore[arg-type]
    with live.member("lockers", "locked", lambda message: False, max_reconsume_times=0) as tried:
        world.send("locked", ("broker-a", 0), 3)
        wait_for(lambda: len(tried) == 3 and world.end("%DLQ%lockers") == 3)
    lock(world, "lockers", MessageQueue("locked", "broker-a", 0))
    plan = world.plan("dead_letter_replay", "lockers", {"target": "failed_group"})
    assert (plan.messages, plan.blocked) == (3, "")
    job = world.apply(plan)
    assert (job.state, job.result["sent"], job.result["failed"]) == ("FAILED", 0, 1)
    assert "becomes a dead letter again" in job.error
    assert (world.end("%DLQ%lockers"), world.end("%RETRY%lockers")) == (4, 0), "one copy, then it stopped"
    original = world.apply(world.plan("dead_letter_replay", "lockers", {"target": "original_topic"}))
    assert (original.state, original.result["sent"]) == ("SUCCEEDED", 4)


def lock(world: ApacheWorld, group: str, queue: MessageQueue) -> None:
    """A member locks a queue and is never heard of again: the broker keeps the lock for 60 s."""
    body = LockBatchRequestBody(consumer_group=group, client_id="gone@1", mq_set=[queue]).to_body()

    async def ask() -> RemotingCommand:
        client = RemotingClient()
        try:
            command = RemotingCommand.request(RequestCode.LOCK_BATCH_MQ, {}, body)
            return await client.invoke(world.cluster.addrs[queue.broker_name], command, 3_000)
        finally:
            await client.close()

    assert asyncio.run(ask()).code == 0
