"""Copies that brokers make of a message: where they lie, whose they are, how many tries they stand for. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from console.brokers.mqadmin import (
    DLQ_TOPIC_PREFIX,
    RETRY_TOPIC_PREFIX,
    MessageProperty,
    MessageRecord,
    TimerProperty,
)
from console.text import Text

TIME_DIGITS_MAX = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a stored message lies: what its permalink needs."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    offset_message_id: str

    @classmethod
    def of(cls, record: MessageRecord, broker_name: str) -> Place:
        """Return the place of a record that this broker stores."""
        return cls(record.topic, broker_name, record.queue_id, record.queue_offset, record.offset_message_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One moment of a message's story: a copy that a broker stored, or what a plan did with one."""

    at_ms: int
    group: str
    words: Text
    place: Place | None = None
    plan_id: str = ""


def copied_for(topic: str) -> str:
    """Return the group whose retries or dead letters a topic holds; "" for any other topic."""
    for prefix in (RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return ""


def first_topic(record: MessageRecord) -> str:
    """Return the topic a copy was first sent to; "" where its properties do not name it."""
    found = record.properties
    topic = found.get(MessageProperty.DLQ_ORIGIN_TOPIC) or found.get(MessageProperty.RETRY_TOPIC) or ""
    return "" if copied_for(topic) else topic


def waited_since(record: MessageRecord) -> int | None:
    """Return when a message that its timer has delivered began to wait, in ms; None for any other.

    Java's broker writes the largest long for one that came after its time.
    """
    text = record.properties.get(TimerProperty.ENQUEUE_MS, "")
    since_ms = int(text) if text.isascii() and text.isdecimal() and len(text) < TIME_DIGITS_MAX else None
    return since_ms if since_ms is not None and since_ms <= record.store_timestamp_ms else None


def is_replay(retry: MessageRecord) -> bool:
    """Return whether a record of a retry topic was sent there anew: a broker's own copy counts its tries."""
    return retry.reconsume_times == 0


def retry_words(retry: MessageRecord) -> Text:
    """Return what a record of a retry topic is."""
    if is_replay(retry):
        return Text("sent to the group again")
    return Text("retry %(number)s", number=retry.reconsume_times)


def died(dead: Sequence[MessageRecord]) -> Text:
    """Return how a message became its dead letters; each counts the tries before it."""
    tries = _tries(dead)
    if len(dead) > 1:
        return Text("%(number)s tries failed, %(letters)s dead letters", number=tries, letters=len(dead))
    return Text("%(number)s {try|tries} failed, then a dead letter", number=tries)


def _tries(dead: Iterable[MessageRecord]) -> int:
    return sum(max(1, each.reconsume_times) for each in dead)
