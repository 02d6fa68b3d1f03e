"""The life of one message on one time axis: stored, consumed or not by each group, retried, dead, replayed.

Sources, each named on the page: the record itself; traces, where clients write them; the retry and dead-letter
topics of each group, by unique key; committed offsets and subscriptions of the last round; this console's own
actions. Only groups that the visitor may VIEW are named or counted.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from brokerd.remoting.message.names import TRACE_TOPIC
from console.access.name_scope import NameScope
from console.brokers.body_unpack import unpack
from console.brokers.mqadmin import (
    DLQ_TOPIC_PREFIX,
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageRecord,
    MQAdmin,
    MQBrokerError,
    RemotingTimeout,
    dead_letter_topic,
    retry_topic,
    with_admin,
)
from console.brokers.queues import masters
from console.cluster.models import Cluster
from console.lag.models import ClientRow, GroupRow, TopicRow
from console.lag.rows import queues
from console.lag.rows.broadcast import BROADCASTING
from console.lag.rows.queue_row import QueueRow
from console.message.life_line.copies import (
    Place,
    Step,
    copied_for,
    died,
    first_topic,
    is_replay,
    retry_words,
    waited_since,
)
from console.message.life_line.trace import Consumed, Trace, read_trace
from console.message.search.lanes import Hit
from console.operation.message_events import MessageEvent, MessageTrail, message_events
from console.text import Text, text_of

GROUPS_MAX = 40  # lanes of one page; the topic's own page lists all of its groups
READ_DEADLINE_MS = 4_000
TRACES_MAX = 64  # trace messages of one key and broker

Silent = (BrokerUnavailable, MQBrokerError, RemotingTimeout)


class State(enum.StrEnum):
    """What became of the message in one group."""

    CONSUMED = "CONSUMED"
    RETRYING = "RETRYING"
    DEAD = "DEAD"
    REPLAYED = "REPLAYED"
    NOT_YET = "NOT_YET"
    FILTERED = "FILTERED"
    UNKNOWN = "UNKNOWN"


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """An event at a moment. ``kind``: ok | failed | dead | replay | passed."""

    at_ms: int
    kind: str
    text: Text


@dataclasses.dataclass(frozen=True, slots=True)
class GroupLife:
    """What became of the message in one group.

    ``committed_offset`` as of ``read_at_ms``: the *next* offset the group will read.
    """

    group: str
    state: State
    reason: Text
    marks: tuple[Mark, ...] = ()
    committed_offset: int | None = None
    read_at_ms: int | None = None
    is_offline: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class LifeLine:
    """Everything the page shows.

    ``steps``: the message's story, oldest first. ``problems``: sources that could not be read, with reasons.
    ``first``: the record that the producer's send made; None where no broker stores it any more. ``copied_for``: the
    group whose retry or dead letter the page is about, "" for any other message.
    """

    born_ms: int
    stored_ms: int
    now_ms: int
    groups: list[GroupLife]
    hidden_groups: int  # beyond GROUPS_MAX
    sent: list[Mark]
    steps: list[Step]
    sources: list[Text]
    problems: list[Text]
    first: Hit | None = None
    copied_for: str = ""

    @property
    def first_place(self) -> Place | None:
        return None if self.first is None else Place.of(self.first.record, self.first.broker_name)

    @property
    def counts(self) -> list[tuple[State, int]]:
        """Count the groups in each state that occurs."""
        states = [life.state for life in self.groups]
        return [(state, states.count(state)) for state in State if state in states]


@dataclasses.dataclass(slots=True)
class _Readings:
    """Data read from the brokers: copies by topic, oldest first, and traces."""

    copies: dict[str, list[MessageRecord]]
    trace: Trace
    problems: list[Text]
    has_trace_topic: bool


def life_line(cluster: Cluster, hit: Hit, scope: NameScope, *, now_ms: int) -> LifeLine:
    """Read the last round, and the brokers' traces, retries and dead letters.

    A retry or a dead letter has the life of the message it is a copy of. Raises nothing for silent brokers.
    """
    group_of_copy = copied_for(hit.record.topic)
    first = _first(cluster, hit.record, scope) if group_of_copy else hit
    record = (first or hit).record
    rows = _queue_rows(cluster.name, first, scope) if first else []
    groups = [row.group for row in rows]
    if group_of_copy and group_of_copy not in groups and scope.covers(group_of_copy):
        groups.insert(0, group_of_copy)
    shown = groups[:GROUPS_MAX]
    readings = _read(cluster, record.message_id, shown)
    events = [
        event
        for event in message_events(cluster.name, _trail(record, readings))
        if scope.covers(event.subject)
    ]
    facts = _Facts.of(cluster.name, record.topic, shown)
    by_group = {row.group: row for row in rows}
    traced = {each.group for each in readings.trace.consumed if scope.covers(each.group)}
    lives = [
        _life(group, by_group.get(group), first, readings, facts, events)
        for group in [*shown, *sorted(traced - set(groups))]
    ]
    return LifeLine(
        born_ms=record.born_timestamp_ms,
        stored_ms=record.store_timestamp_ms if first else record.born_timestamp_ms,
        now_ms=now_ms,
        groups=lives,
        hidden_groups=max(0, len(groups) - GROUPS_MAX),
        sent=[
            Mark(each.at_ms, "ok" if each.is_success else "failed", _sent_words(each.cost_ms, each.client))
            for each in readings.trace.sent
        ],
        steps=_steps(first, shown, readings, events),
        sources=_sources(readings),
        problems=readings.problems,
        first=first,
        copied_for=group_of_copy,
    )


def _steps(
    first: Hit | None, groups: Sequence[str], readings: _Readings, events: Iterable[MessageEvent]
) -> list[Step]:
    """Return the story: the message as it was sent, its copies for these groups, what plans did with them."""
    steps = [Step(each.at_ms, each.subject, each.words, plan_id=each.plan_id) for each in events]
    for group in groups:
        for topic in (retry_topic(group), dead_letter_topic(group)):
            for copy in readings.copies.get(topic, []):
                words = retry_words(copy) if topic == retry_topic(group) else Text("dead letter")
                place = Place.of(copy, copy.properties[BROKER_MARK])
                steps.append(Step(copy.store_timestamp_ms, group, words, place))
    waits_ms = None if first is None else waited_since(first.record)
    if waits_ms is not None:
        steps.append(Step(waits_ms, "", Text("waits for its time")))
    if steps and first is not None:
        place = Place.of(first.record, first.broker_name)
        words = Text("stored in %(topic)s", topic=place.topic)
        steps.append(Step(first.record.store_timestamp_ms, "", words, place))
    return sorted(steps, key=lambda step: step.at_ms)


def _queue_rows(cluster: str, hit: Hit, scope: NameScope) -> list[QueueRow]:
    """Return the groups that read the message's queue and that the visitor may see, by name."""
    record = hit.record
    return [
        row
        for row in queues.of_topics(cluster, [record.topic])
        if (row.broker_name, row.queue_id) == (hit.broker_name, record.queue_id) and scope.covers(row.group)
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Subscription:
    """What a group reads of the topic: all, some tags, or what an expression lets through."""

    expression: str
    kind: str

    @classmethod
    def of(cls, expression: str = "", type: str = "", **_: Any) -> Subscription:
        """Return the subscription of a row of a client."""
        return cls(expression or "*", type or "TAG")


@dataclasses.dataclass(frozen=True, slots=True)
class _Facts:
    """The last round's facts about the groups: model, offline state, subscriptions, retry offsets."""

    models: Mapping[str, str]
    offline: frozenset[str]
    subscriptions: Mapping[str, Subscription]
    retry_offsets: Mapping[tuple[str, str, int], int]

    @classmethod
    def of(cls, cluster: str, topic: str, groups: Sequence[str]) -> _Facts:
        """Load them with three queries, however many groups there are."""
        known = GroupRow.objects.filter(cluster=cluster, group__in=groups)
        states = list(known.values_list("group", "model", "clients"))
        clients = ClientRow.objects.filter(cluster=cluster, group__in=groups)
        return cls(
            {group: model for group, model, _ in states},
            frozenset(group for group, _, online in states if online == 0),
            {
                group: Subscription.of(**(subscription[topic] or {}))
                for group, subscription in clients.values_list("group", "subscription")
                if topic in subscription
            },
            {
                (row.group, row.broker_name, row.queue_id): row.committed_offset
                for row in queues.of_groups(cluster, groups)
                if row.committed_offset is not None and row.topic == retry_topic(row.group)
            },
        )


# --- Reading the brokers ------------------------------------------------------------------------------------


def _read(cluster: Cluster, message_id: str, groups: Sequence[str]) -> _Readings:
    names = [name for group in groups for name in (retry_topic(group), dead_letter_topic(group))]
    existing = TopicRow.objects.filter(cluster=cluster.name, topic__in=[*names, TRACE_TOPIC])
    # An empty retry topic cannot hold a copy; one whose message count is unknown may.
    topics = [row.topic for row in existing if row.messages != 0]
    admin = with_admin(cluster.connection)
    problems: list[Text] = []
    answers: dict[tuple[str, str], list[MessageRecord]] = {}
    try:
        answers = _query(admin, masters(admin), topics, message_id, problems)
    except Silent as error:
        problems.append(Text("retries and traces: %(why)s", why=text_of(error)))
    copies: dict[str, list[MessageRecord]] = {}
    for (_, topic), records in answers.items():
        copies.setdefault(topic, []).extend(records)
    for records in copies.values():
        records.sort(key=lambda each: (each.store_timestamp_ms, each.reconsume_times))
    traces = copies.pop(TRACE_TOPIC, [])
    texts = ((_text(each), each.born_host[0]) for each in traces)
    return _Readings(copies, read_trace(texts, message_id), problems, TRACE_TOPIC in topics)


def _first(cluster: Cluster, copy: MessageRecord, scope: NameScope) -> Hit | None:
    """Return the message that a retry or a dead letter is a copy of.

    None where no broker stores it any more, its topic is unknown, or the visitor may not see that topic.
    """
    topic = first_topic(copy)
    if not topic or not scope.covers(topic):
        return None
    admin = with_admin(cluster.connection)
    try:
        answers = _query(admin, masters(admin), [topic], copy.message_id, [])
    except Silent:
        return None
    found = [record for records in answers.values() for record in records]
    first = min(found, key=lambda each: each.store_timestamp_ms, default=None)
    return None if first is None else Hit(first.properties[BROKER_MARK], first)


def _query(
    admin: BlockingMQAdmin,
    addrs: Mapping[str, str],
    topics: Sequence[str],
    message_id: str,
    problems: list[Text],
) -> dict[tuple[str, str], list[MessageRecord]]:
    """Query every (broker, topic) for records with this id (request 12), all at once under one deadline."""

    def ask(addr: str, topic: str) -> Callable[[MQAdmin], Awaitable[list[MessageRecord]]]:
        # Traces have the id among their keys; copies in retry and dead-letter topics keep the unique key.
        return lambda client: client.query_message(
            addr, topic, message_id, TRACES_MAX, unique_key=topic != TRACE_TOPIC
        )

    calls = {(name, topic): ask(addr, topic) for name, addr in addrs.items() for topic in topics}
    found: dict[tuple[str, str], list[MessageRecord]] = {}
    failed: dict[str, Text] = {}
    for (name, topic), answer in admin.gather(calls, READ_DEADLINE_MS).items():
        if isinstance(answer, Exception):
            if not isinstance(answer, MQBrokerError):
                # A broker without the topic has no records of it.
                failed[name] = text_of(answer)
        else:
            found[name, topic] = [_on(record, name) for record in answer]
    problems.extend(
        Text("retries and traces on %(broker)s: %(why)s", broker=name, why=reason)
        for name, reason in sorted(failed.items())
    )
    return found


def _trail(record: MessageRecord, readings: _Readings) -> MessageTrail:
    dead = [
        each
        for topic, records in readings.copies.items()
        if topic.startswith(DLQ_TOPIC_PREFIX)
        for each in records
    ]
    places = [(each.topic, each.properties[BROKER_MARK], each.queue_id, each.queue_offset) for each in dead]
    return MessageTrail(record.topic, record.message_id, tuple(places))


def _on(record: MessageRecord, broker_name: str) -> MessageRecord:
    """Return the record with its broker's name, which its queue needs and no record has."""
    return msgspec.structs.replace(record, properties={**record.properties, BROKER_MARK: broker_name})


BROKER_MARK = "\x00broker"  # no producer can send this name


def _text(record: MessageRecord) -> str:
    return unpack(record.body, record.sys_flag).body.decode(errors="replace")


def _sent_words(cost_ms: int | None, client: str) -> Text:
    if cost_ms is None:
        return Text("from %(client)s", client=client) if client else Text()
    if client:
        return Text("from %(client)s in %(number)s ms", client=client, number=cost_ms)
    return Text("in %(number)s ms", number=cost_ms)


def _sources(readings: _Readings) -> list[Text]:
    found = [
        Text("committed offsets and subscriptions of the last round"),
        Text("retry and dead-letter topics"),
    ]
    if readings.has_trace_topic:
        found.append(Text("traces in %(topic)s", topic=TRACE_TOPIC))
    return found


# --- One group ----------------------------------------------------------------------------------------------


def _life(
    group: str,
    row: QueueRow | None,
    first: Hit | None,
    readings: _Readings,
    facts: _Facts,
    events: Iterable[MessageEvent],
) -> GroupLife:
    """Judge from the most to the least reliable source: dead letters, retries, traces, offsets.

    A try is one mark: its trace where there is one, else the copy that the broker made when it failed.
    """
    tries = [each for each in readings.trace.consumed if each.group == group]
    retries = readings.copies.get(retry_topic(group), [])
    dead = readings.copies.get(dead_letter_topic(group), [])
    replays = [event for event in events if event.subject == group and event.tone == "ok"]
    state, reason = (
        _by_copies(group, retries, dead, replays, facts) or _by_trace(tries) or _by_offset(row, first, facts)
    )
    marks = [_try_mark(each) for each in tries if each.ended_ms is not None]
    traced = {each.retries for each in tries if each.ended_ms is not None}
    marks += [
        Mark(each.store_timestamp_ms, "failed", retry_words(each))
        for each in retries
        if not is_replay(each) and each.reconsume_times - 1 not in traced
    ]
    if not replays:
        marks += [
            Mark(each.store_timestamp_ms, "replay", retry_words(each)) for each in retries if is_replay(each)
        ]
    marks += [Mark(each.store_timestamp_ms, "dead", Text("dead letter")) for each in dead]
    marks += [Mark(event.at_ms, "replay", event.words) for event in replays]
    return GroupLife(
        group=group,
        state=state,
        reason=reason,
        marks=tuple(sorted(marks, key=lambda mark: mark.at_ms)),
        committed_offset=None if row is None else row.committed_offset,
        read_at_ms=None if row is None else row.read_at_ms,
        is_offline=group in facts.offline,
    )


def _try_mark(each: Consumed) -> Mark:
    words = each.outcome or Text("began")
    if each.client:
        words = Text("%(what)s on %(client)s", what=words, client=each.client)
    return Mark(each.ended_ms or 0, "ok" if each.is_success else "failed", words)


def _by_copies(
    group: str,
    retries: Sequence[MessageRecord],
    dead: Sequence[MessageRecord],
    replays: Sequence[MessageEvent],
    facts: _Facts,
) -> tuple[State, Text] | None:
    newest_dead = dead[-1].store_timestamp_ms if dead else 0
    later = [each for each in retries if each.store_timestamp_ms >= newest_dead]
    words = died(dead) if dead else Text()
    if dead and not later:
        if any(event.at_ms >= newest_dead for event in replays):
            return State.REPLAYED, Text("%(words)s, replayed", words=words)
        return State.DEAD, words
    if not later:
        return None
    last = later[-1]
    committed = facts.retry_offsets.get((group, last.properties[BROKER_MARK], last.queue_id))
    again = sum(not is_replay(each) for each in later)
    count = Text("%(number)s {retry|retries}", number=again or len(later))
    if dead:
        count = Text("%(words)s, replayed", words=words)
        if again:
            count = Text("%(words)s, replayed, then %(number)s {retry|retries}", words=words, number=again)
    if committed is None:
        return State.UNKNOWN, Text(
            "%(retries)s; how far the group is in its retry topic is unknown", retries=count
        )
    if committed > last.queue_offset:
        return State.CONSUMED, count if dead else Text("after %(retries)s", retries=count)
    return State.RETRYING, Text(
        "%(retries)s; the last one waits in %(topic)s", retries=count, topic=retry_topic(group)
    )


def _by_trace(tries: Sequence[Consumed]) -> tuple[State, Text] | None:
    done = next((each for each in tries if each.is_success), None)
    if done is not None:
        before = Text("%(number)s {try|tries} before", number=done.retries)
        return State.CONSUMED, Text.of_list([part for part in (_took(done), before) if part])
    if tries:
        last = tries[-1]
        outcome = last.outcome or Text("its end is not in the trace")
        if last.client:
            return State.UNKNOWN, Text(
                "tried on %(client)s: %(outcome)s", client=last.client, outcome=outcome
            )
        return State.UNKNOWN, Text("tried: %(outcome)s", outcome=outcome)
    return None


def _took(done: Consumed) -> Text:
    """Return how long a try took and on which client, as far as its trace shows."""
    if done.cost_ms is None:
        return Text("on %(client)s", client=done.client) if done.client else Text()
    if done.client:
        return Text("in %(number)s ms on %(client)s", number=done.cost_ms, client=done.client)
    return Text("in %(number)s ms", number=done.cost_ms)


def _by_offset(row: QueueRow | None, first: Hit | None, facts: _Facts) -> tuple[State, Text]:
    if first is None:
        return State.UNKNOWN, Text("the message has expired, and no copy of it was found")
    if row is None:
        return State.UNKNOWN, Text("seen in traces only")
    if facts.models.get(row.group) == BROADCASTING:
        return State.UNKNOWN, Text("broadcasting: every client keeps its own offset, brokers do not store it")
    if row.committed_offset is None:
        return State.UNKNOWN, row.reason or Text("the group has never committed on this queue")
    offset = first.record.queue_offset
    if row.committed_offset <= offset:
        ahead = offset - row.committed_offset
        if not ahead:
            return State.NOT_YET, Text("it is next")
        return State.NOT_YET, Text("%(number)s message(s) of this queue {is|are} ahead of it", number=ahead)
    subscription = facts.subscriptions.get(row.group)
    expression = "*" if subscription is None else subscription.expression
    if subscription is not None and subscription.kind != "TAG":
        return State.UNKNOWN, Text(
            "the group is past it; whether the %(kind)s filter “%(expression)s” matched is unknown",
            kind=subscription.kind,
            expression=expression,
        )
    if expression != "*" and first.record.tags not in {tag.strip() for tag in expression.split("||")}:
        tag = Text("“%(tag)s”", tag=first.record.tags) if first.record.tags else Text("no tag")
        return State.FILTERED, Text(
            "subscribes to tags “%(tags)s”; this one has %(tag)s", tags=expression, tag=tag
        )
    if subscription is not None:
        return State.CONSUMED, Text("the group’s offset is past it: handled, or skipped by a reset")
    return State.CONSUMED, Text(
        "the group’s offset is past it: handled, or skipped by a reset; its subscription is unknown, no client is "
        "online"
    )
