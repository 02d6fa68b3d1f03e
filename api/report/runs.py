"""Reports: request a run (202), follow it, read its rows as JSON pages or one CSV."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from django.http import HttpResponseBase
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import pagination
from api.rest.list_file import CsvRenderer
from api.rest.permissions import view_scope
from api.rest.resource import Resource, remote_addr
from api.rest.struct import HelpTexts, StructSerializer
from console.access import rules
from console.access.models import Verb
from console.access.name_scope import EVERYTHING, NameScope
from console.cluster import selectors as cluster_selectors
from console.report import selectors, services
from console.report.jobs import JOBS, LAG_JOBS
from console.report.kept_rows.queue_rows import Gap
from console.report.models import Delivery, LagRow, ReportRun
from console.report.rules import window, yesterday_to_now
from console.text import JsonObject
from console.web.streamed import StreamedResponse

WORST_FIRST = "-time_lag_max"
TIME_MS_MAX = 2**53  # the largest integer that every JSON parser keeps exactly


class DeliverySerializer(StructSerializer):
    """One receiver of a scheduled run; of a webhook only its host is shown."""

    struct = Delivery
    help_texts: ClassVar[HelpTexts] = {
        "error": "why it could not be reached",
        "at_ms": "of the last try",
    }

    kind = serializers.ChoiceField(choices=["email", "webhook"])


class ReportRunSerializer(serializers.Serializer[Any]):
    """A run of a report; ``state``: QUEUED, RUNNING, SUCCEEDED, FAILED.

    ``warnings``: parts of the window that could not be read (hours without history, damaged files). ``deliveries``: who
    was notified; only for those who may CONFIGURE the cluster, since it contains addresses.
    """

    id = serializers.CharField()
    job = serializers.CharField()
    cluster = serializers.CharField()
    from_ms = serializers.IntegerField()
    to_ms = serializers.IntegerField()
    zone = serializers.CharField(help_text="the zone of its days and weeks")
    state = serializers.CharField()
    step = serializers.CharField(allow_blank=True, help_text="the current step")
    error = serializers.CharField(allow_blank=True)
    warnings = serializers.ListField(child=serializers.CharField())
    row_count = serializers.IntegerField()
    attempts = serializers.IntegerField(help_text="how often a worker took it up")
    requested_by = serializers.CharField(allow_null=True, help_text="null: the schedule")
    spark_version = serializers.CharField(allow_blank=True)
    requested_at_ms = serializers.IntegerField()
    started_at_ms = serializers.IntegerField(allow_null=True)
    finished_at_ms = serializers.IntegerField(allow_null=True)
    deliveries = DeliverySerializer(many=True, required=False)


def run_body(request: Request, run: ReportRun) -> JsonObject:
    """Return a run as this caller may see it."""
    body = run.as_row()
    if rules.may(request.user, Verb.CONFIGURE, run.cluster):
        body["deliveries"] = run.deliveries
    return body


class RunRequestSerializer(serializers.Serializer[Any]):
    """Whole hours, or days and weeks of the report's zone, are computed: those that hold any of [from_ms, to_ms)."""

    from_ms = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=TIME_MS_MAX,
        help_text="default: yesterday 00:00 of the report's zone",
    )
    to_ms = serializers.IntegerField(
        required=False, min_value=0, max_value=TIME_MS_MAX, help_text="default: now"
    )


class LagRowSerializer(serializers.ModelSerializer[LagRow]):
    """Null is unknown, never zero. ``grain`` topic: ``broker_name`` is empty and ``queue_id`` -1."""

    run = serializers.CharField(source="run_id")
    is_partial = serializers.BooleanField(help_text="the window had not ended: figures are incomplete")

    class Meta:
        model = LagRow
        exclude = ("id", "cluster", "job")


class GapSerializer(StructSerializer):
    """A damaged or missing file of single-queue rows: its rows are missing, and unknown."""

    struct = Gap
    help_texts: ClassVar[HelpTexts] = {"group_first": "the first group whose queues are missing, by name"}


class Runs(Resource):
    """Runs of all reports, newest first by default. They name no group: all who may see anything of the cluster."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True

    @extend_schema(
        operation_id="report_runs_list",
        tags=["reports"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            OpenApiParameter("job", str, enum=["", *JOBS]),
            OpenApiParameter("state", str, enum=["", *ReportRun.State.values]),
            pagination.order_parameter(selectors.RUNS),
        ],
        responses=pagination.page_of("ReportRun", ReportRunSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        page = selectors.run_page(
            cluster,
            job=pagination.choice(request, "job", ["", *JOBS], ""),
            state=pagination.choice(request, "state", ["", *ReportRun.State.values], ""),
            order=pagination.order_of(request, selectors.RUNS),
            **pagination.page_arguments(request),
        )
        return Response(pagination.page_body(request, page, [run_body(request, run) for run in page.rows]))


class JobRuns(Resource):
    """Request a run. 409 while the same report of the same cluster is being computed."""

    verbs: ClassVar[dict[str, str]] = {"POST": "REPORT"}

    @extend_schema(
        operation_id="report_runs_create",
        tags=["reports"],
        request=RunRequestSerializer,
        responses={202: ReportRunSerializer},
    )
    def post(self, request: Request, cluster: str, job: str) -> Response:
        existing(cluster, job)
        body = RunRequestSerializer(data=request.data or {})
        body.is_valid(raise_exception=True)
        now_ms = time.time_ns() // 1_000_000
        default = yesterday_to_now(now_ms, selectors.zone_of(cluster, job))
        given = body.validated_data
        run = services.request_run(
            job=job,
            cluster=cluster,
            window=window(
                given.get("from_ms", default.from_ms), given.get("to_ms", default.to_ms), now_ms=now_ms
            ),
            actor=request.user,
            now_ms=now_ms,
            remote_addr=remote_addr(request),
        )
        services.enqueue(run.id)
        run = selectors.run(run.id)
        return Response(
            run_body(request, run), status=202, headers={"Location": f"/api/v1/report-runs/{run.id}"}
        )


class RunDetail(Resource):
    """A run of a report."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(operation_id="report_runs_get", tags=["reports"], responses=ReportRunSerializer)
    def get(self, request: Request, run: str) -> Response:
        try:
            found = selectors.run(run)
        except ReportRun.DoesNotExist:
            raise NotFound(f"There is no report run {run}.") from None
        if not rules.may_see_cluster(request.user, found.cluster):
            raise NotFound(f"There is no report run {run}.")
        return Response(run_body(request, found))


FILTERS = [
    OpenApiParameter("grain", str, enum=LagRow.Grain.values, description="default topic"),
    OpenApiParameter("group", str, description="part of the group's name"),
    OpenApiParameter("from_ms", int, description="hours that begin at or after it"),
    OpenApiParameter("to_ms", int, description="hours that begin before it"),
]


class Rows(Resource):
    """Rows of the last runs, an hour of a group's topic (or queue) per row.

    Of single queues the first 20,000 rows in the requested order can be paged to; ``count`` counts all of them.
    """

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    throttle_scope = "search"

    @extend_schema(
        operation_id="report_rows",
        tags=["reports"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            *FILTERS,
            pagination.ordering_parameter(list(selectors.SORTS), WORST_FIRST),
        ],
        responses=pagination.page_of("ReportRow", LagRowSerializer(many=True), gaps=GapSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str, job: str) -> Response:
        existing(cluster, job)
        sort, descending = pagination.ordering(request, list(selectors.SORTS), WORST_FIRST)
        scope = view_scope(request.user, cluster)
        found = _rows(request, cluster, job, scope)
        page = selectors.row_page(
            found,
            whole=None if scope.is_everything else _rows(request, cluster, job, EVERYTHING),
            sort=sort,
            descending=descending,
            **pagination.page_arguments(request),
        )
        body = pagination.page_body(request, page, LagRowSerializer(page.rows, many=True).data)
        return Response({**body, "gaps": GapSerializer(selectors.gaps(found), many=True).data})


class RowsCsv(Resource):
    """The same rows by hour, all of them, as CSV; an unknown figure is an empty cell.

    For single queues, a separate line names in the column ``gap`` the rows that are missing because their file is
    damaged. Units are in the names: ``_ms``, ``_pct``, ``_rate`` (messages a second); lags and counts are messages. The
    start of a window is also given in ISO 8601 (``window_start_utc``), for spreadsheets.
    """

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    throttle_scope = "search"
    renderer_classes = (CsvRenderer, JSONRenderer)

    @extend_schema(
        operation_id="report_rows_csv",
        tags=["reports"],
        parameters=FILTERS,
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)},
    )
    def get(self, request: Request, cluster: str, job: str) -> HttpResponseBase:
        existing(cluster, job)
        lines = selectors.csv_lines(_rows(request, cluster, job, view_scope(request.user, cluster)))
        response = StreamedResponse(lines, content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{cluster}-{job}.csv"'
        return response


def _rows(request: Request, cluster: str, job: str, scope: NameScope) -> selectors.LagRows:
    if job not in LAG_JOBS:
        raise NotFound(f"{job} has no rows of lag; these have: {', '.join(LAG_JOBS)}.")
    return selectors.rows_of_grain(
        pagination.choice(request, "grain", LagRow.Grain.values, str(LagRow.Grain.TOPIC)),
        cluster,
        job=job,
        group=pagination.text(request, "group"),
        from_ms=pagination.integer(request, "from_ms", high=TIME_MS_MAX),
        to_ms=pagination.integer(request, "to_ms", high=TIME_MS_MAX),
        scope=scope,
    )


def existing(cluster: str, job: str) -> None:
    """Raise NotFound unless there are such a cluster and such a report."""
    cluster_selectors.cluster_by_name(cluster)
    if job not in JOBS:
        raise NotFound(f"There is no report {job}. Reports: {', '.join(JOBS)}.")


urlpatterns = [
    path("clusters/<str:cluster>/report-runs", Runs.as_view(), name="api-report-runs"),
    path("clusters/<str:cluster>/reports/<str:job>/runs", JobRuns.as_view(), name="api-report-job-runs"),
    path("clusters/<str:cluster>/reports/<str:job>/rows", Rows.as_view(), name="api-report-rows"),
    path("clusters/<str:cluster>/reports/<str:job>/rows.csv", RowsCsv.as_view(), name="api-report-rows-csv"),
    path("report-runs/<str:run>", RunDetail.as_view(), name="api-report-run"),
]
