"""Groups whose queues the console assigns, and the progress of each assignment."""

from typing import ClassVar

from django.db import models

from console.lag.models import NAME_LENGTH_MAX
from console.text.columns import TextColumn


class ServerSideGroup(models.Model):
    """One topic of one group in server-side mode.

    `assignment` maps client ids to lists of [broker name, queue id]; `version` is the time it was computed
    (epoch ms), so that it grows even after the database was lost; `pushed` maps broker addresses to the
    version they have stored. `placement`: pins, drained clients, weights and a canary (`rules.KeptPlacement`),
    in force since `placed_at_ms`, 0: never any.
    """

    class State(models.TextChoices):
        PENDING = "PENDING"  # not every broker has stored it yet
        STORED = "STORED"  # every broker has; not all clients have reported that they follow
        APPLIED = "APPLIED"  # every client holds exactly its share
        IDLE = "IDLE"  # no client is connected, or there is no queue to assign
        FAILED = "FAILED"  # see `reason`

    cluster = models.CharField(max_length=64)
    group = models.CharField(max_length=NAME_LENGTH_MAX)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    strategy = models.CharField(max_length=32)
    is_automatic = models.BooleanField(default=False)  # enrolled by the console itself (embedded cluster)
    version = models.BigIntegerField(default=0)
    assignment = models.JSONField(default=dict)
    placement = models.JSONField(default=dict)
    placed_at_ms = models.BigIntegerField(default=0)
    pushed = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    reason = TextColumn(default="", blank=True)
    applied_at_ms = models.BigIntegerField(null=True)
    created_at_ms = models.BigIntegerField()
    claimed_until_ms = models.BigIntegerField(default=0)

    class Meta:
        ordering: ClassVar[list[str]] = ["cluster", "group", "topic"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "group", "topic"], name="server_side_group_key")
        ]
