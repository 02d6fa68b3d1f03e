"""Consumer groups as of the last collection round. No function here calls a broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from django.db.models import Count, Q, QuerySet

from console.access.name_scope import EVERYTHING, NameScope
from console.brokers.mqadmin import MessageQueue
from console.group import flow, pauses
from console.group.group_list import GROUPS
from console.lag import selectors as lag_selectors
from console.lag.collect import reset
from console.lag.history import owners
from console.lag.last_seen import may_lie_on_silent
from console.lag.models import ClientRow, GroupRow
from console.lag.past import history_reads
from console.lag.round.figures import ClientFigures
from console.lag.round.view import ClientProgress
from console.lag.rows import broadcast, client_reports, queues
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.popped import HeldQueue
from console.lag.rows.queue_row import QueueRow
from console.lists.page import Page, count_if, cut
from console.lists.query import ListQuery
from console.lists.spec import ListSpec
from console.text import Text
from console.text.stored import of_json
from spark.lag.folds.rounds import GAP_INTERVALS

UNKNOWN = "UNKNOWN"
PARTIAL = "PARTIAL"  # a separate filter: known status, unknown parts

# The longest cumulative flow: over a month, its lines would coincide.
FLOW_MS_MAX = 24 * 3_600_000
SPEED_MS = 3_600_000  # the best minute of this hour is the speed a group can reach
# Before a plan: the readers' present pace, not the one after a replay an hour ago.
PACE_MS = 600_000

Conditions = Mapping[str, Mapping[str, Q]]


@dataclass(frozen=True, slots=True)
class GroupPage(Page[GroupRow]):
    """One page of groups.

    `counts_by_filter`: how many groups that match the query each value of each filter would show; `paused` is
    `pauses.paused_groups`.
    """

    counts_by_filter: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    paused: Mapping[str, Sequence[str]] = field(default_factory=dict)


def group_page(
    cluster_name: str,
    list_query: ListQuery | None = None,
    *,
    scope: NameScope = EVERYTHING,
    status: str | None = None,
    include_system: bool = False,
    stale_since_ms: int | None = None,
) -> GroupPage:
    """Return one page of groups, most urgent first by default.

    See `group_list.GROUPS` for orders and filters; all filters must hold. `status` is a LagStatus code or
    `PARTIAL`. Unknown figures sort last in both directions. With `stale_since_ms` (see
    `console.lag.selectors`) every group is UNKNOWN. Three queries, four for a user who may see only the names
    of `scope`, and one for the paused groups.
    """
    list_query = list_query or ListQuery()
    paused = pauses.paused_groups(cluster_name)
    conditions = _conditions(paused)
    rows = GroupRow.objects.filter(cluster=cluster_name)
    everything = scope.filter(rows, "group")
    totals = everything.aggregate(everything=Count("pk"), system=count_if(Q(is_system=True)))
    shown = everything if include_system else everything.filter(is_system=False)
    matching = shown.filter(group__icontains=list_query.query) if list_query.query else shown
    chosen = Q()
    for name, value in list_query.filters.items():
        chosen &= conditions[name][value]
    counts, counts_by_filter = _counts(matching, chosen, conditions)
    matching = matching.filter(chosen)
    total = sum(count for code, count in counts.items() if code != PARTIAL)
    if stale_since_ms is not None:
        counts = {UNKNOWN: total} if total else {}
        matching, total = (matching, total) if status in (None, UNKNOWN) else (matching.none(), 0)
    elif status == PARTIAL:
        matching, total = matching.filter(partial=True), counts.get(PARTIAL, 0)
    elif status:
        matching, total = matching.filter(status=status), counts.get(status, 0)
    hidden = 0 if include_system else totals["system"]
    not_shown = (
        0 if scope.is_everything else rows.filter(is_system=False).exclude(scope.condition("group")).count()
    )
    found = cut(
        matching.order_by(*GROUPS.order_by(list_query.sort, list_query.descending)),
        page=list_query.page,
        per_page=list_query.per_page,
        is_whole=list_query.is_whole,
        total=total,
        all_total=totals["everything"] - hidden,
        hidden_system=hidden,
        counts_by_status=counts,
        not_shown=not_shown,
    )
    return GroupPage(
        **{each.name: getattr(found, each.name) for each in fields(found)},
        counts_by_filter=counts_by_filter,
        paused=paused,
    )


def _conditions(paused: Mapping[str, Sequence[str]]) -> Conditions:
    """Return the conditions of every filter for one cluster; pauses are stored in another database."""
    is_paused = Q(group__in=sorted(paused))
    return {
        each.name: {
            choice.value: is_paused if choice.condition is None else choice.condition
            for choice in each.choices
        }
        for each in GROUPS.filters
    }


def _counts(
    rows: QuerySet[GroupRow], chosen: Q, conditions: Conditions
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return counts by status of the chosen rows, and by filter of all rows; one query."""
    columns = {
        f"{name}_{value}": count_if(q) for name, values in conditions.items() for value, q in values.items()
    }
    by_status: dict[str, int] = {}
    by_filter = {name: dict.fromkeys(values, 0) for name, values in conditions.items()}
    counted = rows.values("status", "partial").annotate(count=count_if(chosen), **columns).order_by()
    for status, is_partial, count, *numbers in counted.values_list("status", "partial", "count", *columns):
        for code in (status, *([PARTIAL] if is_partial else [])):
            if count:
                by_status[code] = by_status.get(code, 0) + count
        found = dict(zip(columns, numbers, strict=True))
        for name, values in by_filter.items():
            for value in values:
                values[value] += found[f"{name}_{value}"]
    return by_status, by_filter


def group(cluster_name: str, name: str) -> GroupRow | None:
    """Return one group's row, or None when the cluster does not have it (any more)."""
    return GroupRow.objects.filter(cluster=cluster_name, group=name).first()


def why_missing(cluster_name: str, name: str) -> Text:
    """Return why there is no row of a group."""
    if lag_selectors.last_round(cluster_name) is None:
        return Text(
            "Whether %(cluster)s has a group %(group)s is unknown: its first round is not done yet.",
            cluster=cluster_name,
            group=name,
        )
    unknown = Text(
        "%(cluster)s has no group %(group)s: it never connected, or was deleted.",
        cluster=cluster_name,
        group=name,
    )
    return Text.of_parts([unknown, may_lie_on_silent(cluster_name)])


def group_queues(cluster_name: str, name: str, *, topic: str | None = None) -> ColumnRows[QueueRow]:
    """Return the group's queues in (topic, broker, queue) order, its `%RETRY%` topic included."""
    found = queues.of_groups(cluster_name, [name])
    return found if topic is None else found.part(found.columns["topic"] == topic)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who reads a queue. `host` and `since_ms` null: no owner is known, or not since when."""

    queue: QueueRow
    host: str | None
    since_ms: int | None


ASSIGNMENTS = ListSpec(
    name="assignments",
    key="queue",
    default="queue",
    columns=(),
    orders={
        "queue": lambda one: (one.queue.topic, one.queue.broker_name, one.queue.queue_id),
        "client": lambda one: one.queue.owner or None,
        "host": lambda one: one.host,
        "lag": lambda one: one.queue.lag,
        "since": lambda one: one.since_ms,
    },
    searched=("queue.topic", "queue.broker_name", "queue.owner", "host"),
)


def assignments(cluster_name: str, name: str, now_ms: int) -> list[Assignment]:
    """Return the owner of each of a group's queues, in the order of `group_queues`."""
    hosts = {client.client_id: owners.host_of(client) for client in group_clients(cluster_name, name)}
    since_ms = {
        (MessageQueue(row.topic, row.broker_name, row.queue_id), row.client_id): row.from_ms
        for row in owners.between(cluster_name, name, now_ms, now_ms + 1)
    }
    return [
        Assignment(
            row,
            hosts.get(row.owner),
            since_ms.get((MessageQueue(row.topic, row.broker_name, row.queue_id), row.owner)),
        )
        for row in group_queues(cluster_name, name)
    ]


def worst_queues(cluster_name: str, name: str, *, limit: int) -> tuple[list[QueueRow], bool]:
    """Return the first queues of a group, and whether there are more; one query.

    Largest time lag first, unknown ones last.
    """
    every = queues.of_groups(cluster_name, [name])
    worst = sorted(every.records("time_lag_ms", "lag"), key=queues.worst_first)[:limit]
    return list(every.part([one.at for one in worst])), len(every) > limit


def groups_on_topics(cluster_name: str, topics: Sequence[str], *, limit: int = 200) -> list[str]:
    """Return names of groups that have committed on some of these topics: candidates for "like group"."""
    rows = queues.of_topics(cluster_name, topics)
    return sorted({row.group for row in rows if row.committed_offset is not None})[:limit]


def group_clients(cluster_name: str, name: str, *, most: int | None = None) -> Sequence[ClientRow]:
    """Return the group's members at the last sweep, by client id; all, or the first of them."""
    return list(ClientRow.objects.filter(cluster=cluster_name, group=name).order_by("client_id")[:most])


class Reported(NamedTuple):
    """What a member reported of itself, as `ClientRow` has it: that which is compared of all members."""

    client_id: str
    version: str
    subscription: client_reports.Subscription
    queues: Sequence[HeldQueue] | None


def reports(cluster_name: str, name: str) -> list[Reported]:
    """Return what the group's members reported at the last sweep, by client id: without a row of each, of 10,000."""
    rows = ClientRow.objects.filter(cluster=cluster_name, group=name).order_by("client_id")
    return [
        Reported(client_id, version, subscription, held)
        for held, subscription, client_id, version in client_reports.reports(
            rows, dict, "client_id", "version"
        )
    ]


def group_client(cluster_name: str, name: str, client_id: str) -> ClientRow | None:
    """Return one member as the last sweep found it, None when it was not there."""
    return ClientRow.objects.filter(cluster=cluster_name, group=name, client_id=client_id).first()


def client_queues(client: ClientRow) -> list[QueueRow]:
    """Return the queues a member of a broadcasting group reported; [] for other groups' members."""
    progress = ClientProgress(client.client_id, broadcast.kept_progress(client.progress))
    return broadcast.queue_rows(client.group, progress)


def member_figures(row: GroupRow) -> list[ClientFigures]:
    """Return the figures of a broadcasting group's members; [] for other groups."""
    return of_json(list[ClientFigures], row.client_progress)


def group_names(
    cluster_name: str, *, query: str = "", limit: int = 20, scope: NameScope = EVERYTHING
) -> list[str]:
    """Return names for completion and the command palette: those that begin with the query first."""
    rows = scope.filter(GroupRow.objects.filter(cluster=cluster_name, group__icontains=query), "group")
    begins = rows.annotate(begins=Q(group__istartswith=query))
    return list(begins.order_by("is_system", "-begins", "group").values_list("group", flat=True)[:limit])


def group_flow(cluster_name: str, name: str, from_ms: int, to_ms: int, points: int) -> flow.Flow:
    """Return a group's produced, pulled, committed and oldest stored over time (`flow.cumulative_flow`)."""
    interval_ms = lag_selectors.collect_interval_ms(cluster_name)
    samples = history_reads.load_main(cluster_name, name, from_ms, to_ms)
    return flow.cumulative_flow(samples, points, GAP_INTERVALS * interval_ms)


def best_speed(cluster_name: str, name: str, now_ms: int) -> tuple[float | None, bool]:
    """Return messages per second the group can read, by its last hour, and whether it was behind then.

    When it was behind, it read as fast as it could. Otherwise it read what arrived, and its best minute is a
    lower bound.
    """
    interval_ms = lag_selectors.collect_interval_ms(cluster_name)
    samples = history_reads.load_main(cluster_name, name, now_ms - SPEED_MS, now_ms)
    handled = flow.handled_speed(samples, interval_ms)
    if handled is not None:
        return handled, True
    found = flow.best_speed(samples, GAP_INTERVALS * interval_ms)
    return (None if found is None else found.per_s), False


def queue_paces(cluster_name: str, name: str, at_ms: int) -> dict[MessageQueue, float]:
    """Return messages per second the group was reading of each queue in the minutes before a moment."""
    interval_ms = lag_selectors.collect_interval_ms(cluster_name)
    samples = history_reads.load(cluster_name, name, at_ms - PACE_MS, at_ms + 1)
    set_at_ms = {
        MessageQueue(key.topic, key.broker_name, key.queue_id): move.at_ms
        for key, move in reset.recent_moves(cluster_name, now_ms=at_ms).items()
        if key.group == name
    }
    return flow.queue_paces(samples, GAP_INTERVALS * interval_ms, set_at_ms)
