"""The ledger of replays, one row per dead letter, and the surveys of dead letters.

The ledger keeps a killed worker from sending a letter twice.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from console.operation.models import Plan
from console.text.columns import TextColumn

NAME_LENGTH_MAX = 255


class LedgerState(models.TextChoices):
    """State of a letter in a replay.

    PENDING is written before the send; after a crash such a row is resolved by reading the target queue.
    HANDLED letters were marked as handled and not sent.
    """

    PENDING = "PENDING"
    SENT = "SENT"
    SKIPPED = "SKIPPED"
    HANDLED = "HANDLED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class ReplayLedger(models.Model):
    """Outcome of one dead letter (topic, broker, queue, offset) in one replay.

    ``target_from_offset`` is the end of the target queue, read before the send: a copy can only be stored at
    or after it.
    """

    # No index of its own: only the unique one begins with it. PostgreSQL has no statistics of rows just written,
    # would use the first index that fits and read the whole replay for each row.
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="ledger", db_index=False)
    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX)
    queue_id = models.IntegerField()
    queue_offset = models.BigIntegerField()
    message_id = models.CharField(max_length=NAME_LENGTH_MAX)
    keys = models.CharField(max_length=NAME_LENGTH_MAX, blank=True)
    state = models.CharField(max_length=8, choices=LedgerState.choices)
    replay_key = models.CharField(max_length=64)
    target_topic = models.CharField(max_length=NAME_LENGTH_MAX, blank=True)
    target_broker_name = models.CharField(max_length=NAME_LENGTH_MAX, blank=True)
    target_queue_id = models.IntegerField(null=True)
    target_from_offset = models.BigIntegerField(null=True)
    target_offset = models.BigIntegerField(null=True, help_text="where the broker stored the copy")
    reason = TextColumn(blank=True)
    updated_at_ms = models.BigIntegerField()

    class Meta:
        ordering: ClassVar[list[str]] = ["id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["plan", "topic", "broker_name", "queue_id", "queue_offset"],
                name="one_row_per_dead_letter",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["cluster", "topic", "broker_name", "queue_id", "queue_offset"],
                name="ledger_by_dead_letter",
            ),
            models.Index(fields=["state", "plan"], name="ledger_of_state"),
        ]

    def __str__(self) -> str:
        return f"{self.plan_id} {self.broker_name}·{self.queue_id}@{self.queue_offset} {self.state}"


class DeadLetterSurvey(models.Model):
    """Result of reading one group's dead letters, about a minute after they last changed (``survey.py``).

    ``causes``: [{"cause", "letters"}], most frequent first, of the ``sampled`` newest letters; "" is "no
    cause given". ``oldest_ms`` is the store time of the oldest letter still stored, ``retention_ms`` the
    shortest retention of its brokers; null is unknown. ``settled`` counts the stored letters that were
    replayed or marked as handled. ``begin_offset`` and ``end_offset`` are the sums of the queues' ends at
    that time.
    """

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    end_offset = models.BigIntegerField()
    begin_offset = models.BigIntegerField()
    sampled = models.IntegerField(default=0)
    settled = models.BigIntegerField(default=0)
    causes = models.JSONField(default=list)
    oldest_ms = models.BigIntegerField(null=True)
    retention_ms = models.BigIntegerField(null=True)
    problem = TextColumn(blank=True)
    read_at_ms = models.BigIntegerField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "group"], name="dead_letter_survey_key")
        ]

    def __str__(self) -> str:
        return f"{self.cluster} {self.group} @ {self.end_offset}"
