"""Which queue a message goes to: by turns, by key, or away from a broker that failed (TopicPublishInfo.java). Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.message.java_hash import java_string_hash
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from consumers.producer.send_template import SendTemplate

# Chooses one of the topic's writable queues, which come sorted (MessageQueueSelector).
QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]


def queue_for_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the same queue for the same key as long as the queues stay (SelectMessageQueueByHash.java)."""
    return queues[abs(java_string_hash(key)) % len(queues)]


def next_queue(
    queues: Sequence[MessageQueue],
    index: int,
    failed_broker: str | None,
    is_available: Callable[[str], bool] | None = None,
) -> MessageQueue:
    """Round robin; after a failure another broker if there is one, and first of all one that is available.

    TopicPublishInfo.selectOneMessageQueue, MQFaultStrategy.java.
    """
    for step in range(len(queues)):
        queue = queues[(index + step) % len(queues)]
        if queue.broker_name != failed_broker and (is_available is None or is_available(queue.broker_name)):
            return queue
    return queues[index % len(queues)] if is_available is None else next_queue(queues, index, failed_broker)


class TopicPublishInfo:
    """The writable queues of a topic as one route has them, and whose turn is next.

    `stored_topic` is the brokers' name of the topic. One event loop.
    """

    def __init__(
        self,
        stored_topic: str,
        route: TopicRouteData,
        queues: list[MessageQueue],
        templates: list[SendTemplate],
    ) -> None:
        self.stored_topic = stored_topic
        self.route = route
        self.queues = queues
        self._templates = templates
        # A random start, so that many producers do not all begin with queue 0.
        self._index = random.randrange(len(queues))

    def next(
        self, failed_broker: str | None = None, is_available: Callable[[str], bool] | None = None
    ) -> MessageQueue:
        """Return the queue of the next message, or of its next attempt after `failed_broker`."""
        self._index = (self._index + 1) % len(self.queues)
        return next_queue(self.queues, self._index, failed_broker, is_available)

    def next_template(self) -> SendTemplate:
        """As `next` for a first attempt: what a send to that queue looks like."""
        self._index = (self._index + 1) % len(self._templates)
        return self._templates[self._index]
