"""Offset changes against a real brokerd: plan, drift, apply, verify, undo."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from console.lag import services as lag_services
from console.operation import errors, selectors, services
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster, wait_for

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
TEN = [b"m%d" % index for index in range(10)]


@pytest.fixture
def orders(live: LiveCluster) -> LiveCluster:
    """Topic ``orders`` with 2 queues of 10 messages; group ``billing`` offline, committed at 7 and 10."""
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    live.send("orders", 0, TEN)
    live.send("orders", 1, TEN)
    live.commit("billing", "orders", 0, 7)
    live.commit("billing", "orders", 1, 10)
    return live


def plan_of(live: LiveCluster, actor: User, **params: Any) -> Plan:
    return services.create_plan("offset_change", live.name, "billing", params, actor)


def run(plan: Plan, actor: User) -> Job:
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    services.run_job(job.id, "worker-1")
    return selectors.job(job.id)


def moves(plan: Plan) -> list[tuple[int, int | None, int]]:
    return [(row["queue_id"], row["before"], row["after"]) for row in plan.diff]


def test_it_shows_before_and_after_per_queue(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    assert moves(plan) == [(0, 7, 0), (1, 10, 0)]
    row = plan.diff[0]
    assert (row["delta"], row["lag_before"], row["lag_after"], row["how"]) == (-7, 3, 10, "15")
    assert abs(row["store_time_ms"] - time.time() * 1000) < 60_000
    assert plan.messages == 17
    assert plan.summary.startswith("This will replay 17 messages on 2 queues of orders, written ")
    assert [warning["title"] for warning in plan.warnings] == [
        "No member is online",
        "Every target is still retained",
    ]
    assert orders.committed("billing", "orders") == {0: 7, 1: 10}, "a plan changes nothing"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"target": "latest"}, [(0, 7, 10), (1, 10, 10)]),
        ({"target": "offset", "offset": 4}, [(0, 7, 4), (1, 10, 4)]),
        ({"target": "shift", "shift": -5}, [(0, 7, 2), (1, 10, 5)]),
        ({"target": "shift", "shift": 100}, [(0, 7, 10), (1, 10, 10)]),
        ({"target": "time", "time_ms": 0}, [(0, 7, 0), (1, 10, 0)]),
        ({"target": "time", "time_ms": 4_000_000_000_000}, [(0, 7, 10), (1, 10, 10)]),
    ],
)
def test_it_knows_every_target(
    orders: LiveCluster, alice: User, params: dict[str, Any], expected: list[tuple[int, int, int]]
) -> None:
    assert moves(plan_of(orders, alice, **params)) == expected


def test_it_finds_the_first_message_at_or_after_a_time(orders: LiveCluster, alice: User) -> None:
    time.sleep(0.05)
    between_ms = int(time.time() * 1000)
    time.sleep(0.05)
    orders.send("orders", 0, TEN)
    plan = plan_of(orders, alice, target="time", time_ms=between_ms)
    assert moves(plan) == [(0, 7, 10), (1, 10, 10)]
    assert plan.diff[0]["store_time_ms"] >= between_ms


def test_it_stands_like_another_group(orders: LiveCluster, alice: User) -> None:
    orders.create_group("shadow")
    orders.commit("shadow", "orders", 0, 3)
    plan = plan_of(orders, alice, target="like_group", like_group="shadow")
    assert moves(plan) == [(0, 7, 3), (1, 10, 10)]
    assert plan.diff[1]["note"] == "no offset is known to go to"


def test_it_goes_back_to_where_it_stood_at_a_moment(
    orders: LiveCluster, alice: User, tmp_path: Path, settings: Settings
) -> None:
    settings.DATA_DIR, settings.HISTORY_URL = tmp_path / "data", f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    now_ms = int(time.time() * 1000)
    lag_services.collect("test", now_ms=now_ms)
    orders.commit("billing", "orders", 0, 9)
    lag_services.collect("test", now_ms=now_ms + 5_000)
    plan = plan_of(orders, alice, target="as_of", time_ms=now_ms + 1_000)
    assert moves(plan) == [(0, 9, 7), (1, 10, 10)]
    nothing = plan_of(orders, alice, target="as_of", time_ms=now_ms - 3_600_000)
    assert moves(nothing) == [(0, 9, 9), (1, 10, 10)]
    assert nothing.diff[0]["note"] == "no offset is known to go to" and nothing.blocked


def test_it_restricts_to_queues(orders: LiveCluster, alice: User) -> None:
    queue = {"topic": "orders", "broker_name": orders.broker_name, "queue_id": 1}
    assert moves(plan_of(orders, alice, target="earliest", queues=[queue])) == [(1, 10, 0)]


def test_it_applies_offline_verifies_and_undoes_exactly(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    job = run(plan, alice)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert orders.committed("billing", "orders") == {0: 0, 1: 0}
    assert [
        (row["queue_id"], row["before"], row["reported"], row["how"]) for row in job.result["queues"]
    ] == [
        (0, 7, 0, "15"),
        (1, 10, 0, "15"),
    ]
    assert (job.result["moved"], job.result["verified"], job.result["failed"]) == (2, 2, 0)
    undo = services.undo(plan.id, alice)
    assert moves(undo) == [(0, 0, 7), (1, 0, 10)]
    assert undo.summary.startswith("This will skip 17 messages on 2 queues of orders")
    assert run(undo, alice).state == "SUCCEEDED"
    assert orders.committed("billing", "orders") == {0: 7, 1: 10}


def test_it_moves_an_online_group_tells_its_members_and_undoes(orders: LiveCluster, alice: User) -> None:
    with orders.member("billing", "orders", persist_consumer_offset_interval_ms=1_000) as seen:
        wait_for(lambda: orders.committed("billing", "orders") == {0: 10, 1: 10})
        assert len(seen) == 3, "only what was left"
        plan = plan_of(orders, alice, target="earliest")
        assert {row["how"] for row in plan.diff} == {"222_queue"}
        assert plan.warnings[0]["title"] == "The group is online: 1 client"
        job = run(plan, alice)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        wait_for(lambda: len(seen) == 23)
        assert sorted(message.queue_offset for message in seen[3:]) == sorted([*range(10)] * 2)
        assert job.result["clients"] == 1 and job.result["resumed"] == 2
        wait_for(lambda: orders.committed("billing", "orders") == {0: 10, 1: 10})
        undo = services.undo(plan.id, alice)
        assert undo.blocked.startswith("Nothing would change"), "it caught up to where it stood"


def test_it_refuses_when_an_offline_group_moved(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="latest")
    orders.commit("billing", "orders", 0, 8)
    with pytest.raises(errors.PlanDrifted) as caught:
        services.apply_plan(plan.id, alice, "billing")
    assert caught.value.changes == [f"orders · {orders.broker_name} · 0 moved from 7 to 8"]
    assert orders.committed("billing", "orders") == {0: 8, 1: 10}


def test_it_refuses_when_the_group_came_online(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="latest")
    with orders.member("billing", "orders"):
        wait_for(lambda: orders.admin.consumer_connection(orders.addr, "billing") is not None)
        with pytest.raises(errors.PlanDrifted, match="came online"):
            services.apply_plan(plan.id, alice, "billing")


def test_it_says_that_nothing_would_change(orders: LiveCluster, alice: User) -> None:
    orders.commit("billing", "orders", 0, 10)
    plan = plan_of(orders, alice, target="latest")
    assert plan.summary == "This would change nothing: 2 queues of billing stand at the target already."
    with pytest.raises(errors.PlanBlocked, match="Nothing would change"):
        services.apply_plan(plan.id, alice, "billing")


def test_it_warns_of_queues_never_committed(live: LiveCluster, alice: User) -> None:
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    live.send("orders", 0, TEN)
    live.commit("billing", "orders", 1, 0)
    plan = plan_of(live, alice, target="offset", offset=5)
    assert moves(plan) == [(0, None, 5), (1, 0, 0)]
    assert plan.diff[1]["note"] == "asked for 5; the queue ends at 0"
    assert plan.warnings[0]["title"] == "1 queue has never been committed"
    assert run(plan, alice).state == "SUCCEEDED"
    assert live.committed("billing", "orders") == {0: 5, 1: 0}
    with pytest.raises(errors.UndoImpossible):
        services.undo(plan.id, alice)


def test_it_replaces_a_reset_that_still_waits_for_a_member(orders: LiveCluster, alice: User) -> None:
    orders.admin.reset_offset(orders.addr, "billing", "orders", 0)
    assert orders.committed("billing", "orders") == {0: 0, 1: 0}
    job = run(plan_of(orders, alice, target="offset", offset=6), alice)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert orders.committed("billing", "orders") == {0: 6, 1: 6}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "target"),
        ({"target": "yesterday"}, "target"),
        ({"target": "time"}, "time_ms"),
        ({"target": "offset", "offset": -1}, "offset"),
        ({"target": "shift", "shift": 0}, "shift"),
        ({"target": "like_group"}, "like_group"),
        ({"target": "exact"}, "offsets"),
        ({"target": "earliest", "topics": ["nowhere"]}, "topics"),
        ({"target": "earliest", "queues": [{"topic": "orders"}]}, "queues"),
        (
            {"target": "earliest", "queues": [{"topic": "orders", "broker_name": "x", "queue_id": 0}]},
            "queues",
        ),
    ],
)
def test_it_names_the_parameter_at_fault(
    orders: LiveCluster, alice: User, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(orders, alice, **params)
    assert caught.value.field == field


def test_it_rejects_an_unknown_group(live: LiveCluster, alice: User) -> None:
    live.create_topic("orders")
    with pytest.raises(errors.PlanRejected) as caught:
        services.create_plan("offset_change", live.name, "nobody", {"target": "latest"}, alice)
    assert caught.value.field == "group"


def test_it_waits_for_a_broker_that_is_away_and_goes_on(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    job = services.apply_plan(plan.id, alice, "billing")
    orders.broker.stop()
    services.run_job(job.id, "worker-1")
    waiting = selectors.job(job.id)
    assert (waiting.state, waiting.progress["retries"]) == ("RUNNING", 1)
    orders.broker.start()
    wait_for(lambda: orders.has_route("orders"))
    Job.objects.filter(pk=job.id).update(lease_until=None)
    services.run_job(job.id, "worker-2")
    assert selectors.job(job.id).state == "SUCCEEDED"
    assert orders.committed("billing", "orders") == {0: 0, 1: 0}


def test_it_uses_the_old_way_with_members_online(live_old: LiveCluster, alice: User) -> None:
    """4.x, or useServerSideResetOffset=false: 222 by time; single offsets can not be told to running members."""
    live = live_old
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    live.send("orders", 0, TEN)
    live.send("orders", 1, TEN)
    with live.member("billing", "orders", persist_consumer_offset_interval_ms=1_000) as seen:
        wait_for(lambda: live.committed("billing", "orders") == {0: 10, 1: 10})
        blocked = plan_of(live, alice, target="offset", offset=5)
        assert "can tell running members only a time" in blocked.blocked
        plan = plan_of(live, alice, target="earliest")
        assert {row["how"] for row in plan.diff} == {"222_time"}
        before = len(seen)
        job = run(plan, alice)
        wait_for(lambda: len(seen) >= before + 20, within_s=30)
        assert (job.state, job.error) == ("SUCCEEDED", "")
