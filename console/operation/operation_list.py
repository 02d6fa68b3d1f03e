"""The list of operations: every plan with its job, filtered, sorted and counted in the database."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Case, CharField, Count, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.expressions import OrderBy
from django.utils import timezone

from console.access.name_scope import EVERYTHING, NameScope
from console.lists.page import PER_PAGE_MAX, Page, cut
from console.lists.query import ListQuery
from console.lists.spec import MSGS, Choice, Column, Filter, ListSpec
from console.operation.models import ACTIVE_STATES, Confirm, JobState, Plan, PlanState
from console.text import Text

WAITING, PLANNED, OPEN = "waiting", "planned", "open"
# State → the label of its chip; a row is in exactly one of them.
STATES: Mapping[str, Text] = {
    WAITING: Text("Waiting for a second person"),
    PLANNED: Text("Planned only"),
    OPEN: Text("In progress"),
    "done": Text("Done"),
    "failed": Text("Failed"),
    "cancelled": Text("Cancelled"),
    "expired": Text("Expired"),
    "discarded": Text("Discarded"),
}
JOB_STATES = {
    JobState.SUCCEEDED: "done",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
OPERATIONS = ListSpec(
    name="operations",
    key="-pk",
    default="-made",
    columns=(
        Column("kind", Text("Change"), css="", order=("kind",), ascending=True, fields=("id", "kind")),
        Column("subject", Text("Object"), css="", order=("subject",), ascending=True, fields=("subject",)),
        Column("state", Text("State"), css="", order=("where",), ascending=True, fields=("where",)),
        Column("words", Text("Summary"), css="", fields=("summary",)),
        Column("messages", Text("Affects"), MSGS, css="num p3", order=("messages",), fields=("messages",)),
        Column(
            "by",
            Text("By"),
            css="p2",
            order=("created_by",),
            ascending=True,
            fields=("created_by", "approved_by"),
        ),
        Column("made", Text("Created"), order=("created_at",), fields=("created_at", "ended_at")),
        Column("next", Text("Next step"), css="", is_bare=True),
    ),
    orders={"ended": ("ended_at",)},
    filters=(Filter("state", tuple(Choice(code, words) for code, words in STATES.items())),),
)

JOBS = ListSpec(
    name="jobs",
    key="-pk",
    default="-made",
    columns=(),
    file_fields=(
        "id",
        "plan_id",
        "kind",
        "subject",
        "state",
        "created_by",
        "created_at",
        "started_at",
        "finished_at",
        "attempts",
        "error",
    ),
    orders={
        "made": ("created_at",),
        "kind": ("kind",),
        "subject": ("subject",),
        "state": ("state",),
        "by": ("created_by",),
        "ended": ("finished_at",),
    },
)


def operation_page(
    cluster: str,
    list_query: ListQuery | None = None,
    *,
    now: datetime.datetime | None = None,
    scope: NameScope = EVERYTHING,
    created_by: str = "",
    kind: str = "",
) -> Page[Plan]:
    """Return one page of operations, newest first by default.

    Each plan has `where` (a key of `STATES`), `job` if it was applied, and `undone_by`, the id of what undid it.
    `counts_by_status` counts, by state, the plans that match the other filters. Two queries, three for a narrow
    `scope`.

    The search words are part of a group's, topic's or broker's name or the beginning of a plan's or job's id;
    `created_by` is part of the name of the person who planned, approved or applied it.
    """
    list_query = list_query or ListQuery()
    everything = Plan.objects.filter(cluster=cluster)
    visible = scope.filter(everything, "subject")
    rows = with_state(visible, now or timezone.now())
    if list_query.query:
        named = Q(subject__icontains=list_query.query)
        rows = rows.filter(
            named | Q(pk__istartswith=list_query.query) | Q(job__pk__istartswith=list_query.query)
        )
    if created_by:
        person = Q(created_by__icontains=created_by)
        rows = rows.filter(
            person | Q(approved_by__icontains=created_by) | Q(job__created_by__icontains=created_by)
        )
    if kind:
        rows = rows.filter(kind=kind)
    counts = dict(rows.values_list("where").annotate(number=Count("pk")).order_by())
    state = list_query.filters.get("state", "")
    total = counts.get(state, 0) if state else sum(counts.values())
    wanted = rows.filter(where=state) if state else rows
    is_narrowed = list_query.query or created_by or kind
    # A diff has a row for each queue and is shown on the plan's own page.
    return cut(
        wanted.select_related("job")
        .defer("diff")
        .annotate(undone_by=Subquery(undone_by(OuterRef("pk")).values("pk")[:1]))
        .order_by(*OPERATIONS.order_by(list_query.sort, list_query.descending)),
        page=list_query.page,
        per_page=list_query.per_page,
        is_whole=list_query.is_whole,
        total=total,
        all_total=visible.count() if is_narrowed else sum(counts.values()),
        counts_by_status=counts,
        not_shown=0 if scope.is_everything else everything.count() - visible.count(),
    )


def plans(
    cluster: str, *, order: Sequence[OrderBy] = (), scope: NameScope = EVERYTHING, **exact: str
) -> QuerySet[Plan]:
    """Return plans, newest first without an order; ``exact``: kind, state, subject, created_by, "" for any."""
    wanted = {field: value for field, value in exact.items() if value}
    found: QuerySet[Plan] = with_state(
        scope.filter(Plan.objects.filter(cluster=cluster, **wanted), "subject"), timezone.now()
    )
    return found.order_by(*order) if order else found


def with_state(rows: QuerySet[Plan], now: datetime.datetime) -> QuerySet[Any]:
    """Annotate plans with `where`, their state; overdue drafts count as expired before they are marked."""
    draft = Q(state=PlanState.DRAFT)
    return rows.annotate(
        ended_at=F("job__finished_at"),
        where=Case(
            When(job__state__in=list(ACTIVE_STATES), then=Value(OPEN)),
            *(When(job__state=state, then=Value(word)) for state, word in JOB_STATES.items()),
            When(state=PlanState.DISCARDED, then=Value("discarded")),
            When(Q(state=PlanState.EXPIRED) | (draft & Q(expires_at__lte=now)), then=Value("expired")),
            When(draft & unapproved(), then=Value(WAITING)),
            default=Value(PLANNED),
            output_field=CharField(),
        ),
    )


def undone_by(plan: str | OuterRef) -> QuerySet[Plan]:
    """Return what undoes this plan and has not failed, newest first."""
    states = (*ACTIVE_STATES, JobState.SUCCEEDED)
    return Plan.objects.filter(undo_of=plan, job__state__in=states).order_by("-created_at")


def unapproved() -> Q:
    """Select plans that wait for a second person; a blocked plan does not."""
    return Q(confirm=Confirm.SECOND_PERSON, approved_by="", blocked="")


def waiting_for_others(cluster: str, person: str, *, now: datetime.datetime) -> list[Plan]:
    """Return the plans of a cluster that ``person`` may have to approve, oldest first.

    Plans of other makers only; the caller filters by the person's rights.
    """
    rows = Plan.objects.filter(unapproved(), cluster=cluster, state=PlanState.DRAFT, expires_at__gt=now)
    return list(
        rows.exclude(created_by=person)
        .defer("diff", "before", "params")
        .order_by("created_at")[:PER_PAGE_MAX]
    )


def people(cluster: str, *, limit: int = 100) -> list[str]:
    """Return who made plans here, for the filter's choices."""
    names = Plan.objects.filter(cluster=cluster).order_by("created_by").values_list("created_by", flat=True)
    return list(names.distinct()[:limit])
