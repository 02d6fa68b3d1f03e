"""Dead letters of every group, and one group's with sample, replay form, running replay and ledger."""

from __future__ import annotations

import time
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from console.access import rules
from console.access.models import Verb
from console.access.visitor import remote_addr
from console.cluster.admission import admit
from console.cluster.models import Cluster
from console.deadletter import selectors, services
from console.deadletter.forms import RATE_DEFAULT, TARGETS, FilterForm, ReplayForm
from console.deadletter.models import LedgerState
from console.lag import selectors as lag_selectors
from console.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.errors import OperationError, PlanNotFound, PlanRejected
from console.operation.views import job_context

BrokerTrouble = (BrokerUnavailable, MQBrokerError, RemotingTimeout)
SAMPLE_LETTERS = 20
LEDGER_ROWS = 50


@require_safe
def dead_letters(request: HttpRequest, cluster: str) -> HttpResponse:
    """Every group that has a dead-letter topic, most dead letters first."""
    here = admit(request, cluster)
    query = request.GET.get("q", "").strip()[:255]
    rows = selectors.dead_letter_page(here.name, query=query)
    known = [row.count for row in rows if row.count is not None]
    context = {
        "cluster": here,
        "q": query,
        "rows": rows,
        "with_letters": sum(row.count != 0 for row in rows),
        "total": sum(known),
        "is_lower_bound": len(known) < len(rows) or any(row.lower_bound for row in rows),
        "silent": lag_selectors.silent_brokers(here.name),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "deadletter/dead_letters.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def dead_letter_group(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """One group's dead letters. POST makes a replay plan of what the filter matches and shows it."""
    here = admit(request, cluster, name=group)
    may_replay = rules.may(request.user, Verb.REPLAY, here.name, group)
    form: FilterForm = FilterForm(request.GET)
    problem = ""
    if request.method == "POST":
        if not may_replay:
            raise PermissionDenied(f"This needs the right to replay dead letters (REPLAY) of {group}.")
        form = replay = ReplayForm(request.POST)
        if replay.is_valid():
            try:
                plan = operation_services.create_plan(
                    "dead_letter_replay",
                    here.name,
                    group,
                    replay.params(),
                    request.user,
                    remote_addr=remote_addr(request),
                )
            except (PlanRejected, OperationError, *BrokerTrouble) as refusal:
                problem = str(refusal)
            else:
                return redirect("plan", here.name, plan.id)
    context = {
        **_running(here, group, may_replay),
        "cluster": here,
        "group": group,
        "row": selectors.dead_letters_of(here.name, group),
        "group_row": selectors.group_row(here.name, group),
        "may_replay": may_replay,
        "form": form,
        "problem": problem,
        "targets": TARGETS,
        "target": request.POST.get("target", "failed_group"),
        "rate": request.POST.get("rate_per_s", str(RATE_DEFAULT)),
        "is_filtered": form.is_valid() and bool(form.filter()),
        "silent": lag_selectors.silent_brokers(here.name),
        **_sample(here.name, group, form),
        **_ledger(request, here, group),
        "now_ms": int(time.time() * 1000),
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "deadletter/group.html", context, status=status)


def _sample(cluster: str, group: str, form: FilterForm) -> dict[str, Any]:
    """The newest letters that match; why there are none."""
    if not form.is_valid():
        return {"sample": None, "sample_problem": ""}
    try:
        found = services.sample(cluster, group, form.filter(), SAMPLE_LETTERS)
        return {"sample": found, "sample_problem": found.problem}
    except (PlanRejected, *BrokerTrouble) as trouble:
        return {"sample": None, "sample_problem": str(trouble)}


def _running(here: Cluster, group: str, may_replay: bool) -> dict[str, Any]:
    """The replay of this group that is not finished, as the job's page shows it."""
    jobs = [job for job in operation_selectors.active_jobs(here.name, group) if job.kind == selectors.KIND]
    return job_context(here, jobs[0], may_replay) if jobs else {"job": None}


def _ledger(request: HttpRequest, here: Cluster, group: str) -> dict[str, Any]:
    """The ledger of `?plan=…`, or of the group's newest replay."""
    plan_id = request.GET.get("plan", "")
    if not plan_id:
        newest = operation_selectors.jobs_page(here.name, kind=selectors.KIND, subject=group, per_page=1).rows
        plan_id = newest[0].plan_id if newest else ""
    try:
        plan = operation_selectors.plan(plan_id) if plan_id else None
    except PlanNotFound:
        plan = None
    if plan is None or plan.subject != group or plan.cluster != here.name:
        return {"ledger": None}
    state = request.GET.get("state", "")
    state = state if state in LedgerState.values else ""
    number = request.GET.get("page", "")
    page = selectors.ledger_page(
        plan.id,
        states=[state] if state else [],
        page=int(number) if number.isdigit() and len(number) < 10 else 1,
        per_page=LEDGER_ROWS,
    )
    counts = selectors.ledger_counts(plan.id)
    return {
        "ledger": page,
        "ledger_plan": plan,
        "ledger_state": state,
        "ledger_counts": [(code, counts[code]) for code in LedgerState.values if counts[code]],
        "ledger_total": sum(counts.values()),
    }
