"""The database's facts about topics and their readers, for the message pages. No function reads a broker."""

from __future__ import annotations

from collections import Counter
from typing import Any

from console.access.name_scope import NameScope
from console.lag.models import BrokerRow, TopicRow
from console.lag.rows import queues

TOPICS_SUGGESTED = 500


def topic_names(cluster: str, scope: NameScope, *, limit: int = TOPICS_SUGGESTED) -> list[str]:
    """Return names for the topic box of the browser, ordinary topics first; only those of ``scope``."""
    rows = scope.filter(TopicRow.objects.filter(cluster=cluster).exclude(kind="SYSTEM"), "topic")
    return list(rows.order_by("kind", "topic").values_list("topic", flat=True)[:limit])


def topic_facts(cluster: str, topic: str) -> TopicRow | None:
    """Return the topic as of the last round."""
    return TopicRow.objects.filter(cluster=cluster, topic=topic).first()


def queues_by_broker(cluster: str, topic: str) -> list[dict[str, Any]]:
    """Return {broker_name, queues, silent} of each broker of the topic, for the chips of the search."""
    counts = Counter(row.broker_name for row in queues.topic_queues(cluster, [topic]))
    silent = set(
        BrokerRow.objects.filter(cluster=cluster, answered=False).values_list("broker_name", flat=True)
    )
    return [
        {"broker_name": name, "queues": count, "silent": name in silent}
        for name, count in sorted(counts.items())
    ]
