"""One queue of an offset change: its states, what is judged by looking at it, and how results keep it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils import timezone

from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError
from console.group.offsets import apply as offset_apply
from console.group.offsets.move import (
    MemberPosition,
    MoveEvent,
    MoveState,
    QueueMove,
    moves_of,
    planned_moves,
)
from console.operation.errors import IllegalTransition
from console.operation.models import Job, Plan
from console.operation.plan.job_run import JobCounts, JobRun
from console.text import Text
from console.text.stored import as_json
from console.text.value import of_json, with_json
from tests.console.group.offsets.test_change import QUEUE, changes, state

# A row as the result of a job held it before moves were values.
OLD_ROW = """{"topic": "orders", "broker_name": "broker-a", "queue_id": 0, "before": 50, "target": 20,
"max_offset": 100, "how": "222_queue", "state": "failed", "error": "broker-a refused", "took_ms": 3, "reported": null,
"verified_at_ms": null, "committed_now": 50, "resumed": null, "planned": 20, "was_reset": false}"""


def move(before: int | None = 50, target: int = 20, **changes: Any) -> QueueMove:
    planned = QueueMove(
        topic=QUEUE.topic,
        broker_name=QUEUE.broker_name,
        queue_id=QUEUE.queue_id,
        before=before,
        target=target,
        planned=target,
        max_offset=100,
        how="222_queue",
    )
    return planned.with_(**changes)


def kept_moves(rows: Any) -> list[QueueMove]:
    return moves_of(SimpleNamespace(result={"queues": rows}))  # type: ignore[arg-type]


def test_a_row_of_an_earlier_version_is_read() -> None:
    (found,) = kept_moves([json.loads(OLD_ROW)])
    assert found == move(
        state=MoveState.FAILED, error=Text.foreign("broker-a refused"), took_ms=3, committed_now=50
    )


def test_a_row_survives_the_column_of_a_result() -> None:
    one = move(state=MoveState.APPLIED, error=Text("%(broker)s is away", broker="broker-a"), is_dropped=True)
    kept = json.dumps(with_json(as_json([one])))
    assert json.loads(kept, object_hook=of_json)[0]["error"] == "broker-a is away"
    assert kept_moves(json.loads(kept, object_hook=of_json)) == [one]


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (MoveState.WAITING, MoveEvent.ACCEPTED, "applied"),
        (MoveState.WAITING, MoveEvent.REFUSED, "failed"),
        (MoveState.WAITING, MoveEvent.OVERTAKEN, "passed"),
        (MoveState.APPLIED, MoveEvent.IGNORED, "waiting"),
        (MoveState.APPLIED, MoveEvent.SHOWN, "verified"),
    ],
)
def test_its_states_are_a_table(before: MoveState, event: MoveEvent, after: str) -> None:
    assert move(state=before).on(event).state == after


def test_what_has_ended_does_not_begin_again() -> None:
    for state_ in (MoveState.VERIFIED, MoveState.FAILED, MoveState.PASSED):
        for event in MoveEvent:
            with pytest.raises(IllegalTransition):
                move(state=state_).on(event)


@pytest.mark.parametrize(
    ("before", "target", "now", "online", "expected"),
    [
        (50, 20, 20, False, True),
        (50, 20, 21, False, False),
        (50, 20, 35, True, True),
        (50, 20, 50, True, False),  # indistinguishable from a member that committed over it
        (50, 80, 79, True, False),
        (50, 80, 95, True, True),
        (None, 20, 20, True, True),
    ],
)
def test_it_judges_what_the_brokers_report(
    before: int | None, target: int, now: int, online: bool, expected: bool
) -> None:
    assert move(before, target).is_at_target(now, online=online) is expected


def test_a_member_shows_that_it_reads_on_before_it_commits() -> None:
    one = move(state=MoveState.APPLIED).observed(20, online=True, now_ms=5)
    assert (one.state, one.reported, one.verified_at_ms, one.resumed) == ("verified", 20, 5, False)
    one = one.with_member(MemberPosition(50))
    assert one.resumed is False, "it still holds the old place"
    assert one.with_member(MemberPosition(20)).resumed is True


def test_a_member_that_read_everything_again_before_it_was_looked_at_is_no_failure() -> None:
    """Back from 50 to 20 and past 50 again: only that the queue was let go tells it from a reset that never came."""

    def state_after(*positions: MemberPosition) -> str:
        one = move(state=MoveState.APPLIED)
        for position in positions:
            one = one.with_member(position)
        return one.observed(63, online=True, now_ms=5).state

    assert state_after(MemberPosition(50), MemberPosition(63)) == "applied", "nothing shows that it was reset"
    dropped = MemberPosition(50, is_dropped=True)
    assert state_after(MemberPosition(50), dropped) == "applied", "it is still starting again"
    assert state_after(MemberPosition(50), dropped, MemberPosition(63)) == "verified"


def test_a_broker_that_moves_offsets_itself_is_believed() -> None:
    (one,) = planned_moves(changes(state(q0=50), target="earliest"), state(q0=50))
    moved = offset_apply.answered(one, (3, {QUEUE: 0}))
    one = moved.observed(63, online=True, now_ms=5)
    assert (one.how, one.state, one.resumed, one.took_ms) == ("222_queue", "verified", True, 3)
    # But not that it was read again: a second owner may have stored its offset over it.
    assert one.is_unseen
    assert not moved.observed(49, online=True, now_ms=5).is_unseen
    assert not move(state=MoveState.PASSED, reported=63).is_unseen
    assert not move(state=MoveState.VERIFIED, reported=63, is_dropped=True).is_unseen


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("unseen", "word"), [(0, "2 queues are at their targets"), (1, "but 1 of 2 queues then reported")]
)
def test_a_job_claims_no_target_that_no_reading_showed(unseen: int, word: str) -> None:
    job = Job(state="SUCCEEDED", result={"moved": 2, "resumed": 2, "clients": 1, "unseen": unseen})
    page = render_to_string("group/_job_offsets.html", {"job": job, "plan": Plan(messages=9), "rows": [1, 2]})
    assert word in page
    assert ("at their targets" in page) is not unseen


@pytest.mark.django_db
def test_a_job_that_waits_for_its_first_answer_counts_no_queues() -> None:
    job = Job(state="RUNNING", progress={"retries": 1}, created_at=timezone.now())
    page = render_to_string("group/_job_offsets.html", {"job": job, "plan": Plan(), "rows": []})
    assert "queues are changed" not in page


@pytest.mark.parametrize(
    ("answer", "how", "after"),
    [
        ((3, None), "222_queue", "applied"),
        (BrokerUnavailable("broker-a", Text("it is away")), "222_queue", "waiting"),
        (MQBrokerError(206, "no member"), "15", "waiting"),
        (MQBrokerError(1, "no"), "222_queue", "failed"),
    ],
)
def test_what_a_broker_answers_decides_what_comes_next(answer: Any, how: str, after: str) -> None:
    one = offset_apply.answered(move(), answer)
    assert (one.how, one.state) == (how, after)


def test_it_leaves_a_queue_that_went_past_its_target_by_itself() -> None:
    plan = changes(state(q0=50), target="offset", offset=60)
    (one,) = planned_moves(plan, state(q0=63))
    assert (one.state, one.reported) == ("passed", 63)
    (one,) = planned_moves(plan, state(q0=55))
    assert (one.state, one.before) == ("waiting", 55)


def test_queues_that_need_no_move_count_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a job whose queues all went past their targets says that it was applied to fewer than none."""
    moves = planned_moves(changes(state(q0=50), target="offset", offset=60), state(q0=63))
    job = Job(attempts=1, result={"queues": as_json(moves)}, progress={"done": 0, "total": 1})
    job.plan = Plan(before={})
    run = JobRun(job, "worker", 0.0)
    monkeypatch.setattr(run, "save", lambda: None)
    monkeypatch.setattr(offset_apply, "masters", lambda admin: {})
    monkeypatch.setattr(offset_apply, "committed_offsets", lambda admin, addrs, group: {})
    offset_apply.apply_moves(run, None, "billing")  # type: ignore[arg-type]
    assert run.progress_as(JobCounts) == JobCounts(done=1, total=1)
