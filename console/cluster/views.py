"""The page of a cluster's connection: name servers, TLS and access keys, and the test of them."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.access.session.visitor import remote_addr
from console.cluster import selectors, services
from console.cluster.admission import may_add_clusters
from console.cluster.diagnosis import Finding
from console.cluster.errors import ClusterError
from console.cluster.forms import ConnectionForm
from console.text import Text, text_of

TEST = "test"


@sensitive_post_parameters("tls_key", "secret_key", "security_token")
@require_http_methods(["GET", "HEAD", "POST"])
def connection(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show how a cluster is reached and change it; ``action=test`` tests what is stored."""
    here = selectors.cluster_for(request.user, cluster)
    if not may_add_clusters(request.user):
        raise PermissionDenied(Text("This needs permission to administer all clusters (ADMIN)."))
    form = ConnectionForm.of(here)
    findings: Sequence[Finding] | None = None
    problem: Text | None = None
    if request.method == "POST" and request.POST.get("action") == TEST:
        try:
            findings = services.check_connection(here.connection)
        except ClusterError as refusal:
            problem = text_of(refusal)
    elif request.method == "POST":
        form = ConnectionForm(request.POST)
        if form.is_valid():
            try:
                services.change_cluster(
                    here.name, request.user, connection=form.change(here), remote_addr=remote_addr(request)
                )
            except ClusterError as refusal:
                form.add_error(refusal.field if refusal.field in form.fields else None, text_of(refusal))
            else:
                done = Text("The connection to %(name)s was changed and is now in use.", name=here.name)
                messages.success(request, done.local())
                return redirect("connection", here.name)
    context = {"cluster": here, "form": form, "findings": findings, "problem": problem}
    return render(request, "cluster/connection.html", context, status=422 if form.errors else 200)
