"""What this console has done to a message, collected from the apps above."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from django.conf import settings
from django.utils.module_loading import import_string

from console.text import Text


@dataclasses.dataclass(frozen=True, slots=True)
class MessageEvent:
    """One action on one message.

    ``subject`` is the group or topic it was done for; ``tone``: ok | warn | bad.
    """

    at_ms: int
    subject: str
    words: Text
    plan_id: str
    tone: str = "ok"


@dataclasses.dataclass(frozen=True, slots=True)
class MessageTrail:
    """The identity of a message: topic, unique key, and its dead letters.

    ``dead_letters``: (topic, broker name, queue id, offset) of each.
    """

    topic: str
    message_id: str
    dead_letters: tuple[tuple[str, str, int, int], ...] = ()


# (cluster, trail) → events, in any order.
EventSource = Callable[[str, MessageTrail], Sequence[MessageEvent]]


def message_events(cluster: str, trail: MessageTrail) -> list[MessageEvent]:
    """Return all recorded actions on a message, oldest first."""
    sources: Sequence[EventSource] = import_string(settings.MESSAGE_EVENTS)
    found = [event for source in sources for event in source(cluster, trail)]
    return sorted(found, key=lambda event: event.at_ms)
