"""Compare two messages: their facts and properties side by side, their bodies line by line. Pure."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterator

from console.brokers.message_view import MessageView
from console.text import Text

# A diff of more lines takes seconds.
LINES_MAX = 4_000
# Equal lines shown before and after a difference.
CONTEXT_LINES = 3
# Facts of every message; what RocketMQ stores twice (KEYS and TAGS) is not repeated among the properties.
FACTS = (
    ("topic", Text("Topic")),
    ("broker_name", Text("Broker")),
    ("queue_id", Text("Queue")),
    ("queue_offset", Text("Offset")),
    ("keys", Text("Keys")),
    ("tags", Text("Tags")),
    ("message_id", Text("Unique key")),
    ("reconsume_times", Text("Retries")),
    ("born_host", Text("Born at")),
    ("body_bytes", Text("Body, bytes")),
    ("body_format", Text("Body format")),
)
FACTS_AS_PROPERTIES = frozenset({"KEYS", "TAGS", "UNIQ_KEY"})


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """One fact or property of both messages; None: the message has none of this name."""

    name: Text | str
    left: str | None
    right: str | None

    @property
    def differs(self) -> bool:
        return self.left != self.right


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A line of the bodies. None: the other body has no such line; ``skipped``: equal lines left out here."""

    left: str | None = None
    right: str | None = None
    skipped: int = 0

    @property
    def differs(self) -> bool:
        return self.left != self.right


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Two messages side by side; ``is_cut``: of long bodies, only the first part was compared."""

    left: MessageView
    right: MessageView
    facts: list[Pair]
    properties: list[Pair]
    lines: list[Line]
    is_cut: bool

    @property
    def both(self) -> tuple[MessageView, MessageView]:
        return self.left, self.right

    @property
    def is_same_body(self) -> bool:
        return not any(line.differs for line in self.lines)

    @property
    def is_masked(self) -> bool:
        """Whether values are hidden, which are not compared."""
        return self.left.is_masked or self.right.is_masked

    @property
    def differences(self) -> int:
        """Return how many facts and properties differ."""
        return sum(pair.differs for pair in (*self.facts, *self.properties))


def compare(left: MessageView, right: MessageView) -> Comparison:
    """Return what two messages have in common and where they differ."""
    names = sorted({*left.properties, *right.properties} - FACTS_AS_PROPERTIES)
    bodies = _lines(left), _lines(right)
    return Comparison(
        left,
        right,
        [Pair(words, _shown(left, name), _shown(right, name)) for name, words in FACTS],
        [Pair(name, left.properties.get(name), right.properties.get(name)) for name in names],
        list(_folded(list(_paired(bodies[0][:LINES_MAX], bodies[1][:LINES_MAX])))),
        left.body_cut or right.body_cut or max(map(len, bodies)) > LINES_MAX,
    )


def _shown(message: MessageView, name: str) -> str:
    return str(getattr(message, name))


def _lines(message: MessageView) -> list[str]:
    """Return the lines of a body; the members of a JSON object in the order of their names."""
    if message.is_structured and not message.body_cut:
        value = json.loads(message.body_text)
        return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).split("\n")
    return message.body_text.split("\n")


def _paired(left: list[str], right: list[str]) -> Iterator[Line]:
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for _, begin, end, other_begin, other_end in matcher.get_opcodes():
        for at in range(max(end - begin, other_end - other_begin)):
            yield Line(
                left[begin + at] if begin + at < end else None,
                right[other_begin + at] if other_begin + at < other_end else None,
            )


def _folded(lines: list[Line]) -> Iterator[Line]:
    """Leave out equal lines further than CONTEXT_LINES from every difference."""
    near = {
        at + step
        for at, line in enumerate(lines)
        if line.differs
        for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)
    }
    skipped = 0
    for at, line in enumerate(lines):
        if near and at not in near:
            skipped += 1
            continue
        if skipped:
            yield Line(skipped=skipped)
            skipped = 0
        yield line
    if skipped:
        yield Line(skipped=skipped)
