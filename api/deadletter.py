"""Dead letters: groups that have some, a sample of one group's, the ledger of a replay."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.change.operation import KEY_HEADER, AcceptWithoutField, MakesPlan, PlanSerializer
from api.message import MessageSerializer
from api.rest import list_file, pagination
from api.rest.error_words import one_of
from api.rest.permissions import require_visible
from api.rest.resource import Resource
from api.rest.struct import HelpTexts, StructSerializer
from console.access.name_scope import view_scope
from console.cluster import selectors as cluster_selectors
from console.deadletter import selectors, services
from console.deadletter.dead_letters import TEXT_FILTERS, TEXT_LENGTH_MAX, Filter
from console.deadletter.letter_view import DeadLetterView
from console.deadletter.models import LedgerState, ReplayLedger
from console.deadletter.replay.copy import TARGETS
from console.deadletter.replay.params import STOP_MAX
from console.group.offsets.targets import OFFSET_MAX
from console.operation import selectors as operation_selectors
from console.operation.errors import PlanRejected
from console.operation.rules import RATE_PER_S_MAX


class CauseSerializer(StructSerializer):
    struct = selectors.Cause
    help_texts: ClassVar[HelpTexts] = {"cause": "empty: not in the letters"}


class DeadLetterFilterSerializer(serializers.Serializer[Any]):
    from_ms = serializers.IntegerField(required=False, min_value=0, max_value=OFFSET_MAX)
    to_ms = serializers.IntegerField(required=False, min_value=0, max_value=OFFSET_MAX, help_text="exclusive")
    tag = serializers.CharField(required=False, max_length=TEXT_LENGTH_MAX)
    key = serializers.CharField(
        required=False, max_length=TEXT_LENGTH_MAX, help_text="one key, or the message id"
    )
    property = serializers.CharField(
        required=False, max_length=TEXT_LENGTH_MAX, help_text="name or name=value"
    )
    body = serializers.CharField(required=False, max_length=TEXT_LENGTH_MAX, help_text="text it contains")
    cause = serializers.CharField(required=False, max_length=TEXT_LENGTH_MAX, help_text="text it contains")


class LetterPlaceSerializer(serializers.Serializer[Any]):
    broker_name = serializers.CharField(max_length=255)
    queue_id = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    queue_offset = serializers.IntegerField(min_value=0, max_value=OFFSET_MAX)


class ReplayPlanRequestSerializer(serializers.Serializer[Any]):
    """A replay and its target.

    ``other_topic`` needs topic, ``client`` needs client_id and sends exactly one message. ``original_topic`` and
    ``other_topic`` need SEND on the topics too. ``nowhere`` marks letters as handled and sends nothing.
    """

    group = serializers.CharField(max_length=255)
    target = serializers.ChoiceField(choices=TARGETS, error_messages=one_of(TARGETS))
    topic = serializers.CharField(required=False, max_length=255)
    client_id = serializers.CharField(required=False, max_length=255)
    letter = LetterPlaceSerializer(required=False, help_text="this one instead of all that match")
    filter = DeadLetterFilterSerializer(required=False)
    rate_per_s = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=RATE_PER_S_MAX, help_text="null: no limit"
    )
    skip_replayed = serializers.BooleanField(default=True)
    stop_after_failures = serializers.IntegerField(required=False, min_value=1, max_value=STOP_MAX)
    stop_if_dlq_grows_by = serializers.IntegerField(required=False, min_value=1, max_value=STOP_MAX)
    accept_without = AcceptWithoutField()


class ReadablePlanRequestSerializer(serializers.Serializer[Any]):
    group = serializers.CharField(max_length=255)


class DeadLetterGroupSerializer(StructSerializer):
    """Null is unknown, never zero."""

    struct = selectors.DeadLetterRow
    help_texts: ClassVar[HelpTexts] = {
        "growth_per_h": "letters of the last hour, as far as seen",
        "growth_minutes": "so many of the last 60 minutes were seen",
        "expires_ms": "the earliest moment a broker may delete the oldest one",
        "readable": "false: write-only; see dlq-readable-plans",
        "settled": "replayed or marked as handled",
        "problem": "why causes and ages could not be read",
    }

    causes = CauseSerializer(many=True, help_text="of the sampled newest letters, most frequent first")


class DeadLetterSerializer(StructSerializer):
    struct = DeadLetterView
    help_texts: ClassVar[HelpTexts] = {
        "replayed_by": "plan that sent it last",
        "cause": "empty: not in its properties",
    }

    message = MessageSerializer()


class DeadLetterSampleSerializer(StructSerializer):
    struct = services.Sample
    help_texts: ClassVar[HelpTexts] = {"problem": "why they cannot be read"}

    rows = DeadLetterSerializer(many=True)


class LedgerSerializer(serializers.ModelSerializer[ReplayLedger]):
    class Meta:
        model = ReplayLedger
        exclude = ("plan", "cluster", "group")


class DeadLetterGroups(Resource):
    """Groups with a dead-letter topic that the caller may VIEW, first to expire first."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        selectors.DEAD_LETTERS,
        "DeadLetterGroup",
        DeadLetterGroupSerializer,
        query="part of the group's name",
        operation_id="dead_letters_list",
        tags=["dead letters"],
        more=[
            OpenApiParameter("with_empty", bool, description="also groups whose dead-letter topic is empty")
        ],
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        page = selectors.dead_letter_groups(
            cluster,
            pagination.list_query(request, selectors.DEAD_LETTERS),
            scope=view_scope(request.user, cluster),
            with_empty=pagination.boolean(request, "with_empty"),
        )
        return pagination.list_answer(
            request, page, selectors.DEAD_LETTERS, cluster, DeadLetterGroupSerializer
        )


class DeadLetters(Resource):
    """The newest dead letters of a group that match."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    throttle_scope = "search"
    asks_brokers = True

    @extend_schema(
        operation_id="dead_letters_sample",
        tags=["dead letters"],
        parameters=[
            OpenApiParameter("from_ms", int),
            OpenApiParameter("to_ms", int),
            *(OpenApiParameter(name, str) for name in TEXT_FILTERS),
            OpenApiParameter("limit", int, description=f"1 to {services.SAMPLE_MAX}, default 20"),
        ],
        responses=DeadLetterSampleSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        wanted = Filter(
            from_ms=pagination.integer(request, "from_ms"),
            to_ms=pagination.integer(request, "to_ms"),
            **{name: pagination.text(request, name) for name in TEXT_FILTERS},
        )
        limit = pagination.integer(request, "limit", 20, low=1, high=services.SAMPLE_MAX)
        try:
            found = services.sample(cluster, group, wanted, limit or 20)
        except PlanRejected as error:  # a read: its parameters are wrong, nothing was refused
            raise ValidationError({error.field.removeprefix("filter."): [str(error)]}) from error
        return Response(DeadLetterSampleSerializer(found).data)


class Ledger(Resource):
    """The outcome of each dead letter of a replay, newest first by default."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(
        operation_id="jobs_ledger",
        tags=["jobs"],
        parameters=[
            *pagination.CURSOR_PARAMETERS,
            OpenApiParameter("state", str, enum=["", *LedgerState.values]),
            pagination.order_parameter(selectors.LEDGER),
        ],
        responses=pagination.moving_page_of("Ledger", LedgerSerializer(many=True)),
    )
    def get(self, request: Request, job: str) -> Response:
        found = operation_selectors.job(job)
        require_visible(request.user, found.cluster, found.subject, f"job {job}")
        state = pagination.choice(request, "state", ["", *LedgerState.values], "")
        page = selectors.ledger_page(
            found.plan_id,
            states=[state] if state else [],
            order=pagination.order_of(request, selectors.LEDGER),
            **pagination.cursor_arguments(request),
        )
        return Response(pagination.page_body(request, page, LedgerSerializer(page.rows, many=True).data))


class ReplayPlans(MakesPlan):
    """Preview a replay of a group's dead letters. Sends nothing."""

    verbs: ClassVar[dict[str, str]] = {"POST": "REPLAY"}

    @extend_schema(
        operation_id="replay_plans_create",
        tags=["changes"],
        parameters=[KEY_HEADER],
        request=ReplayPlanRequestSerializer,
        responses={201: PlanSerializer},
    )
    def post(self, request: Request, cluster: str) -> Response:
        wanted = ReplayPlanRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        params = dict(wanted.validated_data)
        params["filter"] = dict(params.get("filter") or {})
        if "letter" in params:
            params["letter"] = dict(params["letter"])
        return self.make(request, cluster, "dead_letter_replay", params.pop("group"), params)


class ReadablePlans(MakesPlan):
    """Preview making a write-only dead-letter topic readable. Changes nothing."""

    verbs: ClassVar[dict[str, str]] = {"POST": "CONFIGURE"}

    @extend_schema(
        operation_id="dlq_readable_plans_create",
        tags=["changes"],
        parameters=[KEY_HEADER],
        request=ReadablePlanRequestSerializer,
        responses={201: PlanSerializer},
    )
    def post(self, request: Request, cluster: str) -> Response:
        wanted = ReadablePlanRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        params = dict(wanted.validated_data)
        return self.make(request, cluster, "dlq_readable", params.pop("group"), params)


urlpatterns = [
    path("clusters/<str:cluster>/replay-plans", ReplayPlans.as_view(), name="api-replay-plans"),
    path("clusters/<str:cluster>/dlq-readable-plans", ReadablePlans.as_view(), name="api-dlq-readable-plans"),
    path("clusters/<str:cluster>/dead-letters", DeadLetterGroups.as_view(), name="api-dead-letters"),
    path(
        "clusters/<str:cluster>/dead-letters/<str:group>", DeadLetters.as_view(), name="api-dead-letter-group"
    ),
    path("jobs/<str:job>/ledger", Ledger.as_view(), name="api-ledger"),
]
