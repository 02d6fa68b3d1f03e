"""Who is connected, by the brokers' and the clients' own word."""

from __future__ import annotations

import pytest

from console.lag.collect import sweep
from console.lag.models import ClientRow, CollectorLease, GroupMembers, GroupRow, LagEvent
from tests.console.lag.conftest import CollectedCluster, TwoBrokers
from tests.console.lag.running_consumers import RunningConsumers, eventually, holds
from tests.support import sample_queues

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def run_sweep(cluster: CollectedCluster) -> int:
    CollectorLease.objects.update(sweep_until_ms=0)
    found = sweep.sweep_clients("local", now_ms=cluster.now_ms)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@3f2a", "AVG"),
        (
            "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash@1",
            "CONSISTENT_HASH",
        ),
        ("org.example.ByRegion@7", "ByRegion"),
        ("AVG_BY_CIRCLE", "AVG_BY_CIRCLE"),
        ("", ""),
    ],
)
def test_a_strategy_is_its_name_or_the_class_of_java(reported: str, name: str) -> None:
    assert sweep.strategy_name(reported) == name


def test_it_says_who_holds_which_queue(collected: CollectedCluster, running: RunningConsumers) -> None:
    collected.make_topic("orders", 2)
    consumer = running.start("billing", {"orders": "paid || refunded"})
    collected.send("orders", 3, TAGS="paid")
    eventually(lambda: holds(consumer, "orders") == 2)
    collected.collect()
    assert run_sweep(collected) == 1
    row = ClientRow.objects.get()
    assert (row.group, row.client_id, row.reason) == ("billing", consumer.client.client_id, "")
    assert (row.language, row.version, row.strategy) == ("PYTHON", "5.3.3", "AVG")
    assert [one for one in row.queues if one["topic"] == "orders"] == [
        {"topic": "orders", "broker_name": "broker-a", "queue_id": 0},
        {"topic": "orders", "broker_name": "broker-a", "queue_id": 1},
    ]
    assert row.subscription["orders"]["expression"] == "paid || refunded"
    members = GroupMembers.objects.get()
    assert (members.clients, members.model, members.consume_mode) == (1, "CLUSTERING", "CONCURRENTLY")
    assert (members.topics, members.offline_since_ms) == (["orders"], None)
    # Rounds that waited for the first commit would let the test's clock run ahead of what the sweep is good for.
    eventually(lambda: collected.has_committed("billing", "orders"))
    collected.collect()
    assert sample_queues.find(topic="orders")[0].owner == consumer.client.client_id
    assert (
        GroupRow.objects.get(group="billing").clients,
        GroupRow.objects.get(group="billing").consume_mode,
    ) == (
        1,
        "CONCURRENTLY",
    )


def test_it_notices_that_the_last_client_left(collected: CollectedCluster, running: RunningConsumers) -> None:
    collected.make_topic("orders", 2)
    consumer = running.start("billing", {"orders": "*"}, orderly=True)
    collected.collect()
    run_sweep(collected)
    assert GroupMembers.objects.get().consume_mode == "ORDERLY"
    running.stop(consumer)
    eventually(lambda: run_sweep(collected) == 0)
    assert not ClientRow.objects.exists()
    members = GroupMembers.objects.get()
    assert (members.clients, members.offline_since_ms) == (0, collected.now_ms)
    assert members.consume_mode == "ORDERLY"  # what it was when last seen
    event = LagEvent.objects.get(kind="MEMBERS")
    assert (event.from_offset, event.messages, event.cause) == (1, 0, "1 → 0 clients")
    assert event.members["left"]["count"] == 1 and list(event.members) == ["left"]
    collected.now_ms += 30_000
    run_sweep(collected)
    assert GroupMembers.objects.get().offline_since_ms == collected.now_ms - 30_000


def test_it_does_not_say_nobody_when_a_broker_is_silent() -> None:
    silence = sweep.GroupFound()
    assert sweep._join({}) == silence
    assert sweep._join({"a:1": None, "b:1": TimeoutError()}).clients is None
    assert sweep._join({"a:1": None, "b:1": None}).clients == {}


def test_it_runs_once_at_a_time(collected: CollectedCluster) -> None:
    collected.collect()
    assert sweep.is_due("local", collected.now_ms)
    assert sweep.sweep_clients("local", now_ms=collected.now_ms) == 0
    assert not sweep.is_due("local", collected.now_ms + 29_000)
    assert sweep.sweep_clients("local", now_ms=collected.now_ms + 29_000) is None
    assert sweep.is_due("local", collected.now_ms + 30_000)


def status(group: str) -> str:
    return GroupRow.objects.get(group=group).status


def test_members_behind_a_silent_broker_are_unknown_and_not_gone(
    two_brokers: TwoBrokers, running: RunningConsumers
) -> None:
    cluster, addr = two_brokers.cluster, two_brokers.other.address
    cluster.make_topic("orders", 2, addr)  # on broker-b alone
    cluster.make_topic("payments", 2)
    cluster.make_group("audit")
    cluster.commit("audit", "payments", 0)
    cluster.make_topic("invoices", 2)
    cluster.make_topic("invoices", 2, addr)
    cluster.make_group("export")
    cluster.make_group("export", addr)
    cluster.commit("export", "invoices", 0)
    cluster.commit("export", "invoices", 0, addr=addr)
    running.start("billing", {"orders": "*"})
    cluster.collect_until_answered(2)
    eventually(lambda: run_sweep(cluster) + bool(cluster.collect()) == 2 and status("billing") == "OK")
    assert status("audit") == status("export") == "OFFLINE"

    two_brokers.freeze()
    cluster.collect()
    run_sweep(cluster)
    cluster.collect()
    billing = GroupRow.objects.get(group="billing")
    assert (billing.clients, billing.offline_since_ms, billing.status) == (None, None, "UNKNOWN")
    assert ClientRow.objects.filter(group="billing").count() == 1  # as of then
    audit = GroupRow.objects.get(group="audit")
    assert (audit.clients, audit.status) == (0, "OFFLINE")  # its queues are elsewhere
    export = GroupRow.objects.get(group="export")
    assert (export.clients, export.partial, export.status) == (
        0,
        True,
        "OFFLINE",
    )  # a member would call broker-a too

    two_brokers.other.kill()  # it comes back without its connections; the client calls again within half a minute
    two_brokers.other.start()
    cluster.collect_until_answered(2)
    if run_sweep(cluster) == 0:
        cluster.collect()
        assert status("export") == "OFFLINE"
        assert GroupRow.objects.get(group="billing").clients is None
        assert status("billing") != "OFFLINE"
    eventually(lambda: bool(cluster.admin.consumer_connection(addr, "billing")))
    cluster.collect()
    assert run_sweep(cluster) == 1
    cluster.collect()
    assert GroupRow.objects.get(group="billing").clients == 1
    assert not LagEvent.objects.filter(kind="MEMBERS", group="billing").exists()


def test_a_group_whose_members_did_not_come_back_is_offline(
    two_brokers: TwoBrokers, running: RunningConsumers
) -> None:
    cluster = two_brokers.cluster
    cluster.make_topic("orders", 2, two_brokers.other.address)
    consumer = running.start("billing", {"orders": "*"})
    cluster.collect_until_answered(2)
    eventually(lambda: bool(cluster.collect()) and run_sweep(cluster) == 1)
    two_brokers.other.stop()
    running.stop(consumer)
    cluster.collect()
    run_sweep(cluster)
    two_brokers.other.start()
    cluster.collect_until_answered(2)
    run_sweep(cluster)
    assert GroupMembers.objects.get(group="billing").clients is None
    cluster.collect(step_ms=sweep.REJOIN_MS + 1_000)
    run_sweep(cluster)
    assert GroupMembers.objects.get(group="billing").clients == 0
