"""Plans and jobs: requested changes, and the work that carries them out.

A ``Plan`` is a computed change that is not yet executed, with its before-state; it expires. A ``Job`` is one
execution of a plan: leased, resumable, watched. ``JobEvent`` is the event list of a job. This module holds rows
only: the life of a job is the table in ``rules.py``; every write goes through ``services.py``.
"""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from django.db import models

from console.text import JsonObject
from console.text.columns import TextColumn, TextsColumn

# On a job's page and socket row; a job writes a line per change of state, not per message.
EVENTS_SHOWN = 50
# "job-" and 8 letters, with room for longer prefixes of later kinds.
ID_LENGTH = 20
# Parts of a result that only a job's own page needs.
RESULT_LISTS = ("queues", "brokers", "offsets")
# Parts of a result that only its undo needs: thousands of rows.
UNDO_LISTS = ("offsets",)
# No letters that are mistaken for digits when read aloud.
CODE_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_id(prefix: str) -> str:
    """Return an id short enough for a phone call: ``op-x7k2m9qa``, 31**8 = 8.5e11 values."""
    return f"{prefix}-{''.join(secrets.choice(CODE_ALPHABET) for _ in range(8))}"


def new_plan_id() -> str:
    return new_id("op")


def new_job_id() -> str:
    return new_id("job")


class PlanState(models.TextChoices):
    DRAFT = "DRAFT"
    APPLIED = "APPLIED"
    EXPIRED = "EXPIRED"
    DISCARDED = "DISCARDED"


class JobState(models.TextChoices):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    VERIFYING = "VERIFYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Confirm(models.TextChoices):
    """What the person who applies must do, in the order of blast radius."""

    INLINE = "inline"
    TYPED = "typed"
    SECOND_PERSON = "second_person"


FINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
ACTIVE_STATES = frozenset(JobState) - FINAL_STATES


class Plan(models.Model):
    """A previewed change: nothing of it has happened while ``state`` is DRAFT."""

    id = models.CharField(primary_key=True, max_length=ID_LENGTH, default=new_plan_id, editable=False)
    kind = models.CharField(max_length=40)
    cluster = models.CharField(max_length=64)
    subject = models.CharField(max_length=255, help_text="the group or topic that changes; typed to confirm")
    params = models.JSONField(default=dict)
    diff = TextsColumn(default=list, help_text="one row per queue or key: before, after, delta, how")
    summary = TextColumn(blank=True, help_text="the change in words")
    warnings = TextsColumn(default=list, help_text="[{level, title, text}], level ok | info | warn | danger")
    equivalent = models.JSONField(default=dict, help_text="the same by hand: {rest, command}")
    before = TextsColumn(default=dict, help_text="state the plan was computed from; drift compares with it")
    state_hash = models.CharField(max_length=64, help_text="SHA-256 of before, for people who compare plans")
    blocked = TextColumn(blank=True, help_text="why this plan cannot be applied; empty when it can")
    confirm = models.CharField(max_length=16, choices=Confirm.choices, default=Confirm.INLINE)
    confirm_text = models.CharField(max_length=255, blank=True)
    messages = models.BigIntegerField(default=0, help_text="blast radius: messages replayed, skipped or sent")
    state = models.CharField(max_length=10, choices=PlanState.choices, default=PlanState.DRAFT)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    approved_by = models.CharField(max_length=150, blank=True)
    approved_at = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True)
    undo_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="undos"
    )
    idempotency_key = models.CharField(max_length=255, blank=True)
    request_hash = models.CharField(max_length=64, blank=True, help_text="what the idempotency key stood for")

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "-created_at"], name="plan_by_cluster"),
            models.Index(fields=["state", "expires_at"], name="plan_to_expire"),
        ]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["created_by", "idempotency_key"],
                condition=~models.Q(idempotency_key=""),
                name="plan_idempotency_key_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.kind} of {self.subject}"


class Job(models.Model):
    """One execution of one plan. Only the holder of the lease may work on it."""

    id = models.CharField(primary_key=True, max_length=ID_LENGTH, default=new_job_id, editable=False)
    plan = models.OneToOneField(Plan, on_delete=models.PROTECT, related_name="job")
    kind = models.CharField(max_length=40)
    cluster = models.CharField(max_length=64)
    subject = models.CharField(max_length=255)
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    cancel_requested = models.BooleanField(
        default=False, help_text="the runner settles what is in flight, then stops"
    )
    progress = TextsColumn(default=dict)
    result = TextsColumn(default=dict)
    rate_per_s = models.PositiveIntegerField(null=True, blank=True, help_text="null: as fast as it goes")
    lease_owner = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0, help_text="how many times a worker took it up")
    open_runs = models.JSONField(default=list, help_text="runs that may still be at work: see run_lock.py")
    holds = models.CharField(
        max_length=400,
        null=True,
        unique=True,
        help_text="what no other active job may work on; null: nothing",
    )
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    error = TextColumn(blank=True)
    idempotency_key = models.CharField(max_length=255, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "-created_at"], name="job_by_cluster"),
            models.Index(fields=["state", "lease_until"], name="job_to_recover"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.kind} of {self.subject}"

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    def as_row(self, *, full: bool = False) -> JsonObject:
        """Return the job as the subject ``jobs`` has it.

        ``full`` (subject ``job/<id>``) adds result rows and events. Times in ms since 1970 UTC, null = not yet.
        """
        row = {
            "id": self.id,
            "plan": self.plan_id,
            "kind": self.kind,
            "cluster": self.cluster,
            "subject": self.subject,
            "state": self.state,
            "cancel_requested": self.cancel_requested,
            "progress": self.progress,
            "result": {
                k: v for k, v in self.result.items() if k not in (UNDO_LISTS if full else RESULT_LISTS)
            },
            "rate_per_s": self.rate_per_s,
            "attempts": self.attempts,
            "created_by": self.created_by,
            "created_at_ms": _ms(self.created_at),
            "started_at_ms": _ms(self.started_at),
            "finished_at_ms": _ms(self.finished_at),
            "error": self.error,
        }
        if full:
            newest = reversed(self.events.order_by("-at", "-id")[:EVENTS_SHOWN])
            row["events"] = [{"at_ms": _ms(e.at), "level": e.level, "text": e.text} for e in newest]
        return row


class JobEvent(models.Model):
    """One line of the event list on a job's page."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    level = models.CharField(max_length=8, default="ok", help_text="ok | info | warn | danger")
    text = TextColumn()

    class Meta:
        ordering: ClassVar[list[str]] = ["at", "id"]

    def __str__(self) -> str:
        return self.text


def _ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
