"""A group's offsets as a file: download it, and plan the offsets of one."""

from __future__ import annotations

import time

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from console.access import rules
from console.access.models import Verb
from console.cluster import selectors as cluster_selectors
from console.cluster.admission import admit
from console.group.offset_file.export import exported
from console.group.offset_file.forms import OffsetFileForm
from console.group.offset_file.response import FORMATS, offset_file_response
from console.operation.errors import PlanRejected
from console.text import text_of


@require_safe
def offset_file(request: HttpRequest, cluster: str, group: str) -> HttpResponseBase:
    """Download the offsets of the last round; `?format=csv` as CSV."""
    here = admit(request, cluster, name=group)
    format = request.GET.get("format", "json")
    try:
        found = exported(here.name, group, int(time.time() * 1000))
    except PlanRejected as refusal:
        raise Http404(text_of(refusal)) from refusal
    return offset_file_response(found, format if format in FORMATS else "json")


@require_http_methods(["GET", "HEAD", "POST"])
def offset_import(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show the forms for a file and a clone; POST makes the plan and redirects to it, and changes nothing."""
    here = admit(request, cluster, Verb.RESET, group)
    form = OffsetFileForm(request.POST if request.method == "POST" else None, request.FILES or None)
    plan = form.plan(request, here.name, group) if request.method == "POST" and form.is_valid() else None
    if plan is not None:
        return redirect("plan", here.name, plan.id)
    others = [
        other.name
        for other in cluster_selectors.clusters_for(request.user)
        if other.name != here.name and not other.is_generated
    ]
    context = {
        "cluster": here,
        "group": group,
        "form": form,
        "clone_of": request.POST.get("clone_of") or request.GET.get("clone_of", ""),
        "sources": [f"{name}/{group}" for name in others if rules.may(request.user, Verb.VIEW, name, group)],
        "targets": [name for name in others if rules.may(request.user, Verb.RESET, name, group)],
        "section": "groups",
    }
    return render(request, "group/offset_import.html", context, status=422 if form.errors else 200)
