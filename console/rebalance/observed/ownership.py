"""Who reads which queue of a topic, as members report it, and what their strategy gives them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from console.brokers.mqadmin import STRATEGIES, MessageQueue, assign_server_side, heirs_by_consistent_hash
from console.text import Text

DEFAULT_STRATEGY = "AVG"  # of every RocketMQ client
Shares = Mapping[str, Collection[MessageQueue]]


class State(StrEnum):
    """Who owns a queue, by the reports of all members."""

    ONE = "ONE"
    NONE = "NONE"
    TWO = "TWO"  # two members or more
    LAST_KNOWN = "LAST_KNOWN"  # the last report of a member that does not answer
    UNKNOWN = "UNKNOWN"  # a member that does not answer may own it


class Member(msgspec.Struct, frozen=True):
    """A connected client. `queues` None: it did not answer; `last_known` is then what it held before.

    `topics`: topic → what it subscribes to of it. `strategy` "" is not reported. A struct, not a dataclass, as `Owned`
    is: a group may have 10,000, and a page makes all in a third of the time.
    """

    client_id: str
    queues: frozenset[MessageQueue] | None
    reported_at_ms: int
    topics: Mapping[str, str] = {}
    version: str = ""
    language: str = ""
    strategy: str = ""
    last_known: frozenset[MessageQueue] = frozenset()
    last_known_at_ms: int | None = None
    reason: Text = Text()
    started_at_ms: int | None = None


class Owned(msgspec.Struct, frozen=True):
    """A queue and its owners: one, several, the last known one, or none."""

    queue: MessageQueue
    state: State
    clients: tuple[str, ...] = ()


class Source(StrEnum):
    """How the strategy of a group is known."""

    SERVER = "SERVER"  # this console assigns
    REPORTED = "REPORTED"  # every member that reports one names it
    FITS = "FITS"  # what members hold is what it gives them
    ASSUMED = "ASSUMED"  # the default of clients


@dataclass(frozen=True, slots=True)
class Expected:
    """What each member should hold of a topic."""

    strategy: str
    source: Source
    shares: Shares

    def owner_of(self) -> dict[MessageQueue, str]:
        """Return the member that each queue falls to."""
        return {queue: client_id for client_id, share in self.shares.items() for queue in share}


def owned(
    queues: Sequence[MessageQueue],
    members: Collection[Member],
    *,
    are_members_known: bool = True,
    silent_brokers: Collection[str] = (),
) -> list[Owned]:
    """Return the owners of queues. `are_members_known` false: a broker that may list members is silent.

    Of two members that claim a queue the newer report counts; two of one sweep both own it. Clients leave the queues of
    a silent broker: without an owner these are unknown.
    """
    claims: dict[MessageQueue, list[Member]] = {}
    last_known: dict[MessageQueue, str] = {}
    for member in members:
        for queue in member.queues or ():
            claims.setdefault(queue, []).append(member)
        for queue in member.last_known if member.queues is None else ():
            last_known[queue] = member.client_id
    are_all_known = are_members_known and all(one.queues is not None for one in members)
    return [
        _owned(
            queue,
            claims.get(queue, []),
            last_known.get(queue),
            are_all_known and queue.broker_name not in silent_brokers,
        )
        for queue in queues
    ]


def _owned(queue: MessageQueue, claims: Sequence[Member], last_known: str | None, is_certain: bool) -> Owned:
    if len(claims) == 1:
        return Owned(queue, State.ONE, (claims[0].client_id,))
    if claims:
        newest = max(one.reported_at_ms for one in claims)
        ids = tuple(sorted(one.client_id for one in claims if one.reported_at_ms == newest))
        return Owned(queue, State.ONE if len(ids) == 1 else State.TWO, ids)
    if last_known is not None:
        return Owned(queue, State.LAST_KNOWN, (last_known,))
    return Owned(queue, State.NONE if is_certain else State.UNKNOWN)


def shares(strategy: str, queues: Sequence[MessageQueue], client_ids: Iterable[str]) -> Shares | None:
    """Return what a client strategy gives each member; None for one that is not known from names alone."""
    return assign_server_side(queues, list(client_ids), strategy) if strategy in STRATEGIES else None


def expected(queues: Sequence[MessageQueue], members: Collection[Member]) -> Expected | None:
    """Return what members should hold by their strategy; None where members do not agree on one that is known.

    All members of a group count, whatever they subscribe to: RocketMQ's clients divide by the list of the group.
    Without a report, it is the strategy that gives every member what it holds, else clients' default.
    """
    ids = [one.client_id for one in members]
    reported = {one.strategy for one in members if one.strategy}
    if reported:
        name = reported.pop()
        given = None if reported else shares(name, queues, ids)
        return None if given is None else Expected(name, Source.REPORTED, given)
    if not ids or not queues:
        return None
    if all(one.queues is not None for one in members):
        of_topic = frozenset(queues)
        mine = {one.client_id: held(one, of_topic) for one in members}
        for name in STRATEGIES:
            given = assign_server_side(queues, ids, name)
            if all(mine[client_id] == set(share) for client_id, share in given.items()):
                return Expected(name, Source.FITS, given)
    default = assign_server_side(queues, ids, DEFAULT_STRATEGY)
    return Expected(DEFAULT_STRATEGY, Source.ASSUMED, default)


def held(member: Member, queues: Set[MessageQueue]) -> Set[MessageQueue]:
    """Return what a member reports of some queues."""
    return (member.queues or frozenset()) & queues


def missing_in_lists(
    queues: Sequence[MessageQueue], members: Iterable[Member], client_ids: Iterable[str], strategy: str
) -> dict[str, str]:
    """Return the client without which each member must have divided to hold what it holds, where one explains it.

    A member whose broker returned a list of the group without that client computes other shares than all others. The
    group is divided once and not for each pair of members: it may have 10,000.
    """
    ids, of_topic = sorted(set(client_ids)), frozenset(queues)
    given = shares(strategy, queues, ids)
    if given is None:
        return {}
    wrong = {
        one.client_id: mine
        for one in members
        if (mine := held(one, of_topic)) and mine != set(given[one.client_id])
    }
    if not wrong or len(ids) < 2:
        return {}
    return (_missing_on_ring if strategy == "CONSISTENT_HASH" else _missing_before_or_behind)(
        queues, wrong, given, strategy
    )


Wrong = Mapping[str, Set[MessageQueue]]  # client id → what it holds


def _missing_before_or_behind(
    queues: Sequence[MessageQueue], wrong: Wrong, given: Shares, strategy: str
) -> dict[str, str]:
    """Shares depend on a member's place alone, which a client missing before it moves by one."""
    ids = list(given)
    fewer = list(assign_server_side(queues, ids[1:], strategy).values())
    found = {}
    for at, client_id in enumerate(ids):
        if client_id in wrong:
            if at > 0 and wrong[client_id] == set(fewer[at - 1]):
                found[client_id] = ids[0]
            elif at < len(fewer) and wrong[client_id] == set(fewer[at]):
                found[client_id] = ids[at + 1]
    return found


def _missing_on_ring(
    queues: Sequence[MessageQueue], wrong: Wrong, given: Shares, strategy: str
) -> dict[str, str]:
    """A missing client's queues fall to the next ones on the ring; all others stay where they are."""
    owner = {queue: client_id for client_id, share in given.items() for queue in share}
    inherited: dict[tuple[str, str], set[MessageQueue]] = defaultdict(set)
    for queue, heir in heirs_by_consistent_hash(queues, list(given)).items():
        inherited[owner[queue], heir].add(queue)
    found = {}
    for client_id, mine in wrong.items():
        more = mine - set(given[client_id])
        absent = owner[next(iter(more))] if more else ""
        if mine == inherited.get((absent, client_id), set()).union(given[client_id]):
            found[client_id] = absent
    return found
