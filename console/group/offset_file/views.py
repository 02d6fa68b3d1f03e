"""A group's offsets as a file: download it, and plan the offsets of one."""

from __future__ import annotations

import time

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from console.access.models import Verb
from console.access.session.visitor import remote_addr
from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.cluster.admission import admit
from console.group.offset_file.export import exported
from console.group.offset_file.forms import OffsetFileForm
from console.group.offset_file.response import FORMATS, offset_file_response
from console.operation import services as operation_services
from console.operation.errors import OperationError, PlanRejected
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
    """Show the form for a file of offsets; POST makes the plan and redirects to it, and changes nothing."""
    here = admit(request, cluster, Verb.RESET, group)
    form = OffsetFileForm(request.POST if request.method == "POST" else None, request.FILES or None)
    problem = ""
    if request.method == "POST" and form.is_valid():
        try:
            plan = operation_services.create_plan(
                "offset_change",
                here.name,
                group,
                form.params(),
                request.user,
                remote_addr=remote_addr(request),
            )
        except PlanRejected as refusal:
            form.refuse(refusal)
        except (BrokerUnavailable, MQBrokerError, RemotingTimeout, OperationError) as trouble:
            problem = text_of(trouble).local()
        else:
            return redirect("plan", here.name, plan.id)
    context = {"cluster": here, "group": group, "form": form, "problem": problem, "section": "groups"}
    return render(request, "group/offset_import.html", context, status=422 if form.errors or problem else 200)
