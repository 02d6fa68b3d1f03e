"""What the slow survey of groups found; everything else about groups is rows of the last round (`console.lag`)."""

from django.db import models

from console.lag.models import NAME_LENGTH_MAX
from console.text.columns import TextColumn


class BrokerRefusals(models.Model):
    """What one broker refuses which groups, keyed by the cluster's name: a cache of what the broker said.

    `topics` is {group: {topic: first seen}}, null where the release knows no such thing (before 5.0) or while
    `read_at_ms` is null; `groups` is {group: first seen} of those that may not consume at all (consumeEnable false).
    First seen is in epoch ms of the console's clock, 0 when it was so at the first look. `reason` says why the last
    look failed; what stands here is then as old as `read_at_ms` says.
    """

    cluster = models.CharField(max_length=64)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX)
    topics = models.JSONField(null=True, default=None)
    groups = models.JSONField(default=dict)
    read_at_ms = models.BigIntegerField(null=True)
    reason = TextColumn(default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "broker_name"], name="broker_refusals_key")]
