"""Actions of the demo: close the tour, switch the second broker off and on."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.access.models import Verb
from console.cluster.admission import admit
from console.demo import second_broker, tour
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
