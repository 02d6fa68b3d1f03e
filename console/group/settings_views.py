"""Pages of a group's configuration: create, change, delete. Nothing is changed here but by the one-click
release.
"""

from __future__ import annotations

import time
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.access import rules
from console.access.models import Verb
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.group import selectors
from console.group.settings_forms import GroupChangeForm, GroupCreateForm
from console.lag import selectors as lag_selectors
from console.operation.config_change import GROUP
from console.operation.config_table import read_table
from console.operation.plan_request import apply_at_once, plan_or_reason
from console.operation.quarantine import quarantine_hours, quarantine_of

FORM_FIELDS = {"group": "name"}  # parameter of the plan → field of the form, where they differ


def settings_context(request: HttpRequest, here: Cluster, group: str) -> dict[str, Any]:
    """What `group/_settings.html` needs besides ``cluster`` and ``row``; two queries, no broker is asked."""
    now_ms = int(time.time() * 1000)
    quarantine = quarantine_of(here.name, GROUP, group)
    return {
        "quarantine": quarantine,
        "is_closed": quarantine is not None,
        "is_due": quarantine is not None and now_ms >= quarantine.deletable_at_ms,
        "written_since": False,
        "hours": quarantine_hours(),
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name, group),
        "may_force": rules.may(request.user, Verb.ADMIN, here.name, group),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest, cluster: str) -> HttpResponse:
    """A form; POST makes the plan and shows it. Whether the name is allowed is asked with the name."""
    here, _ = admit_to_list(request, cluster)
    brokers = sorted({row.broker_name for row in lag_selectors.broker_rows(here.name)})
    form = GroupCreateForm(brokers, request.POST or None, initial={"name": request.GET.get("name", "")[:120]})
    problem = ""
    if request.method == "POST" and form.is_valid():
        made = plan_or_reason(
            request, here, "group_create", form.cleaned_data["name"], form.params(), form, FORM_FIELDS
        )
        if isinstance(made, HttpResponse):
            return made
        problem = made
    context = {
        "cluster": here,
        "form": form,
        "problem": problem,
        "chosen": request.POST.getlist("brokers") if request.method == "POST" else brokers,
        "section": "groups",
    }
    return render(request, "group/create.html", context, status=422 if form.errors or problem else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """What each broker has now and, for those who may, a form beside it; POST makes the plan."""
    here = admit(request, cluster, Verb.CONFIGURE if request.method == "POST" else Verb.VIEW, group)
    table = read_table(here, GROUP, group)
    brokers = [*table.brokers, *table.silent]
    form = GroupChangeForm(brokers, request.POST or None)
    problem = ""
    if request.method == "POST" and form.is_valid():
        made = plan_or_reason(request, here, "group_change", group, form.params(), form, FORM_FIELDS)
        if isinstance(made, HttpResponse):
            return made
        problem = made
    context = {
        "cluster": here,
        "group": group,
        "row": selectors.group(here.name, group),
        "form": form,
        "problem": problem,
        "chosen": request.POST.getlist("brokers") if request.method == "POST" else brokers,
        "table": table,
        "section": "groups",
        "now_ms": int(time.time() * 1000),
        **settings_context(request, here, group),
    }
    return render(request, "group/settings.html", context, status=422 if form.errors or problem else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """The way of a group out: quarantine, watch, delete. POST plans the step that ``deed`` names."""
    here = admit(request, cluster, Verb.CONFIGURE, group)
    problem = ""
    if request.method == "POST":
        deeds = {"quarantine": "group_quarantine", "delete": "group_delete", "force": "group_force_delete"}
        deed = request.POST.get("deed", "")
        if deed not in deeds:
            raise Http404("There is no such step.")
        wanted = ("with_topics", "keep_offsets") if deed != "quarantine" else ()
        params = {name: True for name in wanted if request.POST.get(name)}
        made = plan_or_reason(request, here, deeds[deed], group, params)
        if isinstance(made, HttpResponse):
            return made
        problem = made
    row = selectors.group(here.name, group)
    members = "unknown" if row is None or row.clients is None else f"{row.clients} members online"
    context = {
        "cluster": here,
        "group": group,
        "row": row,
        "used_by": "nobody is online" if row is not None and row.clients == 0 else members,
        "problem": problem,
        "section": "groups",
        "now_ms": int(time.time() * 1000),
        **settings_context(request, here, group),
    }
    return render(request, "group/delete.html", context, status=422 if problem else 200)


@require_POST
def release(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """End the quarantine: plan and apply in one, since it only gives back what was taken."""
    here = admit(request, cluster, Verb.CONFIGURE, group)
    return apply_at_once(request, here, "group_release", group, redirect("group-settings", here.name, group))
