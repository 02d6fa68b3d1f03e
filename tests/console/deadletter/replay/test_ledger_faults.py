"""A replay whose database fails in the middle: every letter of the plan still gets its row and its send."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from console.deadletter.models import ReplayLedger
from console.deadletter.replay import batches as replay
from console.operation import selectors, services
from console.operation.job import runner
from console.operation.models import Job
from tests.console.deadletter.letters import GROUP, RETRY, end, group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster

pytestmark = pytest.mark.django_db(databases=["default", "metrics"], transaction=True)
LETTERS = 50


@pytest.fixture
def job(live: LiveCluster, alice: User, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(replay, "BATCH_MAX", 10)
    group_with_topics(live)
    write_letters(live, LETTERS)
    plan = services.create_plan("dead_letter_replay", live.name, GROUP, {"target": "failed_group"}, alice)
    return services.apply_plan(plan.id, alice, plan.confirm_text)


def work_again(job: Job) -> Job:
    Job.objects.filter(pk=job.id).update(lease_until=None)
    runner.run(job.id, "worker-2")
    return selectors.job(job.id)


@pytest.mark.parametrize("when", ["before", "after"])
def test_no_letter_is_left_out_after_a_commit_failed(
    live: LiveCluster, job: Job, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """``after``: the database kept the rows, and its answer was lost."""
    insert, commit, batches = replay.insert_entries, BaseDatabaseWrapper._commit, []

    def insert_and_count(entries: Any) -> None:
        insert(entries)
        batches.append(entries)

    def commit_or_fail(self: BaseDatabaseWrapper) -> None:
        fails = len(batches) == 3
        if fails:
            batches.append(None)
        if not fails or when == "after":
            commit(self)
        if fails:
            raise OperationalError("database or disk is full")

    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", commit_or_fail)
    monkeypatch.setattr(replay, "insert_entries", insert_and_count)
    runner.run(job.id, "worker-1")
    assert selectors.job(job.id).state == "RUNNING"
    found = work_again(job)
    assert (found.state, found.error) == ("SUCCEEDED", "")
    assert (found.result["matched"], found.result["sent"]) == (LETTERS, LETTERS)
    assert ReplayLedger.objects.count() == LETTERS == end(live, RETRY)


def test_a_replay_that_left_letters_out_is_not_verified(live: LiveCluster, job: Job) -> None:
    """Whatever the cause: here the cursor in the database is moved by hand."""
    place = f"{live.broker_name}/0"
    Job.objects.filter(pk=job.id).update(progress={"cursors": {place: 20}})
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert found.state == "FAILED"
    assert "The plan counted 50 dead letters, the replay processed 30" in found.error
