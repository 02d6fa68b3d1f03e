"""The life of a job as a table, who may change what, and how a change must be confirmed."""

from __future__ import annotations

import datetime
import enum
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from console.access.rules import may
from console.access.services import actor_name
from console.operation.errors import IllegalTransition, NotPermitted
from console.operation.models import Confirm, Job, JobState, Plan, PlanState
from console.text import Text

# Of a state machine: its states and events.
S = TypeVar("S")
E = TypeVar("E", bound=enum.Enum)

# Offsets on a page that is older than this are out of date.
PLAN_LIFE_MS = 10 * 60 * 1000
# A worker that has not renewed its lease for this long counts as dead.
LEASE_MS = 15_000
# Renewal, progress and the check for pause, cancel and rate: "within a second" on the pages.
HEARTBEAT_MS = 1_000
# A worker sends a heartbeat every HEARTBEAT_MS; pages name its absence after this.
SILENT_MS = 4_000
RECOVERY_MS = 10_000  # beat's interval: a lost queue message delays a job by no more than this
# A long job gives way to a waiting long one after this.
SLICE_MS = 30_000
RATE_PER_S_MAX = 1_000_000


class Transitions(Generic[S, E]):
    """A state machine as a table: (state, event) → next state; what is not in it is illegal."""

    def __init__(
        self,
        table: Mapping[tuple[S, E], S],
        refusal: Callable[[S, E], Text] = lambda state, event: Text.foreign(f"{event} while {state}"),
    ) -> None:
        self.table, self.refusal = table, refusal

    def next(self, state: S, event: E) -> S:
        """Return the state after an event; raise IllegalTransition."""
        found = self.table.get((state, event))
        if found is None:
            raise IllegalTransition(self.refusal(state, event))
        return found

    def sources(self, event: E) -> list[S]:
        """Return the states in which an event is legal: the condition of a conditional update."""
        return [state for state, happening in self.table if happening is event]


class JobEventKind(enum.Enum):
    """What can happen to a job."""

    START = "start"  # a worker claimed it
    PAUSE = "pause"
    RESUME = "resume"
    APPLIED = "applied"  # all work is done, the brokers are now watched
    VERIFIED = "verified"
    FAIL = "fail"
    STOP = "stop"  # a requested cancel has been settled


JOB = Transitions[JobState, JobEventKind](
    {
        (JobState.QUEUED, JobEventKind.START): JobState.RUNNING,
        (JobState.QUEUED, JobEventKind.PAUSE): JobState.PAUSED,
        (JobState.QUEUED, JobEventKind.STOP): JobState.CANCELLED,
        (JobState.QUEUED, JobEventKind.FAIL): JobState.FAILED,
        (JobState.RUNNING, JobEventKind.PAUSE): JobState.PAUSED,
        (JobState.RUNNING, JobEventKind.APPLIED): JobState.VERIFYING,
        (JobState.RUNNING, JobEventKind.STOP): JobState.CANCELLED,
        (JobState.RUNNING, JobEventKind.FAIL): JobState.FAILED,
        (JobState.PAUSED, JobEventKind.RESUME): JobState.QUEUED,
        # A pause that came between a cancel and its settling.
        (
            JobState.PAUSED,
            JobEventKind.STOP,
        ): JobState.CANCELLED,
        (JobState.VERIFYING, JobEventKind.VERIFIED): JobState.SUCCEEDED,
        (JobState.VERIFYING, JobEventKind.FAIL): JobState.FAILED,
    },
    refusal=lambda state, event: Text(
        "A job that is %(state)s cannot %(event)s.", state=state.value, event=event.value
    ),
)
CANCELLABLE = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.PAUSED})
RUNNABLE = (JobState.QUEUED, JobState.RUNNING, JobState.VERIFYING)
WAITING = "WAITING"  # the state that is shown of an unfinished job on which no worker works
# The states that are shown of an open plan that needs a second person.
UNAPPROVED, APPROVED = "UNAPPROVED", "APPROVED"


def shown_plan(plan: Plan, now: datetime.datetime) -> str:
    """Return the state that pages show of a plan; an overdue one counts as expired before it is marked."""
    if plan.state != PlanState.DRAFT:
        return plan.state
    if plan.expires_at <= now:
        return PlanState.EXPIRED
    if plan.confirm != Confirm.SECOND_PERSON or plan.blocked:
        return PlanState.DRAFT
    return APPROVED if plan.approved_by else UNAPPROVED


def silent_from_ms(job: Job) -> int | None:
    """Return when a job counts as without a worker unless one reports before; None: it needs no worker."""
    if job.state not in RUNNABLE:
        return None
    if job.lease_until is None:
        return round(job.created_at.timestamp() * 1000) + SILENT_MS
    lease_ms = round(job.lease_until.timestamp() * 1000)
    return lease_ms + SILENT_MS - (LEASE_MS if job.lease_owner else 0)


def require(actor: Any, verb: str, cluster: str, subject: str) -> None:
    """Raise NotPermitted unless ``actor`` holds ``verb`` on the subject. ``actor=None`` is the system."""
    if actor is not None and not may(actor, verb, cluster, subject):
        raise NotPermitted(
            Text(
                "%(person)s may not %(verb)s %(name)s in %(cluster)s.",
                person=actor_name(actor),
                verb=verb,
                name=subject,
                cluster=cluster,
            )
        )


def confirmation(
    messages: int, *, typed_from: int | None, second_person_from: int | None, typed: bool = False
) -> Confirm:
    """Return how a change of ``messages`` messages is confirmed under the cluster's thresholds.

    A threshold of None is never reached; ``typed``: at least by typing the name.
    """
    if second_person_from is not None and messages >= second_person_from:
        return Confirm.SECOND_PERSON
    if typed or (typed_from is not None and messages >= typed_from):
        return Confirm.TYPED
    return Confirm.INLINE


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of a JSON value, independent of key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
