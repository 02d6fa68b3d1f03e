"""The list of groups, the page of one, and the form that starts an offset change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import rules
from console.access.models import Verb
from console.access.visitor import remote_addr
from console.cluster.admission import admit, admit_to_list
from console.cluster.list_query import ListQuery
from console.group import selectors
from console.group.findings import findings, subscription_kinds, subscription_words
from console.group.forms import TARGETS, OffsetChangeForm, queue_value
from console.lag import selectors as lag_selectors
from console.lag import services as lag_services
from console.lag.models import ClientRow, GroupRow, QueueRow
from console.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.errors import NotPermitted, OperationError, PlanRejected

RETRY_PREFIX = "%RETRY%"
HOUR_MS = 3_600_000
RANGES = {
    "1h": (HOUR_MS, "1 h"),
    "24h": (24 * HOUR_MS, "24 h"),
    "7d": (168 * HOUR_MS, "7 d"),
    "30d": (720 * HOUR_MS, "30 d"),
}
CHART_POINTS = 480  # about two pixels each on a wide screen
CHIPS = (
    # The order in which an operator wants to see them; empty ones are not shown.
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
ASCENDING = ("group", "status", "model")
LIVE_SORT_FIELDS = {
    key: columns[0] for key, columns in selectors.SORTS.items() if key not in ("group", "status")
}


@require_safe
def groups(request: HttpRequest, cluster: str) -> HttpResponse:
    """All groups, most urgent first; chips count every group that matches the search."""
    here, scope = admit_to_list(request, cluster)
    query = ListQuery.of(request, sorts=selectors.SORTS, default="attention", ascending=ASCENDING)
    status = request.GET.get("status", "")
    include_system = request.GET.get("system") == "1"
    page = selectors.group_page(
        here.name,
        scope=scope,
        query=query.query,
        status=status if status in CHIPS else None,
        include_system=include_system,
        sort=query.sort,
        descending=query.descending,
        page=query.page,
        per_page=query.per_page,
    )
    context = {
        "cluster": here,
        "query": query,
        "status": status if status in CHIPS else "",
        "include_system": include_system,
        "page": page,
        "chips": [(code, page.counts_by_status.get(code, 0)) for code in CHIPS],
        "count_all": sum(n for code, n in page.counts_by_status.items() if code != selectors.PARTIAL),
        "silent": lag_selectors.silent_brokers(here.name),
        "live_sort": LIVE_SORT_FIELDS.get(query.sort, ""),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "group/groups.html", context)


@require_safe
def group(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """One group: figures, findings, history, queues, clients; `?part=findings` is that part alone."""
    here = admit(request, cluster, name=group)
    row = _known(here.name, group)
    queues = _retry_last(selectors.group_queues(here.name, group))
    clients = selectors.group_clients(here.name, group)
    now_ms = int(time.time() * 1000)
    found = {"cluster": here, "row": row, "findings": findings(row, queues, clients), "now_ms": now_ms}
    if request.GET.get("part") == "findings":
        return render(request, "group/_findings.html", found)
    chosen = request.GET.get("range", "1h")
    chosen = chosen if chosen in RANGES else "1h"
    from_ms = now_ms - RANGES[chosen][0]
    chart = lag_selectors.lag_history(here.name, group, from_ms, now_ms, CHART_POINTS)
    chart["events"] = _events(here.name, group, from_ms)
    begins_ms = chart["times"][0] if chart["times"] else None
    brokers = sorted({queue.broker_name for queue in queues})
    context = {
        **found,
        "queues": queues,
        "chart": chart,
        "chart_begins_ms": begins_ms if begins_ms and begins_ms - from_ms > RANGES[chosen][0] // 20 else None,
        "queue_brokers": brokers,
        "unknown_queues": sum(queue.lag is None for queue in queues),
        "retry_topic": RETRY_PREFIX + group,
        "has_retry": any(queue.topic == RETRY_PREFIX + group for queue in queues),
        "clients": [
            (client, owned_words(client), subscription_words(client.subscription)) for client in clients
        ],
        "subscription_count": len(subscription_kinds(clients)),
        "ranges": [(key, label) for key, (_, label) in RANGES.items()],
        "range": chosen,
        "jobs": operation_selectors.active_jobs(here.name, group),
        "silent": [row for row in lag_selectors.silent_brokers(here.name) if row.broker_name in brokers],
        "may_reset": rules.may(request.user, Verb.RESET, here.name, group),
        "may_replay": rules.may(request.user, Verb.REPLAY, here.name, group),
    }
    return render(request, "group/group.html", context)


EVENT_MARKS = {"offset_change": ("R", "offset change"), "dead_letter_replay": ("D", "dead-letter replay")}
EVENTS_MAX = 50  # marks of one chart; more would hide the line


def _events(cluster: str, group: str, from_ms: int) -> list[dict[str, Any]]:
    """What this console did to the group since then, as marks of the chart: when, letter, words."""
    jobs = operation_selectors.jobs_page(cluster, subject=group, per_page=EVENTS_MAX).rows
    marks = []
    for job in jobs:
        at_ms = round(job.created_at.timestamp() * 1000)
        if at_ms >= from_ms and job.kind in EVENT_MARKS:
            letter, words = EVENT_MARKS[job.kind]
            marks.append({"t": at_ms, "mark": letter, "label": f"{words} by {job.created_by}, {job.plan_id}"})
    return sorted(marks, key=lambda mark: mark["t"])


@require_POST
def watch(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """The page is still open: the collector goes on reading this group's pulled offsets in every round."""
    here = admit(request, cluster, name=group)
    lag_services.watch_group(here.name, _known(here.name, group).group, now_ms=int(time.time() * 1000))
    return HttpResponse(status=204)


def _retry_last(queues: Sequence[QueueRow]) -> list[QueueRow]:
    """The group's own topics first: what failed and comes again is the footnote."""
    return sorted(queues, key=lambda row: row.topic.startswith(RETRY_PREFIX))


def owned_words(client: ClientRow) -> list[str] | None:
    """`clicks: broker-a · 0, 1, 2` per topic and broker; [] for none, None when the client did not say."""
    if client.queues is None:
        return None
    ids: dict[tuple[str, str], list[int]] = {}
    for queue in client.queues:
        if not queue["topic"].startswith(RETRY_PREFIX):
            ids.setdefault((queue["topic"], queue["broker_name"]), []).append(queue["queue_id"])
    return [
        f"{topic}: {broker} · {', '.join(map(str, sorted(found)))}"
        for (topic, broker), found in sorted(ids.items())
    ]


def _known(cluster: str, group: str) -> GroupRow:
    row = selectors.group(cluster, group)
    if row is None:
        raise Http404(f"{cluster} knows no group {group}: it never connected, or was deleted.")
    return row


QUEUE_BOXES_MAX = 400  # checkboxes of single queues on a page; a group of more chooses whole topics there


@require_http_methods(["GET", "HEAD", "POST"])
def offset_change(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Scope and target of an offset change. POST makes the plan and shows it; nothing is changed here."""
    here = admit(request, cluster, Verb.RESET, group)
    row, queues = _known(here.name, group), _retry_last(selectors.group_queues(here.name, group))
    form = OffsetChangeForm(queues, request.POST or None)
    problem = ""
    if request.method == "POST" and form.is_valid():
        try:
            plan = operation_services.create_plan(
                "offset_change",
                here.name,
                group,
                form.params(),
                request.user,
                remote_addr=remote_addr(request),
            )
        except PlanRejected as refusal:
            form.refuse(str(refusal), refusal.field)
        except NotPermitted as refusal:
            form.refuse(str(refusal), "like_group")
        except (BrokerUnavailable, MQBrokerError, RemotingTimeout, OperationError) as trouble:
            problem = str(trouble)
        else:
            return redirect("plan", here.name, plan.id)
    context = {
        "cluster": here,
        "row": row,
        "topics": _scope(queues, request.POST if request.method == "POST" else None),
        "by_topic": len(queues) > QUEUE_BOXES_MAX,
        "queue_count": len(queues),
        "clients": selectors.group_clients(here.name, group),
        "targets": TARGETS,
        "chosen": request.POST.get("target") or request.GET.get("target", ""),
        "plans": operation_selectors.finished_plans(here.name, "offset_change", group),
        "like_groups": [
            name
            for name in selectors.groups_on_topics(here.name, sorted({queue.topic for queue in queues}))
            if name != group and rules.may(request.user, Verb.VIEW, here.name, name)
        ],
        "form": form,
        "problem": problem,
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "group/offset_change.html", context, status=422 if form.errors or problem else 200)


def _scope(queues: Sequence[QueueRow], sent: QueryDict | None) -> list[dict[str, Any]]:
    """Queues by topic with their checkbox; the retry topic is left alone unless chosen. ``sent``: what was
    chosen before, when the form comes back."""
    ticked = None if sent is None else (set(sent.getlist("queue")), set(sent.getlist("topic")))
    topics: dict[str, list[dict[str, Any]]] = {}
    for row in queues:
        value = queue_value(row)
        is_own = not row.topic.startswith(RETRY_PREFIX)
        is_chosen = is_own if ticked is None else value in ticked[0] or row.topic in ticked[1]
        topics.setdefault(row.topic, []).append({"row": row, "value": value, "is_chosen": is_chosen})
    return [
        {"name": name, "queues": boxes, "is_chosen": any(box["is_chosen"] for box in boxes)}
        for name, boxes in topics.items()
    ]
