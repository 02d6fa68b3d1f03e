"""Attributes of topics and groups in requests: `+key=value` sets one, `-key` removes it.

A topic's come as one text, in lists and in groups as a map with the sign before the key. Source: protocol §3.11
(`AttributeParser.java`, `AttributeUtil.java`); its words, so that tools that look for them find them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.errors import MQBrokerError, error_for


@dataclass(frozen=True, slots=True)
class Attribute:
    """`values` are those that mean something here; one that is not `changeable` is set when the owner is made."""

    values: frozenset[str]
    changeable: bool = True


# The other keys and values of 5.x change how the store works, and are refused instead of kept without effect.
TOPIC_ATTRIBUTES = {
    "message.type": Attribute(
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}),
    ),
    "queue.type": Attribute(frozenset({"SimpleCQ"}), changeable=False),
    "cleanup.policy": Attribute(frozenset({"DELETE"}), changeable=False),
}
GROUP_ATTRIBUTES: dict[str, Attribute] = {}  # 5.3.3 has none


def refuse(reason: str) -> MQBrokerError:
    return error_for(ResponseCode.SYSTEM_ERROR, reason)


def words_of(text: str) -> dict[str, str]:
    """`+a=1,-b` → `{"+a": "1", "-b": ""}`. Raises MQBrokerError(1)."""
    words: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = (piece.strip() for piece in part.partition("="))
        if part[0] not in "+-" or (part[0] == "+") != bool(separator):
            raise refuse(f"kv string format wrong: {part!r}, takes +key=value or -key")
        if key in words:
            raise refuse(f"key duplication: {key}")
        words[key] = value
    return words


def altered(
    current: Mapping[str, str] | None, words: Mapping[str, str], known: Mapping[str, Attribute]
) -> dict[str, str]:
    """Return the attributes after a request; `current` None when it makes the owner. Raises MQBrokerError(1)."""
    attributes = dict(current or {})
    if len({word[1:] for word in words}) < len(words):
        raise refuse(f"alter duplication key. key: {', '.join(sorted(words))}")
    for word, value in words.items():
        sign, key = word[:1], word[1:]
        if not key or "+" in key or "-" in key:
            raise refuse(f"kv string format wrong: {word!r}, takes +key or -key")
        if sign == "-" and current is None:
            raise refuse(f"only add attribute is supported while creating topic. key: {key}")
        if sign not in ("+", "-"):
            raise refuse(f"wrong format key: {word}, takes +{word} or -{word}")
        if key not in known:
            raise refuse(f"unsupported key: {key}")
        if sign == "-" and key not in attributes:
            raise refuse(f"attempt to delete a nonexistent key: {key}")
        if current is not None and not known[key].changeable:
            raise refuse(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del attributes[key]
        elif value not in known[key].values:
            raise refuse(f"value is not in set: {value}, {key} takes {', '.join(sorted(known[key].values))}")
        else:
            attributes[key] = value
    return attributes
