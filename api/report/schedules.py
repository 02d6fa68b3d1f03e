"""Schedules, promises of groups, rows of reports that are not lag per window, downloads."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from django.db.models import F, QuerySet
from django.http import HttpResponseBase
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiCallback, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from api.report.runs import existing
from api.rest import pagination
from api.rest.error_words import one_of
from api.rest.permissions import view_scope
from api.rest.resource import Resource, remote_addr
from console.access.name_scope import EVERYTHING, NameScope
from console.cluster import selectors as cluster_selectors
from console.lag.models import GroupSlo as SloVersion
from console.report import selectors
from console.report.delivery import schedules
from console.report.delivery import sending as delivery
from console.report.jobs import JOBS, LAG_JOBS
from console.report.models import ZONE_LENGTH_MAX, LagRow, ReportRow, ReportSchedule
from console.report.pages import exports
from console.text import JsonObject
from console.web.streamed import StreamedResponse
from spark.lag.local_time import zone_problem

TIME_MS_MAX = 2**53


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class ScheduleSerializer(serializers.Serializer[Any]):
    """A schedule. Times are wall-clock times of ``time_zone``.

    ``hour`` applies to daily and weekly schedules, ``weekday`` (0 is Monday) to weekly ones.
    """

    job = serializers.CharField()
    cluster = serializers.CharField()
    is_on = serializers.BooleanField()
    cadence = serializers.ChoiceField(choices=ReportSchedule.Cadence.choices)
    minute = serializers.IntegerField()
    hour = serializers.IntegerField()
    weekday = serializers.IntegerField()
    zone = serializers.CharField(allow_blank=True, help_text="of this report; empty: the installation's")
    time_zone = serializers.CharField(help_text="in force: days and weeks are of it")
    emails = serializers.ListField(child=serializers.CharField())
    webhook_host = serializers.CharField(
        allow_blank=True, help_text="of the webhook only its host is ever shown"
    )
    last_due_ms = serializers.IntegerField()
    last_outcome = serializers.CharField(allow_blank=True)
    last_run = serializers.CharField(allow_null=True)

    def to_representation(self, instance: ReportSchedule) -> JsonObject:
        """Return what the audit shows of it, too."""
        return schedules.as_row(instance)


class ScheduleChangeSerializer(serializers.Serializer[Any]):
    """Omitted fields stay as they are."""

    is_on = serializers.BooleanField(required=False)
    cadence = serializers.ChoiceField(
        choices=ReportSchedule.Cadence.choices,
        required=False,
        error_messages=one_of(ReportSchedule.Cadence.values),
    )
    minute = serializers.IntegerField(required=False, min_value=0, max_value=59)
    hour = serializers.IntegerField(required=False, min_value=0, max_value=23)
    weekday = serializers.IntegerField(required=False, min_value=0, max_value=6)
    zone = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=ZONE_LENGTH_MAX,
        help_text="IANA name; empty: the installation's. `lag_day`, `lag_week` and `capacity` share one: a change of "
        "one is one of all three",
    )
    emails = serializers.ListField(
        child=serializers.CharField(max_length=254), required=False, max_length=delivery.EMAILS_MAX
    )
    webhook_url = serializers.CharField(
        required=False, allow_blank=True, max_length=500, help_text="write-only; empty removes it"
    )

    def validate_zone(self, value: str) -> str:
        if value and (problem := zone_problem(value)):
            raise ValidationError(problem)
        return value

    def validate_emails(self, value: list[str]) -> list[str]:
        try:
            return [delivery.valid_email(address) for address in value]
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def validate_webhook_url(self, value: str) -> str:
        try:
            return delivery.valid_webhook(value) if value else ""
        except ValueError as error:
            raise ValidationError(str(error)) from None


class WorstRowSerializer(serializers.Serializer[Any]):
    """One of the worst rows: of lag reports the figures named here, of others the row's own figures beside them."""

    group = serializers.CharField(allow_blank=True)
    topic = serializers.CharField(allow_blank=True)
    window_start_ms = serializers.IntegerField()
    window_end_ms = serializers.IntegerField()
    coverage_pct = serializers.FloatField(allow_null=True)
    time_lag_max_ms = serializers.IntegerField(required=False)
    lag_max = serializers.IntegerField(required=False, allow_null=True)
    breach_ms = serializers.IntegerField(required=False)


class ReportNoticeSerializer(serializers.Serializer[Any]):
    """The body posted to a schedule's webhook after each scheduled run, including failed ones.

    Delivered at least once: a receiver recognizes a repeated run by ``run``, which is also the header
    ``X-Tidemark-Run``. Any response but 2xx is retried, four times in all. Rows are those visible to the person who set
    the webhook.
    """

    text = serializers.CharField(help_text="all of it in words, for chats")
    run = serializers.CharField()
    report = serializers.ChoiceField(choices=list(JOBS))
    name = serializers.CharField(help_text="the report's name for people")
    cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=["SUCCEEDED", "FAILED"])
    from_ms = serializers.IntegerField()
    to_ms = serializers.IntegerField()
    zone = serializers.CharField(help_text="of which its days and weeks are")
    is_partial = serializers.BooleanField(help_text="made before the window ended: figures are incomplete")
    rows = serializers.IntegerField(allow_null=True, help_text="null: the run failed")
    only_some_names = serializers.BooleanField(help_text="rows are left out that the receiver may not see")
    error = serializers.CharField(allow_blank=True)
    warnings = serializers.ListField(
        child=serializers.CharField(),
        help_text="what of the window could not be read: hours without history, damaged files",
    )
    url = serializers.CharField(help_text="of the report's page; a path while PUBLIC_URL is not set")
    worst = WorstRowSerializer(many=True, help_text="five at most")


NOTICE = OpenApiCallback(
    "reportDone",
    "{$request.body#/webhook_url}",
    extend_schema(
        operation_id="report_notice",
        request=ReportNoticeSerializer,
        responses={200: OpenApiResponse(description="taken; the body is not read")},
    ),
)


class Schedules(Resource):
    """The schedule of each report of a cluster, and who is notified."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @pagination.list_operation(
        schedules.SCHEDULES,
        "Schedule",
        ScheduleSerializer,
        query="part of the job, the cadence or an e-mail address",
        operation_id="report_schedules_list",
        tags=["reports"],
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        found = schedules.schedules(cluster, now_ms=_now_ms())
        return pagination.answer_in_memory(request, found, schedules.SCHEDULES, ScheduleSerializer)


class Schedule(Resource):
    """Change when a report is run, and who is notified."""

    verbs: ClassVar[dict[str, str]] = {"POST": "CONFIGURE"}

    @extend_schema(
        operation_id="report_schedules_change",
        tags=["reports"],
        request=ScheduleChangeSerializer,
        responses=ScheduleSerializer,
        callbacks=[NOTICE],
    )
    def post(self, request: Request, cluster: str, job: str) -> Response:
        existing(cluster, job)
        wanted = ScheduleChangeSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        now_ms = _now_ms()
        (schedule,) = (one for one in schedules.stored_schedules(cluster, now_ms=now_ms) if one.job == job)
        schedules.change(
            schedule,
            schedules.Change(**wanted.validated_data),
            actor=request.user,
            now_ms=now_ms,
            remote_addr=remote_addr(request),
        )
        return Response(ScheduleSerializer(schedule).data)


class SloSerializer(serializers.Serializer[Any]):
    """No message waits longer than ``slo_ms`` for ``target`` of the time."""

    slo_ms = serializers.IntegerField(min_value=1, max_value=7 * 86_400_000)
    target = serializers.FloatField(min_value=0.5, max_value=0.99999)


class SloVersionSerializer(serializers.ModelSerializer[SloVersion]):
    """A promise in force from ``from_ms`` (0: always) until the next version; null: the installation's."""

    class Meta:
        model = SloVersion
        fields = ("slo_ms", "target", "from_ms", "set_by")


class SloWithVersionsSerializer(SloSerializer):
    """The promise in force now, and every version, newest first.

    Each hour is judged by the version in force when it began, whenever it is computed.
    """

    versions = SloVersionSerializer(many=True, read_only=True)


class GroupSlo(Resource):
    """The promise of a group; POST starts a version, DELETE returns to the installation's. The past stays."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW", "POST": "CONFIGURE", "DELETE": "CONFIGURE"}
    name_kwarg = "group"

    @extend_schema(operation_id="group_slo_get", tags=["reports"], responses=SloWithVersionsSerializer)
    def get(self, request: Request, cluster: str, group: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        promise = schedules.slo_of(cluster, group)
        versions = SloVersionSerializer(schedules.slo_versions(cluster, group), many=True).data
        return Response({"slo_ms": promise.slo_ms, "target": promise.target, "versions": versions})

    @extend_schema(
        operation_id="group_slo_set",
        tags=["reports"],
        request=SloSerializer,
        responses=SloWithVersionsSerializer,
    )
    def post(self, request: Request, cluster: str, group: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        body = SloSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        promise = body.validated_data
        schedules.set_slo(
            cluster,
            group,
            promise["slo_ms"],
            promise["target"],
            actor=request.user,
            now_ms=_now_ms(),
            remote_addr=remote_addr(request),
        )
        return self.get(request, cluster, group)

    @extend_schema(operation_id="group_slo_reset", tags=["reports"], responses={204: None})
    def delete(self, request: Request, cluster: str, group: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        schedules.set_slo(
            cluster,
            group,
            None,
            None,
            actor=request.user,
            now_ms=_now_ms(),
            remote_addr=remote_addr(request),
        )
        return Response(status=204)


LINE_FILTERS = [
    OpenApiParameter("grain", str, description="default: all grains"),
    OpenApiParameter("name", str, description="part of a group's or topic's name"),
    OpenApiParameter("from_ms", int, description="windows that begin at or after it"),
    OpenApiParameter("to_ms", int, description="windows that begin before it"),
]


class LineSerializer(serializers.Serializer[Any]):
    """A row: the columns all reports share, then the report's own figures. Unknown ones are absent."""

    run_id = serializers.CharField()
    job = serializers.CharField()
    grain = serializers.CharField()
    cluster = serializers.CharField()
    group = serializers.CharField(allow_blank=True)
    topic = serializers.CharField(allow_blank=True)
    window_start_ms = serializers.IntegerField()
    window_end_ms = serializers.IntegerField()
    is_partial = serializers.BooleanField(help_text="the window had not ended: figures are incomplete")
    coverage_pct = serializers.FloatField(allow_null=True)
    generated_at_ms = serializers.IntegerField()
    code_version = serializers.CharField(allow_blank=True)


class Lines(Resource):
    """Rows of the last runs of reports that are not lag per window."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    throttle_scope = "search"

    @extend_schema(
        operation_id="report_lines",
        tags=["reports"],
        parameters=[*pagination.PAGE_PARAMETERS, *LINE_FILTERS],
        responses=pagination.page_of("ReportLine", LineSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str, job: str) -> Response:
        existing(cluster, job)
        if job in LAG_JOBS:
            raise NotFound(f"The rows of {job} are at /reports/{job}/rows.")
        arguments = pagination.page_arguments(request)
        order = F("window_start_ms").desc()
        scope = view_scope(request.user, cluster)
        whole = None if scope.is_everything else _lines(request, cluster, job, EVERYTHING)
        found = _lines(request, cluster, job, scope)
        page = selectors.report_row_page(found, order, **arguments, whole=whole)
        return Response(pagination.page_body(request, page, [row.as_row() for row in page.rows]))


def _lines(request: Request, cluster: str, job: str, scope: NameScope) -> QuerySet[ReportRow]:
    return selectors.report_rows(
        cluster,
        job,
        grain=pagination.text(request, "grain"),
        name=pagination.text(request, "name"),
        from_ms=pagination.integer(request, "from_ms", high=TIME_MS_MAX),
        to_ms=pagination.integer(request, "to_ms", high=TIME_MS_MAX),
        scope=scope,
    )


class FileRenderer(BaseRenderer):
    """Accept requests for any file; a refusal is JSON."""

    media_type = "*/*"
    format = "file"

    def render(self, data: Any, *arguments: Any) -> bytes:
        return JSONRenderer().render(data, *arguments)


class Export(Resource):
    """All rows of a report, streamed as a file: ``csv``, ``parquet`` or ``html``."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    throttle_scope = "search"
    renderer_classes = (JSONRenderer, FileRenderer)

    @extend_schema(
        operation_id="report_export",
        tags=["reports"],
        parameters=[
            *LINE_FILTERS,
            OpenApiParameter("fmt", str, OpenApiParameter.PATH, enum=list(exports.FORMATS)),
        ],
        responses={
            (200, form.content_type.partition(";")[0]): OpenApiResponse(OpenApiTypes.BINARY)
            for form in exports.FORMATS.values()
        },
    )
    def get(self, request: Request, cluster: str, job: str, fmt: str) -> HttpResponseBase:
        existing(cluster, job)
        if fmt not in exports.FORMATS:
            raise NotFound(f"There is no format {fmt}. One of: {', '.join(exports.FORMATS)}.")
        scope = view_scope(request.user, cluster)
        rows: selectors.AnyRows
        if job in LAG_JOBS:
            rows = selectors.rows_of_grain(
                pagination.choice(request, "grain", ["", *LagRow.Grain.values], ""),
                cluster,
                job=job,
                group=pagination.text(request, "name"),
                from_ms=pagination.integer(request, "from_ms", high=TIME_MS_MAX),
                to_ms=pagination.integer(request, "to_ms", high=TIME_MS_MAX),
                scope=scope,
            )
        else:
            rows = _lines(request, cluster, job, scope)
        pieces = exports.export(fmt, rows, job=job, cluster=cluster, now_ms=_now_ms())
        response = StreamedResponse(pieces, content_type=exports.FORMATS[fmt].content_type)
        response["Content-Disposition"] = f'attachment; filename="{cluster}-{job}.{fmt}"'
        return response


REPORT = "clusters/<str:cluster>/reports/<str:job>"
urlpatterns = [
    path("clusters/<str:cluster>/report-schedules", Schedules.as_view(), name="api-report-schedules"),
    path("clusters/<str:cluster>/report-schedules/<str:job>", Schedule.as_view(), name="api-report-schedule"),
    path("clusters/<str:cluster>/groups/<str:group>/slo", GroupSlo.as_view(), name="api-group-slo"),
    path(f"{REPORT}/lines", Lines.as_view(), name="api-report-lines"),
    path(f"{REPORT}/export/<str:fmt>", Export.as_view(), name="api-report-export"),
]
