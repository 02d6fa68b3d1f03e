"""The plan page with its confirmation, the page of a job, and the list of both."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from console.access import rules
from console.access import selectors as access_selectors
from console.access.models import Verb
from console.access.session.visitor import remote_addr
from console.brokers.errors import BROKER_TROUBLE
from console.cluster import selectors as cluster_selectors
from console.cluster.admission import admit_to_list
from console.cluster.models import Cluster
from console.lists.file import file_of
from console.lists.page import cut
from console.lists.query import ListQuery, whole_number
from console.operation import operation_list, selectors, services
from console.operation.errors import (
    JobNotFound,
    OperationError,
    PlanAlreadyApplied,
    PlanDrifted,
    PlanNotFound,
)
from console.operation.forms import ConfirmForm, RateForm
from console.operation.job import control
from console.operation.job.runner import RETRIES_MAX, RETRY_PAUSE_MS, shown_state, without_worker
from console.operation.models import FINAL_STATES, Job, JobState, Plan, PlanState
from console.operation.operation_list import OPERATIONS
from console.operation.plan.coverage import of_plan
from console.operation.plan.job_run import JobCounts
from console.operation.plan.kinds import JobRow, Link
from console.operation.plan.params import ACCEPT_WITHOUT
from console.operation.rules import CANCELLABLE, shown_plan
from console.text import Text, text_of
from console.text.stored import of_json
from console.web.page_context import PageContext

# Of a plan on one page; 2,000 queues would be a megabyte.
DIFF_ROWS = 200
ROW_ORDER = ("failed", "waiting", "applied", "passed", "verified")
# Action on a plan → what its refusal begins with.
REFUSED = {
    "apply": Text("Not applied."),
    "approve": Text("Not approved."),
    "discard": Text("Not discarded."),
    "undo": Text("No plan was made."),
    "again": Text("No plan was made."),
}
# msg/s; a higher rate can be typed.
RATE_SLIDER_MAX = 1_000


@require_safe
def operations(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """Show every plan with its job; `?format=csv` downloads them.

    Chips count, for every state, the plans that match the other filters.
    """
    here, scope = admit_to_list(request, cluster)
    list_query = ListQuery.of(request, OPERATIONS)
    wanted = {name: request.GET.get(name, "").strip()[:255] for name in ("kind", "by")}
    state = list_query.filters.get("state", "")
    now = timezone.now()
    page = operation_list.operation_page(
        here.name, list_query, now=now, scope=scope, created_by=wanted["by"], kind=wanted["kind"]
    )
    if list_query.is_whole:
        return file_of(request, page, OPERATIONS, here.name)
    context = {
        "cluster": here,
        "list": OPERATIONS,
        "query": list_query,
        "page": page,
        "columns": access_selectors.column_choice(request.user, OPERATIONS),
        "rows": [_operation(request, here, found) for found in page.rows],
        "chips": [
            (code, word, page.counts_by_status.get(code, 0))
            for code, word in operation_list.STATES.items()
            if page.counts_by_status.get(code) or code == state
        ],
        "count_all": sum(page.counts_by_status.values()),
        "kinds": sorted(selectors.plan_kinds()),
        "people": operation_list.people(here.name) if scope.is_everything else [],
        "wanted": {**wanted, "state": state},
        "is_filtered": bool(list_query.query or state or any(wanted.values())),
        "now_ms": int(now.timestamp() * 1000),
    }
    return render(request, "operation/operations.html", context)


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """A row of the list; ``where``: a state of `operation_list.STATES`."""

    plan: Plan
    job: Job | None
    where: str
    # The shown state of the job, or of the plan without one.
    state: str
    # What it does, or has done.
    words: Text
    # Whether the plan waits for this person's approval.
    asks_me: bool
    can_undo: bool
    # The page of what it changes.
    object: Link


def _operation(request: HttpRequest, here: Cluster, found: Any) -> Operation:
    """Return one row: the plan, its job, and what this person may do with it from the list."""
    job = getattr(found, "job", None)
    may = rules.may(request.user, selectors.plan_kind(found.kind).verb, here.name, found.subject)
    is_mine = found.created_by == request.user.get_username()
    return Operation(
        plan=found,
        job=job,
        where=found.where,
        words=selectors.plan_kind(found.kind).done_words(found) if found.where == "done" else found.summary,
        state=shown_state(job, int(time.time() * 1000)) if job else shown_plan(found, timezone.now()),
        asks_me=found.where == operation_list.WAITING and may and not is_mine,
        can_undo=may and not found.undone_by and can_undo(job, found),
        object=selectors.object_of(found),
    )


# ---- plans ----


def _visible(request: HttpRequest, cluster: str, found: Plan | Job, words: str) -> tuple[Cluster, bool]:
    """Return the cluster of a plan or job, and whether this person may change its subject.

    A person with rights on some groups sees only the plans of those; any other is Http404, as over REST.
    """
    here = cluster_selectors.cluster_for(request.user, cluster)
    if found.cluster != here.name or not rules.may(request.user, Verb.VIEW, here.name, found.subject):
        raise Http404(
            Text(
                "There is no %(words)s on %(name)s, or none that you may see.", words=words, name=here.name
            ).local()
        )
    verb = selectors.plan_kind(found.kind).verb
    return here, rules.may(request.user, verb, here.name, found.subject)


def _plan(request: HttpRequest, cluster: str, plan_id: str) -> tuple[Cluster, Plan, bool]:
    """Return the cluster, the plan, and whether this person may apply it."""
    try:
        found = selectors.plan(plan_id)
    except PlanNotFound as error:
        raise Http404(str(error)) from error
    here, may_apply = _visible(request, cluster, found, f"plan {plan_id}")
    return here, found, may_apply


@require_safe
@never_cache  # Back must not show a plan as open that was applied meanwhile
def plan(request: HttpRequest, cluster: str, plan_id: str) -> HttpResponse:
    """Show what would change, as sentences and per queue, and how to confirm it."""
    here, found, may_apply = _plan(request, cluster, plan_id)
    return _plan_page(request, here, found, may_apply)


def _plan_page(
    request: HttpRequest,
    here: Cluster,
    found: Plan,
    may_apply: bool,
    *,
    action: str = "",
    refusal: Exception | None = None,
    status: int = 200,
) -> HttpResponse:
    """``refusal``: why ``action``, a key of `REFUSED`, was not carried out."""
    now_ms = int(time.time() * 1000)
    kind, cover = selectors.plan_kind(found.kind), of_plan(found)
    found = kind.shown_to(found, request.user)
    is_open = found.state == PlanState.DRAFT and found.expires_at.timestamp() * 1000 > now_ms
    context = {
        "cluster": here,
        "plan": found,
        "state": PlanState.EXPIRED if found.state == PlanState.DRAFT and not is_open else found.state,
        "badge": shown_plan(found, timezone.now()),
        "discarded": selectors.discard_of(found),
        "job": getattr(found, "job", None),
        **_undo(getattr(found, "job", None)),
        "kind": kind,
        "place": kind.place_of(found),
        "trail": kind.place_of(found).trail(here.name, found.subject),
        "another": kind.another and kind.another.link(found),
        "is_harmless": kind.is_harmless(found),
        "is_open": is_open,
        "may_apply": may_apply,
        "is_mine": found.created_by == request.user.get_username(),
        "is_approver": found.approved_by == request.user.get_username(),
        "button": kind.button(found),
        "diff": cut(found.diff, page=whole_number(request.GET.get("page", "")), per_page=DIFF_ROWS),
        "sums": kind.sums(found),
        "step_values": kind.step_values(found),
        "others": [job for job in selectors.active_jobs(here.name, found.subject) if job.plan_id != found.pk]
        if is_open
        else [],
        "refusal": refusal,
        "refused": REFUSED.get(action, ""),
        "refusal_text": "" if refusal is None else text_of(refusal),
        "is_drift": isinstance(refusal, PlanDrifted),
        # Since when a broker has kept the plan from being applied.
        "away_at_ms": now_ms if action == "apply" and isinstance(refusal, BROKER_TROUBLE) else None,
        "open_brokers": cover.open if cover else [],
        "accepted_brokers": cover.accepted if cover else [],
        "confirm_text": request.POST.get("confirm_text", ""),
        "reason": request.POST.get("reason", ""),
        "rest_url": request.build_absolute_uri("/api/v1/plans/"),
        "site": request.build_absolute_uri("/").rstrip("/"),
        "now_ms": now_ms,
    }
    return render(request, "operation/plan.html", context, status=status)


def can_undo(job: Job | None, found: Plan | None = None) -> bool:
    """Return whether a job can be undone, according to its own record.

    ``found``: its plan, where the caller has it.
    """
    if job is None or job.state not in FINAL_STATES:
        return False
    return selectors.plan_kind(job.kind).undo_params(found or job.plan, job) is not None


def _undo(job: Job | None) -> PageContext:
    """Return whether a job can be undone, and the plan that has done so already."""
    undone_by = operation_list.undone_by(job.plan_id).first() if job else None
    return {"can_undo": undone_by is None and can_undo(job), "undone_by": undone_by}


@require_POST
def plan_apply(request: HttpRequest, cluster: str, plan_id: str) -> HttpResponse:
    """Start the job; a refusal shows the plan again with the reason (409 when the offsets moved)."""
    here, found, may_apply = _plan(request, cluster, plan_id)
    form = ConfirmForm(request.POST)
    wanted = form.cleaned_data if form.is_valid() else {"confirm_text": "", "reason": ""}
    try:
        job = services.apply_plan(
            found.id,
            request.user,
            confirm_text=wanted["confirm_text"],
            reason=wanted["reason"],
            remote_addr=remote_addr(request),
        )
    except PlanAlreadyApplied as refusal:
        quicker = selectors.job(refusal.job_id).created_by
        who = Text("You") if quicker == request.user.get_username() else quicker
        messages.info(
            request,
            Text(
                "%(person)s already applied this plan. This is its job; nothing was done twice.",
                person=who,
            ).local(),
        )
        return redirect("job", here.name, refusal.job_id)
    except OperationError as refusal:
        found = selectors.plan(found.id)
        return _plan_page(
            request, here, found, may_apply, action="apply", refusal=refusal, status=refusal.status
        )
    except BROKER_TROUBLE as trouble:
        return _plan_page(request, here, found, may_apply, action="apply", refusal=trouble, status=503)
    return redirect("job", here.name, job.id)


@require_POST
def plan_action(request: HttpRequest, cluster: str, plan_id: str, action: str) -> HttpResponse:
    """Carry out one action on a plan: discard · approve · undo · again.

    undo makes a new plan that restores everything; again computes the same request anew, without the ticked brokers.
    """
    here, found, may_apply = _plan(request, cluster, plan_id)
    try:
        if action == "discard":
            services.discard_plan(found.id, request.user, remote_addr=remote_addr(request))
            messages.success(
                request, Text("Plan %(id)s is discarded. Nothing was changed.", id=found.id).local()
            )
            if rules.may(request.user, Verb.VIEW, here.name):
                return redirect("operations", here.name)
            # The list is for those who may see every group.
            return redirect("plan", here.name, found.id)
        if action == "approve":
            services.approve_plan(found.id, request.user, remote_addr=remote_addr(request))
            messages.success(
                request,
                Text(
                    "You approved plan %(id)s. Nothing was changed yet: you or %(person)s can apply it now.",
                    id=found.id,
                    person=found.created_by,
                ).local(),
            )
            return redirect("plan", here.name, found.id)
        if action == "undo":
            undone = services.undo(found.id, request.user, remote_addr=remote_addr(request))
            return redirect("plan", here.name, undone.id)
        if action == "again":
            kind, ticked = selectors.plan_kind(found.kind), request.POST.getlist(ACCEPT_WITHOUT)
            params = kind.params_of(found)
            anew = services.make_plan(
                kind,
                here.name,
                found.subject,
                kind.leaving_out(params, ticked) if ticked else params,
                request.user,
                undo_of=found.undo_of,
                remote_addr=remote_addr(request),
            )
            return redirect("plan", here.name, anew.id)
    except OperationError as refusal:
        found = selectors.plan(found.id)
        return _plan_page(
            request, here, found, may_apply, action=action, refusal=refusal, status=refusal.status
        )
    except BROKER_TROUBLE as trouble:
        return _plan_page(request, here, found, may_apply, action=action, refusal=trouble, status=503)
    raise Http404(Text("A plan has no action %(action)s.", action=repr(action)).local())


# ---- jobs ----


def _job(request: HttpRequest, cluster: str, job_id: str) -> tuple[Cluster, Job, bool]:
    """Return the cluster, the job, and whether this person may control it."""
    try:
        found = selectors.job(job_id)
    except JobNotFound as error:
        raise Http404(str(error)) from error
    here, may_control = _visible(request, cluster, found, f"job {job_id}")
    return here, found, may_control


@require_safe
def job(request: HttpRequest, cluster: str, job_id: str) -> HttpResponse:
    """Show one job with its progress, controls, results and events; `?part=1` is its live part alone."""
    here, found, may_control = _job(request, cluster, job_id)
    context = job_context(here, found, may_control)
    return render(request, "operation/_job.html" if "part" in request.GET else "operation/job.html", context)


def job_context(here: Cluster, found: Job, may_control: bool) -> PageContext:
    """Return the context of a job's live part; the dead-letter page shows it too."""
    kind = selectors.plan_kind(found.kind)
    rows, counts = kind.job_rows(found), of_json(JobCounts, found.progress)
    now_ms = int(time.time() * 1000)
    return {
        "cluster": here,
        "job": found,
        "plan": found.plan,
        "may_control": may_control,
        "can_pause": found.state in (JobState.QUEUED, JobState.RUNNING) and not found.cancel_requested,
        "can_resume": found.state == JobState.PAUSED,
        "can_cancel": found.state in CANCELLABLE and not found.cancel_requested,
        **_undo(found),
        "kind": kind,
        "trail": kind.place_of(found.plan).trail(here.name, found.subject),
        "rows": rows,
        "shown": worst_rows(rows, DIFF_ROWS),
        "step_values": kind.step_values(found.plan),
        "retries_max": RETRIES_MAX,
        "without_worker": without_worker(found, now_ms),
        "retry_pause_s": RETRY_PAUSE_MS // 1000,
        "to_go": max(0, counts.total - counts.done),
        "rate_max": RATE_SLIDER_MAX,
        "now_ms": now_ms,
    }


def worst_rows(rows: Sequence[JobRow], most: int) -> Sequence[JobRow]:
    """Return rows of a result for a page: all in order or, of very many, those that need attention first."""
    if len(rows) <= most:
        return rows
    index = {state: number for number, state in enumerate(ROW_ORDER)}
    return sorted(rows, key=lambda row: index.get(row.state, len(index)))[:most]


@require_POST
def job_control(request: HttpRequest, cluster: str, job_id: str, action: str) -> HttpResponse:
    """Control a job: pause · resume · cancel · rate. A refusal is shown on the job's page."""
    here, found, _ = _job(request, cluster, job_id)
    controls = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}
    try:
        if action == "rate":
            form = RateForm(request.POST)
            if form.is_valid():
                control.set_rate(
                    found.id, request.user, form.cleaned_data["rate_per_s"], remote_addr=remote_addr(request)
                )
            else:
                messages.error(request, " ".join(map(str, form.errors.get("rate_per_s", ()))))
        elif action in controls:
            controls[action](found.id, request.user, remote_addr=remote_addr(request))
        else:
            raise Http404(Text("A job has no action %(action)s.", action=repr(action)).local())
    except OperationError as refusal:
        messages.error(request, text_of(refusal).local())
    return redirect("job", here.name, found.id)
