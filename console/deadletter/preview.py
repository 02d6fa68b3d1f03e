"""What a look through the dead letters found before a replay. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any

from console.deadletter.dead_letters import Filter, Unreadable, original_topic
from console.mqadmin import MessageRecord


@dataclasses.dataclass(slots=True)
class Preview:
    """What a look through the dead letters found. ``complete``: all of them were looked at."""

    rows: list[dict[str, Any]]
    matched: int = 0
    already: int = 0
    unreadable: int = 0
    no_topic: int = 0
    topics: dict[str, int] = dataclasses.field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int | None = None
    complete: bool = True

    def take(
        self, letters: list[MessageRecord | Unreadable], wanted: Filter, row: dict[str, Any]
    ) -> dict[int, str]:
        """Count a window; returns offset → message id of the letters that match."""
        ids: dict[int, str] = {}
        for letter in letters:
            if isinstance(letter, Unreadable):
                self.unreadable += 1
                row["unreadable"] += 1
            elif wanted.matches(letter):
                ids[letter.queue_offset] = letter.message_id
                topic = original_topic(letter)
                self.topics[topic] = self.topics.get(topic, 0) + 1
                at_ms = letter.store_timestamp_ms
                self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)
                self.last_ms = at_ms if self.last_ms is None else max(self.last_ms, at_ms)
        self.matched += len(ids)
        row["matched"] += len(ids)
        return ids
