"""The list of groups, the page of a group or client, and the form that starts an offset change."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import rules
from console.access import selectors as access_selectors
from console.access.models import Verb
from console.brokers.mqadmin import (
    RETRY_TOPIC_PREFIX,
    BrokerUnavailable,
    MQBrokerError,
    RemotingTimeout,
    is_retry_topic,
)
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.group import group_page, pauses, selectors
from console.group.clients import member
from console.group.clients import page as client_page
from console.group.clients.throughput import Throughput, throughput_of
from console.group.findings import Queues, subscription_words
from console.group.group_list import GROUPS
from console.group.offsets.estimate import estimate
from console.group.offsets.forms import OFFERED, OffsetChangeForm
from console.group.offsets.matrix import Ticked, scope_matrix
from console.group.selectors import Reported
from console.group.settings.page import settings_table
from console.lag import selectors as lag_selectors
from console.lag import services as lag_services
from console.lag.models import ClientRow, GroupRow
from console.lag.past.by_client import CHANGES_MAX, TooManyChanges
from console.lag.promise_versions import promises_of
from console.lag.round.figures import ClientFigures
from console.lag.rows.broadcast import BROADCASTING
from console.lag.rows.queue_row import QueueRow
from console.lists.file import file_of
from console.lists.filter_chips import filter_chips
from console.lists.query import ListQuery
from console.operation import selectors as operation_selectors
from console.operation.config.row import GROUP
from console.operation.config.views import quarantine_context
from console.operation.errors import NotPermitted, PlanRejected
from console.operation.rules import require
from console.text import Duration, Text, text_of
from console.web.page_context import PageContext, chosen_tab
from spark.lag.local_time import HOUR_MS

RANGES = {
    "1h": HOUR_MS,
    "24h": 24 * HOUR_MS,
    "7d": 168 * HOUR_MS,
    "30d": 720 * HOUR_MS,
}
QUEUES_SHOWN = 10  # below a row of the list; the group's page has all
CLIENTS_EVERY_MS = 4_000  # every round, as the queues above: both name what is in flight
BY_CLIENT_EVERY_MS = 60_000  # members are read every 30 s
BY_CLIENT_AT_ONCE_MS = HOUR_MS  # a longer history, or one of many clients, is read after the page
CHART_QUEUES_AT_ONCE = 1_000  # an hour of more is read after the page
CLIENTS_SHOWN = 50  # of a group, by name; the list of the cluster's clients has all
DRAWN = ("times", "lag", "time_lag_ms", "lower_bound", "time_lag_lower_bound")  # of a LagLine, in group.js
CHART_POINTS = 480  # about two pixels each on a wide screen
# Most urgent first; empty ones are not shown.
CHIPS = (
    "LOST",
    "STALLED",
    "STOPPED",
    "FALLING_BEHIND",
    "INVALID",
    "UNKNOWN",
    selectors.PARTIAL,
    "REWOUND",
    "SKIPPED",
    "CATCHING_UP",
    "OFFLINE",
    "NEVER_COMMITTED",
    "OK",
)


@require_safe
def groups(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """List groups, most urgent first; chips count all that match the search. `?format=csv` returns a file."""
    here, scope = admit_to_list(request, cluster)
    list_query = ListQuery.of(request, GROUPS)
    status = request.GET.get("status", "")
    status = status if status in CHIPS else ""
    include_system = request.GET.get("system") == "1"
    page = selectors.group_page(
        here.name, list_query, scope=scope, status=status or None, include_system=include_system
    )
    if list_query.is_whole:
        # The page's head shows that no round takes place; a file has none, so each row does.
        since_ms = lag_selectors.stale_since_ms(here.name, int(time.time() * 1000))
        for row in page.rows:
            lag_selectors.made_stale(row, since_ms)
        return file_of(request, page, GROUPS, here.name)
    chips = filter_chips(GROUPS, list_query, page.counts_by_filter)
    context = {
        "cluster": here,
        "list": GROUPS,
        "query": list_query,
        "status": status,
        "include_system": include_system,
        "page": page,
        "filters": list_query.filters,
        "chosen_chips": [chip for chip in chips if chip.is_chosen],
        "filter_chips": [chip for chip in chips if not chip.is_chosen],
        "chips": [(code, page.counts_by_status.get(code, 0)) for code in CHIPS],
        "count_all": sum(n for code, n in page.counts_by_status.items() if code != selectors.PARTIAL),
        "silent": lag_selectors.silent_or_without_master(here.name),
        "paused": page.paused,
        "live_sort": GROUPS.live_field(list_query.sort),
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name),
        "columns": access_selectors.column_choice(request.user, GROUPS),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "group/groups.html", context)


@require_safe
def group(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show one group: figures, findings, history, queues, clients.

    `?part=findings`, `?part=clients` and `?part=by-client` return these parts alone, `?part=row` the part below the
    group's row in the list.
    """
    here = admit(request, cluster, name=group)
    if request.GET.get("part") == "row":
        worst, has_more = selectors.worst_queues(here.name, group, limit=QUEUES_SHOWN)
        part = {"cluster": here, "group": group, "queues": worst, "has_more": has_more}
        return render(request, "group/_row_queues.html", part)
    row = _known(here.name, group)
    if request.GET.get("part") == "by-client":
        context = {"cluster": here, "row": row, **_by_client_context(request, here, row.group)}
        return render(request, "group/_by_client.html", context)
    queues, clients = selectors.group_queues(here.name, group), selectors.reports(here.name, group)
    brokers = sorted(set(queues.values("broker_name")))
    now_ms = int(time.time() * 1000)
    paused = pauses.pauses_of(here.name, group, now_ms)
    found = {
        "cluster": here,
        "row": row,
        "findings": group_page.findings_at(now_ms, row, queues, clients, paused),
        "pauses": paused,
        "queue_count": len(queues),
        "queue_brokers": brokers,
        "staying": group_page.staying(queues) if row.drain_never else None,
        "unknown_queues": queues.values("lag").count(None),
        "now_ms": now_ms,
    }
    if request.GET.get("part") == "findings":
        return render(request, "group/_findings.html", found)
    if request.GET.get("part") == "clients":
        return render(request, "group/_clients.html", found | _clients_context(row, queues, clients))
    query = ListQuery.of(request, group_page.QUEUES)
    tab = chosen_tab(request, TABS)
    context = {
        **found,
        **_chart(here, row, len(queues), brokers, request.GET.get("range", ""), now_ms),
        "query": query,
        "list": group_page.QUEUES,
        "queues": group_page.queue_page(queues, query),
        "retry_topic": RETRY_TOPIC_PREFIX + group,
        "has_retry": any(is_retry_topic(topic) for topic in set(queues.values("topic"))),
        **_clients_context(row, queues, clients),
        "has_filter": group_page.has_filter(clients),
        "jobs": operation_selectors.active_jobs(here.name, group),
        "silent": [
            row for row in lag_selectors.silent_or_without_master(here.name) if row.broker_name in brokers
        ],
        "may_reset": not here.is_generated and rules.may(request.user, Verb.RESET, here.name, group),
        "may_replay": rules.may(request.user, Verb.REPLAY, here.name, group),
        "tab": tab,
        "tabs": list(TABS.items()),
        "part": f"group/_tab_{tab}.html",
        **quarantine_context(request, here, GROUP, group),
        **_tab_context(request, tab, here, group, len(clients)),
    }
    return render(request, "group/group.html", context)


TABS = {
    "queues": Text("Queues"),
    "clients": Text("Clients"),
    "settings": Text("Settings"),
    "activity": Text("Activity"),
}
EVENTS_MAX = 50  # of the activity tab; the activity page has all


def _tab_context(request: HttpRequest, tab: str, here: Cluster, group: str, clients: int) -> PageContext:
    """Return the context of one tab; the settings are read from the brokers, within a few seconds."""
    if tab == "settings":
        return {"table": settings_table(here, group)}
    if tab == "activity":
        events = access_selectors.audit_events(cluster=here.name, subject=group)
        return {"events": events[:EVENTS_MAX], "event_count": events.count()}
    is_short = clients <= CLIENTS_SHOWN and _by_client_span_ms(request) <= BY_CLIENT_AT_ONCE_MS
    if tab == "clients" and is_short:
        return _by_client_context(request, here, group)
    return {"span_ms": _by_client_span_ms(request)}


def _by_client_span_ms(request: HttpRequest) -> int:
    """Return the range of the page, a day at most."""
    return min(RANGES.get(request.GET.get("range", ""), HOUR_MS), selectors.FLOW_MS_MAX)


def _by_client_context(request: HttpRequest, here: Cluster, group: str) -> PageContext:
    """Return which client was slow, over the range of the page."""
    now_ms, span_ms = int(time.time() * 1000), _by_client_span_ms(request)
    slo_ms = promises_of(here.name, [group]).at(group, now_ms).slo_ms
    found = None
    with contextlib.suppress(TooManyChanges):
        found = lag_selectors.by_client_between(here.name, group, now_ms - span_ms, now_ms, 1, slo_ms=slo_ms)
    return {
        "now_ms": now_ms,
        "span_ms": span_ms,
        "found": found,
        "clients_shown": CLIENTS_SHOWN,
        "changes_max": CHANGES_MAX if found is None else None,
    }


def _chart(
    here: Cluster, row: GroupRow, queues: int, brokers: Sequence[str], wanted: str, now_ms: int
) -> PageContext:
    """Return lag over the requested range with its marks, and the range of the flow chart.

    Of many queues the script requests the lag after the page.
    """
    cluster = here.name
    chosen = wanted if wanted in RANGES else "7d" if here.is_generated else "1h"
    span_ms = RANGES[chosen]
    from_ms = now_ms - span_ms
    line = None
    if queues <= CHART_QUEUES_AT_ONCE:
        line = lag_selectors.lag_line(cluster, row.group, from_ms, now_ms, CHART_POINTS)
    begins_ms = line.times[0] if line is not None and line.times else None
    marks = group_page.chart_marks(cluster, row.group, brokers, max(from_ms, begins_ms or from_ms), now_ms)
    drawn = {} if line is None else {name: getattr(line, name) for name in DRAWN}
    return {
        "chart": drawn | {"events": [asdict(mark) for mark in marks.marks]},
        "chart_waits": line is None,
        "chart_ms": span_ms,
        "chart_begins_ms": begins_ms if begins_ms and begins_ms - from_ms > span_ms // 20 else None,
        "marks": marks,
        "flow_ms": min(span_ms, selectors.FLOW_MS_MAX),
        "by_client_every_ms": BY_CLIENT_EVERY_MS,
        "ranges": [(key, Text("%(span)s", span=Duration(ms))) for key, ms in RANGES.items()],
        "range": chosen,
    }


@dataclass(frozen=True, slots=True)
class ShownClient:
    """A member in the list: its queues and subscription as words, and whether the latter differs from others'.

    ``progress``: of a member of a broadcasting group, the others have ``throughput``.
    """

    row: ClientRow
    owned: list[str] | None
    words: str
    differs: bool
    progress: ClientFigures | None
    throughput: Throughput


def _clients_context(row: GroupRow, queues: Queues, clients: Sequence[Reported]) -> PageContext:
    """Return the context of the table of members."""
    found, progress = group_page.differences(clients), group_page.progress_of(row)
    differing = group_page.differing_clients(clients, found)
    first = selectors.group_clients(row.cluster, row.group, most=CLIENTS_SHOWN)
    owned: dict[str, list[QueueRow]] = {client.client_id: [] for client in first}
    places = [at for at, owner in enumerate(queues.values("owner")) if owner in owned]
    for queue in queues.part(places):
        owned[queue.owner].append(queue)
    shown = [
        ShownClient(
            row=client,
            owned=group_page.owned_words(client),
            words=subscription_words(client),
            differs=client.client_id in differing,
            progress=progress.get(client.client_id),
            throughput=throughput_of(client, owned[client.client_id]),
        )
        for client in first
    ]
    return {
        "clients": shown,
        "client_count": len(clients),
        "clients_every_ms": CLIENTS_EVERY_MS,
        "broadcasts": row.model == BROADCASTING,
        "differences": found,
    }


@require_safe
def client(request: HttpRequest, cluster: str, group: str, client_id: str) -> HttpResponse:
    """Show one member, read from it now; `?stack=1` adds its threads."""
    here = admit(request, cluster, name=group)
    row = _known(here.name, group)
    known = selectors.group_client(here.name, group, client_id)
    info, problem = None, ""
    try:
        info = member.ask_member(here.name, group, client_id, with_stack=request.GET.get("stack") == "1")
    except (member.MemberSilent, BrokerUnavailable, RemotingTimeout, MQBrokerError) as trouble:
        problem = text_of(trouble).local()
    properties = client_page.properties(info) if info is not None else []
    clients = selectors.reports(here.name, group)
    broadcasts = row.model == BROADCASTING
    queues = (
        (selectors.client_queues(known) if known is not None else [])
        if broadcasts
        else selectors.group_queues(here.name, group)
    )
    held = client_page.held_queues(client_id, info, known, queues)
    context = {
        "cluster": here,
        "row": row,
        "client": known,
        "client_id": client_id,
        "info": info,
        "problem": problem,
        "queues": held,
        "sums": client_page.sums(held, info, group_page.progress_of(row).get(client_id)),
        "broadcasts": broadcasts,
        "subscriptions": client_page.subscriptions(known),
        "differences": group_page.differing_clients(clients, group_page.differences(clients)),
        "properties": properties,
        # A client that consumes concurrently reports meaningless locks.
        "in_order": info is not None and dict(info.properties).get("PROP_CONSUMEORDERLY") == "true",
        "raw_count": sum(not label for label, _, _ in properties),
        "with_stack": request.GET.get("stack") == "1",
        "section": "groups",
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "group/client.html", context, status=200 if info or known else 404)


@require_POST
def watch(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Keep the collector reading this group's pulled offsets every round while its page is open."""
    here = admit(request, cluster, name=group)
    lag_services.watch_group(here.name, _known(here.name, group).group, now_ms=int(time.time() * 1000))
    return HttpResponse(status=204)


def _known(cluster: str, group: str) -> GroupRow:
    row = selectors.group(cluster, group)
    if row is None:
        raise Http404(selectors.why_missing(cluster, group))
    return row


QUEUE_BOXES_MAX = 400  # checkboxes of queues on a page; with more, the form offers whole topics


@require_http_methods(["GET", "HEAD", "POST"])
def offset_change(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show the form of an offset change; POST makes the plan and redirects to it, and changes nothing.

    POST with ``part=estimate`` returns what the form as it stands would mean.
    """
    here = admit(request, cluster, Verb.RESET, group)
    row, queues = _known(here.name, group), _own_first(selectors.group_queues(here.name, group))
    form = OffsetChangeForm(queues, request.POST or None)
    if request.POST.get("part") == "estimate":
        return _estimate(request, here, group, form, queues)
    plan = form.plan(request, here.name, group) if request.method == "POST" and form.is_valid() else None
    if plan is not None:
        return redirect("plan", here.name, plan.id)
    topics = scope_matrix(queues, _ticked(request.POST) if request.method == "POST" else None)
    chosen = sum(box.is_chosen for topic in topics for box in topic.queues)
    context = {
        "cluster": here,
        "row": row,
        "topics": topics,
        "by_topic": len(queues) > QUEUE_BOXES_MAX,
        "queue_count": len(queues),
        "clients": selectors.group_clients(here.name, group),
        "targets": [(target.name, target.label, target.meaning) for target in OFFERED],
        "chosen": request.POST.get("target") or request.GET.get("target", ""),
        "step_values": [Text("%(number)s queue(s)", number=chosen)],
        "plans": operation_selectors.finished_plans(here.name, "offset_change", group),
        "like_groups": [
            name
            for name in selectors.groups_on_topics(here.name, sorted({queue.topic for queue in queues}))
            if name != group and rules.may(request.user, Verb.VIEW, here.name, name)
        ],
        "form": form,
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "group/offset_change.html", context, status=422 if form.errors else 200)


def _estimate(
    request: HttpRequest, here: Cluster, group: str, form: OffsetChangeForm, queues: Sequence[QueueRow]
) -> HttpResponse:
    """Return the estimate of a form, or what it still lacks."""
    now_ms, found, reason = int(time.time() * 1000), None, Text()
    if form.is_valid():
        params = form.params()
        try:
            if params.like_group:
                require(request.user, Verb.VIEW, here.name, params.like_group)
            found = estimate(here.name, group, params, queues, now_ms)
        except (PlanRejected, NotPermitted) as refusal:
            reason = text_of(refusal)
    else:
        reason = Text.of_parts(
            [Text.foreign(str(error)) for errors in form.errors.values() for error in errors]
        )
    context = {"cluster": here, "estimate": found, "reason": reason, "now_ms": now_ms}
    return render(request, "group/_estimate.html", context)


def _own_first(queues: Sequence[QueueRow]) -> list[QueueRow]:
    """Return the queues with the retry topic last."""
    return sorted(queues, key=lambda row: is_retry_topic(row.topic))


def _ticked(sent: QueryDict) -> Ticked:
    """Return the submitted choice, for the form that is shown again."""
    return Ticked(frozenset(sent.getlist("queue")), frozenset(sent.getlist("topic")))
