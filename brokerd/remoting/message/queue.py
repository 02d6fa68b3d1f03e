"""The name of a queue: the unit of ordering, ownership and progress."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """Orders as Java's does: topic, broker name, queue id (MessageQueue.compareTo)."""

    topic: str
    broker_name: str
    queue_id: int
