"""Consumer groups as the last collection round saw them. No function here asks a broker."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Count, Q

from console.access.name_scope import EVERYTHING, NameScope
from console.group import flow
from console.lag import past
from console.lag import selectors as lag_selectors
from console.lag.models import ClientRow, GroupRow, QueueRow
from console.lag.page import Page, count_if, cut, ordered
from console.mqadmin import RETRY_TOPIC_PREFIX
from spark.lag.samples import Samples

PARTIAL = "PARTIAL"  # a filter of its own: known status, unknown parts

SPEED_MS = 3_600_000  # the hour whose best minute says what a group can do

SORTS: dict[str, tuple[str, ...]] = {
    # What a person sorts by → columns; every order ends in the group name, so that pages do not overlap.
    "attention": ("attention", "time_lag_ms", "lag"),
    "group": ("group",),
    "status": ("status",),
    "clients": ("clients",),
    "model": ("model",),
    "lag": ("lag",),
    "time_lag": ("time_lag_ms",),
    "in_rate": ("in_rate",),
    "out_rate": ("out_rate",),
    "drain": ("drain_never", "drain_ms"),
    "dlq": ("dlq_count",),
    "retry": ("retry_lag",),
}


def group_page(
    cluster_name: str,
    *,
    scope: NameScope = EVERYTHING,
    query: str = "",
    status: str | None = None,
    include_system: bool = False,
    sort: str = "attention",
    descending: bool = True,
    page: int = 1,
    per_page: int = 50,
) -> Page[GroupRow]:
    """Return one page of groups, most urgent first by default.

    `status` is a LagStatus code or `PARTIAL`; an unknown `sort` falls back to attention. Unknown figures sort
    last in both directions. Three queries, four for somebody who may see only the names of `scope`.
    """
    rows = GroupRow.objects.filter(cluster=cluster_name)
    everything = scope.filter(rows, "group")
    totals = everything.aggregate(everything=Count("pk"), system=count_if(Q(is_system=True)))
    shown = everything if include_system else everything.filter(is_system=False)
    matching = shown.filter(group__icontains=query) if query else shown
    counts: dict[str, int] = {}
    for row in matching.values("status", "partial").annotate(count=Count("pk")).order_by():
        counts[row["status"]] = counts.get(row["status"], 0) + row["count"]
        if row["partial"]:
            counts[PARTIAL] = counts.get(PARTIAL, 0) + row["count"]
    total = sum(count for code, count in counts.items() if code != PARTIAL)
    if status == PARTIAL:
        matching, total = matching.filter(partial=True), counts.get(PARTIAL, 0)
    elif status:
        matching, total = matching.filter(status=status), counts.get(status, 0)
    columns = SORTS.get(sort, SORTS["attention"])
    keys = [(column, descending) for column in columns] + [("group", False)] * (sort != "group")
    hidden = 0 if include_system else totals["system"]
    not_shown = (
        0 if scope.is_everything else rows.filter(is_system=False).exclude(scope.condition("group")).count()
    )
    return cut(
        matching.order_by(*ordered(keys)),
        page=page,
        per_page=per_page,
        total=total,
        all_total=totals["everything"] - hidden,
        hidden_system=hidden,
        counts_by_status=counts,
        not_shown=not_shown,
    )


def group(cluster_name: str, name: str) -> GroupRow | None:
    """Return one group's row, or None when the cluster does not know it (any more)."""
    return GroupRow.objects.filter(cluster=cluster_name, group=name).first()


def group_queues(cluster_name: str, name: str, *, topic: str | None = None) -> Sequence[QueueRow]:
    """Return the group's queues in (topic, broker, queue) order, its `%RETRY%` topic included."""
    rows = QueueRow.objects.filter(cluster=cluster_name, group=name)
    if topic is not None:
        rows = rows.filter(topic=topic)
    return list(rows.order_by("topic", "broker_name", "queue_id"))


def groups_on_topics(cluster_name: str, topics: Sequence[str], *, limit: int = 200) -> list[str]:
    """Return names of groups that have committed on some of these topics: those one can stand like."""
    rows = QueueRow.objects.filter(cluster=cluster_name, topic__in=topics, committed_offset__isnull=False)
    return list(rows.order_by("group").values_list("group", flat=True).distinct()[:limit])


def group_clients(cluster_name: str, name: str) -> Sequence[ClientRow]:
    """Return the group's members at the last sweep, by client id."""
    return list(ClientRow.objects.filter(cluster=cluster_name, group=name).order_by("client_id"))


def group_topics(cluster_name: str, name: str) -> Sequence[dict[str, Any]]:
    """Return the group's topics with their sums (see `GroupRow.topics`); empty for an unknown group."""
    row = group(cluster_name, name)
    return [] if row is None else list(row.topics)


def group_names(
    cluster_name: str, *, query: str = "", limit: int = 20, scope: NameScope = EVERYTHING
) -> list[str]:
    """Return names for completion and the command palette, shortest match first by name order."""
    rows = scope.filter(GroupRow.objects.filter(cluster=cluster_name, group__icontains=query), "group")
    return list(rows.order_by("is_system", "group").values_list("group", flat=True)[:limit])


def group_flow(cluster_name: str, name: str, from_ms: int, to_ms: int, points: int) -> dict[str, Any]:
    """Return produced, pulled, committed and oldest stored of a group over time; see `flow.cumulative_flow`."""
    interval_ms = lag_selectors.collect_interval_ms(cluster_name)
    samples = _main_samples(cluster_name, name, from_ms, to_ms, interval_ms)
    return flow.cumulative_flow(samples, points, past.GAP_INTERVALS * interval_ms)


def best_speed(cluster_name: str, name: str, now_ms: int) -> float | None:
    """Return the messages a second of the group's best minute in the last hour; None: it was not seen reading."""
    interval_ms = lag_selectors.collect_interval_ms(cluster_name)
    samples = _main_samples(cluster_name, name, now_ms - SPEED_MS, now_ms, interval_ms)
    found = flow.best_speed(samples, past.GAP_INTERVALS * interval_ms)
    return None if found is None else found.per_s


def _main_samples(cluster_name: str, name: str, from_ms: int, to_ms: int, interval_ms: int) -> Samples:
    """What failed and comes again is not part of the group's own flow."""
    samples = past.load(cluster_name, name, from_ms, to_ms, interval_ms=interval_ms)
    return samples.select(lambda key: not key.topic.startswith(RETRY_TOPIC_PREFIX))
