"""Who should hold which queue where the console assigns, and whether members follow. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.brokers.mqadmin import (
    STRATEGIES,
    MessageQueue,
    Placement,
    TopicRouteData,
    assign_server_side,
    place,
)
from console.lag.collect.version import version_ordinal
from console.text import Names, Text
from console.text.stored import Stored

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


class KeptPlacement(Stored, frozen=True, kw_only=True):
    """Pins, drained clients, weights and a canary, as a row and a plan keep them.

    `pins`: "broker-a/3" → client id. `canary_share`: percent of the queues for clients of that version.
    """

    pins: Mapping[str, str] = {}
    drained: tuple[str, ...] = ()
    weights: Mapping[str, int] = {}
    canary_version: str = ""
    canary_share: int = 0

    @property
    def clients(self) -> set[str]:
        """The clients that it names."""
        return {*self.pins.values(), *self.drained, *self.weights}

    def on(self, topic: str) -> Placement:
        """Return it as brokers take it."""
        return Placement(
            {queue_of(topic, word): client_id for word, client_id in self.pins.items()},
            frozenset(self.drained),
            dict(self.weights),
            version_ordinal(self.canary_version) if self.canary_version else 0,
            self.canary_share,
        )


def queue_of(topic: str, word: str) -> MessageQueue:
    """Return the queue of a word like `broker-a/3`. Raises ValueError."""
    broker_name, _, queue_id = word.rpartition("/")
    return MessageQueue(topic, broker_name, int(queue_id))


def queue_word(queue: MessageQueue) -> str:
    """Return a queue as `broker-a/3`."""
    return f"{queue.broker_name}/{queue.queue_id}"


def readable_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues to assign: the readable ones, in RocketMQ's order."""
    return sorted(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    )


def compute(
    queues: Sequence[MessageQueue],
    client_ids: Iterable[str],
    strategy: str,
    placement: Placement | None = None,
    before: Assignment | None = None,
    versions: Mapping[str, int] | None = None,
) -> dict[str, list[MessageQueue]]:
    """Return each member's share, by the function that brokers fall back to; {} without members or queues.

    With a placement, few queues move from the assignment `before`, where there is one.

    Raises ValueError for a strategy that brokers cannot fall back to.
    """
    if strategy not in SERVER_STRATEGIES or strategy not in STRATEGIES:
        names = Names(SERVER_STRATEGIES)
        raise ValueError(Text("strategy %(name)s is not one of %(names)s", name=strategy, names=names))
    members = sorted(set(client_ids))
    if not members or not queues:
        return {}
    if not placement:
        return assign_server_side(queues, members, strategy)
    return place(
        queues, members, before or assign_server_side(queues, members, strategy), placement, versions
    )


def cannot_assign(broker_names: Sequence[str]) -> Text:
    """Return why no placement can be put into force on some brokers."""
    return Text(
        "%(brokers)s cannot store assignments: an extension of Tidemark's broker.",
        brokers=Text.of_names(list(broker_names)),
    )


def to_json(assignment: Assignment) -> dict[str, list[list[Any]]]:
    """Return an assignment as stored in a row."""
    return {
        client_id: [[queue.broker_name, queue.queue_id] for queue in queues]
        for client_id, queues in sorted(assignment.items())
    }


def of_json(topic: str, kept: Mapping[str, Sequence[Any]]) -> dict[str, list[MessageQueue]]:
    """Return the assignment of a row."""
    return {
        client_id: [MessageQueue(topic, broker_name, queue_id) for broker_name, queue_id in share]
        for client_id, share in kept.items()
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
