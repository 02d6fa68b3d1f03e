"""Who uses a group now, and what would stay behind: facts for a plan that takes something away.

Members, offsets and the group's own topics are read from the brokers when the plan is made; lag comes from
the last collection round. Every figure carries its source and its age; unknown figures are None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from console.brokers.mqadmin import BlockingMQAdmin, MQAdmin, MQBrokerError, dead_letter_topic, retry_topic
from console.brokers.queues import TOPIC_NOT_EXIST, ask_each, require_answer
from console.group import selectors
from console.lag.models import GroupRow
from console.operation.config.row import ImpactRow
from console.text import Text

AUTO_CREATE = "autoCreateSubscriptionGroup"
OFFSETS_KEPT_MAX = 20_000  # committed offsets that a deletion records for its undo


@dataclasses.dataclass(frozen=True, slots=True)
class GroupFacts:
    """Facts about a group.

    ``offsets``: (broker name, topic, queue id) → committed offset. ``stored``: the group's own topics →
    messages in them, absent where no broker has the topic.
    """

    members: tuple[str, ...]
    offsets: dict[tuple[str, str, int], int]
    stored: dict[str, int]
    auto_create: tuple[str, ...]  # brokers that create the group when a member connects
    row: GroupRow | None
    last_commit_ms: int | None
    read_at_ms: int


def read_group_facts(
    admin: BlockingMQAdmin, cluster: str, addrs: Mapping[str, str], group: str, now_ms: int
) -> GroupFacts:
    """Read every broker; raises BrokerUnavailable or MQBrokerError, since a plan needs all facts."""
    own_topics = (retry_topic(group), dead_letter_topic(group))

    async def ask(client: MQAdmin, request: tuple[str, str]) -> Any:
        what, addr = request
        if what == "members":
            return await client.consumer_connection(addr, group)
        if what == "offsets":
            return (await client.all_consumer_offsets(addr)).offset_table
        if what == "config":
            return await client.broker_config(addr)
        try:
            return await client.topic_stats(addr, what)
        except MQBrokerError as error:
            if error.code == TOPIC_NOT_EXIST:
                return None
            raise

    questions = ("members", "offsets", "config", *own_topics)
    answers: dict[tuple[str, str], Any] = ask_each(
        admin, {(what, name): (what, addr) for what in questions for name, addr in addrs.items()}, ask
    )
    require_answers(answers, addrs)
    stored: dict[str, int] = {}
    for topic in own_topics:
        tables = [answers[topic, name] for name in addrs if answers[topic, name] is not None]
        if tables:
            stored[topic] = sum(
                one.max_offset - one.min_offset for table in tables for one in table.offset_table.values()
            )
    connections = [answers["members", name] for name in addrs if answers["members", name] is not None]
    commits = [row.last_commit_ms for row in selectors.group_queues(cluster, group)]
    return GroupFacts(
        members=tuple(sorted({one.client_id for each in connections for one in each.connection_set})),
        offsets={
            (name, topic, queue_id): offset
            for name in addrs
            for (topic, owner), queues in answers["offsets", name].items()
            if owner == group
            for queue_id, offset in queues.items()
        },
        stored=stored,
        auto_create=tuple(
            name
            for name in addrs
            if not isinstance(answers["config", name], Exception)
            and answers["config", name].get(AUTO_CREATE) == "true"
        ),
        row=selectors.group(cluster, group),
        last_commit_ms=max((at_ms for at_ms in commits if at_ms is not None), default=None),
        read_at_ms=now_ms,
    )


def require_answers(answers: Mapping[tuple[str, str], Any], addrs: Mapping[str, str]) -> None:
    """Raise BrokerUnavailable or MQBrokerError for the first missing answer to (what, broker).

    A refusal to read the broker's own configuration is no error: an ACL may forbid it.
    """
    for (what, name), answer in sorted(answers.items()):
        if what != "config" or not isinstance(answer, MQBrokerError):
            require_answer(name, addrs[name], answer)


NAMED_MAX = 3  # members or topics in a row of the impact; the others are counted


def impact(facts: GroupFacts, group: str) -> tuple[ImpactRow, ...]:
    """Return who feels a change of the group."""
    row, now, read_at_ms = facts.row, Text("brokers"), facts.read_at_ms
    last, round_at_ms = Text("last round"), None if row is None else row.read_at_ms
    shown = Text.of_names(facts.members, NAMED_MAX)
    topics = sorted({topic for _, topic, _ in facts.offsets if topic != retry_topic(group)})
    return (
        ImpactRow(
            name=Text("Clients online"),
            value=len(facts.members),
            words=shown or Text("no client is online"),
            source=now,
            at_ms=read_at_ms,
        ),
        ImpactRow(
            name=Text("Lag"),
            value=None if row is None else row.lag,
            is_lower_bound=row is not None and row.lag_lower_bound,
            words=Text("no round has read the group yet")
            if row is None
            else Text("messages not consumed yet"),
            source=last,
            at_ms=round_at_ms,
        ),
        ImpactRow(
            name=Text("Last commit"),
            value=None,
            moment_ms=facts.last_commit_ms,
            words=Text() if facts.last_commit_ms else Text("no round has recorded an offset change"),
            source=last,
            at_ms=round_at_ms,
        ),
        ImpactRow(
            name=Text("Committed offsets"),
            value=len(facts.offsets),
            words=Text("of %(names)s", names=Text.of_names(topics, NAMED_MAX)) if topics else Text("none"),
            source=now,
            at_ms=read_at_ms,
        ),
        *(
            ImpactRow(
                name=Text("Waiting for a retry") if topic == retry_topic(group) else Text("Dead letters"),
                value=facts.stored.get(topic, 0),
                words=Text.foreign(topic) if topic in facts.stored else Text("its topic was never created"),
                source=now,
                at_ms=read_at_ms,
            )
            for topic in (retry_topic(group), dead_letter_topic(group))
        ),
    )
