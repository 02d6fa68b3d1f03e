"""The list of groups by who reads their queues, and the page of one group with what if."""

from __future__ import annotations

import time
from itertools import islice

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_safe

from console.access import rules as access_rules
from console.access import selectors as access_selectors
from console.access.models import Verb
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.group import selectors as group_selectors
from console.lag import selectors as lag_selectors
from console.lag.history import owners
from console.lag.models import GroupRow
from console.lag.past import mark_words, marks
from console.lists.file import file_of
from console.lists.filter_chips import filter_chips
from console.lists.query import ListQuery
from console.operation.plan_request import plan_or_reason
from console.rebalance import rules, services
from console.rebalance.observed.group import GroupOwnership, TopicOwnership, group_ownership
from console.rebalance.observed.group_list import REBALANCED, rebalance_page
from console.rebalance.observed.lanes import SPANS, lanes_of
from console.rebalance.observed.matrix import VIEWS, View, matrix
from console.rebalance.observed.overlaps import overlaps_of
from console.rebalance.observed.ownership import State
from console.rebalance.placement.form import Wanted, placement_form, prefixed
from console.rebalance.placement.in_force import KIND, placement_in_force
from console.rebalance.rules import KeptPlacement
from console.rebalance.what_if import new_clients_of, new_ids, weights_of, what_if
from console.text import Duration, Text
from console.web.page_context import PageContext

PART_EVERY_MS = 10_000  # every other round: owners change with a sweep, every 30 s
MOVES_SHOWN = 100
FINDINGS_SHOWN = 20  # the worst; a silent client is one each
CHANGES_SHOWN = 20
CHANGING = (mark_words.MEMBERS, mark_words.BROKER)  # what makes clients divide the queues anew


@require_safe
def groups(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """List groups, those with queues that no client or several read first. `?format=csv` returns a file."""
    here, scope = admit_to_list(request, cluster)
    query, now_ms = ListQuery.of(request, REBALANCED), int(time.time() * 1000)
    page = rebalance_page(here.name, query, now_ms, scope=scope)
    if query.is_whole:
        return file_of(request, page, REBALANCED, here.name)
    context = {
        "cluster": here,
        "list": REBALANCED,
        "query": query,
        "page": page,
        "filters": query.filters,
        "chips": filter_chips(REBALANCED, query, page.counts_by_filter),
        "swept_ms": max((row.read_at_ms or 0 for row in page.rows), default=0) or None,
        "silent": lag_selectors.silent_or_without_master(here.name),
        "columns": access_selectors.column_choice(request.user, REBALANCED),
        "now_ms": now_ms,
    }
    return render(request, "rebalance/groups.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def group(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show who owns what in a group, what is wrong, and what if; POST makes the plan of a placement.

    `?part=now` returns what changes with the rounds.
    """
    here = admit(request, cluster, Verb.CONFIGURE if request.method == "POST" else Verb.VIEW, group)
    now_ms = int(time.time() * 1000)
    row = _known(here.name, group)
    found = group_ownership(row, now_ms)
    topic = _topic(found, request.POST.get("topic", request.GET.get("topic", "")))
    made = _made(request, here, group)
    if isinstance(made, HttpResponse):
        return made
    wanted = request.GET.get("view", "")
    view = View(wanted) if wanted in VIEWS else View.NOW
    counts = _counts(found)
    context = {
        "cluster": here,
        "row": row,
        "found": found,
        "findings": found.findings,
        "shown_findings": found.findings[:FINDINGS_SHOWN],
        "silent": [
            one
            for one in lag_selectors.silent_or_without_master(here.name)
            if one.broker_name in counts["brokers"]
        ],
        "topic": topic,
        "matrix": None if topic is None else matrix(topic, found.members, view),
        "views": list(VIEWS.items()),
        "part_every_ms": PART_EVERY_MS,
        "now_ms": now_ms,
        **counts,
        **_changes(request, found, topic, row, now_ms),
        "in_force": None if topic is None else placement_in_force(topic.server_side),
        "may_configure": access_rules.may(request.user, Verb.CONFIGURE, here.name, group),
    }
    if request.GET.get("part") == "now":
        return render(request, "rebalance/_now.html", context)
    if topic is not None:
        context |= _placement(request, here, found, topic) | _what_if(request, found, topic)
    context["problem"] = made
    return render(request, "rebalance/group.html", context, status=422 if made else 200)


def _made(request: HttpRequest, here: Cluster, group: str) -> HttpResponse | str:
    """Make the plan of a submitted placement: return the redirect to it, or why there is none."""
    if request.method != "POST":
        return ""
    params = Wanted.sent(request.POST).params(request.POST.get("topic", ""))
    return plan_or_reason(request, here, KIND, group, params)


def _placement(
    request: HttpRequest, here: Cluster, found: GroupOwnership, topic: TopicOwnership
) -> PageContext:
    """Return the form for another placement on a topic."""
    in_force = placement_in_force(topic.server_side)
    unable = services.brokers_without_assignment(here.name, topic.brokers)
    kept = in_force.placement if in_force is not None else KeptPlacement()
    wanted = Wanted.sent(request.POST) if request.method == "POST" else Wanted.of(kept)
    return {
        "cannot_place": rules.cannot_assign(unable) if unable else "",
        "placement": placement_form(topic, found.members, wanted),
    }


def _counts(found: GroupOwnership) -> PageContext:
    """Return how many queues of all topics are in each state."""
    return {
        "queues": sum(len(one.owned) for one in found.topics),
        "brokers": sorted({name for one in found.topics for name in one.brokers}),
        "one_owner": sum(one.count(State.ONE) for one in found.topics),
        "no_owner": sum(one.count(State.NONE) for one in found.topics),
        "two_owners": sum(one.count(State.TWO) for one in found.topics),
        "last_known": sum(one.count(State.LAST_KNOWN) for one in found.topics),
        "unknown": sum(one.count(State.UNKNOWN, State.LAST_KNOWN) for one in found.topics),
    }


def _changes(
    request: HttpRequest, found: GroupOwnership, topic: TopicOwnership | None, row: GroupRow, now_ms: int
) -> PageContext:
    """Return who took and gave up queues of the topic, and what happened to members and brokers, newest first."""
    span = request.GET.get("span", "")
    span = span if span in SPANS else next(iter(SPANS))
    span_ms = SPANS[span]
    brokers = {name for one in found.topics for name in one.brokers}
    kept = marks.of_group(row.cluster, row.group, brokers, now_ms - span_ms, now_ms, CHANGES_SHOWN)
    shown = [one for one in kept.marks if mark_words.LETTERS[one.kind] in CHANGING]
    changes = [(one.at_ms, mark_words.words(one)) for one in reversed(shown)]
    lanes = None
    if topic is not None:
        window = now_ms - span_ms, now_ms
        rows = owners.between(row.cluster, row.group, *window, with_claims=True, topic=topic.topic)
        tenures = owners.tenures(one for one in rows if not one.is_claim)
        claims = owners.tenures(one for one in rows if one.is_claim)
        queues = [one.queue for one in topic.owned]
        lanes = lanes_of(tenures, queues, span, now_ms, changes, claims)
        changes = sorted(
            [*changes, *((one.from_ms, one.words) for one in overlaps_of(claims))],
            key=lambda one: -one[0],
        )
    spans = [(name, Text("%(span)s", span=Duration(length_ms))) for name, length_ms in SPANS.items()]
    return {"changes": changes, "lanes": lanes, "span": span, "spans": spans, "span_ms": span_ms}


def _topic(found: GroupOwnership, wanted: str) -> TopicOwnership | None:
    """Return the requested topic, else the one with the most queues in trouble, else the largest."""
    by_name = {one.topic: one for one in found.topics}
    if wanted in by_name:
        return by_name[wanted]
    trouble = (State.NONE, State.TWO)
    return max(found.topics, key=lambda one: (one.count(*trouble), len(one.owned)), default=None)


def _what_if(request: HttpRequest, found: GroupOwnership, topic: TopicOwnership) -> PageContext:
    get = request.GET
    new = new_clients_of(get.get("new", ""))
    known = {one.client_id for one in found.members}.union(new_ids(new))
    given = {name: weight for name, weight in prefixed(get, "weight:").items() if name in known}
    scenario = what_if(
        topic,
        found.members,
        strategy=get.get("strategy", ""),
        without=set(get.getlist("without")),
        new_clients=new,
        weights=weights_of(given),
    )
    return {
        "what_if": scenario,
        "listed": scenario.listed,
        "weighed": scenario.weighed,
        "moves": list(islice(scenario.moves, MOVES_SHOWN)),
        "current": topic.expected.strategy if topic.expected is not None else "",
    }


def _known(cluster: str, group: str) -> GroupRow:
    row = group_selectors.group(cluster, group)
    if row is None:
        raise Http404(group_selectors.why_missing(cluster, group))
    return row
