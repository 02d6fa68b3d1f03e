"""The database's facts about topics and their readers, for the message pages. No function reads a broker."""

from __future__ import annotations

import dataclasses
from collections import Counter

from django.db.models import Q

from console.access.name_scope import NameScope
from console.lag.models import BrokerRow, TopicRow
from console.lag.rows import queues

TOPICS_SUGGESTED = 500


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerQueues:
    """A broker of a topic and how many of its queues it holds; ``is_silent``: it missed the last round."""

    broker_name: str
    queues: int
    is_silent: bool


def topic_names(cluster: str, scope: NameScope, *, limit: int = TOPICS_SUGGESTED) -> list[str]:
    """Return names for the topic box of the browser, ordinary topics first; only those of ``scope``."""
    rows = scope.filter(TopicRow.objects.filter(cluster=cluster).exclude(kind="SYSTEM"), "topic")
    ordinary = rows.annotate(is_ordinary=Q(kind="NORMAL"))
    return list(ordinary.order_by("-is_ordinary", "topic").values_list("topic", flat=True)[:limit])


def topic_facts(cluster: str, topic: str) -> TopicRow | None:
    """Return the topic as of the last round."""
    return TopicRow.objects.filter(cluster=cluster, topic=topic).first()


def queues_by_broker(cluster: str, topic: str) -> list[BrokerQueues]:
    """Return the brokers of the topic, for the chips of the search."""
    counts = Counter(row.broker_name for row in queues.topic_queues(cluster, [topic]))
    silent = set(
        BrokerRow.objects.filter(cluster=cluster, answered=False).values_list("broker_name", flat=True)
    )
    return [BrokerQueues(name, count, name in silent) for name, count in sorted(counts.items())]
