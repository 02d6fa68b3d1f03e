"""Target queues of copies and their known ends, read once per run and advanced by its sends."""

from __future__ import annotations

import dataclasses

from console.brokers.mqadmin import BlockingMQAdmin, BrokerUnavailable, Message, MessageQueue
from console.brokers.queues import masters, route_queues, topic_route, with_offsets
from console.deadletter.replay.ledger import LedgerEntry
from console.operation.errors import TopicGone
from console.text import Text


@dataclasses.dataclass(slots=True)
class Target:
    """One writable queue and its known end: a copy sent from now on is stored at or after it."""

    queue: MessageQueue
    addr: str
    end: int


@dataclasses.dataclass(slots=True, eq=False)
class Outgoing:
    """One copy to send: its ledger row, message and target."""

    entry: LedgerEntry
    message: Message
    target: Target


class Targets:
    """The writable queues per topic, for one run."""

    def __init__(self, admin: BlockingMQAdmin) -> None:
        self.admin = admin
        self._by_topic: dict[str, dict[MessageQueue, Target]] = {}

    def of(self, topic: str) -> dict[MessageQueue, Target]:
        """Return the writable queues of a topic; none when it does not exist.

        Raises BrokerUnavailable, MQBrokerError.
        """
        if topic not in self._by_topic:
            queues = route_queues_of(self.admin, topic, write=True)
            self._by_topic[topic] = {
                place.queue: Target(place.queue, place.addr, place.max_offset)
                for place in (with_offsets(self.admin, queues) if queues else [])
            }
        return self._by_topic[topic]


def missing(admin: BlockingMQAdmin, queue: MessageQueue) -> TopicGone | BrokerUnavailable:
    """Return why a queue that a replay needs is in no route: its broker is away, or it was deleted.

    Raises BrokerUnavailable when no name server answers.
    """
    if queue.broker_name in masters(admin):
        return TopicGone(
            Text(
                "%(broker)s no longer has queue %(number)s of %(topic)s: the topic was deleted, or its queues or "
                "permission were changed",
                broker=queue.broker_name,
                number=queue.queue_id,
                topic=queue.topic,
            )
        )
    return BrokerUnavailable(
        "",
        Text(
            "%(broker)s holds %(topic)s but is not available",
            broker=queue.broker_name,
            topic=queue.topic,
        ),
    )


def route_queues_of(admin: BlockingMQAdmin, topic: str, *, write: bool = False) -> dict[MessageQueue, str]:
    """Return the queues of a topic; none when it does not exist."""
    route = topic_route(admin, topic)
    return {} if route is None else route_queues(route, topic, write=write)
