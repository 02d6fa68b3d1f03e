"""What a broker refuses consumer groups, read from its table of groups (201)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerd.remoting.codes import READ_REFUSED
from brokerd.remoting.errors import BodyError


@dataclass(frozen=True, slots=True)
class GroupRefusals:
    """`topics`: group → topics it may not read (353), None where the release has no such list (4.x).

    `groups`: those that may not consume at all (consumeEnable false). `names`: every group of the table.
    """

    topics: Mapping[str, frozenset[str]] | None
    groups: frozenset[str]
    names: frozenset[str] = frozenset()

    def refuse(self, group: str, topic: str) -> bool:
        """Return whether the broker gives the group nothing of the topic."""
        return group in self.groups or topic in (self.topics or {}).get(group, ())


def group_refusals(table: Any) -> GroupRefusals:
    """Build them from the parsed body of 201. Raises BodyError."""
    try:
        forbidden, configs = table.get("forbiddenTable"), table.get("subscriptionGroupTable") or {}
        return GroupRefusals(
            topics=None if forbidden is None else read_forbidden(forbidden),
            groups=frozenset(name for name, one in configs.items() if one.get("consumeEnable") is False),
            names=frozenset(configs),
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise BodyError(f"SubscriptionGroupWrapper: {error}") from error


def read_forbidden(table: Mapping[str, Mapping[str, int]]) -> dict[str, frozenset[str]]:
    """Return forbiddenTable as group → topics that may not be read. Java takes a negative value for none."""
    found = {
        group: frozenset(
            topic for topic, bits in topics.items() if int(bits) > 0 and int(bits) & READ_REFUSED
        )
        for group, topics in table.items()
    }
    return {group: topics for group, topics in found.items() if topics}
