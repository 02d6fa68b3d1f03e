"""Replays against a real brokerd: preview, target, ledger, rate, pause, cancel, skip."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from django.contrib.auth.models import User

from brokerd.remoting.body.assignment import LockBatchRequestBody
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from console.brokers.mqadmin import MessageQueue, MessageRecord
from console.deadletter import selectors
from console.deadletter.models import ReplayLedger
from console.deadletter.replay.account import Figures
from console.deadletter.replay.copy import REPLAY_KEY
from console.deadletter.replay.token_bucket import TokenBucket
from console.operation import errors, services
from console.operation import selectors as operation_selectors
from console.operation.job import control, runner
from console.operation.models import Job, Plan
from console.operation.plan.job_run import JobRun
from consumers.client.remoting_client import RemotingClient
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

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def plan_of(live: LiveCluster, actor: User, target: str = "failed_group", **params: Any) -> Plan:
    return services.create_plan("dead_letter_replay", live.name, GROUP, {"target": target, **params}, actor)


def run(plan: Plan, actor: User) -> Job:
    job = services.apply_plan(plan.id, actor, plan.confirm_text)
    runner.run(job.id, "worker-1")
    return operation_selectors.job(job.id)


def figures(job: Job) -> dict[str, int]:
    return {key: job.result[key] for key in ("matched", "sent", "skipped", "failed", "unknown", "pending")}


def read(live: LiveCluster, topic: str, queue_id: int = 0) -> list[MessageRecord]:
    found, offset = [], 0
    while True:
        result = live.admin.pull(live.addr, topic, queue_id, offset)
        if not result.messages:
            return found
        found += result.messages
        offset = result.next_begin_offset


def test_it_sends_real_dead_letters_to_the_failed_group_only(live: LiveCluster, alice: User) -> None:
    live.create_topic(TOPIC, queues=2)
    live.create_group(GROUP)
    die(live, 3)
    plan = plan_of(live, alice)
    assert plan.messages == 3 and plan.blocked == ""
    assert plan.summary.startswith("Send 3 dead letters of billing again, dead since ")
    assert plan.summary.endswith(f"to that group only ({RETRY}), as fast as the brokers accept them.")
    job = run(plan, alice)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert figures(job) == {"matched": 3, "sent": 3, "skipped": 0, "failed": 0, "unknown": 0, "pending": 0}
    assert end(live, TOPIC) == 3, "the original topic, and so other groups, see nothing"
    with live.member(GROUP, TOPIC) as seen:
        wait_for(lambda: len(seen) >= 3)
    assert sorted(message.decoded_body() for message in seen) == [b"order 0", b"order 1", b"order 2"]
    assert {message.topic for message in seen} == {TOPIC}, "the member sees the topic it subscribed to"
    assert {message.tags for message in seen} == {"paid"}
    assert end(live, DLQ) == 3, "nothing died again"


def test_it_stops_when_the_broker_buries_the_copies_again(live: LiveCluster, alice: User) -> None:
    """While members hold queue locks, a broker of 5.x makes dead letters of what the retry topic gets."""
    group_with_topics(live)
    write_letters(live, 5)
    queue = MessageQueue(TOPIC, live.broker_name, 0)

    async def lock() -> RemotingCommand:
        client = RemotingClient()
        try:
            body = LockBatchRequestBody(consumer_group=GROUP, client_id="gone@1", mq_set=[queue]).to_body()
            request = RemotingCommand.request(RequestCode.LOCK_BATCH_MQ, {}, body)
            return await client.invoke(live.addr, request, 3_000)
        finally:
            await client.close()

    assert asyncio.run(lock()).code == 0
    job = run(plan_of(live, alice), alice)
    assert job.state == "FAILED" and "becomes a dead letter again" in job.error
    assert figures(job) == {"matched": 1, "sent": 0, "skipped": 0, "failed": 1, "unknown": 0, "pending": 0}
    assert (end(live, RETRY), end(live, DLQ)) == (0, 6), "one copy, then it stopped"
    assert "made a dead letter of it again" in ReplayLedger.objects.get().reason
    assert plan_of(live, alice).messages == 6, "a copy that was buried counts as not replayed"


def test_it_makes_copies_that_start_over(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 2)
    run(plan_of(live, alice), alice)
    first = read(live, RETRY)[0]
    assert (first.reconsume_times, first.body) == (0, b"letter 0")
    kept = {key: first.properties.get(key) for key in ("KEYS", "TAGS", "UNIQ_KEY", "RETRY_TOPIC", "colour")}
    assert kept == {
        "KEYS": "k0",
        "TAGS": "even",
        "UNIQ_KEY": f"7F000001{0:024d}",
        "RETRY_TOPIC": TOPIC,
        "colour": "red",
    }
    assert "DELAY" not in first.properties
    row = ReplayLedger.objects.get(queue_offset=0)
    assert first.properties[REPLAY_KEY] == row.replay_key
    assert (row.state, row.target_topic, row.target_offset) == ("SENT", RETRY, 0)


def test_it_sends_to_the_original_topic_and_names_who_else_reads_it(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 4)
    live.create_group("audit")
    live.commit("audit", TOPIC, 0, 0)
    plan = plan_of(live, alice, target="original_topic")
    assert plan.warnings[0]["title"] == "1 other group will receive the copies too"
    assert "audit" in plan.warnings[0]["text"]
    assert figures(run(plan, alice))["sent"] == 4
    copies = read(live, TOPIC, 0) + read(live, TOPIC, 1)
    assert sorted(copy.body for copy in copies) == [b"letter 0", b"letter 1", b"letter 2", b"letter 3"]
    assert all("RETRY_TOPIC" not in copy.properties for copy in copies)


def test_it_filters_and_counts(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 10)
    assert plan_of(live, alice, filter={"tag": "even"}).messages == 5
    assert plan_of(live, alice, filter={"key": "k7"}).messages == 1
    job = run(plan_of(live, alice, filter={"tag": "odd"}), alice)
    assert figures(job)["sent"] == 5
    assert {row.keys for row in ReplayLedger.objects.all()} == {"k1", "k3", "k5", "k7", "k9"}


def test_it_skips_what_was_replayed_before(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 6)
    first = run(plan_of(live, alice, filter={"tag": "even"}), alice)
    plan = plan_of(live, alice)
    assert plan.messages == 3 and plan.before["already"] == 3
    job = run(plan, alice)
    assert figures(job) == {"matched": 6, "sent": 3, "skipped": 3, "failed": 0, "unknown": 0, "pending": 0}
    row = ReplayLedger.objects.filter(plan=plan, state="SKIPPED").first()
    assert row is not None and row.reason == f"replayed already by {first.plan_id}"
    again = plan_of(live, alice)
    assert again.blocked == "No dead letter is left to send."
    assert again.summary == f"Nothing would be sent: 6 matching dead letters of {GROUP} were replayed before."
    assert figures(run(plan_of(live, alice, skip_replayed=False), alice))["sent"] == 6


def test_it_spends_the_rate_on_what_it_sends(
    live: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_with_topics(live)
    write_letters(live, 100)
    run(plan_of(live, alice, filter={"tag": "even"}), alice)
    taken: list[int] = []

    def counted(bucket: TokenBucket, count: int, rate_per_s: int | None, now_ms: float) -> float:
        wait_s = take(bucket, count, rate_per_s, now_ms)
        taken.extend([count] * (not wait_s))
        return wait_s

    take = TokenBucket.take
    monkeypatch.setattr(TokenBucket, "take", counted)
    job = run(plan_of(live, alice, filter={"to_ms": 4_000_000_000_000}, rate_per_s=100), alice)
    assert (job.result["sent"], job.result["skipped"]) == (50, 50)
    assert sum(taken) == 50


def test_it_leaves_letters_that_died_later(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 3)
    plan = plan_of(live, alice)
    write_letters(live, 5, start=3)
    assert figures(run(plan, alice))["matched"] == 3


def test_it_fails_letters_whose_topic_is_unknown(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    live.send(DLQ, 0, [b"nameless"], KEYS="x")
    write_letters(live, 1)
    job = run(plan_of(live, alice, target="original_topic"), alice)
    assert figures(job) == {"matched": 2, "sent": 1, "skipped": 0, "failed": 1, "unknown": 0, "pending": 0}
    assert ReplayLedger.objects.get(state="FAILED").reason == "the dead letter does not name its topic"


def test_it_explains_a_write_only_dead_letter_topic(live: LiveCluster, alice: User) -> None:
    live.create_topic(TOPIC)
    live.create_group(GROUP)
    live.create_topic(DLQ, queues=1, perm=2)
    plan = plan_of(live, alice)
    assert plan.blocked.startswith(f"The topic {DLQ} is write-only (perm 2)")
    with pytest.raises(errors.PlanBlocked):
        services.apply_plan(plan.id, alice, GROUP)


def test_it_explains_a_group_without_dead_letters(live: LiveCluster, alice: User) -> None:
    with pytest.raises(
        errors.PlanRejected, match=f"There is no topic {DLQ}: the group has no dead letters."
    ) as no:
        plan_of(live, alice)
    assert no.value.field == "group"
    group_with_topics(live)
    with pytest.raises(errors.PlanRejected, match=f"{GROUP} has no dead letters."):
        plan_of(live, alice)
    write_letters(live, 1)
    with pytest.raises(errors.PlanRejected, match="matches the filter"):
        plan_of(live, alice, filter={"tag": "absent"})


def test_it_explains_a_group_that_was_never_online(live: LiveCluster, alice: User) -> None:
    live.create_topic(DLQ, queues=1)
    write_letters(live, 1)
    assert (
        plan_of(live, alice).blocked
        == f"There is no topic {RETRY}: no client of the group has ever been online."
    )


def test_it_refuses_when_letters_expired_or_the_topic_is_new(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 3)
    plan = plan_of(live, alice)
    live.admin.delete_topic(live.addr, DLQ)
    with pytest.raises(errors.PlanDrifted):
        services.apply_plan(plan.id, alice, GROUP)


def test_it_keeps_the_rate(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 60)
    plan = plan_of(live, alice, rate_per_s=40)
    assert plan.summary.endswith("at 40 per second: about 2 s.")
    started = time.monotonic()
    assert figures(run(plan, alice))["sent"] == 60
    assert time.monotonic() - started >= 1.2


def test_it_pauses_within_a_second_and_resumes(
    live: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_with_topics(live)
    write_letters(live, 40)
    job = services.apply_plan(plan_of(live, alice, rate_per_s=20).id, alice, GROUP)
    asked = _when(
        monkeypatch, lambda run: run.progress_as(Figures).sent >= 5, lambda: control.pause(job.id, alice)
    )
    runner.run(job.id, "worker-1")
    paused = operation_selectors.job(job.id)
    assert paused.state == "PAUSED" and time.monotonic() - asked[0] < 10
    sent = selectors.ledger_counts(job.plan_id)["SENT"]
    assert 5 <= sent <= 30 and end(live, RETRY) == sent
    control.set_rate(job.id, alice, None)
    control.resume(job.id, alice)
    runner.run(job.id, "worker-2")
    assert figures(operation_selectors.job(job.id))["sent"] == 40
    assert end(live, RETRY) == 40


def test_it_cancels_and_accounts_for_everything(
    live: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_with_topics(live)
    write_letters(live, 40)
    job = services.apply_plan(plan_of(live, alice, rate_per_s=20).id, alice, GROUP)
    _when(monkeypatch, lambda run: run.progress_as(Figures).sent >= 5, lambda: control.cancel(job.id, alice))
    runner.run(job.id, "worker-1")
    found = operation_selectors.job(job.id)
    assert found.state == "CANCELLED"
    assert found.result["matched"] == found.result["sent"] == end(live, RETRY) < 40


def test_it_can_not_be_undone(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 1)
    plan = plan_of(live, alice)
    run(plan, alice)
    with pytest.raises(errors.UndoImpossible):
        services.undo(plan.id, alice)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"target": "everybody"}, "target"),
        ({"rate_per_s": 0}, "rate_per_s"),
        ({"filter": {"colour": "red"}}, "filter"),
        ({"filter": {"from_ms": 5, "to_ms": 5}}, "filter.to_ms"),
        ({"group": "other"}, "group"),
    ],
)
def test_it_names_the_parameter_at_fault(
    live: LiveCluster, alice: User, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.PlanRejected) as caught:
        plan_of(live, alice, **params)
    assert caught.value.field == field


def test_it_sends_thousands_without_a_limit(live: LiveCluster, alice: User) -> None:
    group_with_topics(live)
    write_letters(live, 5_000)
    plan = plan_of(live, alice)
    job = services.apply_plan(plan.id, alice, GROUP)
    runner.run(job.id, "worker-1")
    assert figures(operation_selectors.job(job.id))["sent"] == 5_000


def _when(monkeypatch: pytest.MonkeyPatch, condition: Any, action: Any) -> list[float]:
    """Do ``action`` once, from inside the running job, as another process would; returns when it happened."""
    done: list[float] = []
    beat = JobRun.beat

    def watched(run: JobRun) -> None:
        if not done and condition(run):
            done.append(time.monotonic())
            action()
        beat(run)

    monkeypatch.setattr(JobRun, "beat", watched)
    return done
