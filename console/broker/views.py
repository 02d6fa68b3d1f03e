"""Pages of brokers (list, one broker with its tabs, forms that start a change) and of name servers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import rules
from console.access import selectors as access_selectors
from console.access.models import Verb
from console.access.name_scope import NameScope
from console.access.rules import WILDCARD
from console.access.session.visitor import remote_addr
from console.broker import findings, samples, selectors
from console.broker.broker_list import BROKERS, OWN_BROKERS
from console.broker.config.areas import by_area
from console.broker.config.keys import KEYS, config_key
from console.broker.drain_checks import drain_checks
from console.broker.forms import ConfigForm
from console.broker.models import NameServerRow
from console.broker.selectors import BrokerView
from console.broker.survey import runtime
from console.broker.survey.course import COLUMNS
from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.lists.file import file_of
from console.lists.page import cut
from console.lists.query import QUERY_LENGTH_MAX, ListQuery
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.errors import OperationError, PlanRejected
from console.operation.models import FINAL_STATES, Job
from console.text import Text, text_of
from console.web.page_context import PageContext, chosen_tab
from spark.lag.local_time import DAY_MS

TABS = (
    ("health", Text("Health")),
    ("runtime", Text("Runtime")),
    ("config", Text("Config")),
    ("topics", Text("Topics and groups")),
    ("connections", Text("Connections")),
    ("drain", Text("Drain")),
)
# For those who see some names only: their share of the broker, and its health.
OWN_TABS = (
    "health",
    "topics",
    "connections",
)
LIVE_PARTS = {
    "health": "broker/_health.html",
    "runtime": "broker/_runtime.html",
    "drain": "broker/_drain_checks.html",
}
BROKER_TROUBLE = (BrokerUnavailable, MQBrokerError, RemotingTimeout, OperationError)


@require_safe
def brokers(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """List every broker as of the last round and survey, silent ones included; `?format=csv` is a file.

    Readers of some names only see the sums over those instead of the broker's whole traffic.
    """
    here, scope = admit_to_list(request, cluster)
    spec = BROKERS if scope.is_everything else OWN_BROKERS
    list_query = ListQuery.of(request, spec)
    servers = selectors.name_servers(here.name)
    page = selectors.broker_page(here.name, list_query, scope=scope, servers=servers)
    if list_query.is_whole:
        return file_of(request, page, spec, here.name)
    context = {
        "cluster": here,
        "scope": scope,
        "list": spec,
        "query": list_query,
        "columns": access_selectors.column_choice(request.user, spec),
        "state": list_query.filters.get("state", ""),
        "page": page,
        "silent": lag_selectors.silent_or_without_master(here.name),
        "survey": selectors.last_survey(here.name),
        "servers": servers,
        "has_new": scope.is_everything and selectors.has_new(page.rows),
        "differences": selectors.route_differences(here.name, per_page=1).all_total,
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name, WILDCARD),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "broker/brokers.html", context)


@require_safe
def broker(request: HttpRequest, cluster: str, broker: str) -> HttpResponse:
    """Show one broker; `?tab=` selects a tab.

    `?part=1` returns the live part of health, runtime and drain only, `?part=chart` the points of the last day.
    """
    here, scope = admit_to_list(request, cluster)
    servers, now_ms = selectors.name_servers(here.name), int(time.time() * 1000)
    views = selectors.broker_views(here.name, scope, servers)
    view = _known(here.name, broker, views)
    if request.GET.get("part") == "chart" and scope.is_everything:
        return JsonResponse(_chart(here, view, now_ms))
    tabs = [one for one in TABS if scope.is_everything or one[0] in OWN_TABS]
    tab = chosen_tab(request, dict(TABS))
    tab = tab if tab in dict(tabs) else "health"
    context = {
        "cluster": here,
        "scope": scope,
        "view": view,
        "tab": tab,
        "part": f"broker/_{tab}.html",
        "tabs": tabs,
        "servers": servers,
        "names": [one.name for one in views],
        "survey": selectors.last_survey(here.name),
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name, WILDCARD),
        "may_reset": rules.may(request.user, Verb.RESET, here.name, WILDCARD),
        "now_ms": now_ms,
        **_tab_context(request, here, view, servers, tab, now_ms, scope),
        **(_drain_context(here, view, views, servers) if tab == "drain" else {}),
    }
    if "part" in request.GET and tab in LIVE_PARTS:
        return render(request, LIVE_PARTS[tab], context)
    return render(request, "broker/broker.html", context)


def _tab_context(
    request: HttpRequest,
    here: Cluster,
    view: BrokerView,
    servers: Sequence[NameServerRow],
    tab: str,
    now_ms: int,
    scope: NameScope,
) -> PageContext:
    if tab == "health":
        return _health_context(request, here, view, servers, now_ms, scope)
    if tab == "runtime":
        return _runtime_context(here, view, now_ms)
    if tab == "config":
        return _config_context(request, here)
    if tab == "topics":
        topics, topic_count = selectors.broker_topics(here.name, view.name, scope)
        groups, group_count = selectors.broker_groups(here.name, view.name, scope)
        return {"topics": topics, "topic_count": topic_count, "groups": groups, "group_count": group_count}
    if tab == "connections":
        return {
            "producers": selectors.producers(view, scope),
            "consumers": selectors.broker_consumers(here.name, view.name, scope),
        }
    return {}


def _drain_context(
    here: Cluster, view: BrokerView, views: Sequence[BrokerView], servers: Sequence[NameServerRow]
) -> PageContext:
    checks = drain_checks(here.name, view, views, servers)
    return {
        "checks": checks,
        "blocking": sum(check.blocks for check in checks),
        "drain_job": _drain_job(here.name, view.name),
        "last_jobs": _last_jobs(here.name, view.name),
    }


def _health_context(
    request: HttpRequest,
    here: Cluster,
    view: BrokerView,
    servers: Sequence[NameServerRow],
    now_ms: int,
    scope: NameScope,
) -> PageContext:
    found = findings.findings(view, servers)
    if not scope.is_everything:
        return {"findings": found, "chart": None}
    found += findings.config_findings(selectors.config_table(here.name, only_differences=True))
    is_part = "part" in request.GET
    return {"findings": found, "chart": None if is_part else _chart(here, view, now_ms)}


def _runtime_context(here: Cluster, view: BrokerView, now_ms: int) -> PageContext:
    courses = samples.courses(here.name, view.name, now_ms)
    has_usual = any(found.usual is not None for found in courses.values())
    return {
        "groups": runtime.figures(view.figures, courses),
        "usual_from_ms": None if has_usual else samples.usual_from_ms(here.name, view.name),
    }


def _chart(here: Cluster, view: BrokerView, now_ms: int) -> PageContext:
    """Return the last day, what is usual for it, and where the disk goes: its limits, and what an hour of writes takes.

    Shares of the disk; nothing deleted. What is unknown is null or missing.
    """
    courses = samples.courses(here.name, view.name, now_ms)
    return {
        **samples.samples(here.name, now_ms - DAY_MS, now_ms, view.name),
        "usual": {COLUMNS[key]: found.usual for key, found in courses.items() if found.usual is not None},
        "limits": [limit.share for limit in view.disk_limits],
        "disk_per_h": view.disk_per_h,
    }


def _config_context(request: HttpRequest, here: Cluster) -> PageContext:
    """Return the keys with an explanation, by area; a search covers all keys, which are hundreds."""
    query = ListQuery.plain(request)
    show = request.GET.get("show", "")
    show = show if show in ("all", "differences") else "all" if query.query else ""
    table = selectors.config_table(
        here.name,
        query=query.query,
        only_differences=show == "differences",
        only_explained=not show,
    )
    page = cut(table.lines, page=query.page, per_page=query.per_page, all_total=table.total)
    areas = [] if show else by_area([(line.key, line) for line in table.lines])
    counted = [(title, lines, sum(line.differs for line in lines)) for title, lines in areas]
    return {"table": table, "page": page, "areas": counted, "query": query, "show": show}


def _drain_job(cluster: str, name: str) -> Job | None:
    """Return the drain that runs now."""
    return next(
        (job for job in operation_selectors.active_jobs(cluster, name) if job.kind == "broker_drain"), None
    )


def _last_jobs(cluster: str, name: str) -> list[Job]:
    """Return past drains and returns, newest first."""
    jobs = operation_selectors.jobs_page(cluster, kind="broker_drain", subject=name, per_page=5).rows
    return [job for job in jobs if job.state in FINAL_STATES]


def _known(cluster: str, name: str, views: Iterable[BrokerView]) -> BrokerView:
    view = next((one for one in views if one.name == name), None)
    if view is None:
        raise Http404(
            Text(
                "%(cluster)s has no broker %(name)s: no name server lists it, or no round has run yet.",
                cluster=cluster,
                name=name,
            )
        )
    return view


@require_http_methods(["GET", "HEAD", "POST"])
def change_config(request: HttpRequest, cluster: str, broker: str) -> HttpResponse:
    """Choose key, value and brokers. POST makes the plan and shows it; nothing is changed here."""
    here = admit(request, cluster, Verb.CONFIGURE)
    admit(request, cluster)
    view = _known(here.name, broker, selectors.broker_views(here.name))
    names = [one.broker_name for one in lag_selectors.broker_rows(here.name)]
    may_several = rules.may(request.user, Verb.CONFIGURE, here.name, WILDCARD)
    form = ConfigForm(names if may_several else [view.name], request.POST or None)
    problem = Text()
    if request.method == "POST" and form.is_valid():
        try:
            plan = operation_services.create_plan(
                "broker_config_change",
                here.name,
                form.subject,
                form.params(),
                request.user,
                remote_addr=remote_addr(request),
            )
        except PlanRejected as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, text_of(refusal))
        except BROKER_TROUBLE as trouble:
            problem = text_of(trouble)
        else:
            return redirect("plan", here.name, plan.id)
    name = request.POST.get("key", request.GET.get("key", ""))[:QUERY_LENGTH_MAX]
    table = selectors.config_table(here.name)
    chosen = request.POST.getlist("brokers") if request.method == "POST" else [view.name]
    choices = _choices(here.name, name, names if may_several else [view.name], chosen)
    current = next((one.value for one in choices if one.name == view.name), None)
    context = {
        "cluster": here,
        "view": view,
        "form": form,
        "problem": problem,
        "key": config_key(name),
        "value": request.POST.get("value", current or ""),
        "all_keys": [one.key.name for one in table.lines] or sorted(KEYS),
        "choices": choices,
        "now_ms": int(time.time() * 1000),
    }
    return render(
        request, "broker/change_config.html", context, status=422 if form.errors or problem else 200
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A broker that a plan may include, with the key's value as of the last survey."""

    name: str
    value: str | None
    read_at_ms: int | None
    reason: Text
    is_chosen: bool


def _choices(cluster: str, key: str, names: list[str], chosen: list[str]) -> list[Choice]:
    """Return the brokers a plan may include, each with the key's value as of the last survey."""
    return [
        Choice(
            name=view.name,
            value=(view.config or {}).get(key),
            read_at_ms=view.survey.config_at_ms if view.survey is not None else None,
            reason=Text() if view.row.answered else view.row.reason or Text("it does not answer"),
            is_chosen=view.name in chosen,
        )
        for view in selectors.broker_views(cluster)
        if view.name in names
    ]


@require_POST
def drain(request: HttpRequest, cluster: str, broker: str) -> HttpResponse:
    """Make the plan that drains the broker, or gives its permission back, and show it; nothing is changed here."""
    here = admit(request, cluster, Verb.CONFIGURE)
    view = _known(here.name, broker, selectors.broker_views(here.name))
    try:
        plan = operation_services.create_plan(
            "broker_drain",
            here.name,
            view.name,
            {"direction": request.POST.get("direction", "")},
            request.user,
            remote_addr=remote_addr(request),
        )
    except BROKER_TROUBLE as trouble:
        messages.error(request, Text("No plan was made. %(reason)s", reason=text_of(trouble)).local())
        return redirect("broker", here.name, view.name)
    return redirect("plan", here.name, plan.id)


@require_safe
def name_servers(request: HttpRequest, cluster: str) -> HttpResponse:
    """List name servers: what each lists, since when it answers, and topics whose routes differ."""
    here = admit(request, cluster)
    query = ListQuery.plain(request)
    servers = selectors.name_servers(here.name)
    configs = [server.config for server in servers if server.config is not None]
    keys = sorted({key for config in configs for key in config})
    differing = [
        (key, [None if server.config is None else server.config.get(key) for server in servers])
        for key in keys
        if len({config.get(key) for config in configs}) > 1
    ]
    context = {
        "cluster": here,
        "query": query,
        "servers": servers,
        "names": sorted({name for server in servers for name in server.brokers}),
        "page": selectors.route_differences(
            here.name, query=query.query, page=query.page, per_page=query.per_page
        ),
        "config_differences": differing,
        "config_keys": len(keys),
        "survey": selectors.last_survey(here.name),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "broker/name_servers.html", context)
