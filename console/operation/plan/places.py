"""Places that plans name and keep: a queue of a broker, with its topic, and an offset in it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from console.brokers.mqadmin import MessageQueue
from console.operation.errors import PlanRejected
from console.text import Names, Text
from console.text.stored import Stored

P = TypeVar("P", bound="BrokerQueuePlace")


class BrokerQueuePlace(Stored, frozen=True, kw_only=True):
    """A queue of a topic that is known."""

    broker_name: str
    queue_id: int


class LetterPlace(BrokerQueuePlace, frozen=True, kw_only=True):
    """A dead letter of a group that is known."""

    queue_offset: int


class QueuePlace(BrokerQueuePlace, frozen=True, kw_only=True):
    """A queue."""

    topic: str

    @property
    def queue(self) -> MessageQueue:
        """The queue as a key."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @property
    def word(self) -> str:
        """``orders/broker-a/3``; names hold no slash (RocketMQ allows ``%|a-zA-Z0-9_-`` only)."""
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


class MessagePlace(QueuePlace, frozen=True, kw_only=True):
    """Where a message is stored; ``message_id`` only where the message was read."""

    queue_offset: int
    message_id: str = ""


def read_place(kind: type[P], given: Any, field: str) -> P:
    """Read a place of a request. Raises PlanRejected(field)."""
    names = [one.name for one in msgspec.structs.fields(kind) if one.required]
    try:
        return msgspec.convert({name: given[name] for name in names}, kind, strict=False)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise PlanRejected(
            Text("A place of %(field)s has %(names)s.", field=field, names=Names(names)), field=field
        ) from error
