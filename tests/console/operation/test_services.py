"""Plan → apply → job → undo, and who may."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User

from console.access import services as access_services
from console.access.models import AuditEvent
from console.brokers.errors import BrokerUnavailable
from console.lists.page import cut_after
from console.live import hub as live
from console.operation import errors, journal, operation_list, selectors, services
from console.operation.job import control, runner, worker_queue
from console.operation.models import Job, JobState, Plan, PlanState
from tests.console.operation.tally import Tally

NOW = 1_760_000_000_000
MINUTE = 60_000


def make(actor: User, **params: Any) -> Plan:
    return services.create_plan("tally", "test", "billing", params, actor, now_ms=NOW)


def test_it_computes_a_plan_and_changes_nothing(tally: type[Tally], alice: User) -> None:
    plan = make(alice, steps=4)
    assert plan.id.startswith("op-") and len(plan.id) == 11
    assert (plan.state, plan.summary, plan.diff) == (
        "DRAFT",
        "Count to 4.",
        [{"before": 0, "after": 4}],
    )
    assert plan.expires_at == journal.moment(NOW + 10 * MINUTE)
    assert plan.created_by == "alice"
    assert plan.equivalent == {
        "rest": f"POST /api/v1/plans/{plan.id}/apply",
        "command": f"manage.py tally apply {plan.id}",
    }
    assert tally.done == [] and Job.objects.count() == 0


def test_it_applies_verifies_and_undoes(tally: type[Tally], alice: User) -> None:
    plan = make(alice, steps=2)
    job = services.apply_plan(plan.id, alice, now_ms=NOW)
    assert job.state == JobState.QUEUED
    runner.run(job.id, "worker-1")
    job = selectors.job(job.id)
    assert (job.state, tally.done, job.error, job.lease_owner) == ("SUCCEEDED", [0, 1], "", "")
    undo = services.undo(plan.id, alice)
    assert (undo.undo_of_id, undo.params) == (plan.id, {"steps": 1})


def test_what_is_undone_is_not_undone_again(tally: type[Tally], alice: User) -> None:
    plan = make(alice, steps=2)
    runner.run(services.apply_plan(plan.id, alice, now_ms=NOW).id, "worker-1")
    undo = services.undo(plan.id, alice, idempotency_key="k")
    services.undo(plan.id, alice)  # a plan alone undoes nothing
    job = services.apply_plan(undo.id, alice, confirm_text="billing")
    for _ in range(2):  # while it is undone, and after
        with pytest.raises(errors.UndoImpossible, match=f"{plan.id} is undone by {undo.id}"):
            services.undo(plan.id, alice)
        assert services.undo(plan.id, alice, idempotency_key="k").id == undo.id, "the same request"
        runner.run(job.id, "worker-1")


def test_it_audits_every_step(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    job = services.apply_plan(plan.id, alice, reason="INC-1", now_ms=NOW)
    runner.run(job.id, "worker-1")
    found = AuditEvent.objects.filter(plan_id=plan.id).order_by("pk")
    assert [(event.actor, event.verb) for event in found] == [
        ("alice", "plan"),
        ("alice", "apply"),
        ("system", "job verified"),
    ]
    assert [event.text for event in job.events.all()] == [
        "Applied by alice: the state was read again and had not changed",
        "Verified: the brokers report the target values",
    ]


def test_it_refuses_a_drifted_plan_and_says_what_moved(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    tally.world = 7
    with pytest.raises(errors.PlanDrifted) as caught:
        services.apply_plan(plan.id, alice, now_ms=NOW)
    assert caught.value.changes == ["the world moved from 0 to 7"]
    assert (caught.value.status, caught.value.code) == (409, "plan_drifted")
    assert Job.objects.count() == 0


def test_a_refused_attempt_to_apply_is_in_the_audit(
    tally: type[Tally], alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drift, and a broker that does not answer when the plan is checked again."""
    plan = make(alice)
    tally.world = 7
    with pytest.raises(errors.PlanDrifted):
        services.apply_plan(plan.id, alice, remote_addr="10.0.0.9", now_ms=NOW)

    def silent(*_: Any) -> None:
        raise BrokerUnavailable("10.0.0.1:10911", "connection refused")

    monkeypatch.setattr(Tally, "drift", silent)
    with pytest.raises(BrokerUnavailable):
        services.apply_plan(plan.id, alice, now_ms=NOW)
    drifted, away = AuditEvent.objects.filter(verb="apply refused").order_by("pk")
    assert (drifted.actor, drifted.plan_id, drifted.remote_addr) == ("alice", plan.id, "10.0.0.9")
    assert drifted.sentence == "Refused to apply the plan for billing"
    assert drifted.note == "The state changed since the plan was made: the world moved from 0 to 7"
    assert away.note == "10.0.0.1:10911 is not available: connection refused"
    assert selectors.plan(plan.id).state == PlanState.DRAFT


def test_it_expires_after_ten_minutes(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    with pytest.raises(errors.PlanExpired):
        services.apply_plan(plan.id, alice, now_ms=NOW + 10 * MINUTE)
    assert selectors.plan(plan.id).state == PlanState.EXPIRED


def test_it_applies_just_before_it_expires(tally: type[Tally], alice: User) -> None:
    assert services.apply_plan(make(alice).id, alice, now_ms=NOW + 10 * MINUTE - 1).state == "QUEUED"


def test_it_marks_old_drafts_expired(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    assert services.expire_plans(now_ms=NOW + 10 * MINUTE - 1) == 0
    assert services.expire_plans(now_ms=NOW + 10 * MINUTE) == 1
    assert selectors.plan(plan.id).state == PlanState.EXPIRED


def test_it_applies_a_plan_once(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    job = services.apply_plan(plan.id, alice, now_ms=NOW)
    with pytest.raises(errors.PlanAlreadyApplied) as caught:
        services.apply_plan(plan.id, alice, now_ms=NOW)
    assert caught.value.job_id == job.id


def test_it_returns_the_same_job_for_the_same_idempotency_key(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    first = services.apply_plan(plan.id, alice, idempotency_key="k1", now_ms=NOW)
    again = services.apply_plan(plan.id, alice, idempotency_key="k1", now_ms=NOW)
    assert first.id == again.id and Job.objects.count() == 1


def test_it_returns_the_same_plan_for_the_same_idempotency_key(tally: type[Tally], alice: User) -> None:
    def ask(**params: Any) -> Plan:
        return services.create_plan(
            "tally", "test", "billing", params, alice, idempotency_key="k", now_ms=NOW
        )

    assert ask(steps=2).id == ask(steps=2).id
    with pytest.raises(errors.IdempotencyKeyReused):
        ask(steps=3)


def test_it_wants_the_typed_name_for_a_large_change(tally: type[Tally], alice: User) -> None:
    plan = make(alice, messages=1_000)
    assert (plan.confirm, plan.confirm_text) == ("typed", "billing")
    with pytest.raises(errors.ConfirmationMissing):
        services.apply_plan(plan.id, alice, "Billing", now_ms=NOW)
    assert services.apply_plan(plan.id, alice, "billing", now_ms=NOW).state == "QUEUED"


def test_it_wants_a_second_person_for_a_huge_change(tally: type[Tally], alice: User, bob: User) -> None:
    plan = make(alice, messages=5_000)
    with pytest.raises(errors.ApprovalMissing):
        services.apply_plan(plan.id, alice, "billing", now_ms=NOW)
    with pytest.raises(errors.ApprovalBySamePerson):
        services.approve_plan(plan.id, alice, now_ms=NOW)
    assert services.approve_plan(plan.id, bob, now_ms=NOW).approved_by == "bob"
    assert services.apply_plan(plan.id, alice, "billing", now_ms=NOW).state == "QUEUED"


def test_it_refuses_a_blocked_plan(tally: type[Tally], alice: User) -> None:
    plan = make(alice, blocked="Nothing would change.")
    with pytest.raises(errors.PlanBlocked, match="Nothing would change"):
        services.apply_plan(plan.id, alice, now_ms=NOW)


def test_it_refuses_a_discarded_plan(tally: type[Tally], alice: User) -> None:
    plan = make(alice)
    assert services.discard_plan(plan.id, alice, now_ms=NOW).state == PlanState.DISCARDED
    with pytest.raises(errors.PlanDiscarded):
        services.apply_plan(plan.id, alice, now_ms=NOW)


def test_it_requires_the_verb(tally: type[Tally], alice: User, carol: User) -> None:
    with pytest.raises(errors.NotPermitted):
        make(carol)
    job = services.apply_plan(make(alice).id, alice, now_ms=NOW)
    for change in (control.pause, control.resume, control.cancel):
        with pytest.raises(errors.NotPermitted):
            change(job.id, carol)
    with pytest.raises(errors.NotPermitted):
        control.set_rate(job.id, carol, 5)


def test_it_can_not_undo_what_was_not_applied_or_is_not_undoable(tally: type[Tally], alice: User) -> None:
    plan = make(alice, undoable=False)
    with pytest.raises(errors.UndoImpossible, match="never applied"):
        services.undo(plan.id, alice)
    job = services.apply_plan(plan.id, alice, now_ms=NOW)
    with pytest.raises(errors.UndoImpossible, match="still queued"):
        services.undo(plan.id, alice)
    runner.run(job.id, "worker-1")
    with pytest.raises(errors.UndoImpossible, match="cannot be undone"):
        services.undo(plan.id, alice)


def test_it_rejects_an_unknown_kind(tally: type[Tally], alice: User) -> None:
    with pytest.raises(errors.PlanRejected) as caught:
        services.create_plan("nonsense", "test", "billing", {}, alice)
    assert caught.value.field == "kind"


def test_it_pages_newest_first(tally: type[Tally], alice: User) -> None:
    plans = [
        services.create_plan("tally", "test", f"g{index}", {}, alice, now_ms=NOW + index)
        for index in range(5)
    ]
    page = cut_after(operation_list.plans("test"), page=2, per_page=2, after="")
    assert [plan.id for plan in page.rows] == [plans[2].id, plans[1].id]
    assert (page.total, page.pages) == (5, 3)
    assert [plan.id for plan in operation_list.plans("test", subject="g3")] == [plans[3].id]
    assert not operation_list.plans("other").exists()


def test_it_tells_browsers_which_plans_ask_for_agreement(
    tally: type[Tally], alice: User, bob: User, redis_url: str
) -> None:
    def told(plan_id: str) -> dict[str, Any]:
        with redis.Redis.from_url(redis_url) as client:
            value = client.hget(live.LAST_PREFIX + "approvals", plan_id)
        assert isinstance(value, bytes)
        row: dict[str, Any] = json.loads(value)
        return row

    plan = make(alice, messages=5_000)
    assert told(plan.id) == {
        "cluster": "test",
        "subject": "billing",
        "verb": "RESET",
        "created_by": "alice",
        "waits": True,
        "expires_at_ms": round(plan.expires_at.timestamp() * 1000),
    }
    services.approve_plan(plan.id, bob, now_ms=NOW)
    assert told(plan.id)["waits"] is False
    thrown = make(alice, messages=5_000)
    services.discard_plan(thrown.id, alice, now_ms=NOW)
    assert told(thrown.id)["waits"] is False


def test_it_agrees_once_when_two_people_agree_at_the_same_moment(
    tally: type[Tally], alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make(alice, messages=5_000)
    stale = selectors.plan(plan.id)
    eve = User.objects.create_user("eve")
    access_services.grant(role="operator", user=eve)
    assert services.approve_plan(plan.id, bob, now_ms=NOW).approved_by == "bob"
    seen = iter([stale])
    real = selectors.plan
    monkeypatch.setattr(selectors, "plan", lambda plan_id: next(seen, None) or real(plan_id))
    assert services.approve_plan(plan.id, eve, now_ms=NOW).approved_by == "bob"
    assert AuditEvent.objects.filter(verb="approve").count() == 1


@pytest.mark.parametrize("moved", [[], ["8 queues were moved"]])
@pytest.mark.parametrize(("key", "other_key"), [("", ""), ("one", "two"), ("one", "one")])
def test_it_applies_once_when_two_apply_at_the_same_moment(
    tally: type[Tally],
    alice: User,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    other_key: str,
    moved: list[str],
) -> None:
    """Both have passed every check, and the brokers were read for both, when the first one claims the plan.

    Or the second one reads what the first one's job has done by then.
    """
    plan = make(alice)
    quicker: list[Job] = []

    def drift(kind: Tally, plan: Plan, now_ms: int) -> list[str]:
        monkeypatch.undo()
        quicker.append(services.apply_plan(plan.id, bob, idempotency_key=other_key, now_ms=NOW))
        return moved

    monkeypatch.setattr(Tally, "drift", drift)
    monkeypatch.setattr(worker_queue, "enqueue", lambda job_id: None)
    if key and key == other_key:
        assert services.apply_plan(plan.id, alice, idempotency_key=key, now_ms=NOW) == quicker[0]
    else:
        with pytest.raises(errors.PlanAlreadyApplied) as caught:
            services.apply_plan(plan.id, alice, idempotency_key=key, now_ms=NOW)
        assert caught.value.job_id == quicker[0].id
    assert Job.objects.count() == 1
    assert AuditEvent.objects.filter(verb="apply").count() == 1
