"""Who uses a topic now: facts for a plan that takes something away.

Members, producers and last writes are read from the brokers when the plan is made; backlogs come from the
last collection round. Every figure carries its source and its age; unknown figures are None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin
from console.brokers.queues import ask_each, require_answer
from console.operation.config.row import ImpactRow
from console.text import Names, Text
from console.topic import selectors

GROUPS_READ_MAX = 50  # readers whose members are read; more are only counted
AUTO_CREATE = "autoCreateTopicEnable"


@dataclasses.dataclass(frozen=True, slots=True)
class QueueFacts:
    """One queue as its broker reports it; ``last_write_ms`` 0 = empty."""

    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_write_ms: int


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """A group that reads the topic; ``members`` None: not asked or no answer, ``backlog`` None: unknown."""

    group: str
    members: int | None
    backlog: int | None
    backlog_is_lower_bound: bool


@dataclasses.dataclass(frozen=True, slots=True)
class TopicFacts:
    """Facts about a topic; ``producers``: connected to its brokers, None = the brokers do not list them."""

    queues: tuple[QueueFacts, ...]
    readers: tuple[Reader, ...]
    producers: int | None
    auto_create: tuple[str, ...]  # brokers that create the topic at the next send
    unread: tuple[str, ...]  # "broker-a: …": figures that could not be read
    rows_at_ms: int | None  # age of the backlogs
    read_at_ms: int

    @property
    def stored(self) -> int:
        return sum(queue.max_offset - queue.min_offset for queue in self.queues)

    @property
    def written(self) -> int:
        """Messages ever written."""
        return sum(queue.max_offset for queue in self.queues)

    @property
    def last_write_ms(self) -> int | None:
        return max((queue.last_write_ms for queue in self.queues), default=0) or None

    @property
    def members(self) -> int:
        """Members online, as far as known."""
        return sum(reader.members or 0 for reader in self.readers)

    @property
    def backlog(self) -> int | None:
        known = [reader.backlog for reader in self.readers if reader.backlog is not None]
        return sum(known) if known else None


def read_topic_facts(
    admin: BlockingMQAdmin, cluster: str, addrs: Mapping[str, str], topic: str, now_ms: int
) -> TopicFacts:
    """Read every broker that has the topic.

    Raises BrokerUnavailable or MQBrokerError when one does not report its queues; other missing answers are
    listed in ``unread``.
    """
    answers = _ask(admin, addrs, topic)
    for broker in addrs:
        unknown = Text("the number of messages in %(topic)s", topic=topic)
        require_answer(broker, addrs[broker], answers["queues", broker], unknown)
    unread = [
        f"{broker}: {what} unknown ({answer})"
        for (what, broker), answer in sorted(answers.items())
        if isinstance(answer, Exception)
    ]

    def of(what: str) -> dict[str, Any]:
        return {
            broker: answer
            for (kind, broker), answer in answers.items()
            if kind == what and not isinstance(answer, Exception)
        }

    queues = tuple(
        QueueFacts(broker, queue.queue_id, each.min_offset, each.max_offset, each.last_update_timestamp)
        for broker, table in sorted(of("queues").items())
        for queue, each in sorted(table.offset_table.items())
    )
    row = selectors.topic(cluster, topic)
    groups = sorted({group for names in of("groups").values() for group in names})
    producers = of("producers")
    return TopicFacts(
        queues=queues,
        readers=_readers(admin, cluster, addrs, topic, groups),
        producers=len(
            {one.client_id for table in producers.values() for each in table.values() for one in each}
        )
        if producers
        else None,
        auto_create=tuple(
            sorted(name for name, config in of("config").items() if config.get(AUTO_CREATE) == "true")
        ),
        unread=tuple(unread),
        rows_at_ms=None if row is None else row.read_at_ms,
        read_at_ms=now_ms,
    )


def _ask(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], topic: str
) -> dict[tuple[str, str], Any | Exception]:
    async def ask(client: MQAdmin, request: tuple[str, str]) -> Any:
        what, addr = request
        if what == "queues":
            return await client.topic_stats(addr, topic)
        if what == "groups":
            return await client.topic_consumed_by(addr, topic)
        if what == "producers":
            return await client.producers(addr)
        return await client.broker_config(addr)

    questions = ("queues", "groups", "producers", "config")
    return ask_each(
        admin, {(what, name): (what, addr) for what in questions for name, addr in addrs.items()}, ask
    )


def _readers(
    admin: BlockingMQAdmin, cluster: str, addrs: Mapping[str, str], topic: str, groups: list[str]
) -> tuple[Reader, ...]:
    known = {one.group: one for one in selectors.topic_groups(cluster, topic)}
    names = sorted({*groups, *known})
    requests = {
        (group, broker): (addrs[broker], group) for group in names[:GROUPS_READ_MAX] for broker in addrs
    }
    answers = ask_each(admin, requests, lambda client, one: client.consumer_connection(*one))
    readers = []
    for group in names:
        mine = [answers.get((group, broker)) for broker in addrs if (group, broker) in answers]
        clients = {
            client.client_id
            for answer in mine
            if answer is not None and not isinstance(answer, Exception)
            for client in answer.connection_set
        }
        silent = not mine or all(isinstance(answer, Exception) for answer in mine)
        row = known.get(group)
        readers.append(
            Reader(
                group=group,
                members=None if silent else len(clients),
                backlog=None if row is None else row.lag,
                backlog_is_lower_bound=row is not None and row.lag_lower_bound,
            )
        )
    return tuple(sorted(readers, key=lambda one: (-(one.members or 0), -(one.backlog or 0), one.group)))


def unread_in(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], facts: TopicFacts, topic: str, keep: Mapping[str, int]
) -> dict[str, int]:
    """Return group → messages it has not read in the queues that a broker would no longer offer.

    ``keep``: broker name → read queues that stay. A group that never committed there has read nothing. Raises
    what a broker answers: the loss must not be guessed.
    """
    vanishing = [
        queue
        for queue in facts.queues
        if queue.broker_name in keep and queue.queue_id >= keep[queue.broker_name]
    ]
    if not any(queue.max_offset > queue.min_offset for queue in vanishing):
        return {}
    requests = {queue.broker_name: addrs[queue.broker_name] for queue in vanishing}
    committed: dict[tuple[str, str, int], int] = {}
    for broker, answer in ask_each(
        admin, requests, lambda client, addr: client.all_consumer_offsets(addr)
    ).items():
        if isinstance(answer, Exception):
            raise answer
        for (name, group), offsets in answer.offset_table.items():
            if name == topic:
                committed |= {(group, broker, queue_id): offset for queue_id, offset in offsets.items()}
    groups = sorted({*(reader.group for reader in facts.readers), *(group for group, _, _ in committed)})
    unread = {}
    for group in groups or [""]:
        left = sum(
            max(
                0,
                queue.max_offset
                - max(queue.min_offset, committed.get((group, queue.broker_name, queue.queue_id), 0)),
            )
            for queue in vanishing
        )
        if left:
            unread[group] = left
    return unread


NAMED_MAX = 5  # groups in a row of the impact; the others are counted


def impact(facts: TopicFacts) -> tuple[ImpactRow, ...]:
    """Return who feels a change of the topic."""
    readers = facts.readers
    online = [reader for reader in readers if reader.members]
    lower = any(reader.backlog_is_lower_bound for reader in readers)
    unknown = [reader for reader in readers if reader.backlog is None]
    source, at_ms = Text("brokers"), facts.read_at_ms
    return (
        ImpactRow(
            name=Text("Consumers online"),
            value=facts.members
            if any(reader.members is not None for reader in readers) or not readers
            else None,
            is_lower_bound=any(reader.members is None for reader in readers),
            words=Text.of_names([f"{one.group} ({one.members})" for one in online], NAMED_MAX)
            or Text("%(number)s group(s) read it, none is online", number=len(readers)),
            source=source,
            at_ms=at_ms,
        ),
        ImpactRow(
            name=Text("Producers connected"),
            value=facts.producers,
            words=Text("to these brokers; RocketMQ does not report to which topics they send")
            if facts.producers is not None
            else Text("these brokers do not list producers"),
            source=source,
            at_ms=at_ms,
        ),
        ImpactRow(
            name=Text("Unread messages"),
            value=facts.backlog if readers else 0,
            is_lower_bound=lower or (bool(unknown) and facts.backlog is not None),
            words=Text.foreign(
                Names(f"{one.group} {one.backlog:,}" for one in readers[:NAMED_MAX] if one.backlog)
            )
            or (Text("no round has read the backlog yet") if unknown else Text("of any group")),
            source=Text("last round"),
            at_ms=facts.rows_at_ms,
        ),
        ImpactRow(
            name=Text("Messages stored"),
            value=facts.stored,
            is_lower_bound=bool(facts.unread),
            words=Text("in %(number)s queues", number=len(facts.queues)),
            source=source,
            at_ms=at_ms,
        ),
        ImpactRow(
            name=Text("Last write"),
            value=None,
            moment_ms=facts.last_write_ms,
            words=Text() if facts.last_write_ms else Text("nothing is stored"),
            source=source,
            at_ms=at_ms,
        ),
    )
