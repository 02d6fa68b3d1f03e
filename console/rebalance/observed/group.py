"""Who reads what in a group, as of the last sweep and round: read from rows, no broker is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, QuerySet, TextField
from django.db.models.functions import Cast
from msgspec.structs import replace

from console.brokers.mqadmin import MessageQueue, is_retry_topic
from console.lag import selectors as lag_selectors
from console.lag.history import owners
from console.lag.history.owners import KNOWN_MS
from console.lag.models import ClientRow, GroupMembers, GroupRow, LagEvent, QueueOwner
from console.lag.rows import queues
from console.lag.rows.broadcast import BROADCASTING
from console.lag.rows.client_reports import Subscription, reports
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.popped import POP_MODE, HeldQueue
from console.rebalance import rules
from console.rebalance.models import ServerSideGroup
from console.rebalance.observed.findings import (
    FLAP_WINDOW_MS,
    Finding,
    QueueFigures,
    Subject,
    away_findings,
    member_findings,
    returns_of,
    topic_findings,
)
from console.rebalance.observed.overlaps import Overlap, overlaps_of
from console.rebalance.observed.ownership import Expected, Member, Owned, Source, State, expected, owned
from console.rebalance.rules import KeptPlacement
from console.text import Text
from console.text.columns import of_stored
from console.text.stored import of_json
from spark.lag.folds.owners import Queue
from spark.lag.local_time import HOUR_MS

NO_REASON = Text()
SEVERITY = ("STOPPED", "INVALID", "STALLED", "FALLING_BEHIND", "UNKNOWN")
OVERLAP_WINDOW_MS = HOUR_MS
AMISS = (State.NONE, State.TWO)
RETURNING = ("joined", "restarted")  # of `LagEvent.members`


@dataclass(frozen=True, slots=True)
class TopicOwnership:
    """The queues of one topic of a group with their owners, what the strategy gives, and figures of each."""

    topic: str
    owned: tuple[Owned, ...]
    expected: Expected | None
    figures: Mapping[MessageQueue, QueueFigures]
    server_side: ServerSideGroup | None = None

    def count(self, *states: State) -> int:
        """Return how many queues are in one of these states."""
        return sum(one.state in states for one in self.owned)

    @property
    def queues(self) -> list[MessageQueue]:
        return [one.queue for one in self.owned]

    @property
    def brokers(self) -> list[str]:
        return sorted({one.queue.broker_name for one in self.owned})


@dataclass(frozen=True, slots=True)
class GroupOwnership:
    """A group's topics, members and findings.

    `shared`: BROADCASTING or POP, where no queue has an owner, else "". `are_members_known` false: a broker that may
    list members was silent. Null times are not known.
    """

    group: str
    shared: str
    topics: tuple[TopicOwnership, ...]
    members: tuple[Member, ...]
    findings: tuple[Finding, ...]
    are_members_known: bool
    changed_at_ms: int | None
    swept_at_ms: int | None

    @property
    def idle(self) -> list[Member]:
        return [one for one in self.members if one.queues is not None and not one.queues]

    @property
    def silent(self) -> list[Member]:
        return [one for one in self.members if one.queues is None]


def group_ownership(row: GroupRow, now_ms: int) -> GroupOwnership:
    """Return who reads what in a group."""
    swept = GroupMembers.objects.filter(cluster=row.cluster, group=row.group).first()
    clients = ClientRow.objects.filter(cluster=row.cluster, group=row.group).order_by("client_id")
    members = _with_last_known(row, [member for _, member in members_of(clients, now_ms)], now_ms)
    are_known = swept is not None and swept.clients is not None
    shared = shared_mode(row.model, row.consume_mode)
    topics = () if shared else _topics(row, members, are_known)
    changes = LagEvent.objects.filter(cluster=row.cluster, group=row.group, kind=LagEvent.Kind.MEMBERS)
    returned = returns_of(
        _returned(changes.filter(at_ms__gte=now_ms - FLAP_WINDOW_MS)), [one.client_id for one in members]
    )
    overlaps = _overlaps(row, now_ms)
    found = [
        finding
        for topic in topics
        for finding in topic_findings(_subject(topic, members, now_ms, overlaps.get(topic.topic, ())))
    ]
    placed = {
        one.topic: of_json(KeptPlacement, one.server_side.placement)
        for one in topics
        if one.server_side is not None
    }
    if members:
        ids = {one.client_id for one in members}
        found += [one for topic, each in placed.items() for one in away_findings(topic, each.pins, ids)]
    found += member_findings(
        members,
        returned,
        {one.topic for one in topics},
        now_ms,
        due=_due(topics),
        drained={client_id for each in placed.values() for client_id in each.drained},
        shares_queues=bool(shared),
    )
    return GroupOwnership(
        group=row.group,
        shared=shared,
        topics=topics,
        members=members,
        findings=tuple(sorted(found, key=lambda one: SEVERITY.index(one.status))),
        are_members_known=are_known,
        changed_at_ms=changes.order_by("-at_ms").values_list("at_ms", flat=True).first(),
        swept_at_ms=swept.read_at_ms if swept is not None else None,
    )


def shared_mode(model: str, consume_mode: str) -> str:
    """Return BROADCASTING or POP, where no queue has an owner, else ""."""
    return model if model == BROADCASTING else POP_MODE if consume_mode == POP_MODE else ""


def _due(topics: Iterable[TopicOwnership]) -> set[str]:
    """Return the clients to which some queue falls by the strategy."""
    found: set[str] = set()
    for topic in topics:
        if topic.expected is not None:
            found |= {client_id for client_id, share in topic.expected.shares.items() if share}
    return found


def members_of(rows: QuerySet[ClientRow], now_ms: int) -> Iterator[tuple[str, Member]]:
    """Return (group, member) of each row, without an object of the row: there may be 10,000.

    A report that is too old is only what a member held last.
    """
    why = Cast("reason", TextField())
    fields = "group", "client_id", "read_at_ms", "version", "language", "strategy", "started_at_ms"
    for held, topics, reason, *others in reports(rows, _topics_of, why, *fields):
        group, client_id, read_at_ms, version, language, strategy, started_at_ms = others
        own = None if held is None else frozenset(_own(held))
        is_old = own is not None and now_ms - read_at_ms > KNOWN_MS
        yield (
            group,
            Member(
                client_id=client_id,
                queues=None if is_old else own,
                reported_at_ms=read_at_ms,
                topics=topics,
                version=version,
                language=language,
                strategy=strategy,
                last_known=own if is_old and own is not None else frozenset(),
                last_known_at_ms=read_at_ms if is_old else None,
                reason=of_stored(reason) if reason else NO_REASON,
                started_at_ms=started_at_ms,
            ),
        )


def _own(held: Iterable[HeldQueue]) -> Iterator[MessageQueue]:
    own = (one for one in held if not is_retry_topic(one.topic))
    return (MessageQueue(one.topic, one.broker_name, one.queue_id) for one in own)


def _topics_of(subscription: Subscription) -> Mapping[str, str]:
    return {
        topic: f"{one.get('type') or 'TAG'} {one.get('expression') or '*'}"
        for topic, one in subscription.items()
        if not is_retry_topic(topic)
    }


def _with_last_known(row: GroupRow, members: Sequence[Member], now_ms: int) -> tuple[Member, ...]:
    """Add what silent members held when they last reported, as the history of owners has it."""
    silent = [one.client_id for one in members if one.queues is None and not one.last_known]
    if not silent:
        return tuple(members)
    latest: dict[str, tuple[int, set[MessageQueue]]] = {}
    tenures = QueueOwner.objects.filter(cluster=row.cluster, group=row.group, client_id__in=silent)
    fields = "client_id", "to_ms", "topic", "broker_name", "queue_id"
    for client_id, to_ms, *queue in tenures.order_by("pk").values_list(*fields):
        until_ms = now_ms if to_ms is None else to_ms
        known_ms, held = latest.get(client_id, (-1, set()))
        if until_ms > known_ms:
            known_ms, held = until_ms, set()
        if until_ms == known_ms:
            held.add(MessageQueue(*queue))
        latest[client_id] = known_ms, held
    found = []
    for member in members:
        if member.client_id in latest:
            at_ms, held = latest[member.client_id]
            found.append(replace(member, last_known=frozenset(held), last_known_at_ms=at_ms))
        else:
            found.append(member)
    return tuple(found)


def _topics(row: GroupRow, members: Sequence[Member], are_known: bool) -> tuple[TopicOwnership, ...]:
    silent = {one.broker_name for one in lag_selectors.silent_brokers(row.cluster)}
    by_topic: dict[str, dict[MessageQueue, QueueFigures]] = defaultdict(dict)
    rows = queues.of_groups(row.cluster, [row.group])
    topics = {topic for topic in set(rows.values("topic")) if not is_retry_topic(topic)}
    in_rates = _in_rates(row.cluster, topics)
    figures_of = (rows.values(name) for name in ("lag", "out_rate", "status", "since_ms"))
    for key, lag, out_rate, status, since_ms in zip(_keys(rows), *figures_of, strict=True):
        if key[0] in topics:
            in_rate = in_rates.get(key)
            growth = None if in_rate is None or out_rate is None else in_rate - out_rate
            by_topic[key[0]][MessageQueue(*key)] = QueueFigures(lag, growth, status, since_ms)
    assigned = {
        one.topic: one for one in ServerSideGroup.objects.filter(cluster=row.cluster, group=row.group)
    }
    found = []
    for topic, figures in sorted(by_topic.items()):
        ordered, server_side = sorted(figures), assigned.get(topic)
        owners_of = owned(ordered, members, are_members_known=are_known, silent_brokers=silent)
        lost = lost_owners(row.cluster, [(row.group, one.queue) for one in owners_of if one.state in AMISS])
        figures |= {
            queue: replace(figures[queue], owned_until_ms=at_ms) for (_, queue), at_ms in lost.items()
        }
        found.append(
            TopicOwnership(
                topic,
                tuple(owners_of),
                expected(ordered, members) if server_side is None else _assigned(server_side),
                figures,
                server_side,
            )
        )
    return tuple(found)


def _in_rates(cluster: str, topics: Collection[str]) -> dict[Queue, float | None]:
    rows = queues.topic_queues(cluster, topics)
    return dict(zip(_keys(rows), rows.values("in_rate"), strict=True))


def _keys(rows: ColumnRows[Any]) -> Iterator[Queue]:
    return zip(*(rows.values(name) for name in ("topic", "broker_name", "queue_id")), strict=True)


def _assigned(row: ServerSideGroup) -> Expected:
    return Expected(row.strategy, Source.SERVER, rules.of_json(row.topic, row.assignment))


def lost_owners(
    cluster: str, wanted: Collection[tuple[str, MessageQueue]]
) -> dict[tuple[str, MessageQueue], int]:
    """Return when the last owner of each of these queues of groups left it."""
    if not wanted:
        return {}
    tenures = QueueOwner.objects.filter(
        cluster=cluster,
        group__in={group for group, _ in wanted},
        topic__in={queue.topic for _, queue in wanted},
        queue_id__in={queue.queue_id for _, queue in wanted},
        to_ms__isnull=False,
        is_claim=False,
    )
    latest = tenures.values_list("group", "topic", "broker_name", "queue_id").annotate(Max("to_ms"))
    found = {(group, MessageQueue(*queue)): at_ms for group, *queue, at_ms in latest}
    return {key: found[key] for key in wanted if key in found}


def _subject(
    topic: TopicOwnership, members: Sequence[Member], now_ms: int, overlaps: Sequence[Overlap]
) -> Subject:
    return Subject(
        topic.topic, topic.owned, members, topic.expected, topic.figures, now_ms, overlaps=overlaps
    )


def _overlaps(row: GroupRow, now_ms: int) -> dict[str, list[Overlap]]:
    """Return the overlaps of claims that the last hour saw, by topic."""
    rows = owners.between(row.cluster, row.group, now_ms - OVERLAP_WINDOW_MS, now_ms, only_claims=True)
    found: dict[str, list[Overlap]] = defaultdict(list)
    for one in overlaps_of(owners.tenures(rows)):
        found[one.queues[0][0]].append(one)
    return found


def _returned(changes: Iterable[LagEvent]) -> list[Collection[str]]:
    return [
        [name for kind in RETURNING for name in change.members.get(kind, {}).get("names", ())]
        for change in changes
    ]
