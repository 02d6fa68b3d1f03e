"""Actions of the demo: close the tour, switch the second broker off and on, delete the generated week."""

from __future__ import annotations

import time

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access.models import Verb
from console.access.session.visitor import remote_addr
from console.cluster.admission import admit
from console.cluster.models import Cluster
from console.cluster.selectors import not_found
from console.demo import second_broker, tour
from console.demo.week import purge
from console.process.programs import SECOND_BROKER_NAME
from console.text import Text


@require_POST
def close_tour(request: HttpRequest) -> HttpResponse:
    """Close the tour of this person for good."""
    tour.close(request.user)
    return redirect("home")


@require_POST
def switch_broker(request: HttpRequest, cluster: str) -> HttpResponse:
    """Switch the demo's second broker off (`off`) or on."""
    here = admit(request, cluster, Verb.CONFIGURE)
    if not second_broker.exists(here):
        raise Http404
    off = "off" in request.POST
    second_broker.switch(here, off=off, request=request)
    done = (
        Text("%(name)s is being stopped. The next rounds show it as silent.", name=SECOND_BROKER_NAME)
        if off
        else Text("%(name)s is being started. It answers within a few seconds.", name=SECOND_BROKER_NAME)
    )
    messages.success(request, done.local())
    return redirect("overview", here.name)


@require_POST
def delete_week(request: HttpRequest, cluster: str) -> HttpResponse:
    """Delete a generated cluster with its history and reports, for good."""
    here = admit(request, cluster, Verb.ADMIN)
    if not here.is_generated:
        raise Http404
    now_ms = time.time_ns() // 1_000_000
    try:
        purge.delete(here.name, request.user, remote_addr=remote_addr(request), now_ms=now_ms)
    except Cluster.DoesNotExist as gone:  # deleted in another tab at the same time
        raise Http404(not_found(request.user, here.name)) from gone
    done = Text("The generated data of %(name)s was deleted and will not be generated again.", name=here.name)
    messages.success(request, done.local())
    return redirect("home")
