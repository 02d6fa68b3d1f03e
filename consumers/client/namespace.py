"""Namespaces: topics and groups of several applications on one cluster, kept apart by a prefix of their names. Pure.

Brokers have `namespace%orders`, `%RETRY%namespace%billing` and `%DLQ%namespace%billing`; applications see the names
without it. Source: NamespaceUtil.java.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from brokerd.remoting.message.names import (
    DLQ_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    SYSTEM_GROUP_PREFIX,
    is_system_topic,
)
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord

SEPARATOR = "%"


@dataclass(frozen=True, slots=True)
class Namespace:
    """How a client's names become the brokers', and back. Without a name nothing changes."""

    name: str = ""

    def __bool__(self) -> bool:
        return bool(self.name)

    def wrap(self, resource: str) -> str:
        """Return the brokers' name of a topic or group. Names of RocketMQ's own, and wrapped ones, stay."""
        kind, bare = _split(resource)
        if not self.name or not resource or _is_own(resource) or bare.startswith(self.name + SEPARATOR):
            return resource
        return f"{kind}{self.name}{SEPARATOR}{bare}"

    def unwrap(self, resource: str) -> str:
        """Return the application's name of a topic or group. Names of other namespaces stay."""
        kind, bare = _split(resource)
        if not self.name or _is_own(resource):
            return resource
        return kind + bare.removeprefix(self.name + SEPARATOR)

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        return replace(queue, topic=self.wrap(queue.topic)) if self.name else queue

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        return replace(queue, topic=self.unwrap(queue.topic)) if self.name else queue

    def unwrap_record(self, record: MessageRecord) -> MessageRecord:
        return replace(record, topic=self.unwrap(record.topic)) if self.name else record


def _split(resource: str) -> tuple[str, str]:
    """(prefix of a group's own topic, the rest)."""
    for kind in (RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX):
        if resource.startswith(kind):
            return kind, resource.removeprefix(kind)
    return "", resource


def _is_own(resource: str) -> bool:
    return is_system_topic(resource) or resource.startswith(SYSTEM_GROUP_PREFIX)
