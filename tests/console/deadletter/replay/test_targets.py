"""Replays to one client, to another topic, to nowhere; the policy; filters; the plan that allows reading."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from console.brokers.mqadmin import Message
from console.deadletter import selectors
from console.deadletter.models import ReplayLedger
from console.operation import errors, services
from console.operation import selectors as operation_selectors
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.deadletter.letters import (
    DLQ,
    GROUP,
    RETRY,
    TOPIC,
    die,
    end,
    group_with_topics,
    write_letters,
)
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.support.people import signed_in

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("where letters go; the ledger is written and read as in deadletter/test_plans"),
]


def plan_of(live: LiveCluster, actor: User | None, target: str = "failed_group", **params: Any) -> Plan:
    return services.create_plan("dead_letter_replay", live.name, GROUP, {"target": target, **params}, actor)


def run(plan: Plan, actor: User | None) -> Job:
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    return operation_selectors.job(job.id)


def client_id_of(live: LiveCluster) -> str:
    wait_for(lambda: bool(live.admin.consumer_ids(live.addr, GROUP)))
    return live.admin.consumer_ids(live.addr, GROUP)[0]


def test_it_gives_one_original_message_to_one_client(live: LiveCluster) -> None:
    live.create_topic(TOPIC, queues=1)
    live.create_group(GROUP)
    die(live, 2)
    with live.member(GROUP, TOPIC) as seen:
        client_id = client_id_of(live)
        plan = plan_of(live, None, "client", client_id=client_id)
        assert (plan.messages, plan.blocked, plan.before["asked"]["topic"]) == (1, "", TOPIC)
        job = run(plan, None)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        assert job.result["client"]["consume_result"] == "CR_SUCCESS"
        assert [(message.topic, message.body) for message in seen] == [(TOPIC, b"order 1")], (
            "the newest, once"
        )
    row = ReplayLedger.objects.get()
    assert row.state == "SENT" and row.reason.startswith("CR_SUCCESS in ")
    assert (end(live, RETRY), end(live, DLQ)) == (0, 2), "nothing was sent"
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(live, None, "client", client_id="nobody@1")
    assert caught.value.field == "client_id"


def test_it_shows_what_a_client_that_fails_answers(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 3)
    with live.member(GROUP, TOPIC, lambda message: False) as seen:
        letter = {"broker_name": live.broker_name, "queue_id": 0, "queue_offset": 1}
        plan = plan_of(live, None, "client", client_id=client_id_of(live), letter=letter)
        assert plan.before["asked"]["is_original"] is False
        assert "receives the dead-letter topic" in plan.warnings[1]["title"]
        job = run(plan, None)
        assert (job.state, job.result["failed"], len(seen)) == ("FAILED", 1, 1)
        assert "CR_LATER" in job.error and ReplayLedger.objects.get().queue_offset == 1


def test_it_never_asks_a_client_twice_after_a_crash(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic(TOPIC, queues=1)
    live.create_group(GROUP)
    die(live, 1)
    with live.member(GROUP, TOPIC) as seen:
        plan = plan_of(live, None, "client", client_id=client_id_of(live))
        job = services.apply_plan(plan.id, None, GROUP)
        monkeypatch.setattr(
            "console.deadletter.replay.direct._finish", lambda *arguments: (_ for _ in ()).throw(SystemExit)
        )
        with pytest.raises(SystemExit):
            runner.run(job.id, "worker-1")
        assert len(seen) == 1
        monkeypatch.undo()
        Job.objects.update(lease_until=None)
        runner.run(job.id, "worker-2")
        found = operation_selectors.job(job.id)
        assert (found.state, found.result["unknown"], len(seen)) == ("FAILED", 1, 1)


def test_it_sends_to_another_topic_with_provenance(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 3)
    live.create_topic("parking", queues=1)
    plan = plan_of(live, None, "other_topic", topic="parking", filter={"key": "k1"})
    assert plan.before["needs"] == [["SEND", "parking"]]
    assert plan.warnings[0]["title"] == "No group reads that topic yet"
    assert run(plan, None).result["sent"] == 1
    (copy,) = live.admin.pull(live.addr, "parking", 0, 0).messages
    assert copy.body == b"letter 1" and copy.keys == "k1"
    assert {key: copy.properties[key] for key in copy.properties if key.startswith("TIDEMARK_")} == {
        "TIDEMARK_DEAD_LETTER_OF": GROUP,
        "TIDEMARK_DEAD_LETTER": f"{live.broker_name}/0/1",
        "TIDEMARK_ORIGINAL_TOPIC": TOPIC,
        "TIDEMARK_REPLAY_KEY": ReplayLedger.objects.get().replay_key,
    }
    assert (
        plan_of(live, None, "other_topic", topic="nowhere").blocked == "There is no writable topic nowhere."
    )


def test_it_asks_for_send_on_the_topics_too(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 1)
    live.create_topic("parking", queues=1)
    signed_in("bob", verbs=("VIEW", "REPLAY"))
    bob = User.objects.get(username="bob")
    for target, more in (("original_topic", {}), ("other_topic", {"topic": "parking"})):
        with pytest.raises(errors.NotPermitted, match="may not SEND"):
            plan_of(live, bob, target, **more)
    assert plan_of(live, bob).messages == 1, "the group's own retry topic needs REPLAY only"


def test_it_marks_letters_as_handled(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 4)
    plan = plan_of(live, None, "nowhere", filter={"tag": "even"})
    assert plan.summary.startswith("Mark 2 dead letters of billing as handled")
    job = run(plan, None)
    assert (job.state, job.result["handled"], job.result["skipped"], job.result["sent"]) == (
        "SUCCEEDED",
        2,
        2,
        0,
    )
    assert end(live, RETRY) == 0
    later = plan_of(live, None)
    assert (later.messages, later.before["already"]) == (2, 2)
    queue = ReplayLedger.objects.filter(state="HANDLED").values_list("queue_offset", flat=True)
    assert sorted(queue) == [0, 2]


def test_it_stops_after_so_many_failures(live: LiveCluster) -> None:
    group_with_topics(live)
    live.send(DLQ, 0, [b"nameless"] * 5, KEYS="x")
    write_letters(live, 5)
    job = run(plan_of(live, None, "original_topic", rate_per_s=10, stop_after_failures=2), None)
    assert job.state == "FAILED" and "(limit 2)" in job.error
    figures = job.result
    assert figures["failed"] >= 2 and figures["pending"] == 0
    assert (
        figures["matched"]
        == figures["sent"] + figures["skipped"] + figures["failed"]
        == ReplayLedger.objects.count()
    )
    assert end(live, TOPIC) == figures["sent"] < 5


def test_it_stops_when_the_group_keeps_failing(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 200)
    with live.member(GROUP, TOPIC, lambda message: False, max_reconsume_times=0):
        plan = plan_of(live, None, rate_per_s=40, stop_if_dlq_grows_by=3)
        job = run(plan, None)
    assert job.state == "FAILED" and "new dead letters since the start" in job.error
    assert 3 <= job.result["sent"] < 200
    assert selectors.ledger_counts(plan.id)["PENDING"] == 0


def test_it_filters_by_property_body_and_cause(live: LiveCluster) -> None:
    group_with_topics(live)
    write_letters(live, 3)
    properties = {"KEYS": "c", "RETRY_TOPIC": TOPIC, "exception": "SQLException: Deadlock\n\tat x"}
    live.admin.send(live.addr, Message(DLQ, b"Total FAILURE", properties), queue_id=0)
    for wanted, count in (
        ({"property": "colour"}, 3),
        ({"body": "total failure"}, 1),
        ({"body": "letter"}, 3),
        ({"cause": "deadlock"}, 1),
    ):
        assert plan_of(live, None, filter=wanted).messages == count, wanted
    for wanted in ({"property": "colour=blue"}, {"cause": "at x"}):
        with pytest.raises(errors.PlanRejected, match="No dead letter of billing matches the filter"):
            plan_of(live, None, filter=wanted)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"target": "other_topic"}, "topic"),
        ({"target": "other_topic", "topic": "%RETRY%billing"}, "topic"),
        ({"target": "failed_group", "topic": "orders"}, "topic"),
        ({"target": "client"}, "client_id"),
        ({"target": "failed_group", "letter": {"queue_id": 0}}, "letter"),
        ({"target": "failed_group", "stop_after_failures": 0}, "stop_after_failures"),
        ({"target": "failed_group", "filter": {"property": "=x"}}, "filter.property"),
        ({"target": "failed_group", "colour": "red"}, "colour"),
    ],
)
def test_it_names_the_parameter_at_fault(db: None, params: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.PlanRejected) as caught:
        services.create_plan("dead_letter_replay", "none", GROUP, params, None)
    assert caught.value.field == field


def test_it_allows_reading_and_takes_it_back(live: LiveCluster) -> None:
    live.create_topic(DLQ, queues=1, perm=2)
    plan = services.create_plan("dlq_readable", live.name, GROUP, {}, None)
    assert plan.summary.startswith(f"Allow reading {DLQ} on {live.broker_name}.")
    job = run(plan, None)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert live.admin.topic_config(live.addr, DLQ).perm == 6
    again = services.create_plan("dlq_readable", live.name, GROUP, {}, None)
    assert again.blocked == f"{DLQ} can be read on every broker: there is nothing to do."
    assert run(services.undo(plan.id, None), None).state == "SUCCEEDED"
    assert live.admin.topic_config(live.addr, DLQ).perm == 2
