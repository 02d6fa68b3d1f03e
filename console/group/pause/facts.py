"""Which topics a group may read on which broker (353), and facts for a pause."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    ConsumerConnection,
    MQAdmin,
    MQBrokerError,
    ResponseCode,
    read_forbidden,
    retry_topic,
)
from console.brokers.queues import ask_each, require_answer
from console.group import selectors
from console.group.settings.facts import require_answers
from console.lag.models import GroupRow, TopicRow
from spark.lag.local_time import HOUR_MS

RESERVED_KEY = "fileReservedTime"  # hours after which a broker may delete a file
# Brokers check the permission only for pulls whose subscription comes from the heartbeat: not for these types,
MEMBER_TYPES = {"CONSUME_ACTIVELY": "pull", "CONSUME_POP": "POP"}
# and not for pulls with their own filter, as `consumers.PushConsumer` sends for SQL92.
BRINGS_FILTER = ("PYTHON", "SQL92")
Place = tuple[str, str]  # topic, broker name


@dataclasses.dataclass(frozen=True, slots=True)
class Members:
    """Members online; `not_held`: how those read ("pull", "POP") for which the permission is not checked."""

    client_ids: tuple[str, ...]
    topics: frozenset[str]
    not_held: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PauseFacts:
    """Facts for a pause plan.

    `forbidden`: broker → topics the group may not read there. `unable`: brokers without 353.
    `reserved_hours`: how long they keep files, absent where it could not be read. `has_group`: whether any
    broker has its settings.
    """

    members: Members
    forbidden: Mapping[str, frozenset[str]]
    unable: tuple[str, ...]
    reserved_hours: Mapping[str, int]
    has_group: bool
    row: GroupRow | None
    read_at_ms: int

    def topics(self, group: str) -> list[str]:
        """Return all topics the group is known to read, its retry topic last."""
        known = {one["topic"] for one in (self.row.topics if self.row else ())} | self.members.topics
        known = known.union(*self.forbidden.values()) - {retry_topic(group)}
        return [*sorted(known), retry_topic(group)]


def read_pause_facts(
    admin: BlockingMQAdmin, cluster: str, addrs: Mapping[str, str], group: str, now_ms: int
) -> PauseFacts:
    """Read every broker; raises BrokerUnavailable or MQBrokerError, since a pause needs all facts."""

    async def ask(client: MQAdmin, request: tuple[str, str]) -> Any:
        what, addr = request
        if what == "members":
            return await client.consumer_connection(addr, group)
        if what == "groups":
            return await client.all_subscription_groups(addr)
        if what == "config":
            return await client.broker_config(addr)
        return await is_able(client, addr, group)

    questions = ("members", "groups", "config", "able")
    answers: dict[tuple[str, str], Any] = ask_each(
        admin, {(what, name): (what, addr) for what in questions for name, addr in addrs.items()}, ask
    )
    require_answers(answers, addrs)
    return PauseFacts(
        members=members_of([answers["members", name] for name in addrs]),
        forbidden={name: paused_topics(answers["groups", name].forbidden_table, group) for name in addrs},
        unable=tuple(name for name in addrs if not answers["able", name]),
        reserved_hours={
            name: int(hours)
            for name in addrs
            if not isinstance(answers["config", name], Exception)
            and (hours := answers["config", name].get(RESERVED_KEY, "")).isdigit()
        },
        has_group=any(group in answers["groups", name].subscription_group_table for name in addrs),
        row=selectors.group(cluster, group),
        read_at_ms=now_ms,
    )


async def is_able(client: MQAdmin, addr: str, group: str) -> bool:
    """Return whether the broker supports the permission (353); reading it changes nothing."""
    try:
        await client.group_forbidden(addr, group, retry_topic(group))
    except MQBrokerError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return False
        raise
    return True


def members_of(connections: Iterable[ConsumerConnection | None]) -> Members:
    """Return the members in all brokers' answers; None: no member is online there."""
    online = [one for one in connections if one is not None]
    return Members(
        client_ids=tuple(sorted({client.client_id for one in online for client in one.connection_set})),
        topics=frozenset(topic for one in online for topic in one.subscription_table),
        not_held=tuple(sorted({words for one in online for words in _not_held(one)})),
    )


def _not_held(connection: ConsumerConnection) -> Iterable[str]:
    words = MEMBER_TYPES.get(connection.consume_type)
    if words is not None:
        yield words
    language, filter_type = BRINGS_FILTER
    types = {one.expression_type for one in connection.subscription_table.values()}
    if filter_type in types and any(one.language == language for one in connection.connection_set):
        yield f"Python {filter_type}"


def read_places(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str, places: Sequence[Place]
) -> dict[Place, bool]:
    """Return whether the group may read each place. Raises BrokerUnavailable, MQBrokerError."""

    async def ask(client: MQAdmin, place: Place) -> bool:
        topic, broker_name = place
        return (await client.group_forbidden(addrs[broker_name], group, topic)).readable

    answers = ask_each(admin, {place: place for place in places}, ask)
    return {place: require_answer(place[1], addrs[place[1]], answer) for place, answer in answers.items()}


# --- What follows from a pause ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Arriving:
    """Messages a minute over some topics; None where all rates are unknown, a lower bound where some are."""

    per_minute: float | None
    is_lower_bound: bool


def arriving(cluster: str, topics: Sequence[str]) -> Arriving:
    """Return what is written to these topics on all brokers, as of the last round."""
    rates = dict(TopicRow.objects.filter(cluster=cluster, topic__in=topics).values_list("topic", "in_rate"))
    known = [rate for rate in rates.values() if rate is not None]
    if not known:
        return Arriving(None, False)
    return Arriving(sum(known) * 60, len(known) < len(topics))


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """Messages of some topics that wait for the group, and how long the oldest has waited; None: unknown."""

    messages: int | None
    is_lower_bound: bool
    oldest_ms: int | None


def waiting(row: GroupRow | None, topics: Sequence[str]) -> Waiting:
    """Return what waits as of the last round; a group's topics there do not include the retry topic."""
    parts = [one for one in (row.topics if row else ()) if one["topic"] in topics]
    known = [one["lag"] for one in parts if one["lag"] is not None]
    ages = [one["time_lag_ms"] for one in parts if one["lag"] != 0]
    return Waiting(
        messages=sum(known) if known else None,
        is_lower_bound=len(known) < len(parts) or any(one.get("lag_lower_bound") for one in parts),
        # An unknown age may be higher than all known ones.
        oldest_ms=None if None in ages or not parts else max(ages, default=0),
    )


def kept_for_ms(facts: PauseFacts, brokers: Sequence[str], waits: Waiting) -> int | None:
    """Return the time until retention may remove the oldest unread message; None: unknown."""
    hours = [facts.reserved_hours.get(name) for name in brokers]
    if not hours or None in hours or waits.oldest_ms is None:
        return None
    shortest = min(each for each in hours if each is not None)
    return max(0, shortest * HOUR_MS - waits.oldest_ms)


def paused_topics(table: Mapping[str, Mapping[str, int]], group: str) -> frozenset[str]:
    """Return the topics in a broker's forbiddenTable that a group may not read."""
    return read_forbidden(table).get(group, frozenset())
