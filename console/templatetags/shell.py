"""What the frame around every page shows: clusters, navigation, the collector's last round, running jobs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.urls import NoReverseMatch, reverse

from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.lag.models import Round
from console.operation import selectors as operation_selectors

register = template.Library()

NAVIGATION = (
    # (URL name, key after g, icon, label) in groups, as the sidebar shows them.
    (
        ("overview", "o", "overview", "Overview"),
        ("topics", "t", "topics", "Topics"),
        ("groups", "g", "groups", "Groups"),
        ("messages", "m", "messages", "Messages"),
        ("dead-letters", "d", "dead", "Dead letters"),
    ),
    (
        ("brokers", "b", "brokers", "Brokers"),
        ("operations", "p", "operations", "Operations"),
        ("reports", "r", "reports", "Reports"),
    ),
    (("clusters", "c", "clusters", "Clusters"), ("activity", "a", "activity", "Activity")),
)
OUTSIDE_CLUSTERS = frozenset({"clusters", "activity"})
SECTIONS = {
    # A page below a list belongs to its entry in the navigation.
    "topic": "topics",
    "group": "groups",
    "offset-change": "groups",
    "message": "messages",
    "dead-letter-group": "dead-letters",
    "plan": "operations",
    "job": "operations",
    "report": "reports",
    "cluster-add": "clusters",
}


@dataclasses.dataclass(frozen=True, slots=True)
class NavigationItem:
    """One entry of the sidebar; `key` follows `g` on the keyboard."""

    url: str
    key: str
    icon: str
    label: str
    is_current: bool
    url_name: str
    count: int = 0  # jobs that are not finished, for operations


@dataclasses.dataclass(frozen=True, slots=True)
class Shell:
    """Everything base.html needs beyond the page's own context. Times in epoch ms."""

    now_ms: int
    clusters: Sequence[Cluster]
    navigation: Sequence[Sequence[NavigationItem]]
    round: Round | None
    read_at_ms: int | None
    is_partial: bool


@register.simple_tag(takes_context=True)
def shell_facts(context: Mapping[str, Any]) -> Shell:
    """Read once per page; four small queries."""
    request = context["request"]
    known = getattr(request, "_tidemark_shell", None)
    if known is None:
        known = request._tidemark_shell = _shell(context)
    return known


def _shell(context: Mapping[str, Any]) -> Shell:
    request, cluster = context["request"], context.get("cluster")
    latest = lag_selectors.last_round(cluster.name) if cluster else None
    jobs = len(operation_selectors.active_jobs(cluster.name)) if cluster else 0
    visible = list(cluster_selectors.clusters_for(request.user)) if request.user.is_authenticated else []
    home = cluster or (
        visible[0] if visible else None
    )  # outside of clusters the navigation leads to the first
    match = request.resolver_match
    name = match.url_name if match else ""
    current = context.get("section") or SECTIONS.get(name, name)
    return Shell(
        now_ms=int(context.get("now_ms") or time.time() * 1000),
        clusters=visible,
        navigation=[
            items
            for part in NAVIGATION
            if (items := [item for entry in part if (item := _item(entry, home, current, jobs))])
        ],
        round=latest,
        read_at_ms=latest.started_at_ms + latest.duration_ms if latest else None,
        is_partial=latest is not None and latest.brokers_answered < latest.brokers_total,
    )


def _item(
    entry: tuple[str, str, str, str], cluster: Cluster | None, current: str, jobs: int
) -> NavigationItem | None:
    """None for a page that this installation does not have."""
    name, key, icon, label = entry
    if cluster is None and name not in OUTSIDE_CLUSTERS:
        return None
    try:
        url = reverse(name, args=[] if name in OUTSIDE_CLUSTERS or cluster is None else [cluster.name])
    except NoReverseMatch:
        return None
    return NavigationItem(url, key, icon, label, name == current, name, jobs if name == "operations" else 0)
