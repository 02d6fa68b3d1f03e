"""What if: who gets which queue with other clients, another strategy or weights, and what moves. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from console.brokers.mqadmin import (
    MessageQueue,
    assign_server_side,
    divide_by_machine_room,
    divide_by_nearest_room,
    fewest_moves,
    machine_room,
)
from console.text import Text

FEWEST_MOVES = "FEWEST_MOVES"
MACHINE_ROOM = "MACHINE_ROOM"
MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"
SIMULATED = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", MACHINE_ROOM, MACHINE_ROOM_NEARBY, FEWEST_MOVES)
NEW_CLIENTS_MAX = 50
WEIGHT_MAX = 100
Owners = Mapping[MessageQueue, Collection[str]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The clients that would be members, their strategy, and weights by client id, 1 where none is given.

    Only `FEWEST_MOVES` has weights: clients' own strategies have none.
    """

    clients: tuple[str, ...]
    strategy: str
    weights: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Move:
    """A queue whose owners change; `to` "" is none."""

    queue: MessageQueue
    owners: tuple[str, ...]
    to: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy gives each client. `reason`: why it does not apply, `shares` is then {}.

    `moved` counts queues whose owners change (`moves` has them), `without_owner` those that no client gets.
    """

    strategy: str
    shares: Mapping[str, Sequence[MessageQueue]]
    moved: int = 0
    without_owner: int = 0
    reason: Text = Text()

    @property
    def smallest(self) -> int:
        return min(map(len, self.shares.values()), default=0)

    @property
    def largest(self) -> int:
        return max(map(len, self.shares.values()), default=0)


def simulate(queues: Sequence[MessageQueue], now: Owners, scenario: Scenario) -> list[Outcome]:
    """Return the outcome of every strategy for the clients of a scenario, in the order of `SIMULATED`.

    `now` is who owns each queue; a queue without an entry has no owner.
    """
    ordered, clients = sorted(queues), sorted(set(scenario.clients))
    rooms = rooms_of(ordered)
    owner_of = {queue: _only(now.get(queue, ())) for queue in ordered}
    found = []
    for strategy in SIMULATED:
        if reason := _inapplicable(strategy, rooms, clients, scenario.weights):
            found.append(Outcome(strategy, {}, reason=reason))
            continue
        shares = _shares(strategy, ordered, rooms, clients, now, scenario)
        stay = sum(owner_of[queue] == client for client, share in shares.items() for queue in share)
        without = len(ordered) - sum(map(len, shares.values()))
        if without:
            stay += sum(owner_of[queue] == "" for queue in set(ordered).difference(*shares.values()))
        found.append(Outcome(strategy, shares, len(ordered) - stay, without))
    return found


def _only(owners: Collection[str]) -> str | None:
    """Return the owner of a queue, "" where it has none, None where it has several."""
    return next(iter(owners), "") if len(owners) < 2 else None


def _inapplicable(
    strategy: str, rooms: Collection[str], clients: Sequence[str], weights: Mapping[str, int]
) -> Text:
    """Return why a strategy cannot be computed, "" where it can."""
    if not clients:
        return Text("no client is chosen")
    if not rooms:
        return Text("the topic has no queue")
    if strategy == FEWEST_MOVES and not any(weights.get(one, 1) for one in clients):
        return Text("every client has weight 0")
    if strategy in (MACHINE_ROOM, MACHINE_ROOM_NEARBY) and "" in rooms:
        return Text("no machine room in broker names (room@broker)")
    if strategy == MACHINE_ROOM_NEARBY and any(not room_of_client(one, rooms) for one in clients):
        return Text("no machine room in client ids (room@…)")
    return Text()


def rooms_of(queues: Iterable[MessageQueue]) -> set[str]:
    """Return the machine rooms of brokers; "" is that of a broker without one."""
    return {machine_room(name) for name in {queue.broker_name for queue in queues}}


def room_of_client(client_id: str, rooms: Collection[str]) -> str:
    """Return the room that a client id begins with (`room@…` or `room-…`), "" without one.

    Where a client is, its own resolver decides (AllocateMachineRoomNearby); this is the convention of its examples.
    """
    found = [room for room in rooms if room and client_id.startswith((f"{room}@", f"{room}-"))]
    return max(found, key=len, default="")


def _shares(
    strategy: str,
    queues: Sequence[MessageQueue],
    rooms: Collection[str],
    clients: Sequence[str],
    now: Owners,
    scenario: Scenario,
) -> dict[str, list[MessageQueue]]:
    if strategy == FEWEST_MOVES:
        return fewest_moves(queues, clients, now, scenario.weights)
    if strategy == MACHINE_ROOM:
        return divide_by_machine_room(queues, clients, rooms)
    if strategy == MACHINE_ROOM_NEARBY:
        return divide_by_nearest_room(queues, {one: room_of_client(one, rooms) for one in clients})
    return assign_server_side(queues, clients, strategy)


def moves(
    queues: Iterable[MessageQueue], now: Owners, shares: Mapping[str, Iterable[MessageQueue]]
) -> Iterator[Move]:
    """Yield the queues whose owners change: each needs exactly the one that it gets."""
    owner_of = {queue: client_id for client_id, share in shares.items() for queue in share}
    for queue in queues:
        owners, to = tuple(sorted(now.get(queue, ()))), owner_of.get(queue, "")
        if owners != ((to,) if to else ()):
            yield Move(queue, owners, to)
