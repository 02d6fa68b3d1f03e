"""Who should hold which queue, who reports it, and what is wrong. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from console.brokers.mqadmin import STRATEGIES, MessageQueue, TopicRouteData, assign_server_side
from console.text import Text

# Strategies that brokers compute themselves while the console is away; any other would move queues then.
SERVER_STRATEGIES = ("AVG", "AVG_BY_CIRCLE")
ASSIGNMENT_CAPABILITY = "assignment"
PERM_READ = 4
POPS_ANY_QUEUE = -1  # queue id in a popping member's report: all of the topic's queues on a broker

Assignment = Mapping[str, Sequence[MessageQueue]]


class FindingKind(StrEnum):
    """Kinds of problems with queue ownership."""

    NO_OWNER = "NO_OWNER"
    TWO_OWNERS = "TWO_OWNERS"
    IDLE_CLIENT = "IDLE_CLIENT"
    INCONSISTENT_SUBSCRIPTION = "INCONSISTENT_SUBSCRIPTION"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem with its evidence. `queue` is null for findings about clients."""

    kind: FindingKind
    group: str
    topic: str
    queue: MessageQueue | None
    clients: tuple[str, ...]
    text: Text


@dataclass(frozen=True, slots=True)
class ClientView:
    """A member as it reported itself. `queues` null: it did not answer, so nothing can be concluded."""

    client_id: str
    queues: frozenset[MessageQueue] | None
    subscription: Mapping[str, Mapping[str, str]]
    broadcasts: bool = False


def readable_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues to assign: the readable ones, in RocketMQ's order."""
    return sorted(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    )


def compute(
    queues: Sequence[MessageQueue], client_ids: Iterable[str], strategy: str
) -> dict[str, list[MessageQueue]]:
    """Return each member's share, by the function that brokers fall back to; {} without members or queues.

    Raises ValueError for a strategy that brokers cannot fall back to.
    """
    if strategy not in SERVER_STRATEGIES or strategy not in STRATEGIES:
        names = ", ".join(SERVER_STRATEGIES)
        raise ValueError(Text("strategy %(name)s is not one of %(names)s", name=strategy, names=names))
    members = sorted(set(client_ids))
    return assign_server_side(queues, members, strategy) if members and queues else {}


def to_json(assignment: Assignment) -> dict[str, list[list[Any]]]:
    """Return an assignment as stored in a row."""
    return {
        client_id: [[queue.broker_name, queue.queue_id] for queue in queues]
        for client_id, queues in sorted(assignment.items())
    }


def is_followed(topic: str, assignment: Assignment, clients: Sequence[ClientView]) -> bool:
    """Return whether every member reports exactly its share of this topic."""
    held = {
        client.client_id: None
        if client.queues is None
        else {one for one in client.queues if one.topic == topic}
        for client in clients
    }
    return held.keys() == assignment.keys() and all(
        held[client_id] == set(queues) for client_id, queues in assignment.items()
    )


def findings(group: str, queues: Iterable[MessageQueue], clients: Sequence[ClientView]) -> list[Finding]:
    """Return what is wrong with a group's ownership, queues first. `queues` are those the group should read.

    A member that did not answer may hold any queue: then "no owner" and "idle" are not reported. Members that
    pop share a topic's queues on a broker: no queue has an owner, and none lacks one. Every member of a
    broadcasting group reads every queue.
    """
    owners: dict[MessageQueue, list[str]] = defaultdict(list)
    popped: set[tuple[str, str]] = set()
    if any(client.broadcasts for client in clients):
        return _inconsistent(group, clients)
    for client in clients:
        for queue in client.queues or ():
            if queue.queue_id == POPS_ANY_QUEUE:
                popped.add((queue.topic, queue.broker_name))
            else:
                owners[queue].append(client.client_id)
    found = [_two_owners(group, queue, ids) for queue, ids in sorted(owners.items()) if len(ids) > 1]
    if clients and all(client.queues is not None for client in clients):
        found += [
            _no_owner(group, queue)
            for queue in sorted(set(queues))
            if queue not in owners and (queue.topic, queue.broker_name) not in popped
        ]
        found += [_idle(group, client.client_id) for client in clients if not client.queues]
    return found + _inconsistent(group, clients)


def _name(queue: MessageQueue) -> str:
    return f"{queue.broker_name} · {queue.queue_id}"


def _two_owners(group: str, queue: MessageQueue, ids: list[str]) -> Finding:
    text = Text(
        "%(queue)s of %(topic)s is consumed by %(number)s clients: messages are delivered twice",
        queue=_name(queue),
        topic=queue.topic,
        number=len(ids),
    )
    return Finding(FindingKind.TWO_OWNERS, group, queue.topic, queue, tuple(sorted(ids)), text)


def _no_owner(group: str, queue: MessageQueue) -> Finding:
    text = Text(
        "%(queue)s of %(topic)s is consumed by no client: its messages wait",
        queue=_name(queue),
        topic=queue.topic,
    )
    return Finding(FindingKind.NO_OWNER, group, queue.topic, queue, (), text)


def _idle(group: str, client_id: str) -> Finding:
    text = Text(
        "%(client)s holds no queue: there are more clients than queues, or it was assigned none",
        client=client_id,
    )
    return Finding(FindingKind.IDLE_CLIENT, group, "", None, (client_id,), text)


def _inconsistent(group: str, clients: Sequence[ClientView]) -> list[Finding]:
    """Report differing subscriptions: members must agree, and the broker keeps the last one received."""
    subscriptions = {
        client.client_id: _words(client.subscription) for client in clients if client.subscription
    }
    counts = Counter(subscriptions.values())
    if len(counts) < 2:
        return []
    usual = min(counts, key=lambda words: (-counts[words], words))
    others = tuple(sorted(client_id for client_id, words in subscriptions.items() if words != usual))
    text = Text(
        "%(number)s of %(total)s clients subscribe differently: %(names)s",
        number=len(others),
        total=len(subscriptions),
        names=", ".join(others[:3]),
    )
    return [Finding(FindingKind.INCONSISTENT_SUBSCRIPTION, group, "", None, others, text)]


def _words(subscription: Mapping[str, Mapping[str, str]]) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (topic, one.get("type", ""), one.get("expression", "")) for topic, one in sorted(subscription.items())
    )
