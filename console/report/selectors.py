"""Queries of pages, REST and exports about reports. Nothing here starts a job."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

from django.conf import settings
from django.db.models import F, Max, Min, Model, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.expressions import OrderBy

from console.access.name_scope import EVERYTHING, NameScope
from console.lag import selectors as lag_selectors
from console.lag.history.log import readable
from console.lag.models import GroupMembers, HistoryFile
from console.lag.promise_versions import promises_of
from console.lists.page import Page, cut
from console.lists.spec import ListSpec
from console.report.jobs import is_so_far
from console.report.kept_rows import queue_rows
from console.report.kept_rows.queue_rows import Gap, LagSummary, QueueRows
from console.report.models import LagRow, ReportRow, ReportRun, ReportSchedule
from console.report.process import Promise
from console.web.spreadsheet import csv_line

PER_PAGE_MAX = 500
EXPORT_ROWS_MAX = 1_000_000
SORTS = {
    "window_start": "window_start_ms",
    "group": "group",
    "topic": "topic",
    "lag_p50": "lag_p50",
    "lag_p95": "lag_p95",
    "lag_p99": "lag_p99",
    "lag_max": "lag_max",
    "time_lag_p50": "time_lag_p50_ms",
    "time_lag_p95": "time_lag_p95_ms",
    "time_lag_p99": "time_lag_p99_ms",
    "time_lag_max": "time_lag_max_ms",
    "produced": "produced",
    "consumed": "consumed",
    "breach": "breach_ms",
    "coverage": "coverage_pct",
}
KEY = ("group", "topic", "broker_name", "queue_id")
BY_HOUR = ("-window_start_ms", *KEY)
# The columns of exports, in order: the job's own (`spark.jobs.lag_hour.COLUMNS`) and where they come from.
COLUMNS = queue_rows.COLUMNS
SHARED_COLUMNS = tuple(
    field.attname for field in ReportRow._meta.concrete_fields if field.attname not in ("id", "figures")
)
# What exports add for people: when the window began, and whether it was not over.
MADE_COLUMNS = ("window_start_utc", "is_partial")
# Of rows of single queues, whose files can be damaged: a line that has only this, its window and what groups are
# missing from it.
GAP_COLUMN = "gap"
# A question about rows: in the database, or in the files of single queues.
LagRows = QuerySet[LagRow] | QueueRows
AnyRows = LagRows | QuerySet[ReportRow]


M = TypeVar("M", bound=Model)


def runs(cluster: str, job: str, *, limit: int = 20) -> Sequence[ReportRun]:
    """Return the newest runs of one report, newest first; an unfinished one comes first."""
    found = ReportRun.objects.filter(cluster=cluster, job=job).select_related("requested_by")
    return list(found.order_by("-requested_at_ms", "-pk")[:limit])


def newest_runs(cluster: str) -> dict[str, ReportRun]:
    """Return the newest run of each report that was ever requested."""
    same = ReportRun.objects.filter(cluster=cluster, job=OuterRef("job")).order_by("-requested_at_ms", "-pk")
    newest = ReportRun.objects.filter(cluster=cluster, pk=Subquery(same.values("pk")[:1]))
    return {run.job: run for run in newest}


RUNS = ListSpec(
    name="runs",
    key="-pk",
    default="-requested",
    columns=(),
    orders={
        "requested": ("requested_at_ms",),
        "job": ("job",),
        "state": ("state",),
        "from": ("from_ms",),
        "rows": ("row_count",),
        "finished": ("finished_at_ms",),
    },
)


def run_page(
    cluster: str,
    *,
    job: str = "",
    state: str = "",
    order: Sequence[OrderBy] = (),
    page: int = 1,
    per_page: int = 50,
) -> Page[ReportRun]:
    """Return runs of all reports of a cluster, newest first without an order."""
    found = ReportRun.objects.filter(cluster=cluster).select_related("requested_by")
    if job:
        found = found.filter(job=job)
    if state:
        found = found.filter(state=state)
    return _page_of(found.order_by(*order or ("-requested_at_ms", "-pk")), page, per_page)


def run(run_id: str) -> ReportRun:
    """Return one run. Raises ReportRun.DoesNotExist."""
    return ReportRun.objects.select_related("requested_by").get(pk=run_id)


def last_success(cluster: str, job: str) -> ReportRun | None:
    """Return the newest run whose rows are in the tables."""
    found = ReportRun.objects.filter(cluster=cluster, job=job, state=ReportRun.State.SUCCEEDED)
    return found.order_by("-finished_at_ms").first()


def zone_of(cluster: str, job: str) -> str:
    """Return the zone of a report's days and weeks: its schedule's or the installation's."""
    own = ReportSchedule.objects.filter(cluster=cluster, job=job).first()
    return own.time_zone if own else str(settings.REPORT_TIME_ZONE)


def history_files(cluster: str, from_ms: int, to_ms: int) -> Sequence[HistoryFile]:
    """Return the live history files of [from_ms, to_ms) that this host can read, oldest first."""
    found = HistoryFile.objects.filter(
        readable(), cluster=cluster, state=HistoryFile.State.LIVE, ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms
    )
    return list(found.order_by("ts_lo_ms", "kind", "path"))


def rows(
    cluster: str,
    *,
    job: str = "lag_hour",
    group: str = "",
    from_ms: int | None = None,
    to_ms: int | None = None,
    scope: NameScope = EVERYTHING,
) -> QuerySet[LagRow]:
    """Return rows of groups' topics of one lag report, unordered.

    `group` keeps names that contain it, `scope` the names that the person may see.
    """
    found = scope.filter(LagRow.objects.filter(cluster=cluster, job=job), "group")
    if group:
        found = found.filter(group__icontains=group)
    if from_ms is not None:
        found = found.filter(window_start_ms__gte=from_ms)
    if to_ms is not None:
        found = found.filter(window_start_ms__lt=to_ms)
    return found


def rows_of_grain(grain: str, cluster: str, **filters: Any) -> LagRows:
    """Return as `rows` those of one of `LagRow.Grain`; rows of single queues are in files."""
    return QueueRows(cluster, **filters) if grain == LagRow.Grain.QUEUE else rows(cluster, **filters)


def group_hours(cluster: str, group: str, from_ms: int = 0, to_ms: int | None = None) -> QuerySet[LagRow]:
    """Return the hourly rows of a group's topics, without its retries and dead letters."""
    hours = LagRow.objects.filter(
        cluster=cluster,
        job="lag_hour",
        grain=LagRow.Grain.TOPIC,
        kind="GROUP",
        group=group,
        window_start_ms__gte=from_ms,
    )
    return hours if to_ms is None else hours.filter(window_start_ms__lt=to_ms)


def gaps(found: AnyRows) -> list[Gap]:
    """Return the gaps found so far in rows of single queues, newest first."""
    return found.gaps if isinstance(found, QueueRows) else []


def report_rows(
    cluster: str,
    job: str,
    *,
    grain: str = "",
    name: str = "",
    from_ms: int | None = None,
    to_ms: int | None = None,
    scope: NameScope = EVERYTHING,
) -> QuerySet[ReportRow]:
    """Return rows of a report that is not about lag per window, unordered: sort by `figures__…`.

    `name` keeps groups and topics that contain it. `scope` keeps what the person may see: by the group, for rows
    without one by the topic; rows about the whole cluster need the right to see all of it.
    """
    found = ReportRow.objects.filter(cluster=cluster, job=job)
    if not scope.is_everything:
        of_topics = Q(group="") & ~Q(topic="") & scope.condition("topic")
        found = found.filter(of_topics | ~Q(group="") & scope.condition("group"))
    if grain:
        found = found.filter(grain=grain)
    if name:
        found = found.filter(Q(group__icontains=name) | Q(topic__icontains=name))
    if from_ms is not None:  # an episode of many days is one row
        found = found.filter(
            **{"window_end_ms__gt" if job == "episodes" else "window_start_ms__gte": from_ms}
        )
    if to_ms is not None:
        found = found.filter(window_start_ms__lt=to_ms)
    return found


def of_system_groups(cluster: str) -> Q:
    """Return the condition that rows are of RocketMQ's own groups, which lists hide unless they are requested."""
    return Q(group__in=lag_selectors.system_groups(cluster))


def members(cluster: str) -> dict[str, int]:
    """Return how many clients each group has now, where known."""
    found = GroupMembers.objects.filter(cluster=cluster, clients__isnull=False)
    return {group: clients or 0 for group, clients in found.values_list("group", "clients")}


def slos(cluster: str) -> dict[str, list[Promise]]:
    """Return all versions of the groups' own promises, for a `JobSpec`."""
    return {
        group: [Promise(*version) for version in own] for group, own in promises_of(cluster).versions.items()
    }


def row_page(
    found: LagRows,
    *,
    sort: str = "time_lag_max",
    descending: bool = True,
    page: int = 1,
    per_page: int = 50,
    whole: LagRows | None = None,
    sums: queue_rows.Sums | None = None,
) -> Page[LagRow]:
    """Return one page; unknown figures sort last in both directions.

    An unknown sort key falls back to the worst time lag. `whole`: the rows without a scope, to count those not
    shown. `sums`: see `queue_rows.page`.
    """
    name = SORTS.get(sort, "time_lag_max_ms")
    if isinstance(found, QueueRows):
        assert whole is None or isinstance(whole, QueueRows)
        return queue_rows.page(
            found,
            name,
            descending=descending,
            page=page,
            per_page=max(1, min(per_page, PER_PAGE_MAX)),
            whole=whole,
            sums=sums,
        )
    assert not isinstance(whole, QueueRows)
    column = F(name)
    order = column.desc(nulls_last=True) if descending else column.asc(nulls_last=True)
    return _page_of(found.order_by(order, *BY_HOUR), page, per_page, whole)


def report_row_page(
    found: QuerySet[ReportRow],
    order: OrderBy,
    page: int,
    per_page: int,
    whole: QuerySet[ReportRow] | None = None,
    hidden_system: int = 0,
) -> Page[ReportRow]:
    """Return one page of a report's rows, ties by newest window, then by name. `whole`: see `row_page`."""
    ordered = found.order_by(order, "-window_start_ms", *KEY, "pk")
    return _page_of(ordered, page, per_page, whole, hidden_system)


def _page_of(
    ordered: QuerySet[M],
    page: int,
    per_page: int,
    whole: QuerySet[M] | None = None,
    hidden_system: int = 0,
) -> Page[M]:
    total = ordered.count()
    return cut(
        ordered,
        page=page,
        per_page=per_page,
        total=total,
        hidden_system=hidden_system,
        not_shown=0 if whole is None else whole.count() - total,
        per_page_max=PER_PAGE_MAX,
    )


def page_and_summary(found: LagRows, **arguments: Any) -> tuple[Page[LagRow], LagSummary]:
    """As `row_page` and `summary`; files are read once for both."""
    if isinstance(found, QueueRows):
        sums = queue_rows.Sums()
        return row_page(found, **arguments, sums=sums), sums.summary(found)
    return row_page(found, **arguments), summary(found)


def summary(found: LagRows) -> LagSummary:
    """Return the head of the page."""
    if isinstance(found, QueueRows):
        return queue_rows.summary(found)
    figures = found.aggregate(
        time_lag_max_ms=Max("time_lag_max_ms"),
        lag_max=Max("lag_max"),
        produced=Sum("produced"),
        consumed=Sum("consumed"),
        breach_ms=Sum("breach_ms"),
        coverage_pct=Min("coverage_pct"),
        from_ms=Min("window_start_ms"),
        to_ms=Max("window_end_ms"),
        generated_at_ms=Max("generated_at_ms"),
        slo_least_ms=Min("slo_ms"),
        slo_ms=Max("slo_ms"),
        interval_ms=Max("interval_ms"),
    )
    worst = found.order_by(F("time_lag_max_ms").desc(nulls_last=True)).first()
    return LagSummary(**figures, worst=worst if worst is not None and worst.time_lag_max_ms else None)


def table_rows(found: AnyRows, most: int = EXPORT_ROWS_MAX) -> tuple[list[str], Iterator[Sequence[Any]]]:
    """Return (column names, rows by window) for exports.

    The shared columns, when the window began as UTC text, whether it was over; then a report's own figures in the
    order of their names. Units are in the names (`_ms`, `_pct`, `_bytes`, `_rate` and `_per_s` a second); lags and
    counts are messages.
    """
    if isinstance(found, QueueRows):
        lines = (
            _gap_line(found, row) if isinstance(row, Gap) else [*_with_made(row), None]
            for row in queue_rows.by_window(found, most)
        )
        return [*COLUMNS, *MADE_COLUMNS, GAP_COLUMN], lines
    if found.model is LagRow:
        rows = found.order_by("window_start_ms", *KEY)[:most].values_list(*COLUMNS).iterator(chunk_size=2_000)
        return [*COLUMNS, *MADE_COLUMNS], map(_with_made, rows)
    others = cast("QuerySet[ReportRow]", found)
    figures_of = others.values_list("figures", flat=True).iterator(chunk_size=2_000)
    own = sorted({name for figures in figures_of for name in figures})
    ordered = others.order_by("window_start_ms", *KEY, "pk")[:most].iterator(chunk_size=2_000)
    others_lines = (
        [
            *(getattr(row, name) for name in SHARED_COLUMNS),
            _iso(row.window_start_ms),
            row.is_partial,
            *(row.figures.get(name) for name in own),
        ]
        for row in ordered
    )
    return [*SHARED_COLUMNS, *MADE_COLUMNS, *own], others_lines


def _with_made(row: Sequence[Any]) -> list[Any]:
    """Return the values of COLUMNS and MADE_COLUMNS."""
    names = ("window_start_ms", "window_end_ms", "job", "zone")
    begin, end, job, zone = (row[COLUMNS.index(name)] for name in names)
    return [*row, _iso(begin), is_so_far(job, begin, end, zone)]


def _gap_line(found: QueueRows, gap: Gap) -> list[Any]:
    """Return a line in place of rows that could not be read: only what is known."""
    known = {
        "grain": str(LagRow.Grain.QUEUE),
        "cluster": found.cluster,
        "job": found.job,
        "window_start_ms": gap.window_start_ms,
        "window_end_ms": gap.window_end_ms,
        "window_start_utc": _iso(gap.window_start_ms),
        GAP_COLUMN: gap.sentence,
    }
    return [known.get(name) for name in (*COLUMNS, *MADE_COLUMNS, GAP_COLUMN)]


def _iso(at_ms: int) -> str:
    """Format a time as spreadsheets and other programs read it."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def flat(value: Any) -> Any:
    """Return a value for one cell: lists and maps as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def csv_lines(found: AnyRows) -> Iterator[str]:
    """Yield the rows as CSV, line by line, so that memory stays flat; an unknown figure is an empty cell."""
    names, rows = table_rows(found)
    yield csv_line(names)
    for row in rows:
        yield csv_line(flat(value) for value in row)
