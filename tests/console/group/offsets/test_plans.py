"""Offset changes against a real brokerd: plan, drift, apply, verify, undo."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from console.access import services as access_services
from console.cluster.models import Cluster
from console.group import selectors as group_selectors
from console.group.offsets import apply as offset_apply
from console.group.offsets.estimate import Estimate, estimate
from console.group.offsets.plans import OffsetChangePlan
from console.group.offsets.stored import OffsetParams
from console.lag import services as lag_services
from console.lag.models import LagEvent
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster, wait_for

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("offsets on a broker; plans and jobs are written as in tests/console/operation"),
]
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
    runner.run(job.id, "worker-1")
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
    assert plan.summary.startswith("Replay 17 messages on 2 queues of orders, written ")
    assert [warning["title"] for warning in plan.warnings] == [
        "No client is online",
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
    assert plan.diff[1]["note"] == "shadow has no committed offset there"


def test_it_shows_no_group_that_the_person_may_not_see(orders: LiveCluster) -> None:
    access_services.ensure_first_person()
    carol = User.objects.create_user("carol")
    access_services.grant(role="operator", user=carol, name_pattern="billing")
    with pytest.raises(errors.NotPermitted, match="carol may not VIEW shadow"):
        plan_of(orders, carol, target="like_group", like_group="shadow")
    assert plan_of(orders, carol, target="earliest").created_by == "carol"


@pytest.fixture
def history(orders: LiveCluster, tmp_path: Path, settings: Settings) -> Iterator[int]:
    """Rounds at 0, 5 and 120 s after the time returned; billing stood at 7, 9 and 9 on queue 0."""
    settings.DATA_DIR, settings.HISTORY_URL = tmp_path / "data", f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    start_ms = int(time.time() * 1000) - 200_000
    lag_services.collect("test", now_ms=start_ms)
    orders.commit("billing", "orders", 0, 9)
    for later_ms in (5_000, 120_000):
        assert lag_services.collect("test", now_ms=start_ms + later_ms) is not None
    yield start_ms
    lag_services.collectors.clear()


def test_it_goes_back_to_where_it_stood_at_a_moment(orders: LiveCluster, alice: User, history: int) -> None:
    plan = plan_of(orders, alice, target="as_of", time_ms=history + 1_000)
    assert moves(plan) == [(0, 9, 7), (1, 10, 10)]
    assert plan.diff[0]["note"] == "at that moment between 7 and 9"
    (said,) = [each for each in plan.warnings if each["title"] == "Offsets as this console recorded them"]
    assert " before the requested time." in said["text"]
    assert run(plan, alice).state == "SUCCEEDED"
    assert orders.committed("billing", "orders") == {0: 7, 1: 10}


def test_a_change_that_is_done_reads_in_the_past(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    assert plan.summary.startswith("Replay 17 messages on 2 queues of orders")
    assert run(plan, alice).state == "SUCCEEDED"
    done = OffsetChangePlan().done_words(selectors.plan(plan.id))
    assert done.startswith("Replayed 17 messages on 2 queues of orders") and "that takes" not in done


@pytest.mark.parametrize(
    ("after_ms", "words"),
    [
        (60_000, "is in a gap of the history of broker-a: the last reading before is of "),
        (-3_600_000, "The history has no offsets of billing for "),
        (3_600_000, "is in the future: nothing is recorded yet"),
    ],
)
def test_it_never_takes_offsets_out_of_a_gap(
    orders: LiveCluster, alice: User, history: int, after_ms: int, words: str
) -> None:
    with pytest.raises(errors.PlanRejected, match=words) as caught:
        plan_of(orders, alice, target="as_of", time_ms=history + after_ms)
    assert caught.value.field == "time_ms"


def test_the_estimate_of_a_time_is_where_the_rounds_around_it_were(orders: LiveCluster, history: int) -> None:
    """Ten messages were in each queue in both rounds of the fixture; five more came after them."""
    orders.send("orders", 0, TEN[:5])
    now_ms = history + 190_000
    assert lag_services.collect("test", now_ms=now_ms) is not None
    rows = group_selectors.group_queues("test", "billing")

    def means(at_ms: int) -> Estimate:
        return estimate("test", "billing", OffsetParams(target="time", time_ms=at_ms), rows, now_ms)

    found = means(history + 1_000)
    assert [(row.before, row.after) for row in found.rows] == [(9, 10), (10, 10)]
    assert (found.unknown, found.precision) == (0, "")
    before_five = means(history + 121_000)
    assert [row.after for row in before_five.rows] == [10, 10]
    assert "Accurate to 5 messages" in before_five.precision
    with pytest.raises(errors.PlanRejected, match="Unknown: the history has no round"):
        means(history + 60_000)
    orders.create_topic("refunds", queues=1)
    orders.commit("billing", "refunds", 0, 0)
    assert lag_services.collect("test", now_ms=now_ms + 5_000) is not None
    rows = group_selectors.group_queues("test", "billing")
    found = means(history + 1_000)
    assert ([row.after for row in found.rows], found.unknown) == ([10, 10], 1)


def test_it_leaves_a_queue_alone_that_had_no_offset_then(
    orders: LiveCluster, alice: User, history: int
) -> None:
    orders.create_topic("refunds", queues=1)
    orders.send("refunds", 0, TEN)
    orders.commit("billing", "refunds", 0, 5)
    plan = plan_of(orders, alice, target="as_of", time_ms=history + 1_000)
    assert [(row["topic"], row["after"], row["note"]) for row in plan.diff if row["topic"] == "refunds"] == [
        ("refunds", 5, "had no committed offset at that moment")
    ]


def test_it_leaves_a_topic_alone_that_was_made_again(orders: LiveCluster, alice: User, history: int) -> None:
    orders.admin.delete_topic(orders.addr, "orders")
    orders.create_topic("orders", queues=2)
    orders.send("orders", 0, TEN[:8])
    orders.commit("billing", "orders", 0, 8)
    assert lag_services.collect("test", now_ms=history + 190_000) is not None
    plan = plan_of(orders, alice, target="as_of", time_ms=history + 1_000)
    assert moves(plan)[0] == (0, 8, 8), "7 lies within the queue, and is another message"
    assert plan.diff[0]["note"].startswith("the topic was recreated since then")


def test_it_takes_back_a_plan_by_its_name_and_only_the_named_queues(orders: LiveCluster, alice: User) -> None:
    done = plan_of(orders, alice, target="earliest")
    with pytest.raises(errors.PlanRejected, match="was never applied") as caught:
        plan_of(orders, alice, target="undo", undo_plan=done.id)
    assert caught.value.field == "undo_plan"
    run(done, alice)
    queue = {"topic": "orders", "broker_name": orders.broker_name, "queue_id": 1}
    part = plan_of(orders, alice, target="undo", undo_plan=done.id, queues=[queue])
    assert (moves(part), part.undo_of_id, part.params["target"]) == ([(1, 0, 10)], done.id, "exact")
    assert part.equivalent["made_by"]["command"].endswith(f"--queue orders/broker-a/1 --plan {done.id}")
    assert moves(plan_of(orders, alice, target="undo", undo_plan=done.id)) == [(0, 0, 7), (1, 0, 10)]
    with pytest.raises(errors.PlanRejected, match="moved none of these queues"):
        plan_of(orders, alice, target="undo", undo_plan=done.id, topics=["elsewhere"])
    orders.create_group("shadow")
    orders.commit("shadow", "orders", 0, 3)
    with pytest.raises(errors.PlanRejected, match="is no offset change of shadow"):
        services.create_plan(
            "offset_change", "test", "shadow", {"target": "undo", "undo_plan": done.id}, alice
        )


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
    assert undo.summary.startswith("Skip 17 messages on 2 queues of orders")
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
    assert plan.summary == "Nothing would change: 2 queues of billing are at the target already."
    with pytest.raises(errors.PlanBlocked, match="Nothing would change"):
        services.apply_plan(plan.id, alice, "billing")


def test_it_warns_of_queues_never_committed(live: LiveCluster, alice: User) -> None:
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    live.send("orders", 0, TEN)
    live.commit("billing", "orders", 1, 0)
    plan = plan_of(live, alice, target="offset", offset=5)
    assert moves(plan) == [(0, None, 5), (1, 0, 0)]
    assert plan.diff[1]["note"] == "requested 5; the queue ends at 0"
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
        ({"target": "like_group", "like_group": "nobody"}, "like_group"),
        ({"target": "like_group", "like_group": "billing"}, "like_group"),
        ({"target": "undo"}, "undo_plan"),
        ({"target": "undo", "undo_plan": "op-nothing"}, "undo_plan"),
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


def test_it_lets_only_the_first_of_two_operators_move_a_group(orders: LiveCluster, alice: User) -> None:
    bob = User.objects.create_superuser("bob")
    first, second = plan_of(orders, alice, target="earliest"), plan_of(orders, bob, target="latest")
    job = services.apply_plan(first.id, alice, "billing")
    with pytest.raises(errors.PlanDrifted, match=f"{job.id} by alice is moving offsets of billing now"):
        services.apply_plan(second.id, bob, "billing")
    runner.run(job.id, "worker-1")
    with pytest.raises(errors.PlanDrifted, match="1 queue of billing was moved at .* by alice"):
        services.apply_plan(second.id, bob, "billing")
    assert selectors.plan(second.id).state == "DRAFT", "it may be looked at, and made again"
    assert orders.committed("billing", "orders") == {0: 0, 1: 0}


def test_it_runs_one_of_two_changes_that_were_applied_at_the_same_moment(
    orders: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = plan_of(orders, alice, target="earliest"), plan_of(orders, alice, target="latest")
    job = services.apply_plan(first.id, alice, "billing")
    with monkeypatch.context() as blind:  # neither look saw the other's job
        blind.setattr(OffsetChangePlan, "drift", lambda *_: [])
        late = services.apply_plan(second.id, alice, "billing")
    runner.run(late.id, "worker-1")
    assert selectors.job(late.id).state == "FAILED"
    assert f"{job.id} by alice is moving offsets of billing now" in selectors.job(late.id).error
    assert orders.committed("billing", "orders") == {0: 7, 1: 10}
    runner.run(job.id, "worker-1")
    assert selectors.job(job.id).state == "SUCCEEDED"


def test_it_starts_one_job_however_often_the_button_is_pressed(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    job = services.apply_plan(plan.id, alice, "billing")
    with pytest.raises(errors.PlanAlreadyApplied) as caught:
        services.apply_plan(plan.id, alice, "billing")
    assert caught.value.job_id == job.id
    assert Job.objects.count() == 1


PULLED_MAX = 100


@contextlib.contextmanager
def slow_member(live: LiveCluster) -> Iterator[None]:
    """A member that is stuck on its first messages: 500 more wait in each queue of ``orders``.

    Each pull of a member commits where it stands. This one has as many messages as it keeps and pulls no more: what a
    test commits stays.
    """
    stuck = threading.Event()
    for queue_id in (0, 1):
        live.send("orders", queue_id, [b"x"] * 500)
    settings = {
        "consume_concurrency": 1,
        "persist_consumer_offset_interval_ms": 60_000,
        "pull_threshold_messages": PULLED_MAX,
    }
    try:
        with live.member("billing", "orders", lambda _: stuck.wait(60), **settings):
            wait_for(lambda: pulls_no_more(live))
            yield
            stuck.set()
    finally:
        stuck.set()


def pulls_no_more(live: LiveCluster) -> bool:
    """Whether the one member of billing has all it keeps of both queues."""
    found = live.admin.consumer_connection(live.addr, "billing")
    if found is None or not found.connection_set:
        return False
    (member,) = found.connection_set
    queues = live.admin.consumer_running_info(live.addr, "billing", member.client_id).mq_table
    full = [queue for queue, one in queues.items() if one.cached_msg_count > PULLED_MAX]
    return [queue.topic for queue in full] == ["orders", "orders"]


def test_a_plan_is_drift_when_another_person_moved_the_online_group(
    orders: LiveCluster, alice: User, maria: User
) -> None:
    """Earliest planned, then Latest applied by another person: the first plan would replay what it never named."""
    access_services.grant(role="operator", user=maria)
    with slow_member(orders):
        earliest = plan_of(orders, alice, target="earliest")
        latest = plan_of(orders, maria, target="latest")
        job = run(latest, maria)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        with pytest.raises(errors.PlanDrifted) as refusal:
            services.apply_plan(earliest.id, alice, earliest.confirm_text)
        (first,) = refusal.value.changes
        assert first.startswith("2 queues of billing were moved at ")
        assert first.endswith(f" by maria ({job.id}), after this plan was made")
        again = plan_of(orders, alice, target="earliest")
        assert services.apply_plan(again.id, alice, again.confirm_text).state == "QUEUED"


def test_a_plan_is_drift_when_somebody_else_set_the_offsets(
    orders: LiveCluster, alice: User, client: Client
) -> None:
    """mqadmin, or another console: no record of ours, but no member read 400 messages in a second either."""
    client.force_login(alice)
    with slow_member(orders):
        plan = plan_of(orders, alice, target="earliest")
        page = client.get(f"/c/test/plans/{plan.id}").content.decode()
        assert "a smaller skip made elsewhere looks like progress" in page
        orders.commit("billing", "orders", 0, 407)
        with pytest.raises(errors.PlanDrifted, match="moved from 7 to 407, more than the group's own rate"):
            services.apply_plan(plan.id, alice, plan.confirm_text)


@pytest.mark.parametrize(("seen_at", "is_drift"), [(7, True), (400, False)])
def test_a_jump_that_a_round_saw_is_drift_unless_the_plan_was_made_after_it(
    orders: LiveCluster, alice: User, seen_at: int, is_drift: bool
) -> None:
    with slow_member(orders):
        orders.commit("billing", "orders", 0, seen_at)
        plan = plan_of(orders, alice, target="earliest")
        LagEvent.objects.create(
            cluster="test",
            kind="SKIPPED",
            group="billing",
            topic="orders",
            broker_name=orders.broker_name,
            queue_id=0,
            at_ms=plan.before["read_at_ms"] + 1,
            from_offset=7,
            to_offset=400,
            messages=393,
        )
        changes = OffsetChangePlan().drift(plan, plan.before["read_at_ms"] + 1_000)
        words = [one for one in changes if one.startswith("orders jumped ahead by 393 messages at ")]
        assert bool(words) is is_drift


def test_it_moves_nothing_when_the_group_moved_before_a_worker_came(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    job = services.apply_plan(plan.id, alice, "billing")
    orders.commit("billing", "orders", 0, 9)  # the queue of jobs was down for a while
    runner.run(job.id, "worker-1")
    failed = selectors.job(job.id)
    assert failed.state == "FAILED"
    assert failed.error == (
        "The state changed since the plan was made: orders · broker-a · 0 moved from 7 to 9"
    )
    assert orders.committed("billing", "orders") == {0: 9, 1: 10}


def test_it_goes_on_where_it_stood_when_a_broker_leaves_in_the_middle(
    orders: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(orders, alice, target="earliest")
    job = services.apply_plan(plan.id, alice, "billing")
    apply_chunk = offset_apply._apply_chunk

    def one_then_away(*arguments: Any) -> None:
        apply_chunk(*arguments)
        orders.broker.stop()

    monkeypatch.setattr(offset_apply, "CHUNK_QUEUES", 1)
    monkeypatch.setattr(offset_apply, "_apply_chunk", one_then_away)
    runner.run(job.id, "worker-1")
    waiting = selectors.job(job.id)
    assert [row["state"] for row in waiting.result["queues"]] == ["applied", "waiting"]
    assert (waiting.state, waiting.progress["done"]) == ("RUNNING", 1)
    assert "trying again in 5 s" in waiting.events.last().text
    monkeypatch.setattr(offset_apply, "_apply_chunk", apply_chunk)
    orders.restart()
    wait_for(lambda: orders.has_route("orders"), within_s=30)
    Job.objects.filter(pk=job.id).update(lease_until=None)
    runner.run(job.id, "worker-2")
    done = selectors.job(job.id)
    assert (done.state, done.error, done.result["verified"]) == ("SUCCEEDED", "", 2)
    assert orders.committed("billing", "orders") == {0: 0, 1: 0}
    assert moves(services.undo(plan.id, alice)) == [(0, 0, 7), (1, 0, 10)]


def test_it_waits_for_the_second_person_where_the_cluster_demands_one(
    orders: LiveCluster, alice: User
) -> None:
    Cluster.objects.filter(name="test").update(typed_confirm_messages=5, second_person_messages=17)
    bob = User.objects.create_superuser("bob")
    plan = plan_of(orders, alice, target="earliest")
    assert (plan.confirm, plan.warnings[0]["title"]) == ("second_person", "Affects 17 messages")
    with pytest.raises(errors.ApprovalMissing):
        services.apply_plan(plan.id, alice, "billing")
    with pytest.raises(errors.ApprovalBySamePerson):
        services.approve_plan(plan.id, alice)
    services.approve_plan(plan.id, bob)
    with pytest.raises(errors.ConfirmationMissing):
        services.apply_plan(plan.id, alice, "bill")
    assert run(plan, alice).state == "SUCCEEDED"
    undo = services.undo(plan.id, alice)
    assert (undo.confirm, undo.approved_by) == ("second_person", ""), "taking it back is as large a change"


def test_it_refuses_an_expired_plan(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    late_ms = round(plan.expires_at.timestamp() * 1000)
    with pytest.raises(errors.PlanExpired, match="make a new plan"):
        services.apply_plan(plan.id, alice, "billing", now_ms=late_ms)
    assert orders.committed("billing", "orders") == {0: 7, 1: 10}


def test_it_waits_for_a_broker_that_is_away_and_goes_on(orders: LiveCluster, alice: User) -> None:
    plan = plan_of(orders, alice, target="earliest")
    job = services.apply_plan(plan.id, alice, "billing")
    orders.broker.stop()
    runner.run(job.id, "worker-1")
    waiting = selectors.job(job.id)
    assert (waiting.state, waiting.progress["retries"]) == ("RUNNING", 1)
    orders.restart()
    wait_for(lambda: orders.has_route("orders"))
    Job.objects.filter(pk=job.id).update(lease_until=None)
    runner.run(job.id, "worker-2")
    assert selectors.job(job.id).state == "SUCCEEDED"
    assert orders.committed("billing", "orders") == {0: 0, 1: 0}


def test_it_uses_the_old_way_with_members_online(live_old: LiveCluster, alice: User) -> None:
    """4.x, or useServerSideResetOffset=false: 222 by time; single offsets cannot be told to running members."""
    live = live_old
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    live.send("orders", 0, TEN)
    live.send("orders", 1, TEN)
    with live.member("billing", "orders", persist_consumer_offset_interval_ms=1_000) as seen:
        wait_for(lambda: live.committed("billing", "orders") == {0: 10, 1: 10})
        blocked = plan_of(live, alice, target="offset", offset=5)
        assert "can send running clients only a time" in blocked.blocked
        plan = plan_of(live, alice, target="earliest")
        assert {row["how"] for row in plan.diff} == {"222_time"}
        before = len(seen)
        job = run(plan, alice)
        wait_for(lambda: len(seen) >= before + 20, within_s=30)
        assert (job.state, job.error) == ("SUCCEEDED", "")
