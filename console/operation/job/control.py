"""Pause, resume, cancel a job, change its rate: for a page, REST or a test.

Each checks the actor's rights, writes by conditional update, audits, and notifies the browsers.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from console.access.services import actor_name
from console.operation import journal, selectors
from console.operation.errors import IllegalTransition, PlanRejected
from console.operation.job import worker_queue
from console.operation.models import FINAL_STATES, Job, JobState
from console.operation.rules import (
    CANCELLABLE,
    JOB,
    RATE_PER_S_MAX,
    JobEventKind,
    require,
)
from console.text import Text


def pause(job_id: str, actor: Any, *, remote_addr: str = "") -> Job:
    """Stop working within a second and give the lease back. Raises IllegalTransition."""
    return _move(
        job_id,
        JobEventKind.PAUSE,
        actor,
        Text("Paused by %(person)s", person=actor_name(actor)),
        remote_addr,
    )


def resume(job_id: str, actor: Any, *, remote_addr: str = "") -> Job:
    """Queue a paused job again; it continues where it stopped. Raises IllegalTransition."""
    job = _move(
        job_id,
        JobEventKind.RESUME,
        actor,
        Text("Resumed by %(person)s", person=actor_name(actor)),
        remote_addr,
    )
    worker_queue.enqueue(job.id)
    return job


def cancel(job_id: str, actor: Any, *, remote_addr: str = "") -> Job:
    """Stop a job for good.

    A worker settles what is in flight first, so that the final counts are true.
    """
    at_ms = journal.now_ms()
    job = _controlled(job_id, actor)
    with transaction.atomic():
        requested = Job.objects.filter(pk=job.pk, state__in=CANCELLABLE).update(cancel_requested=True)
        if requested != 1:
            raise IllegalTransition(Text("A job that is %(state)s cannot be cancelled.", state=job.state))
        Job.objects.filter(pk=job.pk, state=JobState.PAUSED).update(
            state=JOB.next(JobState.PAUSED, JobEventKind.RESUME)
        )
        text = Text("Cancellation requested by %(person)s", person=actor_name(actor))
        found = _record(job_id, actor, "cancel", text, at_ms, remote_addr)
    journal.publish(found, at_ms=at_ms)
    worker_queue.enqueue(job_id)
    return found


def set_rate(job_id: str, actor: Any, rate_per_s: int | None, *, remote_addr: str = "") -> Job:
    """Change the rate of a job, also while it runs; None is unlimited.

    Raises PlanRejected, IllegalTransition.
    """
    at_ms = journal.now_ms()
    if rate_per_s is not None and not 1 <= rate_per_s <= RATE_PER_S_MAX:
        raise PlanRejected(
            Text("The rate must be 1 to %(most)s messages per second.", most=RATE_PER_S_MAX),
            field="rate_per_s",
        )
    job = _controlled(job_id, actor)
    if job.rate_per_s == rate_per_s and not job.is_final:
        return job
    words = Text("no limit") if rate_per_s is None else Text("%(rate)s msg/s", rate=rate_per_s)
    with transaction.atomic():
        if Job.objects.filter(pk=job.pk).exclude(state__in=FINAL_STATES).update(rate_per_s=rate_per_s) != 1:
            raise IllegalTransition(
                Text("The rate of a job that is %(state)s cannot change.", state=job.state)
            )
        text = Text("Rate set to %(rate)s by %(person)s", rate=words, person=actor_name(actor))
        found = _record(job_id, actor, "rate", text, at_ms, remote_addr)
    journal.publish(found, at_ms=at_ms)
    return found


def _controlled(job_id: str, actor: Any) -> Job:
    job = selectors.job(job_id)
    require(actor, selectors.plan_kind(job.kind).verb, job.cluster, job.subject)
    return job


def _move(job_id: str, event: JobEventKind, actor: Any, text: Text, remote_addr: str) -> Job:
    """Move a job with one conditional update per legal source state.

    The second of two requests finds no row and gets the real state.
    """
    at_ms = journal.now_ms()
    job = _controlled(job_id, actor)
    with transaction.atomic():
        moved = any(
            Job.objects.filter(pk=job_id, state=source).update(state=JOB.next(source, event))
            for source in JOB.sources(event)
        )
        if not moved:
            raise IllegalTransition(JOB.refusal(JobState(selectors.job(job.id).state), event))
        found = _record(job_id, actor, event.value, text, at_ms, remote_addr)
    journal.publish(found, at_ms=at_ms)
    return found


def _record(job_id: str, actor: Any, verb: str, text: Text, at_ms: int, remote_addr: str) -> Job:
    """Record the event and the audit of a control, inside the transaction that makes the change."""
    job = selectors.job(job_id)
    journal.note(job, text, level="info", at_ms=at_ms)
    journal.audit(actor=actor, verb=verb, plan=job.plan, after=text, remote_addr=remote_addr)
    return job
