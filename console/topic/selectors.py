"""Topics as of the last collection round. No function here calls a broker."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from console.access.name_scope import EVERYTHING, NameScope
from console.lag.models import GroupRow, TopicRow
from console.lag.rows import queues
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import TopicQueueRow
from console.lists.page import Page, count_if, cut
from console.lists.query import ListQuery
from console.text import JsonObject, Text
from console.topic.topic_list import TOPICS

KINDS = ("NORMAL", "RETRY", "DLQ", "SYSTEM")
# Message types that most ordinary topics do not have: a chip each where a topic has one.
SPECIAL_TYPES = ("FIFO", "DELAY", "TRANSACTION", "MIXED")
NAMED_MAX = 1_000  # names in a query; with more, reading every group of the cluster takes less time
NO_READER = "NO_READER"  # a separate filter: NORMAL topics that no consumer group reads


@dataclass(frozen=True, slots=True)
class Reader:
    """One group as a consumer of one topic, for the opened row of the list."""

    group: str
    status: str
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None
    reason: Text = Text("some of its queues were not read")


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """One group as a consumer of one topic. `lag` is a lower bound when some of its queues are unknown."""

    group: str
    status: str
    partial: bool
    clients: int | None
    queues: int
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None


def topic_page(
    cluster_name: str,
    list_query: ListQuery | None = None,
    *,
    scope: NameScope = EVERYTHING,
    kinds: Sequence[str] = ("NORMAL",),
    message_type: str = "",
    only_unread: bool = False,
) -> Page[TopicRow]:
    """Return one page of topics of the given kinds.

    `counts_by_status` counts all kinds and message types that match the query, and as `NO_READER` those without any
    consumer group, which `only_unread` selects. `hidden_system` is how many matching topics are of other kinds. At
    most three queries, four for a user who may see only the names of `scope`.
    """
    list_query = list_query or ListQuery()
    rows = TopicRow.objects.filter(cluster=cluster_name)
    everything = scope.filter(rows, "topic")
    all_total = everything.count()
    matching = everything.filter(topic__icontains=list_query.query) if list_query.query else everything
    unread = Q(kind="NORMAL", readers=0)
    sums = matching.values("kind", "message_type").annotate(count=Count("pk"), unread=count_if(unread))
    found = list(sums.order_by())
    counts: Counter[str] = Counter()
    for row in found:
        counts[row["kind"]] += row["count"]
        counts[NO_READER] += row["unread"]
        if row["kind"] == "NORMAL" and row["message_type"] in SPECIAL_TYPES:
            counts[row["message_type"]] += row["count"]
    hidden = sum(row["count"] for row in found if row["kind"] not in kinds)
    if message_type:
        found = [row for row in found if row["message_type"] == message_type]
        matching = matching.filter(message_type=message_type)
    if only_unread:
        matching = matching.filter(unread)
    total = sum(row["unread" if only_unread else "count"] for row in found if row["kind"] in kinds)
    return cut(
        matching.filter(kind__in=kinds).order_by(*TOPICS.order_by(list_query.sort, list_query.descending)),
        page=list_query.page,
        per_page=list_query.per_page,
        is_whole=list_query.is_whole,
        total=total,
        all_total=all_total,
        hidden_system=hidden,
        counts_by_status=counts,
        not_shown=0 if scope.is_everything else rows.count() - all_total,
    )


def topic(cluster_name: str, name: str) -> TopicRow | None:
    """Return one topic's row, or None when no broker has it (any more)."""
    return TopicRow.objects.filter(cluster=cluster_name, topic=name).first()


def without_hidden_group(row: TopicRow, scope: NameScope) -> TopicRow:
    """Return the row for a user who may see the names of ``scope``; do not save it.

    A group outside the scope is not named (``worst_group`` None); its lag belongs to the topic and stays.
    """
    if row.worst_group and not scope.covers(row.worst_group):
        row.worst_group = None  # type: ignore[assignment]
    return row


def without_hidden_groups(row: JsonObject, scope: NameScope) -> JsonObject:
    """Return the same for a published row, which also names the group that loses messages first."""
    names = ("worst_group", "time_to_loss_group")
    return {**row, **{name: None for name in names if row.get(name) and not scope.covers(row[name])}}


def topic_queues(cluster_name: str, name: str) -> ColumnRows[TopicQueueRow]:
    """Return the topic's queues by broker and queue id."""
    return queues.topic_queues(cluster_name, [name])


def topic_groups(cluster_name: str, name: str) -> Sequence[TopicGroup]:
    """Return the groups that consume the topic, largest time lag first. Two queries."""
    sums, unknown = queues.by_reader(cluster_name, name)
    groups = GroupRow.objects.filter(cluster=cluster_name)
    if len(sums) <= NAMED_MAX:
        groups = groups.filter(group__in=list(sums))
    found = [
        TopicGroup(
            group=group,
            status=status,
            partial=partial,
            clients=clients,
            queues=sums[group].queues,
            lag=sums[group].lag,
            lag_lower_bound=group in unknown and sums[group].lag is not None,
            time_lag_ms=sums[group].time_lag_ms,
        )
        for group, status, partial, clients in groups.values_list("group", "status", "partial", "clients")
        if group in sums
    ]
    return sorted(found, key=lambda one: (-(one.time_lag_ms or -1), -(one.lag or -1), one.group))


def worst_readers(
    cluster_name: str, name: str, groups: Sequence[TopicGroup]
) -> Mapping[tuple[str, int], queues.WorstReader]:
    """Return (broker, queue) → which of the groups that consume the topic is furthest behind there. One query."""
    names = [one.group for one in groups]
    return queues.worst_readers(cluster_name, name, names)


def topic_readers(
    cluster_name: str, name: str, *, limit: int, scope: NameScope = EVERYTHING
) -> tuple[list[Reader], bool]:
    """Return the first groups in scope that consume the topic, and whether there are more; two queries.

    Largest time lag first.
    """
    sums, _ = queues.by_reader(cluster_name, name)
    covered = filter(scope.covers, sums)
    worst_first = sorted(covered, key=lambda group: (*queues.worst_first(sums[group]), group))
    first = worst_first[:limit]
    known = GroupRow.objects.filter(cluster=cluster_name, group__in=first).values_list("group", "status")
    status = dict(known)
    found = [
        Reader(
            group=group,
            status=status.get(group, "UNKNOWN"),
            lag=sums[group].lag,
            lag_lower_bound=sums[group].lag_lower_bound,
            time_lag_ms=sums[group].time_lag_ms,
        )
        for group in first
    ]
    return found, len(worst_first) > limit


def topic_names(
    cluster_name: str,
    *,
    query: str = "",
    kinds: Sequence[str] = KINDS,
    limit: int = 20,
    scope: NameScope = EVERYTHING,
) -> list[str]:
    """Return names for completion and the command palette: those that begin with the query first."""
    found = TopicRow.objects.filter(Q(cluster=cluster_name, kind__in=kinds), topic__icontains=query)
    rows = scope.filter(found, "topic")
    begins = rows.annotate(begins=Q(topic__istartswith=query))
    return list(begins.order_by("-begins", "topic").values_list("topic", flat=True)[:limit])
