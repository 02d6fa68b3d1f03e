"""Change when a report is made and who is notified, and a group's promise."""

from __future__ import annotations

import time

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access.models import Verb
from console.access.session.visitor import remote_addr
from console.cluster.admission import admit
from console.report.delivery import schedules
from console.report.forms import ScheduleForm, SloForm
from console.report.jobs import JOBS
from console.report.pages import group_views, views
from console.report.services import no_report
from console.text import Text


@require_POST
def change(request: HttpRequest, cluster: str, job: str) -> HttpResponse:
    """Save a report's schedule."""
    here = admit(request, cluster, verb=Verb.CONFIGURE)
    if job not in JOBS:
        raise Http404(no_report(job))
    form = ScheduleForm(request.POST)
    if not form.is_valid():
        return views.page(request, here, job, schedule_form=form, status=422)
    now_ms = time.time_ns() // 1_000_000
    (schedule,) = (one for one in schedules.stored_schedules(here.name, now_ms=now_ms) if one.job == job)
    schedules.change(
        schedule, form.changes(), actor=request.user, now_ms=now_ms, remote_addr=remote_addr(request)
    )
    messages.success(request, Text("The schedule is saved.").local())
    return redirect("report", here.name, job)


@require_POST
def set_slo(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Save a group's promise."""
    here = admit(request, cluster, verb=Verb.CONFIGURE, name=group)
    form = SloForm(request.POST)
    if not form.is_valid():
        return group_views.page(request, here, group, form, status=422)
    seconds, target_pct = form.cleaned_data["seconds"], form.cleaned_data["target_pct"]
    schedules.set_slo(
        here.name,
        group,
        None if seconds is None else seconds * 1_000,
        None if target_pct is None else round(target_pct / 100, 7),
        actor=request.user,
        now_ms=time.time_ns() // 1_000_000,
        remote_addr=remote_addr(request),
    )
    messages.success(request, Text("Saved. It applies to hours that begin from now on.").local())
    return redirect("group-report", here.name, group)
