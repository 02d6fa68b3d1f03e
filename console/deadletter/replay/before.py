"""The state that a replay is planned from, as its plan keeps it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from console.operation.models import Plan
from console.text.stored import Stored, of_json


class Span(Stored, frozen=True, kw_only=True):
    """Offsets of one queue of the dead-letter topic: from inclusive, to exclusive."""

    broker_name: str
    queue_id: int
    from_offset: int
    to_offset: int

    @property
    def name(self) -> str:
        """``broker-a · 3``."""
        return f"{self.broker_name} · {self.queue_id}"


class GivenMessage(Stored, frozen=True, kw_only=True):
    """The stored message to give to a client and its broker, and id and keys of the dead letter.

    ``is_original``: the message the letter was made from, not the letter itself.
    """

    addr: str
    broker_name: str
    offset_message_id: str
    topic: str
    is_original: bool
    message_id: str
    keys: str


class ReplayBefore(Stored, frozen=True, kw_only=True):
    """Counts of the preview. ``matched`` is None when not all letters were read; ``counted`` are those read.

    ``topics``: original topic → letters. ``expiring`` and ``retention_ms``: None is unknown.
    """

    topic: str
    ranges: tuple[Span, ...]
    matched: int | None
    counted: int
    already: int
    unreadable: int
    topics: Mapping[str, int]
    retention_ms: int | None
    takes_s: float | None = None
    expiring: int | None = None
    given: GivenMessage | None = msgspec.field(name="asked", default=None)

    @classmethod
    def of(cls, plan: Plan) -> ReplayBefore:
        """Return the state that a plan was computed from."""
        return of_json(cls, plan.before)
