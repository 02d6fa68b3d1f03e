"""What clients reported of themselves at the last sweep, without an object of each row: a group may have 10,000."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from console.lag.models import ClientRow
from console.lag.rows.popped import HeldQueue

Subscription: TypeAlias = Mapping[str, Mapping[str, str | None]]
Made = TypeVar("Made")
HELD = msgspec.json.Decoder(list[HeldQueue] | None)
SUBSCRIPTION = msgspec.json.Decoder(dict[str, dict[str, str | None]])


def held_by(rows: QuerySet[ClientRow], *fields: Any) -> Iterator[tuple[Any, ...]]:
    """Yield of each row the queues that the client holds, None where it did not answer, and these fields."""
    for held, *others in rows.values_list(Cast("queues", TextField()), *fields):
        yield None if held is None else HELD.decode(held), *others


def reports(
    rows: QuerySet[ClientRow], made: Callable[[Subscription], Made], *fields: Any
) -> Iterator[tuple[Any, ...]]:
    """Yield of each row what `held_by` does, with what is `made` of its subscription before these fields.

    Most members of a group subscribe to the same: what is made of that is one object.
    """
    known: dict[str, Made] = {}
    for held, subscribed, *others in held_by(rows, Cast("subscription", TextField()), *fields):
        if subscribed not in known:
            known[subscribed] = made(SUBSCRIPTION.decode(subscribed))
        yield held, known[subscribed], *others
