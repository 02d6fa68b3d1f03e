"""Server-side assignment with pins, drained clients, weights and a canary: who gets which queue, with few moves. Pure.

The console and every broker compute it from the same values, so that a member which joins or leaves moves the same
queues whether the console is there or not (docs/wire-extensions.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace

from brokerd.remoting.message.queue import MessageQueue

Owners = Mapping[MessageQueue, Collection[str]]
Division = dict[str, list[MessageQueue]]


@dataclass(frozen=True, slots=True)
class Placement:
    """What an operator wants of the division of a topic.

    `weights`: 1 for a client that is not named. `canary_version`: MQVersion ordinal of the clients that together get
    `canary_percent` of the queues; 0 is none.
    """

    pins: Mapping[MessageQueue, str] = field(default_factory=dict)  # queue → client id
    drained: frozenset[str] = frozenset()
    weights: Mapping[str, int] = field(default_factory=dict)
    canary_version: int = 0
    canary_percent: int = 0

    def __bool__(self) -> bool:
        return bool(self.pins or self.drained or self.weights or self.canary_version)

    def active(self, client_ids: Iterable[str]) -> list[str]:
        """Return the members that get queues: all but drained ones, or all where no other is left."""
        members = sorted(set(client_ids))
        return [one for one in members if one not in self.drained] or members


def place(
    queues: Sequence[MessageQueue],
    client_ids: Iterable[str],
    before: Mapping[str, Iterable[MessageQueue]],
    placement: Placement,
    versions: Mapping[str, int] | None = None,
) -> Division:
    """Return the share of every member, with as few moves as possible from the division `before`.

    A pin counts while its client is a member that gets queues. `versions`: client id → MQVersion ordinal.
    """
    members = sorted(set(client_ids))
    if not members or not queues:
        return {member: [] for member in members}
    active = placement.active(members)
    held: dict[MessageQueue, list[str]] = {}
    for client_id, share in before.items():
        for queue in share:
            held.setdefault(queue, []).append(client_id)
    own = set(queues)
    pins = {queue: one for queue, one in placement.pins.items() if queue in own and one in active}
    canaries = {one for one in active if (versions or {}).get(one) == placement.canary_version}
    percent = placement.canary_percent if placement.canary_version else 0
    shares = fewest_moves(queues, active, held, placement.weights, pins, _split(active, canaries, percent))
    return {member: shares.get(member, []) for member in members}


@dataclass(frozen=True, slots=True)
class Canary:
    """Members that together get a percentage of the queues."""

    members: frozenset[str]
    percent: int


def _split(active: Sequence[str], canaries: Collection[str], percent: int) -> Canary | None:
    """Return the canary; None where all or none of the members belong to it."""
    if not percent or not canaries or len(canaries) == len(active):
        return None
    return Canary(frozenset(canaries), percent)


def fewest_moves(
    queues: Sequence[MessageQueue],
    clients: Sequence[str],
    now: Owners,
    weights: Mapping[str, int],
    pins: Mapping[MessageQueue, str] | None = None,
    canary: Canary | None = None,
) -> Division:
    """Give every queue one client, as even as weights allow, so that as few queues as possible change owners.

    A queue that one of the clients owns alone stays while its share has room; a queue with two owners changes in any
    case, and stays with one of both where it can. Clients of weight 0 get nothing but their `pins`.
    """
    ordered, members = sorted(queues), sorted(set(clients))
    pins = pins or {}
    pinned = Counter(pins.values())
    owners = {queue: sorted(now.get(queue, ())) for queue in ordered}
    held = Counter(one[0] for one in owners.values() if len(one) == 1)
    room = _room(len(ordered), members, held, weights, pinned, canary)
    divided: Division = {member: [] for member in members}
    left = []
    for queue, member in pins.items():
        divided[member].append(queue)
        room[member] -= 1
    free = [queue for queue in ordered if queue not in pins]
    for queue in sorted(free, key=lambda queue: len(owners[queue]) != 1):
        keeper = next((one for one in owners[queue] if room.get(one)), None)
        if keeper is None:
            left.append(queue)
            continue
        divided[keeper].append(queue)
        room[keeper] -= 1
    widest = [(-room[member], at) for at, member in enumerate(members)]
    heapify(widest)
    for queue in left:
        taken, at = widest[0]
        divided[members[at]].append(queue)
        heapreplace(widest, (taken + 1, at))
    return {member: sorted(share) for member, share in divided.items()}


def _room(
    count: int,
    members: Sequence[str],
    held: Mapping[str, int],
    weights: Mapping[str, int],
    pinned: Mapping[str, int],
    canary: Canary | None,
) -> dict[str, int]:
    """Return how many queues each member gets, those pinned to it included.

    The canary's part is rounded to whole queues, at least one; pins on either side come first.
    """
    if canary is None:
        return _quotas(count, members, held, weights, pinned)
    inside = [one for one in members if one in canary.members]
    outside = [one for one in members if one not in canary.members]
    least = sum(pinned.get(one, 0) for one in inside)
    most = count - sum(pinned.get(one, 0) for one in outside)
    part = min(max(1, (count * canary.percent + 50) // 100, least), most)
    return _quotas(part, inside, held, weights, pinned) | _quotas(
        count - part, outside, held, weights, pinned
    )


def _quotas(
    count: int,
    members: Sequence[str],
    held: Mapping[str, int],
    weights: Mapping[str, int],
    pinned: Mapping[str, int],
) -> dict[str, int]:
    """Return quotas by weight; a member with more pins than its quota keeps them, the others share what is left."""
    fixed: dict[str, int] = {}
    while True:
        free = [one for one in members if one not in fixed]
        quotas = _proportional(count - sum(fixed.values()), free, held, weights)
        over = {one: pinned[one] for one in free if pinned.get(one, 0) > quotas[one]}
        if not over:
            return quotas | fixed
        fixed |= over


def _proportional(
    count: int, members: Sequence[str], held: Mapping[str, int], weights: Mapping[str, int]
) -> dict[str, int]:
    """Return how many queues each member gets: in proportion to its weight, the rest by the largest remainder.

    Of equal remainders one more goes to who holds more than its share already.
    """
    weight = {member: weights.get(member, 1) for member in members}
    whole = sum(weight.values())
    quotas = {member: count * weight[member] // whole for member in members}
    by_need = sorted(
        (member for member in members if weight[member]),
        key=lambda one: (-(count * weight[one] % whole), held.get(one, 0) <= quotas[one], one),
    )
    for member in by_need[: count - sum(quotas.values())]:
        quotas[member] += 1
    return quotas
