"""A search among the messages of a topic: where to begin, which queues, which filters. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from console.brokers.masking import NO_MASKS, Masks
from console.brokers.mqadmin import MessageQueue, MessageRecord
from console.message.search.body_match import Match
from console.text import Text

TAGS_MAX = 32  # of one expression; each is a hash in the broker's set


class QueryRefused(ValueError):
    """The search cannot be made so. ``field`` is the part at fault."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.field = field


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """Messages of ``topic`` that pass every filter.

    ``newest``: newest first from the end on, else oldest first from ``from_ms`` or ``from_offset`` on.
    ``queues`` and ``brokers`` restrict (both empty: all). ``tags`` are compared as text and, with ``sql``, the
    broker filters; ``match`` is looked for here, in what ``masks`` leave. Times in ms since 1970 UTC, both bounds
    included.
    """

    topic: str
    newest: bool = True
    queues: frozenset[tuple[str, int]] = frozenset()
    brokers: frozenset[str] = frozenset()
    from_ms: int | None = None
    to_ms: int | None = None
    from_offset: int | None = None
    tags: tuple[str, ...] = ()
    sql: str = ""
    match: Match | None = None
    masks: Masks = NO_MASKS

    @property
    def is_filtered(self) -> bool:
        """Return whether the broker filters messages."""
        return bool(self.tags or self.sql)

    @property
    def expression(self) -> tuple[str, str]:
        """Return (expression, type) for a pull. With SQL92 the tags are only compared here."""
        if self.sql:
            return self.sql, "SQL92"
        return " || ".join(self.tags) or "*", "TAG"

    @property
    def fingerprint(self) -> str:
        """Return a hash of the search, which its cursors contain so that no other search accepts them."""
        parts = [
            self.topic,
            self.newest,
            sorted(self.queues),
            sorted(self.brokers),
            self.from_ms,
            self.to_ms,
            self.from_offset,
            sorted(self.tags),
            self.sql,
            None if self.match is None else [self.match.kind, self.match.text],
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    def needs_queue(self, queue: MessageQueue) -> bool:
        """Return whether the search reads this queue."""
        if not self.queues and not self.brokers:
            return True
        return queue.broker_name in self.brokers or (queue.broker_name, queue.queue_id) in self.queues

    def accepts(self, record: MessageRecord) -> bool:
        """Return whether a message from the broker is a hit: brokers compare tags by hash only."""
        if self.tags and record.tags not in self.tags:
            return False
        return self.match is None or self.match.accepts(record)


def tags_of(expression: str) -> tuple[str, ...]:
    """Split ``paid || refunded``; "" and ``*`` mean every tag. Raises QueryRefused."""
    text = expression.strip()
    if text in ("", "*"):
        return ()
    tags = tuple(dict.fromkeys(tag for part in text.split("||") if (tag := part.strip())))
    if not tags:
        raise QueryRefused(Text("Enter tags like paid || refunded."), "tag")
    if len(tags) > TAGS_MAX:
        raise QueryRefused(Text("At most %(number)s tags.", number=TAGS_MAX), "tag")
    return tags
