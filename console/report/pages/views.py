"""The pages of lag reports, running any report, downloads."""

from __future__ import annotations

import time

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from console.access.name_scope import EVERYTHING, NameScope, view_scope
from console.access.session.visitor import remote_addr
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.lists.query import ListQuery
from console.report import selectors, services
from console.report.forms import RunForm, ScheduleForm
from console.report.jobs import JOBS, LAG_JOBS, WORDS
from console.report.models import LagRow
from console.report.pages import exports, line_views, run_panel
from console.report.rules import span_of, span_start, spans_of
from console.report.services import ReportAlreadyRunning
from console.text import Text, text_of
from console.web.streamed import StreamedResponse

GRAINS = {LagRow.Grain.TOPIC: Text("Groups and topics"), LagRow.Grain.QUEUE: Text("Queues")}
PERIOD_WORDS = {"lag_hour": Text("Hour"), "lag_day": Text("Day"), "lag_week": Text("Week")}
WORST_FIRST = "time_lag_max"


@require_safe
def report(request: HttpRequest, cluster: str, job: str) -> HttpResponse:
    """Rows of the last runs, worst first, and the form that asks for another run."""
    here, _ = admit_to_list(request, cluster)
    _require_job(job)
    return page(request, here, job)


@require_POST
def run(request: HttpRequest, cluster: str, job: str) -> HttpResponse:
    """Request a run; the page then shows its progress."""
    here = admit(request, cluster, verb=run_panel.RUN_VERB)
    _require_job(job)
    now_ms = _now_ms()
    form = RunForm(request.POST, now_ms=now_ms, zone=selectors.zone_of(here.name, job))
    if not form.is_valid() or form.window is None:
        return page(request, here, job, form, status=422)
    try:
        requested = services.request_run(
            job=job,
            cluster=here.name,
            window=form.window,
            actor=request.user,
            now_ms=now_ms,
            remote_addr=remote_addr(request),
        )
        services.enqueue(requested.id)
    except ReportAlreadyRunning as running:
        shown = Text("%(why)s This page shows it when it is ready.", why=text_of(running))
        messages.warning(request, shown.local())
    return redirect("report", here.name, job)


@require_safe
def download(request: HttpRequest, cluster: str, job: str, fmt: str) -> HttpResponseBase:
    """Stream, as a file, the rows that match the page's filter and the visitor's rights."""
    here, scope = admit_to_list(request, cluster)
    _require_job(job)
    now_ms = _now_ms()
    if job in LAG_JOBS and not line_views.is_requested(request, job):
        query = ListQuery.plain(request, sorts=selectors.SORTS, default=WORST_FIRST)
        rows: selectors.AnyRows = _rows(request, here, job, query, now_ms, scope)
    else:
        rows = line_views.found(request, here, job, scope)
    pieces = exports.export(fmt, rows, job=job, cluster=here.name, now_ms=now_ms)
    response = StreamedResponse(pieces, content_type=exports.FORMATS[fmt].content_type)
    response["Content-Disposition"] = f'attachment; filename="{here.name}-{job}.{fmt}"'
    return response


def page(
    request: HttpRequest,
    here: Cluster,
    job: str,
    form: RunForm | None = None,
    schedule_form: ScheduleForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page of a report, with the errors of a refused form."""
    now_ms = _now_ms()
    panel = run_panel.context(request, here, job, form or RunForm(now_ms=now_ms), now_ms, schedule_form)
    if job not in LAG_JOBS or line_views.is_requested(request, job):
        return line_views.page(request, here, job, panel, status)
    query = ListQuery.plain(request, sorts=selectors.SORTS, default=WORST_FIRST, ascending=("group", "topic"))
    scope = view_scope(request.user, here.name)
    found = _rows(request, here, job, query, now_ms, scope)
    whole = None if scope.is_everything else _rows(request, here, job, query, now_ms, EVERYTHING)
    rows, summary = selectors.page_and_summary(
        found,
        sort=query.sort,
        descending=bool(query.descending),
        page=query.page,
        per_page=query.per_page,
        whole=whole,
    )
    context = {
        **panel,
        "words": WORDS[job],
        "query": query,
        "grain": _grain(request),
        "period_word": PERIOD_WORDS[job],
        "span": span_of(request.GET.get("span", ""), job),
        "spans": list(spans_of(job).items()),
        "page": rows,
        "summary": summary,
        "gaps": selectors.gaps(found),
        "downloads": run_panel.downloads(request, here, job, rows),
        "now_ms": now_ms,
    }
    return render(request, "report/report.html", context, status=status)


def _rows(
    request: HttpRequest, here: Cluster, job: str, query: ListQuery, now_ms: int, scope: NameScope
) -> selectors.LagRows:
    return selectors.rows_of_grain(
        _grain(request),
        here.name,
        job=job,
        group=query.query,
        from_ms=span_start(
            span_of(request.GET.get("span", ""), job),
            now_ms=here.until_ms(now_ms),
            zone=selectors.zone_of(here.name, job),
        ),
        scope=scope,
    )


def _grain(request: HttpRequest) -> str:
    requested = request.GET.get("grain", "")
    return requested if requested in GRAINS else str(LagRow.Grain.TOPIC)


def _require_job(job: str) -> None:
    if job not in JOBS:
        raise Http404(services.no_report(job))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
