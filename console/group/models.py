"""Result of the slow survey of groups; all else about groups is in rows of the last round (`console.lag`)."""

from django.db import models

from console.lag.models import NAME_LENGTH_MAX
from console.text.columns import TextColumn


class BrokerRefusals(models.Model):
    """What one broker refuses to which groups: a cache of what the broker reported, by cluster name.

    `topics` is {group: {topic: first seen}}, null where the release has no such permission (before 5.0) or
    while `read_at_ms` is null; `groups` is {group: first seen} of those that may not consume at all
    (consumeEnable false). First seen is in epoch ms of the console's clock, 0 when it was so at the first
    read. `reason` says why the last read failed; the row is then as old as `read_at_ms`.
    """

    cluster = models.CharField(max_length=64)
    broker_name = models.CharField(max_length=NAME_LENGTH_MAX)
    topics = models.JSONField(null=True, default=None)
    groups = models.JSONField(default=dict)
    read_at_ms = models.BigIntegerField(null=True)
    reason = TextColumn(default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "broker_name"], name="broker_refusals_key")]
