"""Filters that the console applies itself: body text, JSON path, property, key. Pure.

``$.shippingTo.city == "杭州"``, ``$.items[0].qty > 3``, ``$.voucher`` (exists); ``amount == 23880``,
``traceparent`` (has the property). Text is compared exactly, numbers as numbers.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import re
from collections.abc import Callable
from typing import Any

from console.brokers.body_unpack import unpack
from console.brokers.mqadmin import MessageRecord
from console.text import Names, Text

# Kinds of filters: the value in addresses, its label, an example.
KINDS = (
    ("body", Text("Body contains"), "ORD-4711"),
    ("json", Text("JSON path"), '$.shippingTo.city == "Hangzhou"'),
    ("property", Text("Property"), 'channel == "wallet"'),
    ("key", Text("Key is"), "ORD-4711"),
)
KIND_NAMES = frozenset(kind for kind, _, _ in KINDS)
TEXT_LENGTH_MAX = 1_000
JSON_BYTES_MAX = 1024 * 1024  # of a body that is parsed; a larger one never matches a JSON path
MATCHED_BYTES_MAX = 4 * 1024 * 1024  # RocketMQ's own largest message, decompressed
EXCERPT_BEFORE, EXCERPT_LENGTH = 40, 140  # characters around a hit in a list

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_PATH = re.compile(r"\$((?:\.[\w-]+|\[\d{1,6}\]|\[\"[^\"]*\"\])*)")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\"([^\"]*)\"\]")
_COMPARISON = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*", re.DOTALL)
_NAME = re.compile(r"[^\s=<>!]+")
_ABSENT = object()
_EXAMPLES = {name: example for name, _, example in KINDS}


class MatchRefused(ValueError):
    """The text is not a valid filter; the message shows the syntax."""


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """A parsed filter.

    ``steps`` of a JSON path or the name of a property; ``compare`` None: it must exist.
    """

    kind: str
    text: str
    steps: tuple[str | int, ...] = ()
    compare: str | None = None
    wanted: Any = None

    def accepts(self, record: MessageRecord) -> bool:
        """Return whether a message is a hit; a body that cannot be parsed is none."""
        if self.kind == "key":
            return self.text in record.keys.split()
        if self.kind == "property":
            return self._compares(record.properties.get(str(self.steps[0]), _ABSENT))
        body = unpack(record.body, record.sys_flag, limit_bytes=MATCHED_BYTES_MAX).body
        if self.kind == "body":
            return self.text.encode() in body
        if len(body) > JSON_BYTES_MAX:
            return False
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return False
        return self._compares(_follow(value, self.steps))

    def _compares(self, value: Any) -> bool:
        if value is _ABSENT or self.compare is None:
            return value is not _ABSENT
        wanted = self.wanted
        if isinstance(value, str) and _is_number(wanted):  # properties are strings, even numeric ones
            try:
                value = float(value)
            except ValueError:
                return self.compare == "!="
        if _is_number(value) != _is_number(wanted) or not isinstance(value, type(wanted) | int | float):
            return self.compare == "!="
        return OPERATORS[self.compare](value, wanted)

    def excerpt(self, text: str) -> tuple[str, str, str] | None:
        """Return (before, hit, after) of the first match in a shown body, for kinds that search text."""
        needle = self.text if self.kind == "body" else self.wanted
        if not isinstance(needle, str) or not needle:
            return None
        line = " ".join(text.split())
        at = line.find(" ".join(needle.split()))
        if at < 0:
            return None
        end = at + len(" ".join(needle.split()))
        start = max(0, at - EXCERPT_BEFORE)
        return ("… " if start else "") + line[start:at], line[at:end], line[end : start + EXCERPT_LENGTH]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _follow(value: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        has_step = (
            isinstance(value, list) and step < len(value)
            if isinstance(step, int)
            else isinstance(value, dict) and step in value
        )
        if not has_step:
            return _ABSENT
        value = value[step]
    return value


def read_match(kind: str, text: str) -> Match | None:
    """Parse the filter of a kind; None for an empty text. Raises MatchRefused."""
    if not text.strip():
        return None
    if len(text) > TEXT_LENGTH_MAX:
        raise MatchRefused(Text("At most %(number)s characters.", number=TEXT_LENGTH_MAX))
    if kind not in KIND_NAMES:
        raise MatchRefused(
            Text(
                "Unknown kind of search. Choose one of: %(names)s.",
                names=Names(name for name, _, _ in KINDS),
            )
        )
    if kind == "body":
        return Match(kind, text)
    text = text.strip()
    if kind == "key":
        return Match(kind, text)
    head = (_PATH if kind == "json" else _NAME).match(text)
    if head is None:
        raise MatchRefused(Text("Enter it like %(example)s", example=_EXAMPLES[kind]))
    steps: tuple[str | int, ...] = (head.group(),)
    if kind == "json":
        steps = tuple(
            int(number) if number else name or quoted for name, number, quoted in _STEP.findall(head.group(1))
        )
    rest = text[head.end() :]
    if not rest.strip():
        return Match(kind, text, steps)
    comparison = _COMPARISON.fullmatch(rest)
    if comparison is None:
        raise MatchRefused(
            Text(
                "After %(path)s, enter one of %(operators)s and a value, or nothing.",
                path=head.group(),
                operators=" ".join(OPERATORS),
            )
        )
    return Match(kind, text, steps, comparison.group(1), _literal(comparison.group(2), kind))


def _literal(text: str, kind: str) -> Any:
    """Parse a JSON value; a property may be compared with a bare word, because it is a string anyway."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if kind == "property":
            return text
        raise MatchRefused(
            Text('%(value)s is not a JSON value; write a string as "%(value)s".', value=text)
        ) from error
    if isinstance(value, dict | list):
        raise MatchRefused(Text("Enter text, a number, true, false or null to compare with."))
    return value
