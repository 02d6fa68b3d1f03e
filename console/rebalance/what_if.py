"""What if: a scenario as pages and REST give it, and its outcomes beside what is now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from console.brokers.mqadmin import MessageQueue
from console.lists.query import whole_number
from console.rebalance.observed.group import TopicOwnership
from console.rebalance.observed.ownership import Member, State
from console.rebalance.simulation import (
    FEWEST_MOVES,
    NEW_CLIENTS_MAX,
    SIMULATED,
    WEIGHT_MAX,
    Move,
    Outcome,
    Scenario,
    moves,
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

    `now` is who owns each queue, `connected` and `new` the ids of the clients, those left out included. `fewest` is the
    fewest moves that give every queue one of these clients, null where none is possible. `unknown`: the queues whose
    owner is unknown.
    """

    scenario: Scenario
    now: Mapping[MessageQueue, tuple[str, ...]]
    connected: tuple[str, ...]
    new: tuple[str, ...]
    without: Collection[str]
    outcomes: tuple[Outcome, ...]
    unknown: frozenset[MessageQueue]

    @property
    def chosen(self) -> Outcome:
        return next(one for one in self.outcomes if one.strategy == self.scenario.strategy)

    @property
    def moves(self) -> Iterator[Move]:
        """Yield the moves of the chosen strategy, by queue."""
        return moves(sorted(self.now), self.now, self.chosen.shares)

    @property
    def fewest(self) -> int | None:
        best = next(one for one in self.outcomes if one.strategy == FEWEST_MOVES)
        return None if best.reason else best.moved

    @property
    def fewest_words(self) -> str:
        return "–" if self.fewest is None else count(self.fewest)

    @property
    def listed(self) -> tuple[SimulatedClient, ...]:
        """The clients with a box: all that are left out, since a form is sent whole, and the first others."""
        left_out = [one for one in self.connected if one in self.without]
        others = (one for one in self.connected if one not in self.without)
        return self._simulated(sorted([*left_out, *islice(others, max(0, CLIENTS_SHOWN - len(left_out)))]))

    @property
    def weighed(self) -> tuple[SimulatedClient, ...]:
        """The clients with a weight of their own; none of many."""
        clients = (*self.connected, *self.new)
        return self._simulated(clients) if len(clients) <= WEIGHTS_SHOWN_MAX else ()

    @property
    def changed(self) -> tuple[SimulatedClient, ...]:
        """The connected clients that are left out, or have another weight than 1."""
        return self._simulated(
            one for one in self.connected if one in self.without or one in self.scenario.weights
        )

    def _simulated(self, clients: Iterable[str]) -> tuple[SimulatedClient, ...]:
        weights = self.scenario.weights
        return tuple(SimulatedClient(one, one not in self.without, weights.get(one, 1)) for one in clients)

    @property
    def is_placeable(self) -> bool:
        """Whether a placement gives this outcome: brokers assign with fewest moves, to clients that exist."""
        return self.scenario.strategy == FEWEST_MOVES and not self.new


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
    ids = tuple(one.client_id for one in members)
    taking = [one for one in ids if one not in without]
    new = new_ids(new_clients)
    scenario = Scenario((*taking, *new), chosen, weights)
    now = {one.queue: one.clients for one in topic.owned}
    return WhatIf(
        scenario=scenario,
        now=now,
        connected=ids,
        new=new,
        without=without,
        outcomes=tuple(simulate(topic.queues, now, scenario)),
        unknown=frozenset(one.queue for one in topic.owned if one.state is State.UNKNOWN),
    )


def new_ids(count: int) -> tuple[str, ...]:
    """Return the ids of so many new clients."""
    return tuple(f"new-{number + 1}" for number in range(count))


def weights_of(given: Mapping[str, str]) -> dict[str, int]:
    """Return the weights that a form has for clients, without those that are 1 or no number."""
    found = {}
    for client_id, text in given.items():
        if text.isascii() and text.isdigit():
            weight = min(whole_number(text), WEIGHT_MAX)
            if weight != 1:
                found[client_id] = weight
    return found


def new_clients_of(text: str) -> int:
    """Return how many new clients a form has, at most `NEW_CLIENTS_MAX`."""
    return min(whole_number(text), NEW_CLIENTS_MAX)
