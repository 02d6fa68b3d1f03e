"""Which values of messages are hidden, and showing those of one message to who may see them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from django.core.exceptions import PermissionDenied

from console.access import rules
from console.access.models import MaskRule, Verb
from console.access.services import record_audit
from console.brokers import masking
from console.brokers.masking import NO_MASKS, Masks
from console.text import Text

SHOWN = "show masked fields"


def masks_of(cluster: str) -> Masks:
    """Return the rules of a cluster; one query."""
    rows = [row for row in MaskRule.objects.all() if fnmatchcase(cluster, row.cluster_pattern)]
    return Masks(tuple(map(_rule, rows)))


def _rule(row: MaskRule) -> masking.MaskRule:
    if row.where == MaskRule.Where.PROPERTY:
        return masking.MaskRule(row.topic_pattern, property=row.name)
    return masking.MaskRule(row.topic_pattern, steps=masking.read_path(row.name))


def may_unmask(principal: Any, cluster: str, topic: str) -> bool:
    """Whether masked fields of a topic may be shown."""
    return rules.may(principal, Verb.UNMASK, cluster, topic)


def unmasked(principal: Any, cluster: str, topic: str, message_id: str, *, remote_addr: str) -> Masks:
    """Return no masks, to show all fields of one message, which is recorded. Raises PermissionDenied."""
    if not may_unmask(principal, cluster, topic):
        raise PermissionDenied(
            Text(
                "This needs permission to show masked fields (UNMASK) of %(topic)s on %(cluster)s.",
                topic=topic,
                cluster=cluster,
            )
        )
    record_audit(
        actor=principal, verb=SHOWN, cluster=cluster, subject=f"{topic} {message_id}", remote_addr=remote_addr
    )
    return NO_MASKS
