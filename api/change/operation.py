"""Changes: make a plan (201 with its diff), apply it (202 with a job), undo it, steer the job.

Undo returns 201 with a new plan. ``Idempotency-Key`` on plans, apply and undo: a repeated key returns the result of the
first request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import list_file, pagination
from api.rest.error_words import one_of
from api.rest.permissions import require, require_visible, view_scope
from api.rest.resource import IDEMPOTENCY_KEY, Resource, idempotency_key, remote_addr
from api.rest.struct import HelpTexts, StructSerializer
from console.cluster import selectors as cluster_selectors
from console.group.offset_file.layout import OffsetFile, file_params, read_offset_file
from console.group.offsets.targets import OFFSET_MAX, TARGETS
from console.lists.page import cut, cut_after
from console.operation import journal, selectors, services
from console.operation.errors import PlanRejected
from console.operation.job import control
from console.operation.job.runner import without_worker
from console.operation.models import Job, JobState, Plan, PlanState
from console.operation.operation_list import JOBS, OPERATIONS, plans
from console.operation.plan.coverage import KeptAbsent, KeptCoverage
from console.operation.plan.params import ACCEPTED_MAX
from console.operation.rules import RATE_PER_S_MAX
from console.text import JsonObject

KEY_HEADER = OpenApiParameter(
    IDEMPOTENCY_KEY, str, OpenApiParameter.HEADER, description="at most 255 characters"
)


class QueueSerializer(serializers.Serializer[Any]):
    topic = serializers.CharField(max_length=255)
    broker_name = serializers.CharField(max_length=255)
    queue_id = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class QueueOffsetSerializer(QueueSerializer):
    offset = serializers.IntegerField(min_value=0, max_value=OFFSET_MAX)
    or_beyond = serializers.BooleanField(
        default=False, help_text="leave a queue alone that stands there or beyond"
    )


class AcceptWithoutField(serializers.ListField):
    """Brokers that do not answer and are left out of the plan, by name."""

    def __init__(self, **kwargs: Any) -> None:
        words = "brokers that do not answer and are left out; without it such a plan is blocked"
        defaults = {"required": False, "max_length": ACCEPTED_MAX, "help_text": words}
        super().__init__(child=serializers.CharField(max_length=255), **{**defaults, **kwargs})


class UndoRequestSerializer(serializers.Serializer[Any]):
    accept_without = AcceptWithoutField()


class AbsentSerializer(StructSerializer):
    struct = KeptAbsent
    help_texts: ClassVar[HelpTexts] = {
        "since_ms": "silent since; null: since just now",
        "queues": "of the plan, where queues are counted",
    }


class CoverageSerializer(StructSerializer):
    """The full scope of a plan, and the part of it that the plan reaches."""

    struct = KeptCoverage

    unit = serializers.ChoiceField(choices=["queues", "brokers"])
    absent = AbsentSerializer(many=True)


class FileOriginSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField(max_length=255, allow_blank=True)
    group = serializers.CharField(max_length=255, allow_blank=True)
    read_at_ms = serializers.IntegerField(min_value=0, max_value=2**53)
    without_offset = serializers.IntegerField(
        min_value=0, default=0, help_text="queues never committed, or unknown"
    )


@extend_schema_field({"oneOf": [{"type": "object"}, {"type": "string"}]})
class OffsetFileField(serializers.Field[OffsetFile, Any, Any, Any]):
    """A file of offsets (GET groups/{group}/offsets): the JSON as an object or a text, or the CSV as a text."""

    def to_internal_value(self, data: Any) -> OffsetFile:
        if not isinstance(data, dict | str):
            raise serializers.ValidationError("Send the file's JSON, or its JSON or CSV as a text.")
        try:
            return read_offset_file(data)
        except PlanRejected as refusal:
            raise serializers.ValidationError(str(refusal)) from refusal


class OffsetPlanRequestSerializer(serializers.Serializer[Any]):
    """Give what the target needs: time_ms or time; offset; shift; like_group; undo_plan; clone_of; offsets; file."""

    group = serializers.CharField(max_length=255)
    target = serializers.ChoiceField(choices=list(TARGETS), error_messages=one_of(TARGETS))
    topics = serializers.ListField(
        child=serializers.CharField(max_length=255), required=False, max_length=200
    )
    queues = QueueSerializer(many=True, required=False)
    time = serializers.DateTimeField(required=False, help_text="ISO 8601 with zone, for time and as_of")
    time_ms = serializers.IntegerField(required=False, min_value=0, max_value=OFFSET_MAX)
    offset = serializers.IntegerField(required=False, min_value=0, max_value=OFFSET_MAX)
    shift = serializers.IntegerField(required=False, min_value=-OFFSET_MAX, max_value=OFFSET_MAX)
    like_group = serializers.CharField(required=False, max_length=255)
    undo_plan = serializers.CharField(
        required=False, max_length=20, help_text="id of an applied plan of this group"
    )
    clone_of = serializers.CharField(
        required=False, max_length=320, help_text="cluster/group to stand like by time, for the target clone"
    )
    offsets = QueueOffsetSerializer(many=True, required=False)
    file = OffsetFileField(required=False, help_text="exported offsets, for the target file; else `offsets`")
    brokers = serializers.DictField(
        child=serializers.CharField(max_length=255),
        required=False,
        help_text="broker name in the file → name of the broker here that has its queues",
    )
    origin = FileOriginSerializer(required=False, help_text="where `offsets` of the target file are from")
    accept_without = AcceptWithoutField()


class PlanSerializer(serializers.ModelSerializer[Plan]):
    """A plan, its diff and its job, without what is hidden from the caller (``viewer`` of the context).

    ``diff``: a row per queue. ``blocked``: why it cannot be applied. ``confirm``: inline, typed, second_person.
    """

    job = serializers.SerializerMethodField()
    coverage = serializers.SerializerMethodField()
    undo_of = serializers.CharField(source="undo_of_id", allow_null=True)

    class Meta:
        model = Plan
        exclude = ("idempotency_key", "request_hash")
        read_only_fields = ("id",)

    def to_representation(self, plan: Plan) -> Any:
        """Return the plan without what is hidden from the viewer."""
        kind = selectors.plan_kind(plan.kind)
        return super().to_representation(kind.shown_to(plan, self.context.get("viewer")))

    @extend_schema_field(CoverageSerializer(allow_null=True))
    def get_coverage(self, plan: Plan) -> Any:
        """Return the coverage; null for kinds that always reach everything."""
        return plan.before.get(KeptCoverage.key)

    def get_job(self, plan: Plan) -> str | None:
        """Return the id of the job that applied it."""
        job = getattr(plan, "job", None)
        return None if job is None else str(job.pk)


def shown_plan(request: Request, plan: Plan) -> Any:
    """Return a plan as the caller may see it."""
    return PlanSerializer(plan, context={"viewer": request.user}).data


class JobSerializer(serializers.ModelSerializer[Job]):
    """``progress``: done and total, and what the kind counts. ``result``: final figures, a row per queue."""

    plan = serializers.CharField(source="plan_id")
    without_worker = serializers.SerializerMethodField(
        help_text="why nothing happens on an unfinished job; empty while a worker has it"
    )

    class Meta:
        model = Job
        exclude = ("idempotency_key", "lease_owner", "lease_until")
        read_only_fields = ("id",)

    def get_without_worker(self, job: Job) -> str:
        """Return why nothing happens, as the job's page does."""
        return without_worker(job, journal.now_ms())


class JobEventSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    level = serializers.CharField()
    text = serializers.CharField()


class JobDetailSerializer(JobSerializer):
    events = JobEventSerializer(many=True)


class ApplyRequestSerializer(serializers.Serializer[Any]):
    confirm_text = serializers.CharField(required=False, allow_blank=True, default="", max_length=255)
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=2000)


class RateRequestSerializer(serializers.Serializer[Any]):
    rate_per_s = serializers.IntegerField(
        allow_null=True, min_value=1, max_value=RATE_PER_S_MAX, help_text="null: no limit"
    )


class MakesPlan(Resource):
    """Base of views that preview a change: 201 with the plan."""

    subject_in_body = True
    asks_brokers = True

    def make(self, request: Request, cluster: str, kind: str, subject: str, params: JsonObject) -> Response:
        require(request.user, selectors.plan_kind(kind).verb, cluster, subject)
        cluster_selectors.cluster_by_name(cluster)
        plan = services.create_plan(
            kind,
            cluster,
            subject,
            params,
            request.user,
            idempotency_key=idempotency_key(request),
            remote_addr=remote_addr(request),
        )
        return Response(
            shown_plan(request, plan), status=201, headers={"Location": f"/api/v1/plans/{plan.id}"}
        )


class OffsetPlans(MakesPlan):
    """Preview a change of a group's offsets. Changes nothing."""

    verbs: ClassVar[dict[str, str]] = {"POST": "RESET"}

    @extend_schema(
        operation_id="offset_plans_create",
        tags=["changes"],
        parameters=[KEY_HEADER],
        request=OffsetPlanRequestSerializer,
        responses={201: PlanSerializer},
    )
    def post(self, request: Request, cluster: str) -> Response:
        wanted = OffsetPlanRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        params = dict(wanted.validated_data)
        at = params.pop("time", None)
        if at is not None:
            params["time_ms"] = round(at.timestamp() * 1000)
        file, renamed = params.pop("file", None), params.pop("brokers", {})
        if file is not None:
            params |= file_params(file, renamed, params.get("topics") or ())
        return self.make(request, cluster, "offset_change", params.pop("group"), params)


FILTERS = [
    OpenApiParameter("kind", str),
    OpenApiParameter("subject", str, description="group or topic"),
    OpenApiParameter("created_by", str),
]


class _List(Resource):
    """Base of the lists of plans and jobs."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    states: ClassVar[Sequence[str]]

    def exact(self, request: Request) -> dict[str, str]:
        exact = {name: pagination.text(request, name) for name in ("kind", "subject", "created_by")}
        return exact | {"state": pagination.choice(request, "state", ["", *self.states], "")}


class Plans(_List):
    """Plans about the names that the caller may VIEW, newest first by default."""

    states = PlanState.values
    renderer_classes = list_file.RENDERERS

    @extend_schema(
        operation_id="plans_list",
        tags=["changes"],
        parameters=[
            *pagination.CURSOR_PARAMETERS,
            *FILTERS,
            OpenApiParameter("state", str, enum=["", *PlanState.values]),
            pagination.order_parameter(OPERATIONS),
            list_file.parameter(),
        ],
        responses=list_file.responses(pagination.moving_page_of("Plan", PlanSerializer(many=True))),
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        order, scope = pagination.order_of(request, OPERATIONS), view_scope(request.user, cluster)
        found = plans(cluster, order=order, scope=scope, **self.exact(request))
        if list_file.is_wanted(request):
            page = cut(found.defer("diff"), page=1, per_page=1, is_whole=True)
            return list_file.file_of(page, OPERATIONS, cluster)
        page = cut_after(found.select_related("job"), **pagination.cursor_arguments(request))
        shown = PlanSerializer(page.rows, many=True, context={"viewer": request.user})
        return Response(pagination.page_body(request, page, shown.data))


class Jobs(_List):
    """Jobs about the names that the caller may VIEW, newest first by default."""

    states = JobState.values
    renderer_classes = list_file.RENDERERS

    @extend_schema(
        operation_id="jobs_list",
        tags=["jobs"],
        parameters=[
            *pagination.CURSOR_PARAMETERS,
            *FILTERS,
            OpenApiParameter("state", str, enum=["", *JobState.values]),
            pagination.order_parameter(JOBS),
            list_file.parameter(),
        ],
        responses=list_file.responses(pagination.moving_page_of("Job", JobSerializer(many=True))),
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        is_whole = list_file.is_wanted(request)
        page = selectors.jobs_page(
            cluster,
            is_whole=is_whole,
            scope=view_scope(request.user, cluster),
            order=pagination.order_of(request, JOBS),
            **pagination.cursor_arguments(request),
            **self.exact(request),
        )
        if is_whole:
            return list_file.file_of(page, JOBS, cluster)
        return Response(pagination.page_body(request, page, JobSerializer(page.rows, many=True).data))


class PlanDetail(Resource):
    """A plan, its diff and its job."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(operation_id="plans_get", tags=["changes"], responses=PlanSerializer)
    def get(self, request: Request, plan: str) -> Response:
        return Response(shown_plan(request, visible_plan(request, plan)))


class PlanApply(Resource):
    """Start the job, after reading the brokers again: 409 plan_drifted when the state moved."""

    verbs: ClassVar[dict[str, str]] = {"POST": "VIEW"}
    asks_brokers = True

    @extend_schema(
        operation_id="plans_apply",
        tags=["changes"],
        parameters=[KEY_HEADER],
        request=ApplyRequestSerializer,
        responses={202: JobSerializer},
    )
    def post(self, request: Request, plan: str) -> Response:
        visible_plan(request, plan)
        wanted = ApplyRequestSerializer(data=request.data or {})
        wanted.is_valid(raise_exception=True)
        job = services.apply_plan(
            plan,
            request.user,
            wanted.validated_data["confirm_text"],
            wanted.validated_data["reason"],
            idempotency_key(request),
            remote_addr=remote_addr(request),
        )
        return Response(JobSerializer(job).data, status=202, headers={"Location": f"/api/v1/jobs/{job.id}"})


class PlanUndo(Resource):
    """Make a new plan that restores what was recorded when this one was applied."""

    verbs: ClassVar[dict[str, str]] = {"POST": "VIEW"}
    asks_brokers = True

    @extend_schema(
        operation_id="plans_undo",
        tags=["changes"],
        parameters=[KEY_HEADER],
        request=UndoRequestSerializer,
        responses={201: PlanSerializer},
    )
    def post(self, request: Request, plan: str) -> Response:
        visible_plan(request, plan)
        wanted = UndoRequestSerializer(data=request.data or {})
        wanted.is_valid(raise_exception=True)
        made = services.undo(
            plan,
            request.user,
            accept_without=wanted.validated_data.get("accept_without", ()),
            idempotency_key=idempotency_key(request),
            remote_addr=remote_addr(request),
        )
        return Response(
            shown_plan(request, made), status=201, headers={"Location": f"/api/v1/plans/{made.id}"}
        )


class _PlanAction(Resource):
    """Base of views that change a plan without a body; the services check the right."""

    verbs: ClassVar[dict[str, str]] = {"POST": "VIEW"}

    def do(self, request: Request, plan: str, action: Callable[..., Plan]) -> Response:
        visible_plan(request, plan)
        return Response(shown_plan(request, action(plan, request.user, remote_addr=remote_addr(request))))


class PlanDiscard(_PlanAction):
    """Discard a plan that was not applied."""

    @extend_schema(operation_id="plans_discard", tags=["changes"], request=None, responses=PlanSerializer)
    def post(self, request: Request, plan: str) -> Response:
        return self.do(request, plan, services.discard_plan)


class PlanApprove(_PlanAction):
    """Approve a plan as the second person."""

    @extend_schema(operation_id="plans_approve", tags=["changes"], request=None, responses=PlanSerializer)
    def post(self, request: Request, plan: str) -> Response:
        return self.do(request, plan, services.approve_plan)


class JobDetail(Resource):
    """A job with its events."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(operation_id="jobs_get", tags=["jobs"], responses=JobDetailSerializer)
    def get(self, request: Request, job: str) -> Response:
        return Response(JobDetailSerializer(visible_job(request, job)).data)


class _JobAction(Resource):
    """Base of views that control a job without a body; the services check the right."""

    verbs: ClassVar[dict[str, str]] = {"POST": "VIEW"}

    def do(self, request: Request, job: str, action: Callable[..., Job]) -> Response:
        visible_job(request, job)
        return Response(JobSerializer(action(job, request.user, remote_addr=remote_addr(request))).data)


class JobPause(_JobAction):
    """Pause a job; it can be resumed."""

    @extend_schema(operation_id="jobs_pause", tags=["jobs"], request=None, responses=JobSerializer)
    def post(self, request: Request, job: str) -> Response:
        return self.do(request, job, control.pause)


class JobResume(_JobAction):
    """Resume a paused job where it stopped."""

    @extend_schema(operation_id="jobs_resume", tags=["jobs"], request=None, responses=JobSerializer)
    def post(self, request: Request, job: str) -> Response:
        return self.do(request, job, control.resume)


class JobCancel(_JobAction):
    """Cancel a job. Requests in flight are settled first, so the final counts are exact."""

    @extend_schema(operation_id="jobs_cancel", tags=["jobs"], request=None, responses=JobSerializer)
    def post(self, request: Request, job: str) -> Response:
        return self.do(request, job, control.cancel)


class JobRate(Resource):
    """Change the rate of a job, within a second."""

    verbs: ClassVar[dict[str, str]] = {"POST": "VIEW"}

    @extend_schema(
        operation_id="jobs_rate", tags=["jobs"], request=RateRequestSerializer, responses=JobSerializer
    )
    def post(self, request: Request, job: str) -> Response:
        visible_job(request, job)
        wanted = RateRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        changed = control.set_rate(
            job, request.user, wanted.validated_data["rate_per_s"], remote_addr=remote_addr(request)
        )
        return Response(JobSerializer(changed).data)


def visible_plan(request: Request, plan_id: str) -> Plan:
    """Return the plan, if the caller may VIEW its subject; the services check the verb of the change itself."""
    found = selectors.plan(plan_id)
    require_visible(request.user, found.cluster, found.subject, f"plan {plan_id}")
    return found


def visible_job(request: Request, job_id: str) -> Job:
    """Return the job, if the caller may VIEW its subject."""
    found = selectors.job(job_id)
    require_visible(request.user, found.cluster, found.subject, f"job {job_id}")
    return found


urlpatterns = [
    path("clusters/<str:cluster>/offset-plans", OffsetPlans.as_view(), name="api-offset-plans"),
    path("clusters/<str:cluster>/plans", Plans.as_view(), name="api-plans"),
    path("clusters/<str:cluster>/jobs", Jobs.as_view(), name="api-jobs"),
    path("plans/<str:plan>", PlanDetail.as_view(), name="api-plan"),
    path("plans/<str:plan>/apply", PlanApply.as_view(), name="api-plan-apply"),
    path("plans/<str:plan>/undo", PlanUndo.as_view(), name="api-plan-undo"),
    path("plans/<str:plan>/discard", PlanDiscard.as_view(), name="api-plan-discard"),
    path("plans/<str:plan>/approve", PlanApprove.as_view(), name="api-plan-approve"),
    path("jobs/<str:job>", JobDetail.as_view(), name="api-job"),
    path("jobs/<str:job>/pause", JobPause.as_view(), name="api-job-pause"),
    path("jobs/<str:job>/resume", JobResume.as_view(), name="api-job-resume"),
    path("jobs/<str:job>/cancel", JobCancel.as_view(), name="api-job-cancel"),
    path("jobs/<str:job>/rate", JobRate.as_view(), name="api-job-rate"),
]
