"""Leases, pause, cancel, rate, recovery: what a worker does with a job."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from console.brokers.mqadmin import BrokerUnavailable
from console.operation import errors, journal, selectors, services
from console.operation.job import control, run_lock, runner, worker_queue
from console.operation.models import Job, JobState
from console.operation.plan import job_run
from console.operation.rules import LEASE_MS, RECOVERY_MS, SILENT_MS, SLICE_MS
from tests.console.operation.tally import Tally


@pytest.fixture
def job(tally: type[Tally], alice: User) -> Job:
    plan = services.create_plan("tally", "test", "billing", {"steps": 3}, alice)
    return services.apply_plan(plan.id, alice)


def now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


def test_it_gives_a_job_to_one_worker_only(job: Job) -> None:
    assert runner.claim(job.id, "worker-1", now_ms()) is not None
    assert runner.claim(job.id, "worker-2", now_ms()) is None
    assert selectors.job(job.id).lease_owner == "worker-1"


def test_it_takes_a_job_over_when_the_lease_is_over(job: Job) -> None:
    at_ms = now_ms()
    assert runner.claim(job.id, "worker-1", at_ms) is not None
    assert runner.claim(job.id, "worker-2", at_ms + LEASE_MS - 1) is None
    taken = runner.claim(job.id, "worker-2", at_ms + LEASE_MS)
    assert taken is not None and taken.attempts == 2


def test_it_stops_a_worker_that_lost_its_lease(job: Job, tally: type[Tally]) -> None:
    def steal(run: job_run.JobRun) -> None:
        Job.objects.filter(pk=job.id).update(lease_owner="worker-2")

    tally.at_step[1] = steal
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (tally.done, found.state, found.lease_owner) == ([0], "RUNNING", "worker-2")


def test_a_worker_that_freezes_behind_its_save_finds_its_lease_over(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = 100.0
    monkeypatch.setattr(job_run, "time", SimpleNamespace(monotonic=lambda: clock_s))
    claimed = runner.claim(job.id, "worker-1", now_ms())
    assert claimed is not None
    run = job_run.JobRun(claimed, "worker-1", clock_s)
    update = QuerySet.update

    def freeze_behind(*given: Any, **values: Any) -> int:
        nonlocal clock_s
        changed = update(*given, **values)
        clock_s += 2 * LEASE_MS / 1000
        return changed

    with monkeypatch.context() as frozen:
        frozen.setattr(QuerySet, "update", freeze_behind)
        run.save()
    assert run.lease_ends_s < clock_s
    assert runner.claim(job.id, "worker-2", now_ms() + 2 * LEASE_MS) is not None
    with pytest.raises(job_run.LeaseLost):
        run.hold_lease()


def test_a_run_that_saves_more_often_than_it_beats_is_reported_to_pages(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = 100.0
    monkeypatch.setattr(job_run, "time", SimpleNamespace(monotonic=lambda: clock_s))
    claimed = runner.claim(job.id, "worker-1", now_ms())
    assert claimed is not None
    run, seen = job_run.JobRun(claimed, "worker-1", clock_s), []
    monkeypatch.setattr(journal, "publish", lambda row, *, at_ms: seen.append(clock_s))
    for _ in range(12):
        clock_s += 0.25
        run.save()
        run.beat()
    assert seen == [101.0, 102.0, 103.0]


def test_it_pauses_within_a_step_and_goes_on_where_it_stood(
    job: Job, tally: type[Tally], alice: User
) -> None:
    tally.at_step[1] = lambda run: control.pause(job.id, alice)
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (tally.done, found.state, found.lease_owner) == ([0], "PAUSED", "")
    runner.run(job.id, "worker-1")
    assert tally.done == [0], "a paused job is not taken up"
    assert control.resume(job.id, alice).state == JobState.QUEUED
    runner.run(job.id, "worker-2")
    assert (tally.done, selectors.job(job.id).state) == ([0, 1, 2], "SUCCEEDED")


def test_it_settles_a_cancelled_job(job: Job, tally: type[Tally], alice: User) -> None:
    tally.at_step[2] = lambda run: control.cancel(job.id, alice)
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (found.state, found.result, tally.done) == ("CANCELLED", {"settled_at": 2}, [0, 1])
    assert found.finished_at is not None


def test_it_settles_a_job_that_is_cancelled_while_paused(job: Job, tally: type[Tally], alice: User) -> None:
    control.pause(job.id, alice)
    control.cancel(job.id, alice)
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (found.state, found.result, tally.done) == ("CANCELLED", {"settled_at": 0}, [])


def test_it_feels_a_changed_rate(job: Job, tally: type[Tally], alice: User) -> None:
    seen: list[int | None] = []

    def change(run: job_run.JobRun) -> None:
        seen.append(run.rate_per_s)
        control.set_rate(job.id, alice, 25)

    tally.at_step[1] = change
    tally.at_step[2] = lambda run: seen.append(run.rate_per_s)
    runner.run(job.id, "worker-1")
    assert seen == [None, 25]


@pytest.mark.parametrize("rate", [0, -1, 1_000_001])
def test_it_rejects_a_rate_out_of_range(job: Job, alice: User, rate: int) -> None:
    with pytest.raises(errors.PlanRejected):
        control.set_rate(job.id, alice, rate)


def test_it_refuses_controls_of_a_finished_job(job: Job, alice: User) -> None:
    runner.run(job.id, "worker-1")
    for change in (control.pause, control.resume, control.cancel):
        with pytest.raises(errors.IllegalTransition):
            change(job.id, alice)
    with pytest.raises(errors.IllegalTransition):
        control.set_rate(job.id, alice, 5)


def test_it_fails_a_job_the_brokers_do_not_confirm(job: Job, tally: type[Tally]) -> None:
    tally.reached = False
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (found.state, found.error) == ("FAILED", "the world stands still")


def test_it_fails_a_job_that_raises_and_says_so(job: Job, tally: type[Tally]) -> None:
    def explode(run: job_run.JobRun) -> None:
        raise KeyError("surprise")

    tally.at_step[1] = explode
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (found.state, found.error) == ("FAILED", "Internal error: KeyError: 'surprise'")


def test_it_comes_back_when_a_broker_is_away(job: Job, tally: type[Tally]) -> None:
    def away(run: job_run.JobRun) -> None:
        raise BrokerUnavailable("10.0.0.1:10911", "refused")

    tally.at_step[1] = away
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    assert (found.state, found.lease_owner, tally.done) == ("RUNNING", "", [0])
    at_ms = now_ms()
    assert job.id not in runner.recover(now_ms=at_ms), "not at once"
    assert job.id in runner.recover(now_ms=at_ms + RECOVERY_MS)
    Job.objects.filter(pk=job.id).update(lease_until=None)
    runner.run(job.id, "worker-2")
    assert (tally.done, selectors.job(job.id).state) == ([0, 1, 2], "SUCCEEDED")


def test_outages_in_a_row_end_a_job_and_outages_with_work_between_do_not(
    job: Job, tally: type[Tally]
) -> None:
    def away(run: job_run.JobRun) -> None:
        raise BrokerUnavailable("10.0.0.1:10911", "refused")

    def take_up() -> Job:
        Job.objects.filter(pk=job.id).update(lease_until=None)
        runner.run(job.id, "worker-1")
        return selectors.job(job.id)

    for step, times in ((1, runner.RETRIES_MAX), (2, runner.RETRIES_MAX)):
        for number in range(1, times + 1):
            tally.at_step[step] = away
            found = take_up()
            assert (found.state, found.progress["retries"]) == ("RUNNING", number)
    tally.at_step[2] = away
    found = take_up()
    assert found.state == "FAILED" and found.error.startswith("Gave up after 13 attempts")


def test_it_verifies_again_what_a_dead_worker_was_verifying(job: Job, tally: type[Tally]) -> None:
    Job.objects.filter(pk=job.id).update(
        state=JobState.VERIFYING,
        lease_owner="dead",
        lease_until=timezone.now() - datetime.timedelta(seconds=1),
    )
    runner.run(job.id, "worker-2")
    assert (tally.done, selectors.job(job.id).state) == ([], "SUCCEEDED")


def test_it_recovers_what_nobody_works_on(job: Job, alice: User) -> None:
    at_ms = now_ms()
    assert runner.recover(now_ms=at_ms) == [], "its own queue message is still on its way"
    assert runner.recover(now_ms=at_ms + RECOVERY_MS) == [job.id], "the queue message was lost"
    runner.claim(job.id, "worker-1", at_ms)
    assert runner.recover(now_ms=at_ms + LEASE_MS - 1) == []
    assert runner.recover(now_ms=at_ms + LEASE_MS) == [job.id], "its worker died"
    control.pause(job.id, alice)
    assert runner.recover(now_ms=at_ms + LEASE_MS) == []


def test_long_jobs_leave_threads_to_short_ones(
    job: Job, tally: type[Tally], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "runs_long", True, raising=False)
    for _ in range(settings.LONG_JOBS_MAX):
        assert runner.LONG_PLACES.acquire(blocking=False)
    try:
        runner.run(job.id, "worker-1")
        assert (selectors.job(job.id).state, tally.done) == ("QUEUED", [])
        monkeypatch.delattr(tally, "runs_long")
        runner.run(job.id, "worker-1")
        assert selectors.job(job.id).state == "SUCCEEDED"
    finally:
        runner.LONG_PLACES.release(settings.LONG_JOBS_MAX)


def test_a_long_job_gives_way_to_the_one_that_waits_for_longest(
    job: Job, tally: type[Tally], alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "runs_long", True, raising=False)
    newer = services.apply_plan(services.create_plan("tally", "test", "g", {}, alice).id, alice)
    queued: list[str] = []
    monkeypatch.setattr(worker_queue, "enqueue", queued.append)

    def end_slice(run: job_run.JobRun) -> None:
        run._started -= SLICE_MS / 1000

    tally.at_step[1] = end_slice
    runner.run(job.id, "worker-1")
    assert (selectors.job(job.id).state, tally.done) == ("RUNNING", [0])
    assert queued == [newer.id, job.id]


def test_a_short_job_gives_way_to_none(job: Job, tally: type[Tally], alice: User) -> None:
    services.apply_plan(services.create_plan("tally", "test", "g", {}, alice).id, alice)

    def end_slice(run: job_run.JobRun) -> None:
        run._started -= SLICE_MS / 1000

    tally.at_step[1] = end_slice
    runner.run(job.id, "worker-1")
    assert selectors.job(job.id).state == "SUCCEEDED"


def test_it_describes_a_job_to_the_browsers(job: Job) -> None:
    runner.run(job.id, "worker-1")
    found = selectors.job(job.id)
    row = found.as_row()
    assert (row["id"], row["state"], row["subject"], row["progress"]) == (
        job.id,
        "SUCCEEDED",
        "billing",
        {"step": 3},
    )
    assert row["finished_at_ms"] >= row["created_at_ms"] and "events" not in row
    assert [event["level"] for event in found.as_row(full=True)["events"]] == ["ok", "ok"]


def test_a_job_whose_worker_died_is_without_one_at_once(job: Job) -> None:
    run, at_ms = run_lock.new_run("worker-1"), now_ms()
    with run_lock.locked(run):
        held = runner.claim(job.id, run, at_ms)
        assert held is not None
        assert runner.without_worker(held, at_ms + 1_000) == ""
        runner.release_dead(at_ms + 1_000)
        assert runner.claim(job.id, "worker-2", at_ms + 1_000) is None
    # The process ended without giving the job back.
    assert runner.without_worker(selectors.job(job.id), at_ms + 1_000) == runner.NO_WORKER
    runner.release_dead(at_ms + 1_000)
    assert runner.without_worker(selectors.job(job.id), at_ms + 1_000) == runner.NO_WORKER
    assert runner.claim(job.id, "worker-2", at_ms + 1_000) is not None


def test_a_job_whose_worker_is_silent_counts_the_seconds(job: Job) -> None:
    at_ms = now_ms()
    held = runner.claim(job.id, "another-machine", at_ms)
    assert held is not None
    assert runner.without_worker(held, at_ms + SILENT_MS - 1) == ""
    assert runner.shown_state(held, at_ms + SILENT_MS - 1) == "RUNNING"
    assert runner.shown_state(held, at_ms + SILENT_MS) == "WAITING"
    assert "has not reported for 5 s. Another worker takes over in 10 s" in runner.without_worker(
        held, at_ms + 5_000
    )
    assert runner.without_worker(held, at_ms + LEASE_MS) == runner.NO_WORKER


def test_a_queued_job_waits_for_a_worker_for_seconds_only(job: Job) -> None:
    made_ms = round(job.created_at.timestamp() * 1000)
    assert runner.without_worker(job, made_ms + 1_000) == ""
    assert runner.without_worker(job, made_ms + SILENT_MS) == runner.NO_WORKER
    control.pause(job.id, None)
    assert runner.without_worker(selectors.job(job.id), made_ms + 60_000) == ""
