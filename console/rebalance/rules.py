"""Who should hold which queue where the console assigns, and whether members follow. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.brokers.mqadmin import STRATEGIES, MessageQueue, TopicRouteData, assign_server_side
from console.text import Text

# Strategies that brokers compute themselves while the console is away; any other would move queues then.
SERVER_STRATEGIES = ("AVG", "AVG_BY_CIRCLE")
ASSIGNMENT_CAPABILITY = "assignment"
PERM_READ = 4

Assignment = Mapping[str, Sequence[MessageQueue]]


@dataclass(frozen=True, slots=True)
class ClientView:
    """A member as it reported itself. `queues` null: it did not answer, so nothing can be concluded."""

    client_id: str
    queues: frozenset[MessageQueue] | None


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
