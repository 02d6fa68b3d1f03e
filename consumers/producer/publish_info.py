"""Which queues a topic has for messages, and which of them gets the next (TopicPublishInfo.java).

By turns, by key, or away from a broker that failed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.message.java_hash import java_string_hash
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import REPLY_TOPIC_SUFFIX, validate_topic
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance
from consumers.client.namespace import Namespace
from consumers.client.route import publish_queues
from consumers.config import ProducerConfig
from consumers.errors import MQBrokerError, TopicRouteNotFound
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


class TopicPublishInfoTable:
    """What a producer knows of the topics that it sends to, as long as their routes stay. One event loop."""

    def __init__(
        self, group: str, client: ClientInstance, config: ProducerConfig, namespace: Namespace
    ) -> None:
        self._group = group
        self._client = client
        self._config = config
        self._namespace = namespace
        self._infos: dict[str, TopicPublishInfo] = {}

    def stored_topic(self, topic: str) -> str:
        """Return the brokers' name of a topic. That of replies is the cluster's, in every namespace."""
        if not self._namespace or topic.endswith(REPLY_TOPIC_SUFFIX):
            return topic
        return self._namespace.wrap(topic)

    def check(self, topic: str) -> None:
        """Raise ValueError for a name that no topic has; one that was sent to is known."""
        if topic not in self._infos:
            validate_topic(self.stored_topic(topic))

    async def info(self, topic: str) -> TopicPublishInfo:
        """Return the topic's writable queues.

        For an unknown topic those that creating it by sending would give it (5.4).
        """
        known = self.known(topic)
        if known is not None:
            return known
        try:
            route = await self._client.route(self.stored_topic(topic))
        except MQBrokerError as error:
            return await self._of_new_topic(topic, error)
        known = self.known(topic)
        if known is not None:  # of another first send, which waited for the same route: they share its turns
            return known
        queues = publish_queues(topic, route)
        if not queues:
            raise TopicRouteNotFound(topic, "write")
        info = self._infos[topic] = self._create(topic, route, queues)
        return info

    def known(self, topic: str) -> TopicPublishInfo | None:
        """Return the queues without a request; None: the route is unknown, or has changed."""
        info = self._infos.get(topic)
        if info is None or info.route is not self._client.known_route(info.stored_topic):
            return None
        return info

    async def _of_new_topic(self, topic: str, error: MQBrokerError) -> TopicPublishInfo:
        try:
            route = await self._client.route(self._config.create_topic_key)
        except MQBrokerError:
            raise error from None
        limit = self._config.default_topic_queue_nums
        queues = [queue for queue in publish_queues(topic, route) if queue.queue_id < limit]
        if not queues:
            raise TopicRouteNotFound(topic, "write") from error
        return self._create(topic, route, queues)

    def _create(self, topic: str, route: TopicRouteData, queues: list[MessageQueue]) -> TopicPublishInfo:
        stored_topic = self.stored_topic(topic)
        defaults = self._config.create_topic_key, self._config.default_topic_queue_nums
        templates = [SendTemplate(queue, stored_topic, self._group, *defaults) for queue in queues]
        return TopicPublishInfo(stored_topic, route, queues, templates)
