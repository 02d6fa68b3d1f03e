"""Report what happened to a job: live subjects, the job's event list, the audit."""

from __future__ import annotations

import contextlib
import datetime
import logging
import time
from collections.abc import Iterator
from typing import Any

from redis.exceptions import RedisError

from console.access import services as access_services
from console.brokers.errors import BROKER_TROUBLE
from console.live import hub as live
from console.operation.errors import OperationError
from console.operation.models import Confirm, Job, JobEvent, Plan, PlanState
from console.operation.rules import PLAN_LIFE_MS, silent_from_ms
from console.text import Text, text_of

logger = logging.getLogger(__name__)


def now_ms() -> int:
    """Return the time, for entry points; everything below them gets it as an argument."""
    return time.time_ns() // 1_000_000


def moment(at_ms: int) -> datetime.datetime:
    """Convert milliseconds since 1970 UTC to the database's datetime."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)


def actor_name(actor: Any) -> str:
    """Return the user's name, also for a token; ``system`` without an actor."""
    if actor is None:
        return "system"
    return str(actor.get_username()) if hasattr(actor, "get_username") else str(actor)


def note(job: Job, text: Text, *, level: str = "ok", at_ms: int) -> None:
    """Add one line to the job's event list."""
    JobEvent.objects.create(job=job, at=moment(at_ms), level=level, text=text)


def publish(job: Job, *, at_ms: int) -> None:
    """Send the job's row to the browsers.

    A failure of Redis must not stop a job: pages read the row again anyway.
    """
    try:
        live.publish("jobs", {job.id: job.as_row() | {"silent_from_ms": silent_from_ms(job)}}, now_ms=at_ms)
        live.publish(f"job/{job.id}", {"job": job.as_row(full=True)}, now_ms=at_ms)
    except (RedisError, OSError) as error:
        logger.warning("job not published job=%s reason=%s", job.id, error)


def publish_plan(plan: Plan, verb: str, *, at_ms: int) -> None:
    """Send a plan to the browsers of those who hold ``verb``: it needs an approval, or no longer does."""
    if plan.confirm != Confirm.SECOND_PERSON:
        return
    row = {
        "cluster": plan.cluster,
        "subject": plan.subject,
        "verb": verb,
        "created_by": plan.created_by,
        "waits": plan.state == PlanState.DRAFT and not plan.approved_by and not plan.blocked,
        "expires_at_ms": round(plan.expires_at.timestamp() * 1000),
    }
    try:
        live.publish("approvals", {plan.id: row}, now_ms=at_ms, life_s=PLAN_LIFE_MS // 1000)
    except (RedisError, OSError) as error:
        logger.warning("plan not published plan=%s reason=%s", plan.id, error)


def audit(
    *, actor: Any, verb: str, plan: Plan, before: Any = None, after: Any = None, remote_addr: str = ""
) -> None:
    """Record one audit event of a plan or its job."""
    access_services.record_audit(
        actor=actor,
        verb=verb,
        cluster=plan.cluster,
        subject=plan.subject,
        before=before,
        after=after,
        plan_id=plan.id,
        remote_addr=remote_addr,
    )


@contextlib.contextmanager
def refusal_recorded(plan: Plan, actor: Any, remote_addr: str) -> Iterator[None]:
    """Record an attempt to apply a plan that is refused, or that a broker's silence ends, with the reason."""
    try:
        yield
    except (OperationError, *BROKER_TROUBLE) as refusal:
        reason = text_of(refusal)
        audit(actor=actor, verb="apply refused", plan=plan, after=reason, remote_addr=remote_addr)
        raise
