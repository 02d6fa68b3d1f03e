"""The form of a placement: what a page shows of it and what it sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from django.http import QueryDict

from console.brokers.mqadmin import MessageQueue
from console.operation.plan.params import RawParams
from console.rebalance.observed.group import TopicOwnership
from console.rebalance.observed.ownership import Member
from console.rebalance.rules import KeptPlacement, queue_word

# Fields of queues: every pinned one has its own, since a form that is sent replaces the placement. REST and the command
# line pin any queue.
PINS_SHOWN = 128
CLIENTS_SHOWN = 100  # rows of clients, by the same rule


@dataclass(frozen=True, slots=True)
class Wanted:
    """A placement as a form holds it: numbers are texts, which the plan checks."""

    pins: dict[str, str]
    drained: tuple[str, ...]
    weights: dict[str, str]
    canary_version: str
    canary_share: str

    @classmethod
    def of(cls, placement: KeptPlacement) -> Wanted:
        """Return the form of a placement."""
        return cls(
            dict(placement.pins),
            placement.drained,
            {client: str(weight) for client, weight in placement.weights.items()},
            placement.canary_version,
            str(placement.canary_share or ""),
        )

    @classmethod
    def sent(cls, fields: QueryDict) -> Wanted:
        """Return what was sent. A client of weight 0 is drained: what if has that weight, a placement has not."""
        weights = prefixed(fields, "weight:")
        idle = {client for client, weight in weights.items() if weight == "0"}
        return cls(
            prefixed(fields, "pin:"),
            tuple(sorted({*fields.getlist("drain"), *idle})),
            {client: weight for client, weight in weights.items() if weight not in ("0", "1")},
            fields.get("canary_version", "").strip(),
            fields.get("canary_share", "").strip(),
        )

    def params(self, topic: str) -> RawParams:
        """Return the parameters of the plan."""
        share = self.canary_share
        given: dict[str, object] = {
            "topic": topic,
            "pins": self.pins,
            "drained": self.drained,
            "weights": self.weights,
        }
        if self.canary_version:
            given["canary_version"] = self.canary_version
        if share:
            given["canary_share"] = int(share) if share.isascii() and share.isdigit() else share
        return given


def prefixed(fields: QueryDict, prefix: str) -> dict[str, str]:
    """Return the fields with a value whose names begin so, by the rest of their names."""
    found = {
        name.removeprefix(prefix): fields.get(name, "").strip() for name in fields if name.startswith(prefix)
    }
    return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class ClientFields:
    """A client of the form; `version` "" for one that is away."""

    client_id: str
    version: str
    is_away: bool
    is_drained: bool
    weight: str


@dataclass(frozen=True, slots=True)
class PinField:
    """A queue of the form: `word` like broker-a/3, and the client it is pinned to, ""  for none."""

    word: str
    queue: MessageQueue
    client_id: str


@dataclass(frozen=True, slots=True)
class PlacementForm:
    """What the form shows; `unlisted`: queues without a field, `unlisted_clients`: clients without a row."""

    topic: str
    clients: tuple[ClientFields, ...]
    pins: tuple[PinField, ...]
    unlisted: int
    unlisted_clients: int
    versions: tuple[str, ...]
    wanted: Wanted

    @property
    def pinned(self) -> int:
        """Return how many queues are pinned."""
        return sum(bool(one.client_id) for one in self.pins)


def placement_form(topic: TopicOwnership, members: Sequence[Member], wanted: Wanted) -> PlacementForm:
    """Return the form of a topic: its members, clients that the placement names, and its queues, pinned ones first."""
    versions = {one.client_id: one.version for one in members}
    named = {*wanted.pins.values(), *wanted.drained, *wanted.weights}
    queues = topic.queues
    # few are pinned, and a topic may have 10,000
    pinned = {one for one in queues if wanted.pins.get(queue_word(one))} if wanted.pins else set()
    others = islice((one for one in queues if one not in pinned), max(0, PINS_SHOWN - len(pinned)))
    pins = [
        PinField(queue_word(one), one, wanted.pins.get(queue_word(one), "")) for one in [*pinned, *others]
    ]
    unnamed = sorted(versions.keys() - named)
    first = unnamed[: max(0, CLIENTS_SHOWN - len(named))]
    return PlacementForm(
        topic.topic,
        tuple(
            ClientFields(
                client_id,
                versions.get(client_id, ""),
                client_id not in versions,
                client_id in wanted.drained,
                wanted.weights.get(client_id, "1"),
            )
            for client_id in sorted({*first, *named})
        ),
        tuple(sorted(pins, key=lambda one: one.queue)),
        len(queues) - len(pins),
        len(unnamed) - len(first),
        tuple(sorted({one for one in versions.values() if one})),
        wanted,
    )
