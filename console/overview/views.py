"""Pages that combine several apps: overview, clusters, fleet."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from console.access.session.visitor import remote_addr
from console.broker import selectors as broker_selectors
from console.cluster import selectors as cluster_selectors
from console.cluster import services as cluster_services
from console.cluster.admission import admit_to_list, may_add_clusters
from console.cluster.forms import AddClusterForm
from console.cluster.models import Cluster
from console.deadletter import selectors as dead_letter_selectors
from console.lag import selectors as lag_selectors
from console.overview import fleet, selectors
from console.report.pages.summary import summary
from console.text import Text, text_of


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Redirect to the overview of the first visible cluster, or to the list of clusters."""
    visible = cluster_selectors.clusters_for(request.user)
    return redirect("overview", visible[0].name) if visible else redirect("clusters")


@require_safe
def overview(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show what needs attention first: brokers, groups furthest behind, findings, the collector.

    `?part=1` returns all but the chart and the collector, `?part=collector` the latter, `?part=traffic` the chart's
    points. Readers of some names only get lists and sums over those, and no chart: it shows the whole cluster's
    traffic.
    """
    here, scope = admit_to_list(request, cluster)
    now_ms = int(time.time() * 1000)
    letters = dead_letter_selectors.dead_letter_page(here.name, scope=scope)
    collector = {
        "cluster": here,
        "dead": [row for row in letters if row.count != 0][: selectors.TOP_ROWS],
        "now_ms": now_ms,
        "health": selectors.health(lag_selectors.rounds(here.name)),
        "survey": broker_selectors.last_survey(here.name),
    }
    if request.GET.get("part") == "collector":
        return render(request, "overview/_collector.html", collector)
    servers = broker_selectors.name_servers(here.name)
    views = broker_selectors.broker_views(here.name, scope, servers)
    if request.GET.get("part") == "traffic" and scope.is_everything:
        return JsonResponse(selectors.traffic(here.name, views, now_ms)._asdict())
    groups = selectors.group_counts(here.name, scope)
    calm = "UNKNOWN" if groups.get("UNKNOWN") else "OK"
    owned = selectors.ownership(here.name, now_ms, scope)
    found = selectors.findings(here.name, views, servers, scope, owned)
    context = {
        **collector,
        "scope": scope,
        "views": views,
        "has_new": scope.is_everything and broker_selectors.has_new(views),
        "servers": servers,
        "silent": [view.row for view in views if not view.row.answered or not view.has_master],
        "totals": selectors.totals(views)
        if scope.is_everything and not here.is_generated
        else selectors.own_totals(here.name, scope, views),
        "first_full": selectors.first_full(views),
        "trouble_count": selectors.trouble_count(here.name, scope),
        "unknown_count": groups.get("UNKNOWN", 0),
        "group_count": sum(groups.values()),
        "topic_count": selectors.topic_count(here.name, scope),
        "slowest": selectors.by_time_lag(selectors.slowest_groups(here.name, scope), calm),
        "growing": selectors.by_growth(selectors.growing_groups(here.name, scope), calm),
        "losing": selectors.by_loss(selectors.losing_groups(here.name, scope), calm),
        "dead_total": selectors.dead_total(letters),
        "findings": found[: selectors.FINDINGS_SHOWN],
        "more_findings": max(0, len(found) - selectors.FINDINGS_SHOWN),
        "judges_ownership": owned is not None,
    }
    if "part" in request.GET:
        return render(request, "overview/_overview.html", context)
    if here.is_generated:
        context["summary"] = summary(here, now_ms, scope)
    elif scope.is_everything:
        context["chart"] = selectors.traffic(here.name, views, now_ms)._asdict()
    return render(request, "overview/overview.html", context)


@require_safe
def fleet_page(request: HttpRequest) -> HttpResponse:
    """Show the visible clusters together: the worst groups of any, and gaps in the data."""
    now_ms = int(time.time() * 1000)
    visible = [one for one in cluster_selectors.clusters_for(request.user) if not one.is_generated]
    lines = fleet.lines(visible, request.user, now_ms)
    current = [line.cluster for line in lines if line.is_current]
    burns = fleet.burning(visible, request.user, now_ms)
    # An empty list is not good news while a cluster has no current data.
    is_calm = all(line.is_current and not line.unknown for line in lines)
    calm = "OK" if is_calm else "UNKNOWN"
    days = [f"{datetime.fromtimestamp(day_ms / 1000, UTC):%m-%d}" for day_ms in fleet.days_shown(now_ms)]
    context = {
        "lines": [(line, list(zip(days, line.days, strict=True))) for line in lines],
        "days": days,
        "low_pct": fleet.LOW_COVERAGE_PCT,
        "calm_burn": "OK" if is_calm and burns.is_known else "UNKNOWN",
        "burning": burns.worst,
        "known_from_ms": burns.known_from_ms,
        "losing": selectors.by_loss(fleet.losing(current, request.user), calm),
        "growing": selectors.by_growth(fleet.growing(current, request.user), calm),
        "unwatched": fleet.unwatched(visible, now_ms),
        "now_ms": now_ms,
    }
    return render(request, "overview/fleet.html", context)


@sensitive_post_parameters("tls_key", "secret_key", "security_token")
@require_http_methods(["GET", "HEAD", "POST"])
def clusters(request: HttpRequest) -> HttpResponse:
    """List the visible clusters; with ADMIN, a form adds one by its name server address."""
    may_add = may_add_clusters(request.user)
    form = AddClusterForm(request.POST or None)
    if request.method == "POST":
        if not may_add:
            raise PermissionDenied(
                Text("Adding a cluster needs permission to administer all clusters (ADMIN).")
            )
        if form.is_valid():
            try:
                added = cluster_services.add_cluster(
                    form.cleaned_data["name"],
                    form.cleaned_data["namesrv_addrs"],
                    request.user,
                    is_production=form.cleaned_data["is_production"],
                    connection=replace(form.change(Cluster()), namesrv_addrs=None),
                    remote_addr=remote_addr(request),
                )
            except cluster_services.ClusterError as refusal:
                form.add_error(refusal.field if refusal.field in form.fields else None, text_of(refusal))
            else:
                done = Text(
                    "%(name)s was added. Its first figures appear with the next round.", name=added.name
                )
                messages.success(request, done.local())
                return redirect("overview", added.name)
    visible = [
        (one, lag_selectors.last_round(one.name), lag_selectors.without_master_count(one.name))
        for one in cluster_selectors.clusters_for(request.user)
    ]
    context = {"clusters": visible, "form": form, "may_add": may_add}
    return render(request, "overview/clusters.html", context, status=422 if form.errors else 200)
