"""A topic that is deleted under a replay: the job ends at once, names the topic, and leaves no letter open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from console.deadletter import selectors
from console.deadletter.models import ReplayLedger
from console.deadletter.replay.send import Sender
from console.operation import selectors as operation_selectors
from console.operation import services
from console.operation.job import runner
from console.operation.models import Job
from tests.console.deadletter.letters import DLQ, GROUP, RETRY, end, group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster, wait_for

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
LETTERS = 40


def replay_of(live: LiveCluster, actor: User, **params: Any) -> Job:
    """A replay that was confirmed and has no worker yet; ten letters a batch."""
    given = {"target": "failed_group", "rate_per_s": 100, **params}
    plan = services.create_plan("dead_letter_replay", live.name, GROUP, given, actor)
    return services.apply_plan(plan.id, actor, plan.confirm_text)


def delete(live: LiveCluster, topic: str) -> None:
    live.admin.delete_topic(live.addr, topic)
    live.admin.delete_topic_in_namesrv(topic)
    wait_for(lambda: not live.has_route(topic), f"the end of {topic}")


def at_batch(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Act just before the N-th batch is sent."""
    original, left = Sender.exchange, [number]

    def exchange(self: Sender, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            act()
        return original(self, *arguments)

    monkeypatch.setattr(Sender, "exchange", exchange)


def ended(job: Job) -> Job:
    runner.run(job.id, "worker-1")
    return operation_selectors.job(job.id)


def assert_accounted(job: Job) -> None:
    found = job.result
    ledger = {state: count for state, count in selectors.ledger_counts(job.plan_id).items() if count}
    assert "PENDING" not in ledger
    assert found["sent"] == ledger.get("SENT", 0)
    assert found["failed"] == ledger.get("FAILED", 0) + ledger.get("UNKNOWN", 0)


def test_dead_letters_deleted_before_it_begins(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, LETTERS)
    job = replay_of(live, alice)
    delete(live, DLQ)
    job = ended(job)
    assert job.state == "FAILED" and DLQ in job.error and "deleted" in job.error
    assert end(live, RETRY) == 0


def test_dead_letters_deleted_while_they_are_sent(
    live: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_with_topics(live)
    write_letters(live, 400)
    monkeypatch.setattr("console.deadletter.dead_letters.WINDOW", 50)
    job = replay_of(live, alice, rate_per_s=4_000)
    at_batch(monkeypatch, 2, lambda: delete(live, DLQ))
    job = ended(job)
    assert job.state == "FAILED" and DLQ in job.error and "not exist" in job.error
    assert_accounted(job)
    assert 0 < job.result["sent"] == end(live, RETRY)


def test_target_deleted_while_letters_are_sent(
    live: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_with_topics(live)
    live.create_topic("parking", queues=1)
    write_letters(live, LETTERS)
    job = replay_of(live, alice, target="other_topic", topic="parking", rate_per_s=20)
    at_batch(monkeypatch, 2, lambda: delete(live, "parking"))
    job = ended(job)
    assert job.state == "FAILED" and "parking" in job.error
    assert_accounted(job)
    assert 0 < job.result["sent"] < LETTERS


def test_target_deleted_before_open_sends_are_resolved(
    live: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_with_topics(live)
    live.create_topic("parking", queues=1)
    write_letters(live, LETTERS)
    job = replay_of(live, alice, target="other_topic", topic="parking", rate_per_s=20)

    class WorkerDied(BaseException):
        pass

    def die() -> None:
        raise WorkerDied

    with monkeypatch.context() as patched, pytest.raises(WorkerDied):
        at_batch(patched, 2, die)
        runner.run(job.id, "worker-1")
    assert selectors.ledger_counts(job.plan_id)["PENDING"] > 0
    delete(live, "parking")
    Job.objects.filter(pk=job.id).update(lease_until=None)
    job = ended(job)
    assert job.state == "FAILED" and "parking" in job.error
    assert_accounted(job)
    unknown = ReplayLedger.objects.filter(plan_id=job.plan_id, state="UNKNOWN")
    assert unknown.exists() and all("may have been sent" in row.reason for row in unknown)
