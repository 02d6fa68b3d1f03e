"""Two people, the same dead letters: one replay at a time, each letter sent once."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection

from console.brokers.mqadmin import BrokerUnavailable
from console.deadletter.models import LedgerState, ReplayLedger
from console.deadletter.plans import ReplayPlan
from console.operation import selectors, services
from console.operation.errors import PlanBlocked
from console.operation.job import control, runner
from console.operation.job.runner import RETRIES_MAX
from console.operation.models import Job, Plan
from tests.console.deadletter.letters import GROUP, RETRY, end, group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster
from tests.support.people import person

pytestmark = pytest.mark.django_db(databases=["default", "metrics"], transaction=True)
LETTERS = 30


@pytest.fixture
def letters(live: LiveCluster) -> LiveCluster:
    group_with_topics(live)
    write_letters(live, LETTERS)
    return live


def plan_of(live: LiveCluster, actor: User, **params: object) -> Plan:
    wanted = {"target": "failed_group", **params}
    return services.create_plan("dead_letter_replay", live.name, GROUP, wanted, actor)


def test_the_second_replay_is_refused_until_the_first_has_ended(letters: LiveCluster, alice: User) -> None:
    bob = person("bob", "operator")
    first, second = plan_of(letters, alice), plan_of(letters, bob, filter={"tag": "even"})
    job = services.apply_plan(first.id, alice)
    words = f"{job.id} of alice on {GROUP} is not finished: wait until it ends, or cancel it."
    assert plan_of(letters, bob).blocked == words
    with pytest.raises(PlanBlocked) as refusal:
        services.apply_plan(second.id, bob)
    assert str(refusal.value) == words
    control.pause(job.id, alice)
    with pytest.raises(PlanBlocked):
        services.apply_plan(second.id, bob)
    control.resume(job.id, alice)
    runner.run(job.id, "worker-1")
    later = services.apply_plan(second.id, bob)
    runner.run(later.id, "worker-1")
    found = selectors.job(later.id)
    assert (found.state, found.result["sent"], found.result["skipped"]) == ("SUCCEEDED", 0, LETTERS // 2)
    assert end(letters, RETRY) == LETTERS


def test_one_of_two_that_apply_at_the_same_instant_is_refused(
    letters: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [plan_of(letters, alice), plan_of(letters, alice)]
    both, drift = threading.Barrier(2), ReplayPlan.drift
    met: set[str] = set()

    def drift_together(self: ReplayPlan, plan: Plan, now_ms: int) -> list[str]:
        found = drift(self, plan, now_ms)
        if plan.id not in met:
            met.add(plan.id)
            both.wait(30)  # each has seen that no other replay is active
        return found

    outcomes: list[str] = []

    def outcome(plan: Plan) -> str:
        while True:
            try:
                return services.apply_plan(plan.id, alice, idempotency_key=plan.id).id
            except PlanBlocked as refusal:
                return str(refusal)
            except OperationalError as error:
                # SQLite in memory refuses a second user of a table at once, where a file makes it wait: also behind
                # the commit of the first, whose repeated request is answered with its job.
                if "table is locked" not in str(error):
                    raise

    def apply(plan: Plan) -> None:
        try:
            outcomes.append(outcome(plan))
        finally:
            connection.close()

    monkeypatch.setattr(ReplayPlan, "drift", drift_together)
    threads = [threading.Thread(target=apply, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    job = Job.objects.get()
    refused = f"{job.id} of alice on {GROUP} is not finished: wait until it ends, or cancel it."
    assert sorted(outcomes) == [job.id, refused]
    assert Counter(Plan.objects.values_list("state", flat=True)) == {"APPLIED": 1, "DRAFT": 1}
    runner.run(job.id, "worker-1")
    assert end(letters, RETRY) == LETTERS


def test_a_letter_that_may_have_been_sent_is_named_before_it_is_sent_again(
    letters: LiveCluster, alice: User
) -> None:
    job = services.apply_plan(plan_of(letters, alice).id, alice)
    runner.run(job.id, "worker-1")
    rows = ReplayLedger.objects.order_by("id")
    in_doubt = [row.pk for row in rows[:3]]
    ReplayLedger.objects.filter(pk__in=in_doubt).update(state=LedgerState.UNKNOWN)
    plan = plan_of(letters, person("bob", "operator"))
    assert plan.messages == 3
    (warning,) = [each for each in plan.warnings if each["level"] == "warn"]
    assert str(warning["title"]) == "3 may have been sent before"
    again = services.apply_plan(plan.id, alice)
    runner.run(again.id, "worker-1")
    later = plan_of(letters, alice)
    assert [each for each in later.warnings if each["level"] == "warn"] == [], "their outcome is known"
    assert later.blocked == "No dead letter is left to send."


def test_a_replay_that_gives_up_leaves_no_letter_open(
    letters: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = services.apply_plan(plan_of(letters, alice).id, alice)
    ReplayLedger.objects.create(
        plan=job.plan,
        cluster=job.cluster,
        group=GROUP,
        topic=f"%DLQ%{GROUP}",
        broker_name=letters.broker_name,
        queue_id=0,
        queue_offset=0,
        state=LedgerState.PENDING,
        updated_at_ms=0,
    )

    def away(self: ReplayPlan, run: object) -> None:
        raise BrokerUnavailable("10.0.0.1:10911", "refused")

    monkeypatch.setattr(ReplayPlan, "apply", away)
    Job.objects.filter(pk=job.id).update(progress={"retries": RETRIES_MAX})
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (found.state, found.holds) == ("FAILED", None)
    assert (found.result["unknown"], found.result["failed"], found.result["matched"]) == (1, 1, 1)
    assert ReplayLedger.objects.get().state == "UNKNOWN"
