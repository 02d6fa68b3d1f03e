"""The list of operations: every plan with its job, filtered, sorted and counted in the database."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Case, CharField, Count, Q, QuerySet, Value, When
from django.utils import timezone

from console.access.name_scope import EVERYTHING, NameScope
from console.lists.page import PER_PAGE_MAX, Page, cut, ordered
from console.operation.models import ACTIVE_STATES, Confirm, JobState, Plan, PlanState

WAITING, PLANNED, OPEN = "waiting", "planned", "open"
STATES: Mapping[str, str] = {
    # What a chip is called; a row is in exactly one of them.
    WAITING: "Waits for a second person",
    PLANNED: "Only planned",
    OPEN: "Under way",
    "done": "Done",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "expired": "Expired",
    "discarded": "Discarded",
}
JOB_STATES = {
    JobState.SUCCEEDED: "done",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
SORTS: Mapping[str, Sequence[str]] = {
    # What a person sorts by → columns; every order ends in the plan's id, so that pages do not overlap.
    "made": ("created_at",),
    "ended": ("job__finished_at",),
    "kind": ("kind",),
    "subject": ("subject",),
    "by": ("created_by",),
    "messages": ("messages",),
    "state": ("where",),
}


def operation_page(
    cluster: str,
    *,
    now: datetime.datetime | None = None,
    scope: NameScope = EVERYTHING,
    query: str = "",
    created_by: str = "",
    kind: str = "",
    state: str = "",
    sort: str = "made",
    descending: bool = True,
    page: int = 1,
    per_page: int = 50,
) -> Page[Plan]:
    """Return one page of operations, newest first by default: plans, each with `where` (a key of `STATES`) and `job` if
    it was applied. `counts_by_status` counts by state those that match all else. Two queries, three for a narrow
    `scope`.

    `query` is part of a group's, topic's or broker's name or the beginning of a plan's or job's id;
    `created_by` part of a person's name, who planned, approved or applied it.
    """
    everything = Plan.objects.filter(cluster=cluster)
    visible = scope.filter(everything, "subject")
    rows = with_state(visible, now or timezone.now())
    if query:
        named = Q(subject__icontains=query)
        rows = rows.filter(named | Q(pk__istartswith=query) | Q(job__pk__istartswith=query))
    if created_by:
        person = Q(created_by__icontains=created_by)
        rows = rows.filter(
            person | Q(approved_by__icontains=created_by) | Q(job__created_by__icontains=created_by)
        )
    if kind:
        rows = rows.filter(kind=kind)
    counts = dict(rows.values_list("where").annotate(number=Count("pk")).order_by())
    total = counts.get(state, 0) if state else sum(counts.values())
    wanted = rows.filter(where=state) if state else rows
    order = ordered([(column, descending) for column in SORTS.get(sort, SORTS["made"])])
    # A diff has a row for each queue and is on the plan's own page.
    return cut(
        wanted.select_related("job").defer("diff").order_by(*order, "-pk"),
        page=page,
        per_page=per_page,
        total=total,
        all_total=sum(counts.values()) if not (query or created_by or kind) else visible.count(),
        counts_by_status=counts,
        not_shown=0 if scope.is_everything else everything.count() - visible.count(),
    )


def with_state(rows: QuerySet[Plan], now: datetime.datetime) -> QuerySet[Any]:
    """Plans with `where`: how far each is, counting what has expired although nobody has marked it yet."""
    draft = Q(state=PlanState.DRAFT)
    return rows.annotate(
        where=Case(
            When(job__state__in=list(ACTIVE_STATES), then=Value(OPEN)),
            *(When(job__state=state, then=Value(word)) for state, word in JOB_STATES.items()),
            When(state=PlanState.DISCARDED, then=Value("discarded")),
            When(Q(state=PlanState.EXPIRED) | (draft & Q(expires_at__lte=now)), then=Value("expired")),
            When(draft & unapproved(), then=Value(WAITING)),
            default=Value(PLANNED),
            output_field=CharField(),
        )
    )


def unapproved() -> Q:
    """Plans that a second person has to agree with and nobody has; one that can not be applied asks nobody."""
    return Q(confirm=Confirm.SECOND_PERSON, approved_by="", blocked="")


def waiting_for_others(cluster: str, person: str, *, now: datetime.datetime) -> list[Plan]:
    """Return the plans of a cluster that somebody else than their maker has to agree with, oldest first: those
    that ask ``person``, as far as their rights go.
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
