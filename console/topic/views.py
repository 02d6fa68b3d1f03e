"""The list of topics and the page of one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import rules
from console.access import selectors as access_selectors
from console.access.models import Verb
from console.access.name_scope import view_scope
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.lag.models import TopicRow
from console.lag.rows.queue_row import TopicQueueRow
from console.lists.file import file_of
from console.lists.page import cut
from console.lists.query import ListQuery
from console.operation.config.row import TOPIC
from console.operation.config.table import read_table
from console.text import Text
from console.topic import selectors
from console.topic.change_views import known, topic_quarantine
from console.topic.findings import SKEW_RATE_MIN, findings
from console.topic.producers import senders_of
from console.topic.queue_page import SORTS, queue_page
from console.topic.topic_config import KEY_MEANINGS, permission_letters, permission_word
from console.topic.topic_list import TOPICS
from console.web.page_context import PageContext, chosen_tab
from spark.lag.local_time import MINUTE_MS

BROKER_LETTERS_MAX = 8  # in a row of the list: what its column has room for
READERS_SHOWN = 10  # below a row of the list; the topic's page has all


@require_safe
def topics(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """List topics of the chosen kinds; chips count every kind. `?format=csv` returns a file."""
    here, scope = admit_to_list(request, cluster)
    list_query = ListQuery.of(request, TOPICS)
    kinds = [kind for kind in request.GET.getlist("kind") if kind in selectors.KINDS] or ["NORMAL"]
    only_unread = request.GET.get("reader") == "none"
    message_type = request.GET.get("message_type", "")
    if message_type not in selectors.SPECIAL_TYPES:
        message_type = ""
    page = selectors.topic_page(
        here.name,
        list_query,
        scope=scope,
        kinds=kinds,
        message_type=message_type,
        only_unread=only_unread,
    )
    rows = [selectors.without_hidden_group(row, scope) for row in page.rows]
    if list_query.is_whole:
        return file_of(request, page, TOPICS, here.name)
    chips = [(kind, page.counts_by_status.get(kind, 0), kind in kinds) for kind in selectors.KINDS]
    short_names = lag_selectors.short_broker_names(here.name)
    context = {
        "cluster": here,
        "list": TOPICS,
        "query": list_query,
        "kinds": kinds,
        "chips": chips,
        "message_type": message_type,
        "type_chips": [
            (one, page.counts_by_status.get(one, 0), "" if one == message_type else one)
            for one in selectors.SPECIAL_TYPES
            if page.counts_by_status.get(one, 0) or one == message_type
        ],
        "only_unread": only_unread,
        "unread_count": page.counts_by_status.get(selectors.NO_READER, 0),
        "columns": access_selectors.column_choice(request.user, TOPICS),
        "page": page,
        "rows": [(row, permission_letters(row.perm), _shown(row.brokers, short_names)) for row in rows],
        "silent": lag_selectors.silent_or_without_master(here.name),
        "may_create": rules.may(request.user, Verb.CONFIGURE, here.name),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "topic/topics.html", context)


def _shown(brokers: Sequence[str], short_names: Mapping[str, str]) -> Sequence[str]:
    """Return names of all brokers as a row has room for them: whole, short, or not at all (then their number)."""
    for names in (brokers, [short_names.get(name, name) for name in brokers]):
        if sum(map(len, names)) + 2 * (len(names) - 1) <= BROKER_LETTERS_MAX:
            return names
    return []


@require_safe
def topic(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """Show one topic: figures, findings, and the tab that ``?tab=`` selects.

    ``?part=row`` returns the part below the topic's row in the list, ``?part=traffic`` the chart's points,
    ``?part=figures`` figures and findings, ``?part=tab`` the tab alone. Producers and configuration are read from the
    brokers, within a few seconds; all else is of the last round.
    """
    here = admit(request, cluster, name=topic)
    scope = view_scope(request.user, here.name)
    if request.GET.get("part") == "row":
        readers, has_more = selectors.topic_readers(here.name, topic, limit=READERS_SHOWN, scope=scope)
        part = {"cluster": here, "topic": topic, "readers": readers, "has_more": has_more, "scope": scope}
        return render(request, "topic/_row_readers.html", part)
    row = selectors.without_hidden_group(known(here.name, topic), scope)
    if request.GET.get("part") == "traffic":
        return JsonResponse(traffic(row), safe=False)
    queues = selectors.topic_queues(here.name, topic)
    groups = selectors.topic_groups(here.name, topic)
    silent = [
        one for one in lag_selectors.silent_or_without_master(here.name) if one.broker_name in row.brokers
    ]
    without_figures = {one.broker_name for one in silent if not one.answered}
    in_rates = [
        rate or 0.0
        for broker_name, rate in zip(queues.values("broker_name"), queues.values("in_rate"), strict=True)
        if broker_name not in without_figures
    ]
    tab = chosen_tab(request, TABS)
    query = ListQuery.plain(request, sorts=SORTS, default="queue", ascending=("queue",))
    shown_groups = groups if scope.is_everything else [group for group in groups if scope.covers(group.group)]
    page = None
    if tab == "queues" and request.GET.get("part") != "figures":
        worst = selectors.worst_readers(here.name, topic, shown_groups)
        page = queue_page(queues, without_figures, sum(in_rates), worst, query)
    context = {
        "cluster": here,
        "row": row,
        "perm_word": permission_word(row.perm),
        "queues": queues,
        "query": query,
        "queue_page": page,
        "groups": groups,
        "shown_groups": shown_groups,
        "group_page": cut(shown_groups, page=query.page, per_page=query.per_page),
        "even": 1 / len(in_rates) if in_rates else None,
        "scope": scope,
        "behind": sum(lag_selectors.is_in_trouble(group.status, group.lag) for group in groups),
        "skew": _skew(in_rates),
        "readers_per_message": _readers_per_message(row, len(groups)),
        "chart": traffic(row),
        "findings": findings(row, queues.records("broker_name", "queue_id", "in_rate"), without_figures),
        "tab": tab,
        "part": f"topic/_{tab}.html",
        "tabs": list(TABS.items()),
        "live_tabs": LIVE_TABS,
        "silent": silent,
        "may_send": rules.may(request.user, Verb.SEND, here.name, topic),
        "is_changeable": row.kind != "SYSTEM",
        **topic_quarantine(request, here, row),
        **_tab_context(tab, here, row, queues),
    }
    if request.GET.get("part") == "figures":
        return render(request, "topic/_figures.html", context)
    if request.GET.get("part") == "tab" and tab in LIVE_TABS:
        return render(request, context["part"], context)
    return render(request, "topic/topic.html", context)


TABS = {
    "queues": Text("Queues"),
    "groups": Text("Groups"),
    "producers": Text("Producers"),
    "config": Text("Config"),
    "activity": Text("Activity"),
}
LIVE_TABS = ("queues", "groups")  # of the last round; the others are read from the brokers, or are history
EVENTS_MAX = 50  # of the activity tab; the activity page has all


def _tab_context(tab: str, here: Cluster, row: TopicRow, queues: Sequence[TopicQueueRow]) -> PageContext:
    """Return the context of one tab."""
    if tab == "producers":
        return {"senders": senders_of(here, row.brokers, row.topic, queues)}
    if tab == "config":
        return {"table": read_table(here, TOPIC, row.topic, KEY_MEANINGS)}
    if tab == "activity":
        events = access_selectors.audit_events(cluster=here.name, subject=row.topic)
        return {"events": events[:EVENTS_MAX], "event_count": events.count()}
    return {}


def _readers_per_message(row: TopicRow, groups: int) -> float | None:
    """Return how many groups read each message, by the rates; None where a backlog is read besides."""
    if not row.in_rate or row.out_rate is None or row.out_rate > row.in_rate * (groups + 0.5):
        return None
    return row.out_rate / row.in_rate


def _skew(rates: Sequence[float]) -> float | None:
    """Return how many times an even share the busiest queue takes; None where too little flows to compare."""
    total = sum(rates)
    return max(rates) * len(rates) / total if total >= SKEW_RATE_MIN else None


class Traffic(NamedTuple):
    """Messages a second written to a topic, minute by minute."""

    times: list[int]
    in_rate: list[float | None]


def traffic(row: TopicRow) -> Traffic:
    """Return the last hour of a topic, from the first minute that is known to the last reading."""
    known = [at for at, value in enumerate(row.trend) if value is not None]
    rates = row.trend[known[0] :] if known else []
    first = row.trend_minute - len(rates) + 1
    times = [(first + at) * MINUTE_MS for at in range(len(rates))]
    if times:
        times[-1] = max(times[-1], row.read_at_ms)
    return Traffic(times, rates)
