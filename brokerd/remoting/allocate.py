"""Who consumes which queue: the strategies that all members of a group must agree on (semantics §8.2).

Each is given its own client id, all queues of the topic and all client ids, both in order, and returns its own share.
A member that is not in the list gets nothing.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from brokerd.remoting.message.queue import MessageQueue

Queues = Sequence[MessageQueue]
Strategy = Callable[[str, str, Queues, Sequence[str]], list[MessageQueue]]
VIRTUAL_NODES = 10  # AllocateMessageQueueConsistentHash: points on the ring per member
RINGS_MAX = 8  # of as many lists of members; one of 10,000 takes 150 ms to make and 3 MB to keep


def _check(client_id: str, queues: Queues, client_ids: Sequence[str]) -> bool:
    """Whether this member takes part. Raises ValueError for what AbstractAllocateMessageQueueStrategy refuses."""
    if not client_id:
        raise ValueError("the client id is empty")
    if not queues:
        raise ValueError("there are no queues to allocate")
    if not client_ids:
        raise ValueError("there are no members to allocate to")
    return client_id in client_ids


def allocate_averagely(
    group: str, client_id: str, queues: Queues, client_ids: Sequence[str]
) -> list[MessageQueue]:
    """AVG: neighbouring queues; the first members get one more when it does not divide."""
    if not _check(client_id, queues, client_ids):
        return []
    index, members, count = client_ids.index(client_id), len(client_ids), len(queues)
    share, rest = divmod(count, members)
    size = share + (index < rest)
    start = index * size if index < rest else index * share + rest
    return list(queues[start : start + size])


def allocate_averagely_by_circle(
    group: str, client_id: str, queues: Queues, client_ids: Sequence[str]
) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: dealt out like cards."""
    if not _check(client_id, queues, client_ids):
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


def allocate_by_consistent_hash(
    group: str, client_id: str, queues: Queues, client_ids: Sequence[str]
) -> list[MessageQueue]:
    """CONSISTENT_HASH: a member that comes or goes moves few queues."""
    if not _check(client_id, queues, client_ids):
        return []
    ring = _ring(tuple(client_ids))
    return [queue for queue in queues if ring.owners[_next_point(ring, queue)] == client_id]


class _Ring(NamedTuple):
    """Points in their order, and the member of each."""

    points: array[int]
    owners: Sequence[str]


@lru_cache(maxsize=RINGS_MAX)
def _ring(client_ids: tuple[str, ...]) -> _Ring:
    """Place the members; of equal points it is the last member's."""
    owner_at = {}
    for member in client_ids:
        for node in range(VIRTUAL_NODES):
            owner_at[_ring_hash(f"{member}-{node}")] = member
    points = sorted(owner_at)
    return _Ring(array("L", points), [owner_at[point] for point in points])


def _next_point(ring: _Ring, queue: MessageQueue) -> int:
    """Return the place on the ring of the point that a queue falls to."""
    name = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
    return bisect_left(ring.points, _ring_hash(name)) % len(ring.points)


def _ring_hash(key: str) -> int:
    digest = hashlib.md5(key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


STRATEGIES: dict[str, Strategy] = {
    "AVG": allocate_averagely,
    "AVG_BY_CIRCLE": allocate_averagely_by_circle,
    "CONSISTENT_HASH": allocate_by_consistent_hash,
}


def assign_server_side(
    queues: Queues, client_ids: Sequence[str], strategy: str = "AVG"
) -> dict[str, list[MessageQueue]]:
    """Return the share of every member at once: {client id: queues}. Raises KeyError for an unknown strategy.

    The same as each member's strategy, in one pass: thousands of members request it at the same moment.
    """
    members, ordered = sorted(set(client_ids)), sorted(queues)
    divide = DIVISIONS[strategy]
    if not ordered or not members:
        return {member: [] for member in members}
    return divide(ordered, members)


def _divide_averagely(queues: Queues, members: Sequence[str]) -> dict[str, list[MessageQueue]]:
    share, rest = divmod(len(queues), len(members))
    divided, start = {}, 0
    for index, member in enumerate(members):
        end = start + share + (index < rest)
        divided[member] = list(queues[start:end])
        start = end
    return divided


def _divide_by_circle(queues: Queues, members: Sequence[str]) -> dict[str, list[MessageQueue]]:
    return {member: list(queues[index :: len(members)]) for index, member in enumerate(members)}


def _divide_by_consistent_hash(queues: Queues, members: Sequence[str]) -> dict[str, list[MessageQueue]]:
    ring = _ring(tuple(members))
    divided: dict[str, list[MessageQueue]] = {member: [] for member in members}
    for queue in queues:
        divided[ring.owners[_next_point(ring, queue)]].append(queue)
    return divided


def heirs_by_consistent_hash(queues: Queues, client_ids: Collection[str]) -> dict[MessageQueue, str]:
    """Return whom each queue falls to when its member alone leaves the list (CONSISTENT_HASH)."""
    ring = _ring(tuple(sorted(set(client_ids))))
    heirs = {}
    for queue in queues:
        first = _next_point(ring, queue)
        owners = (ring.owners[(first + step) % len(ring.owners)] for step in range(len(ring.owners)))
        owner = next(owners)
        if (heir := next((other for other in owners if other != owner), None)) is not None:
            heirs[queue] = heir
    return heirs


DIVISIONS: dict[str, Callable[[Queues, Sequence[str]], dict[str, list[MessageQueue]]]] = {
    "AVG": _divide_averagely,
    "AVG_BY_CIRCLE": _divide_by_circle,
    "CONSISTENT_HASH": _divide_by_consistent_hash,
}


def machine_room(broker_name: str) -> str:
    """Return `room` of a broker called `room@name`, "" without one (AllocateMessageQueueByMachineRoom)."""
    room, at, name = broker_name.partition("@")
    return room if at and name and "@" not in name else ""


def divide_by_machine_room(
    queues: Queues, client_ids: Sequence[str], rooms: Collection[str]
) -> dict[str, list[MessageQueue]]:
    """MACHINE_ROOM: the queues of brokers in these rooms; those of all other brokers have no owner.

    The rest of an uneven division goes one by one to the first members, from the end of the queues.
    """
    members = sorted(set(client_ids))
    taken = [queue for queue in sorted(queues) if machine_room(queue.broker_name) in rooms]
    share, rest = divmod(len(taken), len(members)) if members else (0, 0)
    divided = {}
    for index, member in enumerate(members):
        divided[member] = taken[index * share : (index + 1) * share]
        if index < rest:
            divided[member].append(taken[share * len(members) + index])
    return divided


def divide_by_nearest_room(
    queues: Queues, room_of: Mapping[str, str], strategy: str = "AVG"
) -> dict[str, list[MessageQueue]]:
    """MACHINE_ROOM_NEARBY: members read the queues of their own room, and all share rooms without a member.

    `room_of`: client id → room. Raises ValueError for a broker or member without a room (AllocateMachineRoomNearby).
    """
    members_of: dict[str, list[str]] = defaultdict(list)
    queues_of: dict[str, list[MessageQueue]] = defaultdict(list)
    for client_id, room in sorted(room_of.items()):
        members_of[room].append(client_id)
    for queue in sorted(queues):
        queues_of[machine_room(queue.broker_name)].append(queue)
    if "" in members_of or "" in queues_of:
        raise ValueError("a broker or a member is in no machine room")
    divided: dict[str, list[MessageQueue]] = {client_id: [] for client_id in sorted(room_of)}
    # Java allocates the member's own room first, then the others in their order.
    for room in sorted(queues_of, key=lambda room: (room not in members_of, room)):
        for client_id, share in assign_server_side(
            queues_of[room], members_of.get(room, list(room_of)), strategy
        ).items():
            divided[client_id] += share
    return divided
