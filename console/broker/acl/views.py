"""The page of a cluster's access control, and the forms that start a change of it; they change nothing themselves."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import rules
from console.access.models import Verb
from console.broker.acl.page import read_table
from console.cluster.admission import admit


@require_safe
def broker_acl(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show accounts, users and white addresses as every broker reports them now; secrets are never shown."""
    here = admit(request, cluster, Verb.CONFIGURE)
    table = read_table(here)
    context = {
        "cluster": here,
        "table": table,
        "may_change": rules.may(request.user, Verb.ADMIN, here.name),
        "now_ms": table.read_at_ms,
    }
    return render(request, "broker/acl.html", context)
