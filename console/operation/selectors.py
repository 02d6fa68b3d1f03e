"""Plans and jobs as pages, REST and commands read them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.models.expressions import OrderBy
from django.utils.module_loading import import_string

from console.access import selectors as access_selectors
from console.access.models import AuditEvent
from console.access.name_scope import EVERYTHING, NameScope
from console.lists.page import PER_PAGE_MAX, Page, cut, cut_after
from console.operation.errors import JobNotFound, PlanNotFound, PlanRejected, UndoImpossible
from console.operation.models import ACTIVE_STATES, FINAL_STATES, Job, Plan, PlanState
from console.operation.plan.kinds import AnyPlanKind, Link
from console.text import Text


def plan_kinds() -> Mapping[str, AnyPlanKind]:
    """Return the wiring table, looked up by name so that operation imports no app above it."""
    table: Mapping[str, AnyPlanKind] = import_string(settings.PLAN_KINDS)
    return table


def plan_kind(kind: str) -> AnyPlanKind:
    """Return the kind of that name; raise PlanRejected."""
    found = plan_kinds().get(kind)
    if found is None:
        raise PlanRejected(Text("There is no plan kind %(kind)s.", kind=repr(kind)), field="kind")
    return found


def long_kinds() -> list[str]:
    """Return the names of the kinds whose jobs take minutes or hours."""
    return [name for name, kind in plan_kinds().items() if kind.runs_long]


def plan(plan_id: str) -> Plan:
    """Return one plan with its job; raise PlanNotFound."""
    found = Plan.objects.select_related("job", "undo_of").filter(pk=plan_id).first()
    if found is None:
        raise PlanNotFound(Text("There is no plan %(plan)s.", plan=plan_id))
    return found


def discard_of(plan: Plan) -> AuditEvent | None:
    """Return who discarded a plan, and when; None for other plans, and where the audit no longer has it."""
    if plan.state != PlanState.DISCARDED:
        return None
    return access_selectors.audit_events(plan_id=plan.id).filter(verb="discard").first()


def job(job_id: str) -> Job:
    """Return one job with its plan; raise JobNotFound."""
    found = Job.objects.select_related("plan").filter(pk=job_id).first()
    if found is None:
        raise JobNotFound(Text("There is no job %(job)s.", job=job_id))
    return found


def undo_params(plan_id: str) -> tuple[Plan, Any]:
    """Return an applied plan and the parameters of its undo. Raises PlanNotFound, UndoImpossible."""
    found = plan(plan_id)
    job = Job.objects.filter(plan=found).first()
    if job is None:
        raise UndoImpossible(Text("%(id)s was never applied.", id=found.id))
    if job.state not in FINAL_STATES:
        raise UndoImpossible(
            Text("%(id)s is still %(state)s; cancel it or wait.", id=job.id, state=job.state.lower())
        )
    params = plan_kind(found.kind).undo_params(found, job)
    if params is None:
        raise UndoImpossible(Text("The changes of this job cannot be undone."))
    return found, params


def finished_plans(cluster: str, kind: str, subject: str, *, limit: int = 20) -> list[Plan]:
    """Return applied plans of one subject whose jobs are over, newest first: candidates for an undo."""
    rows = Plan.objects.filter(cluster=cluster, kind=kind, subject=subject, state=PlanState.APPLIED)
    return list(rows.filter(job__state__in=FINAL_STATES).select_related("job")[:limit])


def plans_with(cluster: str, kind: str, **params: str | int) -> list[Plan]:
    """Return the plans of a kind with these parameters, newest first, with their jobs."""
    wanted = {f"params__{name}": value for name, value in params.items()}
    return list(Plan.objects.filter(cluster=cluster, kind=kind, **wanted).select_related("job"))


def jobs_page(
    cluster: str | None = None,
    *,
    scope: NameScope = EVERYTHING,
    page: int = 1,
    per_page: int = 50,
    after: str = "",
    order: Sequence[OrderBy] = (),
    is_whole: bool = False,
    **exact: str,
) -> Page[Job]:
    """Return jobs, newest first without an order; ``exact``: kind, state, subject, created_by, "" for any.

    ``is_whole``: all are one page, for a file.
    """
    wanted = {field: value for field, value in {"cluster": cluster, **exact}.items() if value}
    rows = scope.filter(Job.objects.select_related("plan").filter(**wanted), "subject")
    rows = rows.order_by(*order) if order else rows
    if is_whole:
        return cut(rows, page=1, per_page=1, is_whole=True)
    return cut_after(rows, page=page, per_page=per_page, after=after)


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedPlan:
    """What the audit shows of a plan: the page of its object, the title of its kind, what it has done."""

    object: Link
    kind: Text
    done: Text


def audited_plans(plan_ids: Iterable[str]) -> dict[str, AuditedPlan]:
    """Return these plans by id; one query."""
    wanted = {plan_id for plan_id in plan_ids if plan_id}
    plans = Plan.objects.filter(pk__in=wanted).defer("diff") if wanted else ()
    return {plan.id: _audited(plan) for plan in plans}


def _audited(plan: Plan) -> AuditedPlan:
    kind = plan_kinds().get(plan.kind)
    if kind is None:
        return AuditedPlan(object_of(plan), Text(), plan.summary)
    return AuditedPlan(object_of(plan), kind.title, kind.done_words(plan))


def object_of(plan: Plan) -> Link:
    """Return the page of what a plan changes."""
    found = plan_kinds().get(plan.kind)
    if found is None:
        return Link(Text.foreign(plan.subject), "")
    return found.place_of(plan).trail(plan.cluster, plan.subject)[-1]


def job_at(
    cluster: str, subject: str, at_ms: int, *, kinds: Collection[str] | None = None, within_ms: int = 0
) -> Job | None:
    """Return the newest job, of some kinds, that worked on a group or topic at a moment or shortly before it."""
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    earliest = moment - datetime.timedelta(milliseconds=within_ms)
    still = Q(finished_at__isnull=True) | Q(finished_at__gte=earliest)
    jobs = Job.objects.filter(still, cluster=cluster, subject=subject, started_at__lte=moment)
    return (jobs if kinds is None else jobs.filter(kind__in=kinds)).first()


def active_jobs(cluster: str, subject: str = "") -> list[Job]:
    """Return unfinished jobs of a cluster (or of one group or topic), newest first."""
    rows = Job.objects.filter(cluster=cluster, state__in=ACTIVE_STATES)
    return list((rows.filter(subject=subject) if subject else rows).select_related("plan")[:PER_PAGE_MAX])
