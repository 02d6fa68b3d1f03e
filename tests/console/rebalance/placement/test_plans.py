"""Placements as plans, on a real brokerd with real members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from console.brokers.mqadmin import close_admins
from console.cluster.models import Cluster
from console.lag.models import CollectorLease
from console.operation import errors, services
from console.operation.job import runner
from console.operation.models import Job, Plan
from console.rebalance import rules
from console.rebalance import services as rebalancing
from console.rebalance.models import ServerSideGroup
from console.rebalance.placement import facts, plans
from console.rebalance.rules import KeptPlacement
from consumers.config import RebalanceMode
from tests.console.lag.running_consumers import CONFIG, RunningConsumers, eventually, holds
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    yield LiveCluster(brokerd).register()
    close_admins()


def plan_of(live: LiveCluster, actor: User, **params: Any) -> Plan:
    return services.create_plan("group_placement", live.name, "billing", {"topic": "orders", **params}, actor)


def applied(plan: Plan, actor: User) -> Job:
    job = services.apply_plan(plan.id, actor)
    runner.run(job.id, "worker-1")
    job.refresh_from_db()
    assert job.state == "SUCCEEDED", job.error
    return job


def test_it_drains_and_pins_and_takes_it_back(
    live: LiveCluster, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MEMBERS_AT_ONCE", 1)
    live.create_topic("orders", queues=4)
    live.create_group("billing")
    running = RunningConsumers(live.broker.namesrv)
    try:
        first = running.start("billing", {"orders": "*"})
        second = running.start("billing", {"orders": "*"})

        def held() -> list[list[int]]:
            return [
                sorted(one.queue_id for one in each.running_info().mq_table if one.topic == "orders")
                for each in (first, second)
            ]

        eventually(lambda: sorted(map(len, held())) == [2, 2])
        before, a = held(), first.client.client_id
        plan = plan_of(live, maria, drained=[a])
        assert sum(len(row["before"]) == 1 and row["before"] != [row["after"]] for row in plan.diff) == 2
        assert plan.warnings == []  # both members report that they let the broker assign
        browser = Browser()
        browser.force_login(maria)
        page = browser.get(f"/c/test/plans/{plan.id}").content.decode()
        assert a in page and "Move 2 queues" in page
        CollectorLease.objects.update_or_create(cluster=live.name, defaults={"sweep_until_ms": 2**41})
        job = applied(plan, maria)
        assert (
            CollectorLease.objects.get().sweep_until_ms < 2**41
        )  # the page shows the move with the next round
        assert browser.get(f"/c/test/operations/{job.id}").status_code == 200
        assert held() == [[], [0, 1, 2, 3]]
        assert job.result["followed"] == 4 and job.result["followed_ms"] is not None

        pinned = f"{live.broker_name}/{before[1][0]}"
        applied(plan_of(live, maria, pins={pinned: a}), maria)
        assert before[1][0] in held()[0] and sorted(map(len, held())) == [2, 2]
        # The pinned client leaves: its queue goes to the other; no version more than members changed.
        running.stop(first)
        eventually(lambda: held()[1] == [0, 1, 2, 3])
        assert rebalancing.rebalance_due(live.name, 2**41) == 1
        version = ServerSideGroup.objects.get().version
        assert rebalancing.rebalance_due(live.name, 2**41 + 1) == 1
        assert ServerSideGroup.objects.get().version == version

        with pytest.raises(errors.PlanRejected, match="none can be left out"):
            services.undo(plan.id, maria, accept_without=["broker-b"])
        undo = services.undo(plan.id, maria)
        assert undo.params == {"topic": "orders"}
        applied(undo, maria)
        assert ServerSideGroup.objects.get().placement == {}
    finally:
        running.close()


def test_a_job_fails_when_the_workers_ignore_the_placement(
    live: LiveCluster, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic("orders", queues=4)
    live.create_group("billing")
    running = RunningConsumers(live.broker.namesrv)
    divide = rules.compute
    monkeypatch.setattr(
        rebalancing, "rules", SimpleNamespace(**{**vars(rules), "compute": lambda *args: divide(*args[:3])})
    )
    monkeypatch.setattr(plans, "VERIFY_WITHIN_S", 0.5)
    try:
        first = running.start("billing", {"orders": "*"})
        running.start("billing", {"orders": "*"})
        eventually(lambda: sum(queue.topic == "orders" for queue in first.table) == 2)
        other = ServerSideGroup.objects.create(
            cluster=live.name, group="ledger", topic="orders", strategy="AVG", created_at_ms=1
        )
        job = services.apply_plan(plan_of(live, maria, drained=[first.client.client_id]).id, maria)
        runner.run(job.id, "worker-1")
        job.refresh_from_db()
        assert job.state == "FAILED" and job.result["followed"] < 4
        other.refresh_from_db()
        assert other.state == "PENDING"  # the job left other groups to the worker
    finally:
        running.close()


def test_it_names_the_clients_that_divide_by_themselves(
    live: LiveCluster, maria: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic("orders", queues=4)
    live.create_group("billing")
    running = RunningConsumers(live.broker.namesrv)
    monkeypatch.setattr(plans, "VERIFY_WITHIN_S", 0.5)
    try:
        config = replace(CONFIG, rebalance_mode=RebalanceMode.CLIENT)
        clients = [running.start("billing", {"orders": "*"}, config=config) for _ in range(2)]
        eventually(lambda: [holds(one, "orders") for one in clients] == [2, 2])
        ids = [one.client.client_id for one in clients]
        plan = plan_of(live, maria, drained=[ids[0]])
        browser = Browser()
        browser.force_login(maria)
        page = browser.get(f"/c/test/plans/{plan.id}").content.decode()
        assert "Some clients do not let the broker assign" in page
        assert f"{ids[0]} (PYTHON) and {ids[1]} (PYTHON)" in page
        job = services.apply_plan(plan.id, maria)
        runner.run(job.id, "worker-1")
        job.refresh_from_db()
        assert job.state == "FAILED"
        assert f"clients that divide the queues themselves: {ids[0]} and {ids[1]}" in str(job.error)
    finally:
        running.close()


def test_it_plans_from_a_terminal(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    queue = f"{live.broker_name}/0"
    ServerSideGroup.objects.create(
        cluster=live.name,
        group="billing",
        topic="orders",
        strategy="AVG",
        created_at_ms=1,
        placement={"drained": ["c", "d"]},
        placed_at_ms=1,
    )
    words = ("--pin", f"{queue}=c", "--drain", "d", "--weight", "c=3")
    call_command("rebalance", "place", "billing", "--topic", "orders", *words, stdout=StringIO())
    plan = Plan.objects.get()
    assert plan.params == {
        "topic": "orders",
        "pins": {queue: "c"},
        "drained": ["d"],
        "weights": {"c": "3"},
    }
    assert plan.equivalent["made_by"]["command"] == (
        f"manage.py rebalance place billing --topic orders {' '.join(words)} --cluster test"
    )
    # Without a client it is stored all the same, for the first one that comes.
    applied(plan, maria)
    row = ServerSideGroup.objects.get()
    assert row.state == "IDLE" and row.pushed == {live.addr: row.version}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"pins": {"broker-x/0": "c"}}, "pins"),
        ({"pins": {"broker": "c"}}, "pins"),
        ({"drained": ["nobody"]}, "drained"),
        ({"weights": {"nobody": "2"}}, "weights"),
        ({"weights": {"c": "0"}}, "weights"),
        ({"weights": {"c": "x"}}, "weights"),
        ({"drained": ["c"], "pins": {"broker-a/0": "c"}}, "pins"),
        ({"canary_version": "5.3.3"}, "canary_share"),
        ({"canary_version": "new", "canary_share": 20}, "canary_version"),
        ({"topic": "nowhere"}, "topic"),
        ({"accept_without": ["broker-b"]}, "accept_without"),
    ],
)
def test_it_names_the_parameter_at_fault(
    live: LiveCluster, maria: User, params: dict[str, Any], field: str
) -> None:
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(live, maria, **params)
    assert caught.value.field == field


def test_two_workers_have_one_answer_under_a_placement(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    cluster = Cluster.objects.get()
    row = ServerSideGroup.objects.create(
        cluster=live.name, group="billing", topic="orders", strategy="AVG", created_at_ms=1
    )
    wanted = KeptPlacement(drained=("c",))
    ServerSideGroup.objects.update(claimed_until_ms=1_000)
    assert rebalancing.put_placement(cluster, "billing", "orders", wanted, now_ms=999) is None
    assert ServerSideGroup.objects.get().placement == {}
    placed = rebalancing.put_placement(cluster, "billing", "orders", wanted, now_ms=1_000)
    assert placed is not None
    # A worker that began before, and is late: what it computed without the placement is not kept.
    row.assignment, row.version = {"c": [["broker-a", 0]]}, 999
    rebalancing._set(row, state=ServerSideGroup.State.STORED)
    now = ServerSideGroup.objects.get()
    assert (now.assignment, now.version, now.placement) == ({}, placed.version, {"drained": ["c"]})
    assert now.claimed_until_ms == 0


def test_a_worker_that_comes_back_moves_no_queue(live: LiveCluster, maria: User) -> None:
    """While it is away the broker divides anew when members change, by the placement that it stores."""
    live.create_topic("orders", queues=8)
    live.create_group("billing")
    running = RunningConsumers(live.broker.namesrv)
    try:
        clients = [running.start("billing", {"orders": "*"}) for _ in range(2)]

        def held() -> dict[str, list[int]]:
            return {
                each.client.client_id: sorted(
                    one.queue_id for one in each.running_info().mq_table if one.topic == "orders"
                )
                for each in clients
            }

        def counts() -> list[int]:
            return [len(share) for share in held().values()]

        eventually(lambda: counts() == [4, 4])
        applied(plan_of(live, maria, weights={clients[0].client.client_id: "3"}), maria)
        assert counts() == [6, 2]
        clients.append(running.start("billing", {"orders": "*"}))
        eventually(lambda: counts() == [5, 2, 1])
        without_worker = held()
        for now_ms in (2**41, 2**41 + 1, 2**41 + 2):
            assert rebalancing.rebalance_due(live.name, now_ms) == 1
        row = ServerSideGroup.objects.get()
        assert row.version == 2**41 and held() == without_worker
        assigned = rules.of_json("orders", row.assignment)
        assert {one: [queue.queue_id for queue in share] for one, share in assigned.items()} == without_worker
    finally:
        running.close()
