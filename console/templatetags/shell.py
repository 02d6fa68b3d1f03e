"""The frame around every page: clusters, navigation, the collector's last round, running jobs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from django import template
from django.template import Context
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from console.access import rules
from console.access.models import Verb
from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.lag.models import Round
from console.operation import operation_list
from console.operation import selectors as operation_selectors
from console.text import language
from console.web.disk_room import no_room

register = template.Library()


class Entry(NamedTuple):
    """A page of the navigation; `key` follows `g` on the keyboard."""

    url_name: str
    key: str
    icon: str
    label: str


NAVIGATION = (
    # In groups, as the sidebar shows them.
    (
        Entry("overview", "o", "overview", gettext_noop("Overview")),
        Entry("topics", "t", "topics", gettext_noop("Topics")),
        Entry("groups", "g", "groups", gettext_noop("Groups")),
        Entry("clients", "l", "user", gettext_noop("Clients")),
        Entry("messages", "m", "messages", gettext_noop("Messages")),
        Entry("dead-letters", "d", "dead", gettext_noop("Dead letters")),
    ),
    (
        Entry("rebalance", "e", "rebalance", gettext_noop("Rebalance")),
        Entry("brokers", "b", "brokers", gettext_noop("Brokers")),
        Entry("operations", "p", "operations", gettext_noop("Operations")),
        Entry("reports", "r", "reports", gettext_noop("Reports")),
    ),
    (
        Entry("clusters", "c", "clusters", gettext_noop("Clusters")),
        Entry("tokens", "k", "key", gettext_noop("API tokens")),
        Entry("activity", "a", "activity", gettext_noop("Activity")),
    ),
)
# Pages about the cluster as a whole; the others show each person what they may see.
OF_THE_WHOLE_CLUSTER = frozenset({"name-servers"})
OUTSIDE_CLUSTERS = frozenset({"clusters", "tokens", "activity"})
SECTIONS = {
    # A page below a list belongs to its entry in the navigation.
    "broker": "brokers",
    "broker-config": "brokers",
    "name-servers": "brokers",
    "broker-acl": "brokers",
    "acl-change": "brokers",
    "acl-white-addresses": "brokers",
    "topic": "topics",
    "group": "groups",
    "offset-change": "groups",
    "rebalance-group": "rebalance",
    "message": "messages",
    "dead-letter-group": "dead-letters",
    "plan": "operations",
    "plan-apply": "operations",
    "plan-action": "operations",
    "job": "operations",
    "message-send": "messages",
    "message-schema": "messages",
    "report": "reports",
    "group-report": "reports",
    "cluster-add": "clusters",
}


LABELS = {entry.url_name: entry.label for part in NAVIGATION for entry in part}


@dataclasses.dataclass(frozen=True, slots=True)
class NavigationItem:
    """One entry of the sidebar; `key` follows `g` on the keyboard."""

    url: str
    key: str
    icon: str
    label: str
    is_current: bool
    url_name: str
    count: int = 0  # for operations: unfinished jobs, and plans that wait for this person


@dataclasses.dataclass(frozen=True, slots=True)
class Shell:
    """The data of base.html beyond the page's own context. Times in epoch ms.

    `is_stale`: no round for longer than `STALE_ROUNDS` intervals, or one that reached no broker. `read_at_ms` is as of
    when the figures are. `unreachable_since_ms` is null while the last round reached any broker of the cluster.
    `full_disk` warns that nothing can be written here, "" while there is room.
    """

    now_ms: int
    clusters: Sequence[Cluster]
    navigation: Sequence[Sequence[NavigationItem]]
    round: Round | None
    read_at_ms: int | None
    is_stale: bool
    is_partial: bool
    unreachable_since_ms: int | None = None
    full_disk: str = ""


@register.simple_tag(takes_context=True)
def shell_facts(context: Context) -> Shell:
    """Read once per page; five small queries."""
    request = context["request"]
    known = getattr(request, "_tidemark_shell", None)
    if known is None:
        known = request._tidemark_shell = _shell(context)
    return known


def _shell(context: Context) -> Shell:
    request, cluster = context["request"], context.get("cluster")
    now_ms = int(context.get("now_ms") or time.time() * 1000)
    latest = lag_selectors.last_round(cluster.name) if cluster else None
    unreachable_ms = lag_selectors.unreachable_since(latest)
    jobs = _open_operations(request.user, cluster) if cluster else 0
    visible = list(cluster_selectors.clusters_for(request.user)) if request.user.is_authenticated else []
    home = cluster or (
        visible[0] if visible else None
    )  # outside of clusters the navigation leads to the first
    match = request.resolver_match
    name = match.url_name if match else ""
    current = context.get("section") or SECTIONS.get(name, name)
    return Shell(
        now_ms=now_ms,
        clusters=visible,
        navigation=[
            items
            for part in NAVIGATION
            if (
                items := [item for entry in part if (item := _item(request.user, entry, home, current, jobs))]
            )
        ],
        round=latest,
        read_at_ms=lag_selectors.data_ms(latest) if latest else None,
        is_stale=cluster is not None
        and (
            unreachable_ms is not None
            or lag_selectors.is_stale(latest, cluster.poll_interval_s * 1000, now_ms)
        ),
        is_partial=latest is not None
        and (latest.brokers_answered < latest.brokers_total or bool(latest.error)),
        unreachable_since_ms=unreachable_ms,
        full_disk=no_room(),
    )


def _open_operations(user: Any, cluster: Cluster) -> int:
    """Count unfinished jobs that this person may see, and plans that wait for their approval."""
    jobs = operation_selectors.active_jobs(cluster.name)
    waiting = operation_list.waiting_for_others(
        cluster.name, user.get_username(), now=dt.datetime.now(dt.UTC)
    )
    awaiting = [
        plan
        for plan in waiting
        if rules.may(user, operation_selectors.plan_kind(plan.kind).verb, cluster.name, plan.subject)
    ]
    return len(awaiting) + sum(rules.may(user, Verb.VIEW, cluster.name, job.subject) for job in jobs)


@register.simple_tag
def script_words() -> str:
    """Return the address of the scripts' catalogue in the page's language; empty for English."""
    return language.catalog_url()


@register.simple_tag(takes_context=True)
def can_open(context: Context, name: str) -> bool:
    """Return whether this person may open a page of the navigation: `{% can_open "brokers" as linked %}`."""
    return may_open(context["request"].user, name, context.get("cluster"))


def may_open(user: Any, name: str, cluster: Cluster | None) -> bool:
    """Return whether this person may open a page of the navigation."""
    if name == "activity":
        return rules.may_see_activity(user)
    return name not in OF_THE_WHOLE_CLUSTER or cluster is None or rules.may(user, Verb.VIEW, cluster.name)


def _item(user: Any, entry: Entry, cluster: Cluster | None, current: str, jobs: int) -> NavigationItem | None:
    """Return the entry; None if this installation lacks the page or this person may not open it."""
    name = entry.url_name
    if (cluster is None and name not in OUTSIDE_CLUSTERS) or not may_open(user, name, cluster):
        return None
    try:
        url = reverse(name, args=[] if name in OUTSIDE_CLUSTERS or cluster is None else [cluster.name])
    except NoReverseMatch:
        return None
    return NavigationItem(
        url,
        entry.key,
        entry.icon,
        gettext(entry.label),
        name == current,
        name,
        jobs if name == "operations" else 0,
    )


@register.simple_tag(takes_context=True)
def crumbs(context: Context, list_name: str, *pages: str) -> SafeString:
    """Render the way to a page: `{% crumbs "groups" group_url group %}`, its list, then addresses with their words.

    One without an address is left out.
    """
    links = [
        (reverse(list_name, args=[context["cluster"].name]), gettext(LABELS[list_name])),
        *((url, words) for url, words in zip(pages[::2], pages[1::2], strict=True) if url),
    ]
    return format_html(
        '<nav class="crumbs" aria-label="{}">{}</nav>',
        gettext("Breadcrumb"),
        format_html_join("", '<a href="{}">{}</a><span>/</span>', links),
    )
