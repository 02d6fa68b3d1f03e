"""Pages that bring several apps together: overview, brokers, clusters, and the command palette's names."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from console.access import rules
from console.access.models import Verb
from console.access.visitor import remote_addr
from console.cluster import selectors as cluster_selectors
from console.cluster import services as cluster_services
from console.cluster.admission import admit
from console.cluster.forms import AddClusterForm
from console.deadletter import selectors as dead_letter_selectors
from console.group import selectors as group_selectors
from console.lag import selectors as lag_selectors
from console.lag.models import BrokerRow
from console.topic import selectors as topic_selectors

TOP_ROWS = 6  # what fits beside each other without scrolling
URGENT = ("LOST", "STALLED", "STOPPED", "FALLING_BEHIND")


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The first cluster this person may see: its overview, or the groups of who may see only some of them. The
    list of clusters says when there is none.
    """
    visible = cluster_selectors.clusters_for(request.user)
    if not visible:
        return redirect("clusters")
    sees_all = rules.may(request.user, Verb.VIEW, visible[0].name)
    return redirect("overview" if sees_all else "groups", visible[0].name)


@require_safe
def overview(request: HttpRequest, cluster: str) -> HttpResponse:
    """What needs a look first: urgent groups, brokers, dead letters, the collector itself."""
    here = admit(request, cluster)
    urgent = group_selectors.group_page(here.name, sort="attention", per_page=TOP_ROWS)
    slowest = group_selectors.group_page(here.name, sort="time_lag", per_page=TOP_ROWS)
    dead = dead_letter_selectors.dead_letter_page(here.name)
    rows = lag_selectors.broker_rows(here.name)
    context = {
        "cluster": here,
        "now_ms": int(time.time() * 1000),
        "brokers": rows,
        "silent": [row for row in rows if not row.answered],
        "totals": _totals(rows),
        "urgent": [row for row in urgent.rows if row.status != "OK"],
        "urgent_count": sum(urgent.counts_by_status.get(code, 0) for code in URGENT),
        "unknown_count": urgent.counts_by_status.get("UNKNOWN", 0),
        "group_count": urgent.all_total,
        "slowest": [row for row in slowest.rows if row.time_lag_ms],
        "topic_count": topic_selectors.topic_page(here.name, per_page=1).total,
        "dead": [row for row in dead if row.count != 0][:TOP_ROWS],
        "dead_total": _dead_total(dead),
        "rounds": lag_selectors.rounds(here.name),
    }
    return render(
        request, "overview/_overview.html" if "part" in request.GET else "overview/overview.html", context
    )


def _totals(rows: Sequence[BrokerRow]) -> dict[str, Any]:
    """Rates of all brokers together, as a row whose parts may be missing."""
    silent = [row for row in rows if not row.answered]

    def total(name: str) -> float | None:
        known = [getattr(row, name) for row in rows if getattr(row, name) is not None]
        return sum(known) if known else None

    return {
        "in_rate": total("in_rate"),
        "out_rate": total("out_rate"),
        "partial": bool(silent),
        "reason": "; ".join(f"{row.broker_name}: {row.reason}" for row in silent),
        "unknown_since_ms": min((row.since_ms for row in silent), default=None),
    }


def _dead_total(rows: Sequence[dead_letter_selectors.DeadLetterRow]) -> dict[str, Any]:
    known = [row.count for row in rows if row.count is not None]
    return {
        "count": sum(known),
        "count_lower_bound": len(known) < len(rows) or any(row.lower_bound for row in rows),
        "reason": "; ".join(
            f"{row.group}: {row.reason}" for row in rows if row.count is None or row.lower_bound
        ),
    }


@require_safe
def brokers(request: HttpRequest, cluster: str) -> HttpResponse:
    """Every broker as the last round saw it, silent ones included; runtime figures in an expander."""
    here = admit(request, cluster)
    return render(
        request,
        "overview/_broker_list.html" if "part" in request.GET else "overview/brokers.html",
        {
            "cluster": here,
            "brokers": lag_selectors.broker_rows(here.name),
            "rounds": lag_selectors.rounds(here.name),
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def clusters(request: HttpRequest) -> HttpResponse:
    """The clusters this person may see; with ADMIN, a form that adds one by its name server address."""
    may_add = rules.may(request.user, Verb.ADMIN, "*")
    form = AddClusterForm(request.POST or None)
    if request.method == "POST":
        if not may_add:
            raise PermissionDenied("Adding a cluster needs the right to administer all of them (ADMIN).")
        if form.is_valid():
            try:
                added = cluster_services.add_cluster(
                    **form.cleaned_data,
                    actor=request.user,
                    remote_addr=remote_addr(request),
                )
            except cluster_services.ClusterError as refusal:
                form.add_error(refusal.field or None, str(refusal))
            else:
                messages.success(
                    request, f"{added.name} is added. Its first figures come with the next round."
                )
                return redirect("overview", added.name)
    visible = [
        (one, lag_selectors.last_round(one.name)) for one in cluster_selectors.clusters_for(request.user)
    ]
    context = {"clusters": visible, "form": form, "may_add": may_add}
    return render(request, "overview/clusters.html", context, status=422 if form.errors else 200)
