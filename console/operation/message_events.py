"""What this console has done to a message, as the apps above tell it: a table like that of the plan kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from django.conf import settings
from django.utils.module_loading import import_string

from console.text import Text


@dataclasses.dataclass(frozen=True, slots=True)
class MessageEvent:
    """One deed to one message. ``subject`` is the group or topic it was done for; ``tone``: ok | warn | bad."""

    at_ms: int
    subject: str
    words: Text
    plan_id: str
    tone: str = "ok"


@dataclasses.dataclass(frozen=True, slots=True)
class MessageTrail:
    """What a message is known by: topic and unique key, and the places (topic, broker name, queue id, offset) of
    its dead letters."""

    topic: str
    message_id: str
    dead_letters: tuple[tuple[str, str, int, int], ...] = ()


# (cluster, trail) → events, in any order.
EventSource = Callable[[str, MessageTrail], Sequence[MessageEvent]]


def message_events(cluster: str, trail: MessageTrail) -> list[MessageEvent]:
    """Everything that is on record about a message, oldest first."""
    sources: Sequence[EventSource] = import_string(settings.MESSAGE_EVENTS)
    found = [event for source in sources for event in source(cluster, trail)]
    return sorted(found, key=lambda event: event.at_ms)
