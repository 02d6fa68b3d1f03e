"""Run one job: claim the lease, apply, verify, and obey pause, cancel and rate within a second.

How a job survives failures:
1. A worker claims it with one conditional update (state, lease free or over). If no row changed, another worker has
   the job.
2. While working, the worker renews the lease every second, in the statement that saves its progress. If no row
   changed, the lease is lost: the worker stops at once and writes nothing more.
3. The next worker starts from the saved progress and the kind's own rows (ledger), never from memory.
4. Runs that did not end in order are listed in ``open_runs`` until it is proven that they are over (``run_lock``).
5. ``orphans`` lists jobs that no worker has; beat queues them again (a queue message is never trusted to survive).
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Q, QuerySet

from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.operation import journal, selectors
from console.operation.errors import OperationError
from console.operation.job import run_lock, worker_queue
from console.operation.models import Job, JobState
from console.operation.plan import coverage
from console.operation.plan.job_run import JobInterrupted, JobRun, LeaseLost, Retries
from console.operation.rules import (
    JOB,
    LEASE_MS,
    RECOVERY_MS,
    RUNNABLE,
    WAITING,
    JobEventKind,
    silent_from_ms,
)
from console.text import Text, text_of

logger = logging.getLogger(__name__)

LONG_PLACES = threading.BoundedSemaphore(settings.LONG_JOBS_MAX)  # of this process
WOKEN_MAX = 8  # waiting jobs that are queued again when a place becomes free
# A broker may be away this often in a row, RETRY_PAUSE_MS apart: its restart is no failure.
RETRIES_MAX = 12
RETRY_PAUSE_MS = 5_000
NO_WORKER = Text(
    "No worker is running this job. It continues when a worker is available; no step runs twice."
)
TRANSIENT = (BrokerUnavailable, RemotingTimeout)
DATABASE_AWAY = (OperationalError, InterfaceError)


@transaction.atomic
def claim(job_id: str, owner: str, now_ms: int) -> Job | None:
    """Take the lease and return the job, or None if it is not to be worked on now."""
    moment = journal.moment(now_ms)
    lease = {"lease_owner": owner, "lease_until": journal.moment(now_ms + LEASE_MS)}
    if waiting(now_ms).filter(pk=job_id).update(**lease) != 1:
        return None
    job = selectors.job(job_id)
    if job.state == JobState.QUEUED:
        job.state = JOB.next(JobState.QUEUED, JobEventKind.START)
        job.started_at = job.started_at or moment
    job.attempts += 1
    job.open_runs = [*(run for run in job.open_runs if not run_lock.is_over(run)), owner]
    job.save(update_fields=["state", "started_at", "attempts", "open_runs"])
    return job


def waiting(now_ms: int) -> QuerySet[Job]:
    """Return jobs that no worker has, the one that has waited longest first."""
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=journal.moment(now_ms))
    return Job.objects.filter(free, state__in=RUNNABLE).order_by(
        F("lease_until").asc(nulls_first=True), "created_at"
    )


def without_worker(job: Job, now_ms: int) -> Text:
    """Return why nothing happens on an unfinished job; empty while a worker has it.

    Certain where the run's lock is free (its process died), else from `silent_from_ms`.
    """
    silent_ms = silent_from_ms(job)
    if silent_ms is None:
        return Text()
    if job.lease_owner and run_lock.is_over(job.lease_owner):
        return NO_WORKER
    if now_ms < silent_ms:
        return Text()
    lease_ms = round(job.lease_until.timestamp() * 1000) if job.lease_until else 0
    if not job.lease_owner or lease_ms <= now_ms:
        return NO_WORKER
    return Text(
        "The worker of this job has not reported for %(silent)s s. Another worker takes over in %(left)s "
        "s at the earliest; no step runs twice.",
        silent=(now_ms - (lease_ms - LEASE_MS)) // 1000,
        left=-(-(lease_ms - now_ms) // 1000),
    )


def shown_state(job: Job, now_ms: int) -> str:
    """Return the state that pages, live rows and REST show: WAITING where no worker has an unfinished job."""
    return WAITING if without_worker(job, now_ms) else str(job.state)


def release_dead(now_ms: int) -> None:
    """End the leases of runs whose process has died, so that other workers need not wait for their end."""
    leased = Job.objects.filter(state__in=RUNNABLE, lease_until__gt=journal.moment(now_ms)).exclude(
        lease_owner=""
    )
    for job_id, owner in list(leased.values_list("pk", "lease_owner")):
        if run_lock.is_over(owner):
            Job.objects.filter(pk=job_id, lease_owner=owner).update(lease_until=journal.moment(now_ms))


def orphans(now_ms: int) -> list[str]:
    """Return jobs that no worker has and one should: queued, or running with an expired lease."""
    queued_for_long = Q(state=JobState.QUEUED, created_at__lte=journal.moment(now_ms - RECOVERY_MS // 2))
    left = Q(state__in=(JobState.RUNNING, JobState.VERIFYING))
    return list(waiting(now_ms).filter(queued_for_long | left).values_list("pk", flat=True))


def recover(*, now_ms: int) -> list[str]:
    """Queue again every job without a worker: its message was lost, or its worker died. Return their ids."""
    run_lock.remove_left_files()
    release_dead(now_ms)
    ids = orphans(now_ms)
    for job_id in ids:
        worker_queue.enqueue(job_id)
    return ids


def run(job_id: str, owner: str) -> None:
    """Work on one job until it is finished, paused or cancelled, or its slice is over.

    ``owner`` names this worker in the lease.
    """
    with _a_place(job_id) as is_free:
        is_given_back = is_free and _claim_and_run(job_id, run_lock.new_run(owner))
    if is_given_back:
        journal.publish(selectors.job(job_id), at_ms=journal.now_ms())
        for waiting_id in waiting(journal.now_ms()).values_list("pk", flat=True)[:WOKEN_MAX]:
            worker_queue.enqueue(waiting_id)


@contextlib.contextmanager
def _a_place(job_id: str) -> Iterator[bool]:
    """Yield whether this process has a thread for the job; long jobs never take all.

    The end of one queues the next.
    """
    is_long = Job.objects.filter(pk=job_id, kind__in=selectors.long_kinds()).exists()
    if is_long and not LONG_PLACES.acquire(blocking=False):
        yield False
        return
    try:
        yield True
    finally:
        if is_long:
            LONG_PLACES.release()


def _claim_and_run(job_id: str, run: str) -> bool:
    """Work on a job; return whether it was given back in order."""
    with run_lock.locked(run):
        began_s = time.monotonic()
        job = claim(job_id, run, journal.now_ms())
        is_ended = job is None or _run(JobRun(job, run, began_s, partial(_another_waits, job.kind)))
    if is_ended:  # else the file stays: it shows to the next run that this one is over
        run_lock.remove(run)
    return job is not None and is_ended


def _another_waits(kind: str) -> bool:
    """Return whether a long job of this kind holds the place that another long one waits for."""
    kinds = selectors.long_kinds()
    return kind in kinds and waiting(journal.now_ms()).filter(kind__in=kinds).exists()


def _run(work: JobRun) -> bool:
    """Work on a claimed job; return whether it was given back in order."""
    job = work.job
    logger.info(
        "job taken up job=%s plan=%s group=%s attempt=%d", job.id, job.plan_id, job.subject, job.attempts
    )
    try:
        if job.attempts > 1 and job.state != JobState.QUEUED:
            work.note(Text("Resumed (attempt %(number)s)", number=job.attempts), level="info")
        journal.publish(job, at_ms=journal.now_ms())
        try:
            _work(work)
        except TRANSIENT as error:
            _retry_later(work, error)
        except (OperationError, MQBrokerError) as error:
            _finish(work, JobEventKind.FAIL, error=text_of(error))
        except (LeaseLost, *DATABASE_AWAY):
            raise
        except Exception as error:
            logger.exception("job failed job=%s plan=%s", job.id, job.plan_id)
            _finish(
                work,
                JobEventKind.FAIL,
                error=Text("Internal error: %(what)s", what=f"{type(error).__name__}: {error}"),
            )
    except LeaseLost:
        logger.warning("job lease lost job=%s owner=%s", job.id, work.owner)
        return False
    except DATABASE_AWAY as error:
        # The database was busy for longer than its timeout, or away: only time is lost.
        logger.warning("job stopped by the database job=%s reason=%s", job.id, error)
        return False
    return True


def _work(work: JobRun) -> None:
    """Apply, then verify; settle a cancelled job instead."""
    kind = selectors.plan_kind(work.job.kind)
    # The broker is tried again now.
    work.put_progress(msgspec.structs.replace(work.progress_as(Retries), waits_for=Text()))
    try:
        if work.job.cancel_requested and work.job.state == JobState.RUNNING:
            raise JobInterrupted("cancelled")
        if work.job.state == JobState.RUNNING:
            kind.apply(work)
            work.put_progress(Retries())
            work.save()
            _transition(work, JobEventKind.APPLIED)
        if work.job.state == JobState.VERIFYING:
            kind.verify(work)
            _finish(work, JobEventKind.VERIFIED)
    except JobInterrupted as interruption:
        if interruption.why == "cancelled":
            work.settling()
            kind.settle(work)
            _finish(work, JobEventKind.STOP)
        else:
            work.save()
            _release(work)


def _transition(work: JobRun, event: JobEventKind) -> None:
    """Move the job if the transition table allows it; a pause or cancel that came first wins."""
    for source in JOB.sources(event):
        held = Job.objects.filter(pk=work.job.pk, lease_owner=work.owner, state=source)
        if held.update(state=JOB.next(source, event)) == 1:
            work.job.state = JOB.next(source, event)
            journal.publish(work.job, at_ms=journal.now_ms())
            return
    # Raises the interruption that came first.
    work.look()
    raise LeaseLost(work.job.id)


FINISH_WORDS = {
    JobEventKind.VERIFIED: ("ok", Text("Verified: the brokers report the target values")),
    JobEventKind.STOP: ("warn", Text("Cancelled; what was in flight is settled")),
    JobEventKind.FAIL: ("danger", Text("Failed")),
}


def _finish(work: JobRun, event: JobEventKind, *, error: Text | None = None) -> None:
    """End the job: state, account, event and audit in one transaction. Raises LeaseLost."""
    kind = selectors.plan_kind(work.job.kind)
    try:
        with transaction.atomic():
            if event is JobEventKind.FAIL:
                kind.give_up(work)
            _write_end(work, event, error or Text())
    except LeaseLost:
        # A pause came first and is kept; raises LeaseLost if the job is no longer ours.
        _release(work)
        return
    logger.info(
        "job finished job=%s plan=%s event=%s error=%s", work.job.id, work.plan.id, event.value, error or "-"
    )


def _write_end(work: JobRun, event: JobEventKind, error: Text) -> None:
    at_ms = journal.now_ms()
    level, sentence = FINISH_WORDS[event]
    for source in JOB.sources(event):
        if _give_back(
            work,
            _held(work).filter(state=source),
            state=JOB.next(source, event),
            finished_at=journal.moment(at_ms),
            error=error,
            holds=None,
        ):
            break
    else:
        raise LeaseLost(work.job.id)
    left_out = coverage.of_job(work.job)
    if event is JobEventKind.VERIFIED and left_out is not None:
        level, sentence = (
            "warn",
            Text("Verified: the brokers report the target values on %(coverage)s", coverage=left_out.words),
        )
    if error:
        sentence = Text("%(what)s: %(reason)s", what=sentence, reason=error)
    journal.note(work.job, sentence, level=level, at_ms=at_ms)
    journal.audit(
        actor=None,
        verb=f"job {event.value}",
        plan=work.plan,
        before=work.plan.before,
        after=error or work.job.result,
    )


def _retry_later(work: JobRun, error: Exception) -> None:
    """Give the lease back after a broker's silence and retry in RETRY_PAUSE_MS; fail after RETRIES_MAX."""
    retries = 1 if work.has_worked else work.progress_as(Retries).retries + 1
    work.put_progress(Retries(retries=retries, waits_for=text_of(error)))
    if retries > RETRIES_MAX:
        _finish(
            work,
            JobEventKind.FAIL,
            error=Text("Gave up after %(number)s attempts: %(error)s", number=retries, error=text_of(error)),
        )
        return
    logger.warning("job waits for a broker job=%s retry=%d reason=%s", work.job.id, retries, error)
    with transaction.atomic():
        work.note(
            Text(
                "%(error)s; trying again in %(number)s s", error=text_of(error), number=RETRY_PAUSE_MS // 1000
            ),
            level="warn",
        )
        lease_until = journal.moment(journal.now_ms() + RETRY_PAUSE_MS)
        if not _give_back(work, _held(work), lease_until=lease_until):
            raise LeaseLost(work.job.id)


def _release(work: JobRun) -> None:
    """Give the job back; it then waits behind those already waiting. Raises LeaseLost."""
    if not _give_back(work, _held(work), lease_until=journal.moment(journal.now_ms())):
        raise LeaseLost(work.job.id)


def _held(work: JobRun) -> QuerySet[Job]:
    """Return the job's row while the lease is ours, or expired and not taken by another worker."""
    return Job.objects.filter(pk=work.job.pk, lease_owner=work.owner)


def _give_back(
    work: JobRun, held: QuerySet[Job], *, lease_until: datetime.datetime | None = None, **fields: Any
) -> bool:
    """Write the fields and end this run; return whether the job was still ours."""
    others = [run for run in work.job.open_runs if run != work.owner]
    return work.write(held, lease_owner="", lease_until=lease_until, open_runs=others, **fields)
