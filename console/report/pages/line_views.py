"""The list of reports, and the pages of those that are not lag per window."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import F, QuerySet
from django.db.models.expressions import OrderBy
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access.name_scope import EVERYTHING, NameScope, view_scope
from console.cluster.admission import admit_to_list
from console.cluster.models import Cluster
from console.lists.page import Page
from console.lists.query import ListQuery
from console.report import selectors
from console.report.columns import VIEWS, RowsView
from console.report.delivery import schedules
from console.report.jobs import JOBS, STORE_JOBS, WORDS
from console.report.models import ReportRow, ReportRun, ReportSchedule
from console.report.pages import run_panel
from console.report.pages.episode_lanes import copied_until_ms, lanes
from console.report.pages.summary import summary
from console.report.rules import span_of, span_start, spans_of
from console.text import Text
from console.web.page_context import PageContext

EPISODE_SORTS = {
    "start": "figures__start_ms",
    "duration": "figures__duration_ms",
    "peak": "figures__peak_time_lag_ms",
    "late": "figures__messages_late",
    "group": "group",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A report in the list of reports: its schedule, its newest run, the outcome of its last moment."""

    schedule: ReportSchedule
    run: ReportRun | None
    outcome: run_panel.Outcome

    @property
    def job(self) -> str:
        return self.schedule.job

    @property
    def name(self) -> Text:
        return JOBS[self.job]

    @property
    def words(self) -> Text:
        return WORDS[self.job]


@require_safe
def reports(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show every report: its subject, its last run and the outcome."""
    here, scope = admit_to_list(request, cluster)
    now_ms = _now_ms()
    newest = selectors.newest_runs(here.name)
    rows = [
        Listed(one, newest.get(one.job), run_panel.outcome_of(one))
        for one in schedules.schedules(here.name, now_ms=now_ms)
        if not (here.is_generated and one.job in STORE_JOBS)  # generated data has no store files
    ]
    context = {"cluster": here, "rows": rows, "summary": summary(here, now_ms, scope), "now_ms": now_ms}
    return render(request, "report/reports.html", context)


def page(
    request: HttpRequest, here: Cluster, job: str, panel: PageContext, status: int = 200
) -> HttpResponse:
    """Render the page of one of these reports; `panel` is the result of `run_panel.context`."""
    now_ms = _now_ms()
    build = _episodes if job == "episodes" else _lines
    built = build(request, here, job, now_ms)
    context = {
        **panel,
        **built,
        "downloads": run_panel.downloads(request, here, job, built["page"]),
        "span": span_of(request.GET.get("span", ""), job),
        "spans": list(spans_of(job).items()),
        "words": WORDS[job],
        "include_system": _includes_system(request),
        "now_ms": now_ms,
    }
    template = "report/episodes.html" if job == "episodes" else "report/lines.html"
    return render(request, template, context, status=status)


def found(request: HttpRequest, here: Cluster, job: str, scope: NameScope) -> QuerySet[ReportRow]:
    """Return the rows in a scope that match the page's filter, for a download."""
    return _found(request, here, job, _view(request, job) if VIEWS[job] else None, scope).shown


def _lines(request: HttpRequest, here: Cluster, job: str, now_ms: int) -> PageContext:
    view = _view(request, job)
    keys = {"group", "topic", *(column.key for column in view.columns)}
    ascending = ("group", "topic", *([view.sort] if view.ascending else []))
    query = ListQuery.plain(request, sorts=keys, default=view.sort, ascending=ascending)
    column = view.column(query.sort)
    order = F(column.order_field if column is not None else query.sort)
    ordered = order.desc(nulls_last=True) if query.descending else order.asc(nulls_last=True)
    page, _shown = _page(request, here, job, view, query, ordered)
    return {
        "view": view,
        "grain": view.key,
        "query": query,
        "page": page,
    }


def _episodes(request: HttpRequest, here: Cluster, job: str, now_ms: int) -> PageContext:
    query = ListQuery.plain(request, sorts=EPISODE_SORTS, default="start", ascending=("group",))
    order = F(EPISODE_SORTS[query.sort])
    ordered = order.desc(nulls_last=True) if query.descending else order.asc(nulls_last=True)
    page, shown = _page(request, here, job, None, query, ordered)
    return {
        "query": query,
        "page": page,
        "lanes": lanes(shown, _span_start(request, here, job, now_ms), copied_until_ms(here, now_ms)),
    }


class _Rows(NamedTuple):
    """The rows of the page's filter: those shown, and those hidden for being of RocketMQ's own groups."""

    shown: QuerySet[ReportRow]
    hidden: QuerySet[ReportRow]


def _page(
    request: HttpRequest,
    here: Cluster,
    job: str,
    view: RowsView | None,
    query: ListQuery,
    order: OrderBy,
) -> tuple[Page[ReportRow], QuerySet[ReportRow]]:
    """Return the page, and all rows of which it is one."""
    scope = view_scope(request.user, here.name)
    rows = _found(request, here, job, view, scope)
    whole = None if scope.is_everything else _found(request, here, job, view, EVERYTHING).shown
    hidden = rows.hidden.count()
    page = selectors.report_row_page(rows.shown, order, query.page, query.per_page, whole, hidden)
    return page, rows.shown


def _includes_system(request: HttpRequest) -> bool:
    return request.GET.get("system") == "1"


def _span_start(request: HttpRequest, here: Cluster, job: str, now_ms: int) -> int | None:
    span = span_of(request.GET.get("span", ""), job)
    return span_start(span, now_ms=here.until_ms(now_ms), zone=selectors.zone_of(here.name, job))


def _found(request: HttpRequest, here: Cluster, job: str, view: RowsView | None, scope: NameScope) -> _Rows:
    from_ms = _span_start(request, here, job, _now_ms())
    name = request.GET.get("q", "").strip()
    grain = "" if view is None else view.grain
    found = selectors.report_rows(here.name, job, grain=grain, name=name, from_ms=from_ms, scope=scope)
    if view is not None:
        found = found.filter(**dict(view.where))
    if _includes_system(request):
        return _Rows(found, found.none())
    of_system = selectors.of_system_groups(here.name)
    return _Rows(found.exclude(of_system), found.filter(of_system))


def _view(request: HttpRequest, job: str) -> RowsView:
    requested = request.GET.get("grain", "")
    if not VIEWS[job]:
        raise Http404(f"The report {job} has no table.")
    return next((view for view in VIEWS[job] if view.key == requested), VIEWS[job][0])


def is_requested(request: HttpRequest, job: str) -> bool:
    """Return whether the address names one of a report's views; of a lag report, one of other rows."""
    return request.GET.get("grain", "") in {view.key for view in VIEWS[job]}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
