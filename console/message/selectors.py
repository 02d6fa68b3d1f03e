"""Who has read a message: from the committed offsets of the last round. No function here asks a broker."""

from __future__ import annotations

import dataclasses

from console.lag.models import QueueRow, TopicRow


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """One group and a message of a queue it reads. `is_read` None: its offset is unknown, or never
    committed.
    """

    group: str
    committed_offset: int | None
    is_read: bool | None
    behind: int | None  # messages of the queue before this one that it has still to read
    reason: str


def readers(cluster: str, topic: str, broker_name: str, queue_id: int, queue_offset: int) -> list[Reader]:
    """Every group that consumes the queue, by name; committed is the *next* offset it will read."""
    rows = QueueRow.objects.filter(
        cluster=cluster, topic=topic, broker_name=broker_name, queue_id=queue_id
    ).order_by("group")
    found = []
    for row in rows:
        committed = row.committed_offset
        found.append(
            Reader(
                group=row.group,
                committed_offset=committed,
                is_read=None if committed is None else committed > queue_offset,
                behind=None if committed is None or committed > queue_offset else queue_offset - committed,
                reason=row.reason,
            )
        )
    return found


def topic_names(cluster: str, *, limit: int = 500) -> list[str]:
    """Names for the topic box of the browser, ordinary topics first."""
    rows = TopicRow.objects.filter(cluster=cluster).exclude(kind="SYSTEM").order_by("kind", "topic")
    return list(rows.values_list("topic", flat=True)[:limit])
