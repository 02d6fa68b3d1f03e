"""Dividing queues on a real brokerd among real consumers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from console.brokers.mqadmin import ConsumerConnection, MQAdmin
from console.cluster.models import Cluster
from console.lag.collect import sweep
from console.lag.models import ClientRow, CollectorLease
from console.rebalance import services
from console.rebalance.models import ServerSideGroup
from console.rebalance.observed.in_cluster import cluster_findings
from tests.console.lag.conftest import CollectedCluster, TwoBrokers
from tests.console.lag.running_consumers import RunningConsumers, eventually

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def look(cluster: CollectedCluster) -> None:
    """A round of the collector, a sweep, a round of rebalancing."""
    cluster.collect()
    CollectorLease.objects.update(sweep_until_ms=0)
    sweep.sweep_clients("local", now_ms=cluster.now_ms)
    services.rebalance_due("local", cluster.now_ms)


def switch(cluster: CollectedCluster) -> None:
    """Let the console divide the queues of orders among billing."""
    ServerSideGroup.objects.create(
        cluster="local",
        group="billing",
        topic="orders",
        strategy="AVG_BY_CIRCLE",
        created_at_ms=cluster.now_ms,
    )


def test_it_divides_queues_and_sees_that_clients_follow(
    collected: CollectedCluster, running: RunningConsumers
) -> None:
    collected.make_topic("orders", 4)
    first = running.start("billing", {"orders": "*"})
    look(collected)
    switch(collected)
    second = running.start("billing", {"orders": "*"})
    ids = sorted([first.client.client_id, second.client.client_id])

    def is_applied() -> bool:
        look(collected)
        row = ServerSideGroup.objects.get()
        return row.state == "APPLIED" and len(row.assignment) == 2

    eventually(is_applied)
    row = ServerSideGroup.objects.get()
    # dealt like cards, where the broker's own fallback for these clients (AVG) would give neighbours
    assert row.assignment == {
        ids[0]: [["broker-a", 0], ["broker-a", 2]],
        ids[1]: [["broker-a", 1], ["broker-a", 3]],
    }
    assert row.pushed == {collected.broker.address: row.version}
    assert list(cluster_findings("local", collected.now_ms)) == []
    held = {
        client.client.client_id: sorted(
            q.queue_id for q in client.running_info().mq_table if q.topic == "orders"
        )
        for client in (first, second)
    }
    assert held == {ids[0]: [0, 2], ids[1]: [1, 3]}
    version = row.version
    look(collected)
    assert ServerSideGroup.objects.get().version == version  # nothing changed, nothing is computed anew
    running.stop(second)
    eventually(lambda: is_applied_to(collected, {first.client.client_id: [0, 1, 2, 3]}))


def is_applied_to(cluster: CollectedCluster, expected: dict[str, list[int]]) -> bool:
    look(cluster)
    row = ServerSideGroup.objects.get()
    found = {client_id: [queue_id for _, queue_id in queues] for client_id, queues in row.assignment.items()}
    return row.state == "APPLIED" and found == expected


def test_it_waits_without_clients_and_says_so(collected: CollectedCluster) -> None:
    collected.make_topic("orders", 4)
    collected.make_group("billing")
    look(collected)
    switch(collected)
    look(collected)
    row = ServerSideGroup.objects.get()
    assert (row.state, row.reason, row.version) == ("IDLE", "no client is connected", 0)


def test_it_says_why_it_failed_and_goes_on_later(collected: CollectedCluster) -> None:
    collected.make_topic("orders", 4)
    collected.make_group("billing")
    look(collected)
    switch(collected)
    collected.broker.stop()
    assert services.rebalance_due("local", collected.now_ms) == 1
    row = ServerSideGroup.objects.get()
    assert (row.state, row.claimed_until_ms) == ("FAILED", 0)
    assert row.reason
    collected.broker.start()
    eventually(
        lambda: (
            services.rebalance_due("local", collected.now_ms) == 1
            and ServerSideGroup.objects.get().state == "IDLE"
        )
    )


def test_it_enrols_connected_groups_of_the_embedded_cluster(
    collected: CollectedCluster, running: RunningConsumers
) -> None:
    collected.make_topic("orders", 4)
    running.start("billing", {"orders": "*"})
    running.start("ledger", {"orders": "*"}, orderly=True)
    look(collected)
    assert services.enrol_embedded_groups(collected.now_ms) == 0
    Cluster.objects.update(is_embedded=True)
    assert services.enrol_embedded_groups(collected.now_ms) == 1
    assert services.enrol_embedded_groups(collected.now_ms) == 0
    row = ServerSideGroup.objects.get()
    assert (row.group, row.topic, row.strategy, row.is_automatic) == ("billing", "orders", "AVG", True)
    look(collected)
    assert ServerSideGroup.objects.get().state in ("STORED", "APPLIED")


def test_it_leaves_a_group_to_the_worker_that_claimed_it(collected: CollectedCluster) -> None:
    ServerSideGroup.objects.create(
        cluster="local",
        group="g",
        topic="t",
        strategy="AVG",
        created_at_ms=1,
        claimed_until_ms=collected.now_ms + 1,
    )
    assert services.rebalance_due("local", collected.now_ms) == 0
    assert services.rebalance_due("local", collected.now_ms + 1) == 1
    assert services.clusters_with_groups() == ["local"]
    ServerSideGroup.objects.update(cluster="removed")
    assert services.clusters_with_groups() == []
    assert not ServerSideGroup.objects.exists()


def test_a_worker_that_was_too_slow_leaves_the_claim_of_the_next_one(
    collected: CollectedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ServerSideGroup.objects.create(cluster="local", group="g", topic="t", strategy="AVG", created_at_ms=1)
    taken_over_ms = collected.now_ms + 2 * services.CLAIM_MS

    def slow(rows: list[ServerSideGroup], *args: Any, **kwargs: Any) -> None:
        ServerSideGroup.objects.filter(pk=rows[0].pk).update(claimed_until_ms=taken_over_ms)

    monkeypatch.setattr(services, "rebalance", slow)
    services.rebalance_due("local", collected.now_ms)
    assert ServerSideGroup.objects.get().claimed_until_ms == taken_over_ms


def test_a_silent_broker_costs_all_groups_one_deadline(
    two_brokers: TwoBrokers, running: RunningConsumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 30 groups with queues on both brokers: the first run waits for the silent one, once; the next ones know it."""
    cluster = two_brokers.cluster
    # the broker that answers has time for it on a busy machine too
    monkeypatch.setattr(services, "MIN_DEADLINE_MS", 10_000)
    asked = noted_addresses(monkeypatch)
    for addr in (cluster.broker.address, two_brokers.other.address):
        cluster.make_topic("orders", 2, addr)
    cluster.make_topic("payments", 2)  # of the first broker alone
    running.start("ledger", {"payments": "*"})
    cluster.collect_until_answered(2)
    eventually(lambda: sweep_finds(cluster, "ledger"))
    names = [f"group-{number}" for number in range(30)]
    for name in names:
        ServerSideGroup.objects.create(
            cluster="local", group=name, topic="orders", strategy="AVG", created_at_ms=1
        )
    ServerSideGroup.objects.create(
        cluster="local", group="ledger", topic="payments", strategy="AVG", created_at_ms=1
    )
    two_brokers.freeze()
    started = time.monotonic()
    assert services.rebalance_due("local", cluster.now_ms) == 31
    assert time.monotonic() - started < 30  # 30 times 3 s, one after the other, were 90
    assert asked == {cluster.broker.address, two_brokers.other.address}
    states = dict(ServerSideGroup.objects.values_list("group", "state"))
    assert states["ledger"] in ("STORED", "APPLIED")
    assert {states[name] for name in names} == {"FAILED"}
    cluster.collect()  # the round finds it silent
    asked.clear()
    services.rebalance_due("local", cluster.now_ms)
    assert asked == {cluster.broker.address}
    row = ServerSideGroup.objects.get(group="group-0")
    assert row.state == "FAILED" and row.reason.startswith("broker-b has not answered since")
    two_brokers.thaw()


def noted_addresses(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the addresses of the brokers that are asked for members from now on."""
    asked: set[str] = set()
    ask = services._ask_members

    async def noted(admin: MQAdmin, *, addr: str, group: str) -> ConsumerConnection | None:
        asked.add(addr)
        return await ask(admin, addr=addr, group=group)

    monkeypatch.setattr(services, "_ask_members", noted)
    return asked


def sweep_finds(cluster: CollectedCluster, group: str) -> bool:
    look(cluster)
    return ClientRow.objects.filter(group=group).exists()
