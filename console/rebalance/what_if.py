"""What if: a scenario as pages and REST give it, and its outcomes beside what is now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from console.brokers.mqadmin import MessageQueue
from console.lists.query import whole_number
from console.rebalance.observed.group import TopicOwnership
from console.rebalance.observed.ownership import Member, State
from console.rebalance.simulation import (
    FEWEST_MOVES,
    NEW_CLIENTS_MAX,
    SIMULATED,
    WEIGHT_MAX,
    Outcome,
    Scenario,
    simulate,
)
from console.text.figures import count

CLIENTS_SHOWN = 50  # with a box to leave them out; REST leaves out any client
WEIGHTS_SHOWN_MAX = 40  # clients with a field of their own; for more REST takes weights


@dataclass(frozen=True, slots=True)
class SimulatedClient:
    """A client of the scenario: connected now or new, taking part or left out."""

    client_id: str
    takes_part: bool
    weight: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A scenario, the outcome of each strategy and of the chosen one.

    `fewest` is the fewest moves that give every queue one of these clients, null where none is possible. `unknown`: the
    queues whose owner is unknown.
    """

    scenario: Scenario
    clients: tuple[SimulatedClient, ...]
    new_clients: int
    outcomes: tuple[Outcome, ...]
    unknown: frozenset[MessageQueue]

    @property
    def chosen(self) -> Outcome:
        return next(one for one in self.outcomes if one.strategy == self.scenario.strategy)

    @property
    def fewest(self) -> int | None:
        best = next(one for one in self.outcomes if one.strategy == FEWEST_MOVES)
        return None if best.reason else len(best.moves)

    @property
    def fewest_words(self) -> str:
        return "–" if self.fewest is None else count(self.fewest)

    @property
    def connected(self) -> tuple[SimulatedClient, ...]:
        return self.clients[: len(self.clients) - self.new_clients]

    @property
    def listed(self) -> tuple[SimulatedClient, ...]:
        """The clients with a box: all that are left out, since a form is sent whole, and the first others."""
        left_out = [one for one in self.connected if not one.takes_part]
        others = [one for one in self.connected if one.takes_part][: max(0, CLIENTS_SHOWN - len(left_out))]
        return tuple(sorted([*left_out, *others], key=lambda one: one.client_id))

    @property
    def is_placeable(self) -> bool:
        """Whether a placement gives this outcome: brokers assign with fewest moves, to clients that exist."""
        return self.scenario.strategy == FEWEST_MOVES and not self.new_clients

    @property
    def has_weights(self) -> bool:
        return len(self.clients) <= WEIGHTS_SHOWN_MAX


def what_if(
    topic: TopicOwnership,
    members: Sequence[Member],
    *,
    strategy: str,
    without: Collection[str] = (),
    new_clients: int = 0,
    weights: Mapping[str, int] | None = None,
) -> WhatIf:
    """Compute a scenario of a topic: its members but those left out, and new ones.

    A `strategy` that is not one of `SIMULATED` is the one of the group, or AVG. New clients are called `new-1` and so
    on and come last in the order of ids, which decides the shares of clients' own strategies.
    """
    weights = weights or {}
    current = topic.expected.strategy if topic.expected is not None else ""
    chosen = next((one for one in (strategy, current) if one in SIMULATED), "AVG")
    ids = [one.client_id for one in members]
    taking = [one for one in ids if one not in without]
    new = [f"new-{number + 1}" for number in range(new_clients)]
    scenario = Scenario((*taking, *new), chosen, weights)
    now = {one.queue: one.clients for one in topic.owned}
    return WhatIf(
        scenario=scenario,
        clients=tuple(SimulatedClient(one, one not in without, weights.get(one, 1)) for one in (*ids, *new)),
        new_clients=new_clients,
        outcomes=tuple(simulate(topic.queues, now, scenario)),
        unknown=frozenset(one.queue for one in topic.owned if one.state is State.UNKNOWN),
    )


def weights_of(client_ids: Collection[str], given: Callable[[str], str]) -> dict[str, int]:
    """Return the weights that a form has for clients, without those that are 1 or no number."""
    found = {}
    for client_id in client_ids:
        text = given(client_id)
        if text.isascii() and text.isdigit():
            weight = min(whole_number(text), WEIGHT_MAX)
            if weight != 1:
                found[client_id] = weight
    return found


def new_clients_of(text: str) -> int:
    """Return how many new clients a form has, at most `NEW_CLIENTS_MAX`."""
    return min(whole_number(text), NEW_CLIENTS_MAX)
