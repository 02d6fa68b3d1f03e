"""Owners of queues as the sweep keeps them: written when they change, unknown where no member's word counts."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from console.lag import services
from console.lag.collect import sweep
from console.lag.history import archive, owners
from console.lag.history.owners import KNOWN_MS, Owner, Swept
from console.lag.models import ClientRow, CollectorLease, GroupMembers, QueueOwner
from console.text import Text
from tests.console.lag.conftest import CollectedCluster, TwoBrokers
from tests.console.lag.running_consumers import RunningConsumers, eventually, holds

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NOW = 1_700_000_000_000
STEP = 30_000


def client(name: str, *ids: int, read_at_ms: int = NOW, **more: Any) -> ClientRow:
    queues = [{"topic": "orders", "broker_name": "broker-a", "queue_id": one, **more} for one in ids]
    return ClientRow(
        group="billing",
        client_id=name,
        address=f"10.0.0.{name[-1]}:5001",
        queues=queues,
        read_at_ms=read_at_ms,
    )


def record(
    clients: list[ClientRow] | None, now_ms: int, before_ms: int | None = None, model: str = ""
) -> None:
    owners.record("local", [Swept("billing", clients, model, before_ms)], now_ms)


def kept() -> list[tuple[int, str, int, int | None]]:
    rows = QueueOwner.objects.order_by("queue_id", "from_ms", "pk")
    return [
        (one.queue_id, one.client_id, one.from_ms - NOW, None if one.to_ms is None else one.to_ms - NOW)
        for one in rows
    ]


def test_it_writes_only_what_changed() -> None:
    record([client("app-1", 0, 1)], NOW)
    assert kept() == [(0, "app-1", 0, None), (1, "app-1", 0, None)]
    assert QueueOwner.objects.first().host == "10.0.0.1"  # type: ignore[union-attr]
    with CaptureQueriesContext(connections["default"]) as asked:
        record([client("app-1", 0, 1, read_at_ms=NOW + STEP)], NOW + STEP, NOW)
    assert len(asked) == 1  # what was known before is read, nothing is written
    record([client("app-1", 0), client("app-2", 1)], NOW + 2 * STEP, NOW + STEP)
    assert kept() == [
        (0, "app-1", 0, None),
        (1, "app-1", 0, 2 * STEP),
        (1, "app-2", 2 * STEP, None),
    ]


@pytest.mark.parametrize(
    "later",
    [
        None,  # their broker is silent
        [],
        [
            ClientRow(
                group="billing",
                client_id="app-1",
                queues=None,
                reason=Text("no answer"),
                read_at_ms=NOW + STEP,
            )
        ],
    ],
)
def test_an_owner_that_is_not_known_is_no_row(later: list[ClientRow] | None) -> None:
    record([client("app-1", 0)], NOW)
    record(later, NOW + STEP, NOW)
    assert kept() == [(0, "app-1", 0, STEP)]


def test_the_newer_word_counts_while_members_are_asked_in_turn() -> None:
    found = owners.claims([client("app-1", 0), client("app-2", 0, read_at_ms=NOW + STEP)], NOW + STEP)
    assert list(found.values()) == [(Owner("app-2", "10.0.0.2"),)]
    assert owners.claims([client("app-1", 0)], NOW + KNOWN_MS + 1) == {}


def test_claims_of_one_queue_overlap_and_are_no_owners() -> None:
    both = [client("app-1", 0), client("app-2", 0)]
    record([client("app-1", 0)], NOW)
    record(both, NOW + STEP, NOW)
    record(both, NOW + 2 * STEP, NOW + STEP)
    record([client("app-2", 0)], NOW + 3 * STEP, NOW + 2 * STEP)
    rows = QueueOwner.objects.order_by("from_ms", "is_claim", "pk")
    assert [(one.client_id, one.is_claim, one.from_ms - NOW, (one.to_ms or 0) - NOW) for one in rows] == [
        ("app-1", False, 0, STEP),
        ("app-1", True, STEP, 3 * STEP),
        ("app-2", True, STEP, 3 * STEP),
        ("app-2", False, 3 * STEP, -NOW),
    ]
    GroupMembers.objects.create(cluster="local", group="billing", read_at_ms=NOW + 3 * STEP)
    window = "local", "billing", NOW, NOW + 4 * STEP
    alone = owners.tenures(owners.between(*window))
    assert [(one.owner, one.from_ms - NOW) for one in alone] == [("app-1", 0), ("app-2", 3 * STEP)]
    assert len(owners.between(*window, with_claims=True)) == 4
    assert len(owners.between(*window, with_claims=True, topic="orders")) == 4
    assert owners.between(*window, with_claims=True, topic="returns") == []


def test_no_queue_that_several_read_has_an_owner() -> None:
    record([client("app-1", 0)], NOW, model="BROADCASTING")
    record([client("app-1", 0, popped=3)], NOW)
    assert kept() == []


def test_time_without_a_sweep_is_unknown() -> None:
    record([client("app-1", 0)], NOW)
    late_ms = NOW + 3 * KNOWN_MS
    record([client("app-1", 0, read_at_ms=late_ms)], late_ms, NOW + STEP)
    assert kept() == [(0, "app-1", 0, STEP + KNOWN_MS), (0, "app-1", 3 * KNOWN_MS, None)]


def test_owners_of_groups_that_are_swept_no_more_end_and_expire() -> None:
    record([client("app-1", 0)], NOW)
    GroupMembers.objects.create(cluster="local", group="billing", read_at_ms=NOW + STEP)
    owners.delete_expired(0, NOW + STEP + KNOWN_MS)
    assert kept() == [(0, "app-1", 0, None)]
    archive.delete_expired(NOW + STEP + KNOWN_MS + 1)
    assert kept() == [(0, "app-1", 0, STEP + KNOWN_MS)]
    archive.delete_expired(NOW + archive.EVENTS_KEPT_MS + KNOWN_MS + STEP)
    assert kept() == [(0, "app-1", 0, STEP + KNOWN_MS)]
    archive.delete_expired(NOW + archive.EVENTS_KEPT_MS + KNOWN_MS + STEP + 1)
    assert kept() == []


@pytest.mark.parametrize(
    ("address", "client_id", "host"),
    [
        ("10.0.0.7:5001", "x@1", "10.0.0.7"),
        ("[::1]:5001", "x@1", "::1"),
        ("", "10.0.0.9@4711#1", "10.0.0.9"),
    ],
)
def test_it_names_the_host_of_the_connection(address: str, client_id: str, host: str) -> None:
    assert owners.host_of(ClientRow(address=address, client_id=client_id)) == host


def run_sweep(cluster: CollectedCluster) -> int:
    CollectorLease.objects.update(sweep_until_ms=0)
    found = sweep.sweep_clients("local", now_ms=cluster.now_ms)
    assert found is not None
    return found


def orders_owners() -> set[str]:
    return set(QueueOwner.objects.filter(to_ms=None, topic="orders").values_list("client_id", flat=True))


def test_owners_outlive_a_restart_of_the_collector(
    collected: CollectedCluster, running: RunningConsumers
) -> None:
    collected.make_topic("orders", 2)
    first = running.start("billing", {"orders": "*"})
    eventually(lambda: holds(first, "orders") == 2)
    own = first.client.client_id

    def is_known() -> bool:
        collected.collect()
        run_sweep(collected)
        return orders_owners() == {own}

    eventually(is_known)
    before = list(QueueOwner.objects.order_by("pk").values())
    services.collectors.clear()
    collected.collect()
    run_sweep(collected)
    assert list(QueueOwner.objects.order_by("pk").values()) == before
    second = running.start("billing", {"orders": "*"})
    both = {own, second.client.client_id}

    def shared() -> bool:
        collected.collect()
        run_sweep(collected)
        return orders_owners() == both

    eventually(shared)
    ended = QueueOwner.objects.get(topic="orders", to_ms__isnull=False, client_id=own)
    assert ended.to_ms is not None
    assert ended.from_ms < ended.to_ms


def test_owners_behind_a_silent_broker_are_unknown(
    two_brokers: TwoBrokers, running: RunningConsumers
) -> None:
    cluster, addr = two_brokers.cluster, two_brokers.other.address
    cluster.make_topic("orders", 2, addr)  # on broker-b alone
    consumer = running.start("billing", {"orders": "*"})
    eventually(lambda: holds(consumer, "orders") == 2)
    cluster.collect_until_answered(2)
    eventually(lambda: run_sweep(cluster) + bool(cluster.collect()) == 2 and bool(orders_owners()))
    two_brokers.freeze()
    cluster.collect()
    run_sweep(cluster)
    assert orders_owners() == set()
    assert {row.to_ms for row in QueueOwner.objects.filter(topic="orders")} == {cluster.now_ms}


async def no_round() -> bool:
    return True


def test_a_client_that_misses_a_rebalance_claims_beside_the_new_one(
    collected: CollectedCluster, running: RunningConsumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected.make_topic("orders", 2)
    deaf = running.start("billing", {"orders": "*"})
    eventually(lambda: holds(deaf, "orders") == 2)
    monkeypatch.setattr(deaf.rebalancer, "rebalance", no_round)
    other = running.start("billing", {"orders": "*"})
    eventually(lambda: holds(other, "orders") == 1)

    def claimed() -> set[str]:
        collected.collect()
        run_sweep(collected)
        rows = QueueOwner.objects.filter(to_ms=None, topic="orders", is_claim=True)
        return set(rows.values_list("client_id", flat=True))

    both = {deaf.client.client_id, other.client.client_id}
    eventually(lambda: claimed() == both)
    assert len(orders_owners() - both) == 0
    running.stop(deaf)
    eventually(lambda: claimed() == set())
    ended = QueueOwner.objects.filter(topic="orders", is_claim=True)
    assert {one.client_id for one in ended} == both and len({one.to_ms for one in ended}) == 1
