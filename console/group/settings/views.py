"""Pages of a group's configuration: create, change, delete; only the one-click release changes anything."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.access.models import Verb
from console.cluster.admission import admit, admit_to_list
from console.group import selectors
from console.group.settings.forms import GroupChangeForm, GroupCreateForm
from console.group.settings.page import setting_areas, settings_table
from console.operation.config.row import GROUP
from console.operation.config.views import (
    broker_names,
    form_context,
    quarantine_context,
    submitted_form,
    submitted_step,
)
from console.operation.plan_request import apply_at_once
from console.text import Text


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show the form to create a group; POST makes the plan and redirects to it."""
    here, _ = admit_to_list(request, cluster)
    brokers = broker_names(here.name)
    form = GroupCreateForm(brokers, request.POST or None, initial={"name": request.GET.get("name", "")[:120]})
    made = submitted_form(request, here, GROUP, "create", form)
    if isinstance(made, HttpResponse):
        return made
    context = form_context(request, here, GROUP, form, made, brokers) | {"areas": setting_areas(form)}
    return render(request, "group/create.html", context, status=422 if form.errors or made else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show what each broker has and, with the right to change it, a form; POST makes the plan."""
    here = admit(request, cluster, Verb.CONFIGURE if request.method == "POST" else Verb.VIEW, group)
    table = settings_table(here, group)
    brokers = [*table.brokers, *table.silent]
    form = GroupChangeForm(brokers, request.POST or None)
    made = submitted_form(request, here, GROUP, "change", form, group)
    if isinstance(made, HttpResponse):
        return made
    context = form_context(request, here, GROUP, form, made, brokers)
    context |= {"group": group, "row": selectors.group(here.name, group), "table": table}
    context["areas"] = setting_areas(form, table)
    context |= quarantine_context(request, here, GROUP, group)
    return render(request, "group/settings.html", context, status=422 if form.errors or made else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show the steps to delete a group: quarantine, watch, delete; POST plans the step ``action``."""
    here = admit(request, cluster, Verb.CONFIGURE, group)
    made = submitted_step(request, here, GROUP, group, options=("with_topics", "keep_offsets"))
    if isinstance(made, HttpResponse):
        return made
    row = selectors.group(here.name, group)
    members = Text("unknown")
    if row is not None and row.clients is not None:
        members = Text("%(number)s {client|clients} online", number=row.clients)
    context = {
        "cluster": here,
        "group": group,
        "row": row,
        "used_by": Text("no client is online") if row is not None and row.clients == 0 else members,
        "problem": made,
        "section": "groups",
        **quarantine_context(request, here, GROUP, group),
    }
    return render(request, "group/delete.html", context, status=422 if made else 200)


@require_POST
def release(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """End the quarantine: plan and apply in one, since it only restores permissions."""
    here = admit(request, cluster, Verb.CONFIGURE, group)
    return apply_at_once(request, here, "group_release", group, redirect("group-settings", here.name, group))
