"""Topics against a real brokerd: create, change, quarantine, release, delete; drift, undo, a broker away."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from console.access.models import AuditEvent
from console.brokers.mqadmin import MQBrokerError
from console.lag.models import CollectorLease, GroupRow, TopicRow
from console.lag.rows.queue_row import QueueRow
from console.operation import errors, selectors, services
from console.operation.job import control, runner
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.support import sample_queues

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("topics of a broker; plans and jobs are written as in tests/console/operation"),
]
HOUR_MS = 3_600_000


def plan_of(live: LiveCluster, actor: User, kind: str, topic: str = "orders", **params: Any) -> Plan:
    return services.create_plan(f"topic_{kind}", live.name, topic, params, actor)


def run(plan: Plan, actor: User) -> Job:
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    return selectors.job(job.id)


def config_of(live: LiveCluster, topic: str = "orders") -> dict[str, Any] | None:
    try:
        return live.admin.topic_config(live.addr, topic).to_value()
    except MQBrokerError:
        return None


def keys(plan: Plan) -> list[tuple[str, str, Any, Any]]:
    return [
        (row["broker_name"], one["key"], one["before"], one["after"])
        for row in plan.diff
        for one in row["changes"]
    ]


def impact_of(plan: Plan, name: str) -> dict[str, Any]:
    (found,) = [row for row in plan.before["impact"] if row["name"] == name]
    return dict(found)


def test_it_creates_a_topic_and_takes_it_back(live: LiveCluster, maria: User) -> None:
    CollectorLease.objects.create(cluster=live.name)
    plan = plan_of(live, maria, "create", read_queues=8, write_queues=6, message_type="FIFO")
    assert plan.summary == (
        f"Create the topic orders on {live.broker_name}: 6 write and 8 read queues per broker, "
        "permission read and write."
    )
    assert (plan.diff[0]["deed"], plan.diff[0]["before"], plan.confirm) == ("create", None, "inline")
    assert config_of(live) is None, "a plan changes nothing"
    job = run(plan, maria)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    made = config_of(live)
    assert made is not None
    assert (made["readQueueNums"], made["writeQueueNums"], made["perm"], made["attributes"]) == (
        8,
        6,
        6,
        {"message.type": "FIFO"},
    )
    assert [row["state"] for row in job.result["brokers"]] == ["verified"]
    assert CollectorLease.objects.get(cluster=live.name).refresh_requested
    undo = services.undo(plan.id, maria)
    assert undo.summary == f"Delete the empty topic orders on {live.broker_name} again."
    assert run(undo, maria).state == "SUCCEEDED"
    assert config_of(live) is None and not live.has_route("orders")
    verbs = list(AuditEvent.objects.filter(subject="orders").order_by("pk").values_list("verb", flat=True))
    assert verbs == ["plan", "apply", "job verified"] * 2


def test_it_does_not_take_back_a_topic_with_messages(live: LiveCluster, maria: User) -> None:
    plan = plan_of(live, maria, "create")
    run(plan, maria)
    live.send("orders", 0, [b"one"])
    undo = services.undo(plan.id, maria)
    assert undo.blocked.startswith("1 message were written") or undo.blocked.startswith(
        "1 message was written"
    )
    with pytest.raises(errors.PlanBlocked):
        services.apply_plan(undo.id, maria, "orders")


@pytest.mark.parametrize(
    ("topic", "params", "field"),
    [
        ("bad name", {}, "topic"),
        ("x" * 128, {}, "topic"),
        ("%RETRY%billing", {}, "topic"),
        ("TBW102", {}, "topic"),
        ("broker-a", {}, "topic"),
        ("orders", {"read_queues": 0}, "read_queues"),
        ("orders", {"write_queues": 1_025}, "write_queues"),
        ("orders", {"write_queues": "8"}, "write_queues"),
        ("orders", {"perm": 3}, "perm"),
        ("orders", {"order": "yes"}, "order"),
        ("orders", {"message_type": "ODD"}, "message_type"),
        ("orders", {"brokers": ["nowhere"]}, "brokers"),
        ("orders", {"queues": 8}, "queues"),
        ("there", {}, "topic"),
    ],
)
def test_it_names_the_parameter_at_fault(
    live: LiveCluster, maria: User, topic: str, params: dict[str, Any], field: str
) -> None:
    live.create_topic("there")
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(live, maria, "create", topic, **params)
    assert caught.value.field == field


def test_it_changes_queues_and_puts_them_back_to_the_letter(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    before = config_of(live)
    plan = plan_of(live, maria, "change", write_queues=8, read_queues=8, order=True)
    name = live.broker_name
    assert keys(plan) == [
        (name, "readQueueNums", 4, 8),
        (name, "writeQueueNums", 4, 8),
        (name, "order", False, True),
    ]
    assert (plan.confirm, impact_of(plan, "Messages stored")["value"]) == ("inline", 0)
    assert run(plan, maria).state == "SUCCEEDED"
    undo = services.undo(plan.id, maria)
    assert undo.summary == f"Restore the configuration of orders on {name} exactly."
    assert run(undo, maria).state == "SUCCEEDED"
    assert config_of(live) == before


def test_it_says_that_nothing_would_change(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    plan = plan_of(live, maria, "change", write_queues=4)
    assert plan.blocked == "Nothing would change: the brokers already report these values."


def test_it_warns_of_unread_messages_in_queues_that_vanish(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    live.create_group("billing")
    live.send("orders", 0, [b"m"] * 5)
    live.send("orders", 3, [b"m"] * 5)
    live.commit("billing", "orders", 3, 2)
    plan = plan_of(live, maria, "change", read_queues=2, write_queues=2)
    assert plan.warnings[0]["title"] == "The removed queues hold unread messages"
    assert "billing 3." in plan.warnings[0]["text"]
    assert (plan.messages, plan.confirm) == (3, "typed")
    with pytest.raises(errors.ConfirmationMissing):
        services.apply_plan(plan.id, maria, "")
    live.commit("billing", "orders", 3, 5)
    read = plan_of(live, maria, "change", read_queues=2, write_queues=2)
    assert read.warnings[0]["title"] == "The removed queues hold no unread messages"
    assert (read.messages, read.confirm) == (0, "inline")


def test_it_says_who_feels_it(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=2)
    TopicRow.objects.create(cluster=live.name, topic="orders", kind="NORMAL", read_at_ms=1_000)
    GroupRow.objects.create(cluster=live.name, group="billing", status="OK", clients=1)
    for queue_id, lag in ((0, 7), (1, None)):
        row = QueueRow(
            group="billing",
            topic="orders",
            broker_name=live.broker_name,
            queue_id=queue_id,
            lag=lag,
            status="OK" if lag is not None else "UNKNOWN",
        )
        sample_queues.save(live.name, row)
    with live.member("billing", "orders"):
        wait_for(lambda: live.admin.consumer_connection(live.addr, "billing") is not None, within_s=30)
        plan = plan_of(live, maria, "quarantine")
    online = impact_of(plan, "Consumers online")
    assert (online["value"], online["words"], online["source"]) == (1, "billing (1)", "brokers")
    backlog = impact_of(plan, "Unread messages")
    assert (backlog["value"], backlog["is_lower_bound"], backlog["source"], backlog["at_ms"]) == (
        7,
        True,
        "last round",
        1_000,
    )
    assert (
        plan.warnings[0]["title"] == "1 consumers are online"
        or plan.warnings[0]["title"] == "1 consumer is online"
    )
    assert plan.confirm == "typed"


def test_it_deletes_from_quarantine_only_and_after_the_hours(
    live: LiveCluster, maria: User, settings: Settings
) -> None:
    live.create_topic("orders", queues=2)
    before = config_of(live)
    live.send("orders", 0, [b"m"] * 3)
    open_still = plan_of(live, maria, "delete")
    assert open_still.blocked.startswith("Put it in quarantine first: it is still in use")
    quarantine = plan_of(live, maria, "quarantine")
    assert keys(quarantine) == [(live.broker_name, "perm", 6, 0)]
    assert run(quarantine, maria).state == "SUCCEEDED"
    early = plan_of(live, maria, "delete")
    assert "it can be deleted after 24 hours" in early.blocked
    settings.QUARANTINE_HOURS = 0
    live.send("orders", 0, [b"late"])
    plan = plan_of(live, maria, "delete")
    assert (plan.blocked, plan.messages, plan.confirm) == ("", 4, "typed")
    assert "1 message was written in quarantine" in [warning["title"] for warning in plan.warnings]
    job = run(plan, maria)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert config_of(live) is None and not live.has_route("orders")
    undo = services.undo(plan.id, maria)
    assert undo.summary.endswith("as it was. Its messages cannot be restored.")
    assert run(undo, maria).state == "SUCCEEDED"
    found = config_of(live)
    assert found is not None and before is not None and found == {**before, "perm": 0}
    assert run(plan_of(live, maria, "release"), maria).state == "SUCCEEDED"
    assert config_of(live) == before


def test_it_releases_with_the_former_permission(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", perm=4)
    before = config_of(live)
    with pytest.raises(errors.PlanRejected, match="did not put orders in quarantine"):
        plan_of(live, maria, "release")
    run(plan_of(live, maria, "quarantine"), maria)
    assert plan_of(live, maria, "quarantine").blocked == "orders is closed for all clients already."
    plan = plan_of(live, maria, "release")
    assert (keys(plan), plan.confirm) == ([(live.broker_name, "perm", 0, 4)], "inline")
    assert run(plan, maria).state == "SUCCEEDED"
    assert config_of(live) == before
    with pytest.raises(errors.PlanRejected, match="did not put orders in quarantine"):
        plan_of(live, maria, "release")


def test_it_lets_only_an_administrator_skip_the_quarantine(
    live: LiveCluster, maria: User, admin: User
) -> None:
    live.create_topic("orders")
    with pytest.raises(errors.NotPermitted):
        plan_of(live, maria, "force_delete")
    plan = plan_of(live, admin, "force_delete")
    assert (plan.blocked, plan.confirm, plan.messages) == ("", "typed", 0)
    with pytest.raises(errors.ConfirmationMissing, match="cannot be undone directly"):
        services.apply_plan(plan.id, admin, "order")
    assert run(plan, admin).state == "SUCCEEDED"
    assert config_of(live) is None


def test_it_refuses_when_the_topic_was_changed_since(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    plan = plan_of(live, maria, "change", write_queues=8, read_queues=8)
    live.create_topic("orders", queues=6)
    with pytest.raises(errors.PlanDrifted) as caught:
        services.apply_plan(plan.id, maria)
    assert caught.value.changes == [
        f"orders on {live.broker_name}: readQueueNums is 6, not 4, writeQueueNums is 6, not 4"
    ]


def test_it_refuses_to_delete_what_was_written_since(
    live: LiveCluster, maria: User, settings: Settings
) -> None:
    settings.QUARANTINE_HOURS = 0
    live.create_topic("orders")
    run(plan_of(live, maria, "quarantine"), maria)
    plan = plan_of(live, maria, "delete")
    live.send("orders", 0, [b"m"])
    with pytest.raises(errors.PlanDrifted, match="1 message was written to orders since"):
        services.apply_plan(plan.id, maria, "orders")


def test_it_does_not_touch_what_somebody_else_changed_during_the_job(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    plan = plan_of(live, maria, "change", write_queues=8, read_queues=8)
    job = services.apply_plan(plan.id, maria)
    live.create_topic("orders", queues=5)
    runner.run(job.id, "worker-1")
    failed = selectors.job(job.id)
    assert failed.state == "FAILED"
    assert "was changed elsewhere in the meantime: readQueueNums is 5, not 4" in failed.error
    found = config_of(live)
    assert found is not None and found["readQueueNums"] == 5
    with pytest.raises(errors.UndoImpossible):
        services.undo(plan.id, maria)


def test_it_goes_on_when_the_broker_is_back_and_writes_once(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    plan = plan_of(live, maria, "change", write_queues=8, read_queues=8)
    job = services.apply_plan(plan.id, maria)
    live.broker.stop()
    runner.run(job.id, "worker-1")
    waiting = selectors.job(job.id)
    assert (waiting.state, waiting.progress["retries"]) == ("RUNNING", 1)
    live.restart()
    wait_for(lambda: live.has_route("orders"), within_s=30)
    live.admin.create_topic(  # the write arrived although its answer was lost
        live.addr, type(live.admin.topic_config(live.addr, "orders")).from_value(plan.diff[0]["after"])
    )
    Job.objects.filter(pk=job.id).update(lease_until=None)
    runner.run(job.id, "worker-2")
    assert selectors.job(job.id).state == "SUCCEEDED"
    assert config_of(live) == plan.diff[0]["after"]


def test_it_expires_and_is_applied_once(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    plan = plan_of(live, maria, "change", write_queues=8, read_queues=8)
    late_ms = round(plan.expires_at.timestamp() * 1000) + 1
    with pytest.raises(errors.PlanExpired, match="make a new plan"):
        services.apply_plan(plan.id, maria, now_ms=late_ms)
    plan = plan_of(live, maria, "change", write_queues=8, read_queues=8)
    first = services.apply_plan(plan.id, maria)
    with pytest.raises(errors.PlanAlreadyApplied) as caught:
        services.apply_plan(plan.id, maria)
    assert caught.value.job_id == first.id


def test_it_lets_one_of_two_operators_win(live: LiveCluster, maria: User, admin: User) -> None:
    live.create_topic("orders", queues=4)
    mine = plan_of(live, maria, "change", write_queues=8, read_queues=8)
    theirs = plan_of(live, admin, "change", write_queues=6, read_queues=6)
    assert run(theirs, admin).state == "SUCCEEDED"
    with pytest.raises(errors.PlanDrifted, match="readQueueNums is 6, not 4"):
        services.apply_plan(mine.id, maria)
    found = config_of(live)
    assert found is not None and found["readQueueNums"] == 6


def test_it_stops_between_brokers_when_cancelled(live: LiveCluster, maria: User) -> None:
    live.create_topic("orders", queues=4)
    plan = plan_of(live, maria, "change", write_queues=8, read_queues=8)
    job = services.apply_plan(plan.id, maria)
    control.cancel(job.id, maria)
    runner.run(job.id, "worker-1")
    stopped = selectors.job(job.id)
    assert (stopped.state, stopped.result) == ("CANCELLED", {"written": 0})
    found = config_of(live)
    assert found is not None and found["readQueueNums"] == 4
