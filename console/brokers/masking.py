"""Hide values of messages by rule, before anything else of the console sees them. Pure.

A rule names a part of the messages of topics: a property, or a path into a JSON body. A hidden value is `HIDDEN`. A
body that a rule is about and that is no JSON is hidden as a whole: what cannot be searched for the value may hold it.

Copies are hidden too: a retry, a dead letter, a delayed or replayed message names the topic it came from.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from console.brokers.body_unpack import UNPACKED_BYTES_MAX, unpack
from console.brokers.mqadmin import MessageProperty, MessageRecord, SysFlag
from console.text import JsonObject, Text

HIDDEN = "•••"
HIDDEN_BODY = "••• The topic has masked fields, and this body is not JSON."
# Properties that name the topic a copy came from: retries, dead letters, delays, copies that a replay sent elsewhere.
ORIGINS = (
    MessageProperty.RETRY_TOPIC,
    MessageProperty.DLQ_ORIGIN_TOPIC,
    MessageProperty.REAL_TOPIC,
    "TIDEMARK_ORIGINAL_TOPIC",  # deadletter.replay.copy.DIED_IN_TOPIC
)
# By these brokers find, filter and route messages: a mask over them would have holes.
NOT_MASKED = frozenset({MessageProperty.KEYS, MessageProperty.TAGS, MessageProperty.UNIQ_KEY, *ORIGINS})
PACKED = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK | SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
ANY = "*"
DEEP = ".."
_PATH = re.compile(r"\$(?:\.\.?[\w-]+|\.\*|\[\*\]|\[\d{1,6}\]|\[\"[^\"]*\"\])+")
_STEP = re.compile(r"(\.\.)?\.?([\w-]+)|\.(\*)|\[(\*)\]|\[(\d+)\]|\[\"([^\"]*)\"\]")

Steps = tuple[str | int, ...]


class PathRefused(ValueError):
    """The text is no path of a rule; the message shows the syntax."""


def read_path(text: str) -> Steps:
    """Parse `$.card.number`, `$.items[*].iban`, `$..password`. Raises PathRefused."""
    if _PATH.fullmatch(text) is None:
        raise PathRefused(Text("Enter a path like $.card.number, $.items[*].iban or $..password."))
    steps: list[str | int] = []
    for deep, name, star, brackets, number, quoted in _STEP.findall(text[1:]):
        if deep:
            steps.append(DEEP)
        steps.append(int(number) if number else ANY if star or brackets else name or quoted)
    return tuple(steps)


@dataclasses.dataclass(frozen=True, slots=True)
class MaskRule:
    """``steps`` into the body, or the name of a ``property``, of topics that match a glob pattern."""

    topic_pattern: str
    steps: Steps = ()
    property: str = ""

    def covers(self, topics: Iterable[str]) -> bool:
        return any(fnmatchcase(topic, self.topic_pattern) for topic in topics)


@dataclasses.dataclass(frozen=True, slots=True)
class Masks:
    """The rules of one cluster."""

    rules: tuple[MaskRule, ...] = ()

    def masked(self, record: MessageRecord) -> MessageRecord:
        """Return the record without what the rules hide: the same object where they hide nothing."""
        if not self.rules:
            return record
        topics = {record.topic, *(record.properties.get(name, "") for name in ORIGINS)}
        rules = [rule for rule in self.rules if rule.covers(topics)]
        hidden = {rule.property for rule in rules} & record.properties.keys()
        if hidden:
            properties = {
                name: HIDDEN if name in hidden else value for name, value in record.properties.items()
            }
            record = msgspec.structs.replace(record, properties=properties)
        paths = [rule.steps for rule in rules if rule.steps]
        body = _masked_body(record, paths) if paths else None
        if body is None:
            return record
        # Neither compressed nor a batch any more, and without the checksum, against which a guess could be tried.
        return msgspec.structs.replace(record, body=body, body_crc=0, sys_flag=record.sys_flag & ~PACKED)

    def hides(self, record: MessageRecord) -> bool:
        """Return whether something of the record is hidden."""
        return self.masked(record) is not record

    def properties_of(self, topic: str) -> frozenset[str]:
        """Return the properties that are hidden in messages of a topic."""
        return frozenset(rule.property for rule in self.rules if rule.property and rule.covers([topic]))


NO_MASKS = Masks()


def _masked_body(record: MessageRecord, paths: list[Steps]) -> bytes | None:
    """Return the body without the values at the paths; None where it has none of them."""
    unpacked = unpack(record.body, record.sys_flag, limit_bytes=UNPACKED_BYTES_MAX)
    if unpacked.body in (b"", HIDDEN_BODY.encode()):
        return None
    repeated = 0

    def as_object(pairs: list[tuple[str, Any]]) -> JsonObject:
        nonlocal repeated
        made = dict(pairs)
        repeated += len(pairs) - len(made)
        return made

    try:
        value = json.loads(unpacked.body, object_pairs_hook=as_object)
        found = sum(_hide(value, path) for path in paths)
    except (ValueError, RecursionError):
        return HIDDEN_BODY.encode()
    if not found and not repeated:
        return None
    # Of a name that stands twice in an object only the last value was looked at, and only that is written.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _hide(value: Any, steps: Steps) -> int:
    """Replace what the steps lead to, in place; return how many values."""
    step, rest = steps[0], steps[1:]
    if step == DEEP:
        return _hide(value, rest) + sum(_hide(child, steps) for child in _children(value))
    if isinstance(value, dict):
        keys: list[Any] = list(value) if step == ANY else [step] if step in value else []
    elif isinstance(value, list) and (step == ANY or isinstance(step, int)):
        keys = [index for index in range(len(value)) if step in (ANY, index)]
    else:
        return 0
    if rest:
        return sum(_hide(value[key], rest) for key in keys)
    for key in keys:
        value[key] = HIDDEN
    return len(keys)


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
