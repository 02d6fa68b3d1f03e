"""Pages that bring several apps together: overview, brokers, clusters, and the command palette's names."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
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
JUMP_ROWS = 8
URGENT = ("LOST", "STALLED", "STOPPED", "FALLING_BEHIND")
MESSAGE_ID_LENGTHS = (32, 40)  # hex characters: unique key and offset id with IPv4; offset id with IPv6 is 56


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The first cluster this person may see, or the list that says there is none."""
    visible = cluster_selectors.clusters_for(request.user)
    return redirect("overview", visible[0].name) if visible else redirect("clusters")


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


@require_safe
def jump(request: HttpRequest, cluster: str) -> JsonResponse:
    """Names for the command palette: `?q=ord` → groups and topics that contain it, and a message id as
    itself.
    """
    here = admit(request, cluster)
    query = request.GET.get("q", "").strip()[:255]
    items = []
    if len(query) in MESSAGE_ID_LENGTHS and all(letter in "0123456789abcdefABCDEF" for letter in query):
        url = f"{reverse('messages', args=[here.name])}?read=id&id={query}"
        items.append({"kind": "Message", "icon": "messages", "name": query, "url": url, "hint": "message id"})
    if query:
        items += _names(
            here.name, "group", "Groups", group_selectors.group_names(here.name, query=query, limit=JUMP_ROWS)
        )
        items += _names(
            here.name, "topic", "Topics", topic_selectors.topic_names(here.name, query=query, limit=JUMP_ROWS)
        )
    return JsonResponse({"items": items})


def _names(cluster: str, page: str, kind: str, names: Sequence[str]) -> list[dict[str, str]]:
    return [
        {
            "kind": kind,
            "icon": f"{page}s",
            "name": name,
            "url": reverse(page, args=[cluster, name]),
            "hint": page,
        }
        for name in names
    ]
