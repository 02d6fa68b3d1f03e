"""Parameters of the plan kind ``group_placement``, and what its plans keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.lag.collect.version import version_ordinal
from console.operation.errors import PlanRejected
from console.operation.plan.params import Accepted, Given, Parameter, Params
from console.rebalance.rules import KeptPlacement, queue_of
from console.text import Text
from console.text.stored import Stored

WEIGHT_MAX = 100
CLIENTS_MAX = 200

ACCEPTED = Accepted(
    "GroupPlacementParams",
    "The whole placement of a topic: what is not named is no longer in force.",
    (
        Parameter("topic", required=True),
        Parameter("pins", dict, help_text="queue → client id, as broker-a/3: 10.0.0.5@blue"),
        Parameter(
            "drained",
            tuple,
            most=CLIENTS_MAX,
            help_text="client ids that get no queue while other clients exist",
        ),
        Parameter("weights", dict, help_text="client id → share, 1 to 100; 1 for a client not named"),
        Parameter("canary_version", help_text="release of clients, as 5.3.3"),
        Parameter(
            "canary_share",
            int,
            least=1,
            most=99,
            help_text="percent of the queues for clients of canary_version together",
        ),
    ),
)


class PlacementParams(Params, frozen=True, kw_only=True):
    """A placement, read; weights are texts, as requests give them."""

    topic: str = ""
    pins: Mapping[str, str] = {}
    drained: tuple[str, ...] = ()
    weights: Mapping[str, str] = {}
    canary_version: str = ""
    canary_share: int = 0

    @property
    def placement(self) -> KeptPlacement:
        """The placement, as rows keep it."""
        return KeptPlacement(
            pins=dict(sorted(self.pins.items())),
            drained=tuple(sorted(self.drained)),
            weights={client: int(weight) for client, weight in sorted(self.weights.items())},
            canary_version=self.canary_version,
            canary_share=self.canary_share,
        )

    @classmethod
    def of(cls, topic: str, placement: KeptPlacement) -> PlacementParams:
        """Return the parameters that put a placement into force."""
        return cls(
            topic=topic,
            pins=placement.pins,
            drained=placement.drained,
            weights={client: str(weight) for client, weight in placement.weights.items()},
            canary_version=placement.canary_version,
            canary_share=placement.canary_share,
        )


def read_placement(given: Given) -> PlacementParams:
    """Read the parameters. Raises PlanRejected(field)."""
    found = PlacementParams(**given.read(ACCEPTED))
    for client, weight in found.weights.items():
        if not (weight.isascii() and weight.isdigit() and 1 <= int(weight[:9]) <= WEIGHT_MAX):
            raise PlanRejected(
                Text(
                    "The weight of %(client)s must be a whole number from 1 to %(most)s.",
                    client=client,
                    most=WEIGHT_MAX,
                ),
                "weights",
            )
    for word, client in found.pins.items():
        try:
            queue_of(found.topic, word)
        except ValueError as error:
            text = Text("%(word)s is not a queue. Enter broker/queue id, for example broker-a/3.", word=word)
            raise PlanRejected(text, "pins") from error
        if client in found.drained:
            text = Text("%(client)s is drained and cannot have a pinned queue.", client=client)
            raise PlanRejected(text, "pins")
    if bool(found.canary_version) != bool(found.canary_share):
        raise PlanRejected(Text("A canary has a version and a share."), "canary_share")
    if found.canary_version:
        try:
            version_ordinal(found.canary_version)
        except ValueError as error:
            raise PlanRejected(Text("Enter a release like 5.3.3."), "canary_version") from error
    return found


class PlacementBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """What a plan was computed from."""

    placement: KeptPlacement
    placed_at_ms: int
    members: tuple[str, ...]
    queues: tuple[str, ...]
    read_at_ms: int


class PlacementRow(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """A queue of a plan: who reads it, and who is to."""

    broker_name: str
    queue_id: int
    before: tuple[str, ...]
    after: str
    is_pinned: bool

    @property
    def moves(self) -> bool:
        """Whether its owner changes."""
        return self.before != ((self.after,) if self.after else ())


@dataclass(frozen=True, slots=True)
class ClientShare:
    """How many queues a client reads, and is to."""

    client_id: str
    before: int
    after: int

    @property
    def delta(self) -> int:
        """How many more."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class PlacementSums:
    """The rows of a plan, those that move first, and what they make of each client's share."""

    moves: tuple[PlacementRow, ...]
    stays: tuple[PlacementRow, ...]
    clients: tuple[ClientShare, ...]

    @property
    def before(self) -> str:
        """The smallest and the largest share now."""
        return _span([one.before for one in self.clients])

    @property
    def after(self) -> str:
        """The smallest and the largest share then."""
        return _span([one.after for one in self.clients])


def placement_sums(rows: Sequence[PlacementRow], members: Sequence[str]) -> PlacementSums:
    """Return what rows make of the shares of these members. A queue with two owners counts for both."""
    before = Counter(client for row in rows for client in row.before)
    after = Counter(row.after for row in rows if row.after)
    return PlacementSums(
        tuple(row for row in rows if row.moves),
        tuple(row for row in rows if not row.moves),
        tuple(ClientShare(one, before[one], after[one]) for one in sorted({*members, *before, *after})),
    )


def _span(shares: Sequence[int]) -> str:
    return f"{min(shares, default=0)}–{max(shares, default=0)}"


class PlacementResult(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """What a job found: queues whose clients report them as planned, of all, and how long they took."""

    followed: int = 0
    queues: int = 0
    followed_ms: int | None = None
