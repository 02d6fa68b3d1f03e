"""The page that plans a pause or resumption; only the one-click resumption changes anything."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.access.models import Verb
from console.cluster.admission import admit
from console.group import selectors
from console.group.pause import page as pause_page
from console.group.pause.forms import PauseForm
from console.operation.config.row import GROUP
from console.operation.config.views import form_context, quarantine_context
from console.operation.plan_request import apply_at_once, plan_or_reason
from console.text import Text
from console.text.stored import as_json

ACTIONS = {"pause": "group_pause", "resume": "group_resume"}  # button → kind of plan


@require_http_methods(["GET", "HEAD", "POST"])
def pause(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show what each broker lets the group read, and boxes to change it; POST makes the plan."""
    here = admit(request, cluster, Verb.CONFIGURE if request.method == "POST" else Verb.VIEW, group)
    row = selectors.group(here.name, group)
    table = pause_page.read_table(here, group, row)
    form = PauseForm([line.topic for line in table.lines], table.brokers, request.POST or None)
    made: HttpResponse | str = ""
    if request.method == "POST":
        kind = ACTIONS.get(request.POST.get("action", ""))
        if kind is None:
            raise Http404(Text("There is no such step."))
        if form.is_valid():
            made = plan_or_reason(request, here, kind, group, as_json(form.params()), form)
    if isinstance(made, HttpResponse):
        return made
    context = form_context(request, here, GROUP, form, made, table.brokers)
    chosen = request.POST.getlist("topics") if request.method == "POST" else None
    context |= {"group": group, "row": row, "table": table, "lines": pause_page.ticked(table, chosen)}
    context |= quarantine_context(request, here, GROUP, group)
    return render(request, "group/pause.html", context, status=422 if form.errors or made else 200)


@require_POST
def resume(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Resume all paused topics: plan and apply in one, since it only restores permissions."""
    here = admit(request, cluster, Verb.CONFIGURE, group)
    return apply_at_once(request, here, ACTIONS["resume"], group, redirect("group-pause", here.name, group))
