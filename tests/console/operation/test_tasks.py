"""The names by which beat, services and workers find each other, and a task run directly."""

from __future__ import annotations

import pytest
from celery import current_app
from django.contrib.auth.models import User

from console.celery import FIXED_BEAT
from console.operation import selectors, services, tasks
from console.operation.job import worker_queue
from console.operation.models import Job, PlanState
from tests.console.operation.tally import Tally


def test_it_is_known_to_workers_and_to_beat() -> None:
    current_app.loader.import_default_modules()
    assert worker_queue.RUN_JOB_TASK in current_app.tasks
    assert FIXED_BEAT["console.operation.tasks.recover_jobs"][0] == 10.0


def test_it_runs_a_job(tally: type[Tally], alice: User) -> None:
    plan = services.create_plan("tally", "test", "billing", {}, alice)
    job = services.apply_plan(plan.id, alice)
    tasks.run_job(job.id)
    assert (tally.done, selectors.job(job.id).state) == ([0, 1, 2], "SUCCEEDED")
    tasks.run_job(job.id)
    assert tally.done == [0, 1, 2], "a second message of the same job does nothing"


def test_it_queues_orphans_and_expires_plans(
    tally: type[Tally], alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[str] = []
    monkeypatch.setattr(worker_queue, "enqueue", queued.append)
    old = services.create_plan("tally", "test", "billing", {}, alice, now_ms=1_760_000_000_000)
    plan = services.create_plan("tally", "test", "billing", {}, alice)
    job = services.apply_plan(plan.id, alice)
    Job.objects.filter(pk=job.id).update(created_at=plan.created_at.replace(year=2020))
    tasks.recover_jobs()
    assert queued == [job.id]
    assert selectors.plan(old.id).state == PlanState.EXPIRED
