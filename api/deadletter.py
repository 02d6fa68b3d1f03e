"""Dead letters: groups that have some, a sample of one group's, the ledger of a replay."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api import pagination
from api.message import MessageSerializer
from api.permissions import require_visible
from api.resource import Resource
from console.cluster import selectors as cluster_selectors
from console.deadletter import selectors, services
from console.deadletter.models import LedgerState, ReplayLedger
from console.operation import selectors as operation_selectors


class DeadLetterGroupSerializer(serializers.Serializer[Any]):
    """Null is unknown, never zero."""

    group = serializers.CharField()
    topic = serializers.CharField()
    count = serializers.IntegerField(allow_null=True)
    lower_bound = serializers.BooleanField()
    growth_per_h = serializers.FloatField(allow_null=True)
    oldest_ms = serializers.IntegerField(allow_null=True)
    readable = serializers.BooleanField()
    last_replay_ms = serializers.IntegerField(allow_null=True)
    last_replay_sent = serializers.IntegerField(allow_null=True)
    last_replay_plan = serializers.CharField(allow_blank=True)
    active_job = serializers.CharField(allow_blank=True)
    read_at_ms = serializers.IntegerField()
    reason = serializers.CharField(allow_blank=True)


class DeadLetterSerializer(serializers.Serializer[Any]):
    message = MessageSerializer()
    original_topic = serializers.CharField(allow_blank=True)
    origin_message_id = serializers.CharField(allow_blank=True)
    replayed_by = serializers.CharField(allow_blank=True, help_text="plan that sent it last")


class DeadLetterSampleSerializer(serializers.Serializer[Any]):
    rows = DeadLetterSerializer(many=True)
    scanned = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True, help_text="why they can not be read")


class LedgerSerializer(serializers.ModelSerializer[ReplayLedger]):
    class Meta:
        model = ReplayLedger
        exclude = ("plan", "cluster", "group")


class DeadLetterGroups(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(
        operation_id="dead_letters_list",
        tags=["dead letters"],
        parameters=[OpenApiParameter("query", str, description="part of the group's name")],
        responses=DeadLetterGroupSerializer(many=True),
    )
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        rows = selectors.dead_letter_page(cluster, query=pagination.text(request, "query"))
        return Response(DeadLetterGroupSerializer(rows, many=True).data)


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
            OpenApiParameter("tag", str),
            OpenApiParameter("key", str),
            OpenApiParameter("limit", int, description=f"1 to {services.SAMPLE_MAX}, default 20"),
        ],
        responses=DeadLetterSampleSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        wanted = {
            "from_ms": pagination.integer(request, "from_ms"),
            "to_ms": pagination.integer(request, "to_ms"),
            "tag": pagination.text(request, "tag"),
            "key": pagination.text(request, "key"),
        }
        limit = pagination.integer(request, "limit", 20, low=1, high=services.SAMPLE_MAX)
        found = services.sample(cluster, group, wanted, limit or 20)
        return Response(DeadLetterSampleSerializer(dataclasses.asdict(found)).data)


class Ledger(Resource):
    """What became of each dead letter of a replay, newest first."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(
        operation_id="jobs_ledger",
        tags=["jobs"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            OpenApiParameter("state", str, enum=["", *LedgerState.values]),
        ],
        responses=pagination.page_of("Ledger", LedgerSerializer(many=True)),
    )
    def get(self, request: Request, job: str) -> Response:
        found = operation_selectors.job(job)
        require_visible(request.user, found.cluster, found.subject, f"job {job}")
        state = pagination.choice(request, "state", ["", *LedgerState.values], "")
        page = selectors.ledger_page(
            found.plan_id, states=[state] if state else [], **pagination.page_arguments(request)
        )
        return Response(pagination.page_body(request, page, lambda row: LedgerSerializer(row).data))


urlpatterns = [
    path("clusters/<str:cluster>/dead-letters", DeadLetterGroups.as_view(), name="api-dead-letters"),
    path(
        "clusters/<str:cluster>/dead-letters/<str:group>", DeadLetters.as_view(), name="api-dead-letter-group"
    ),
    path("jobs/<str:job>/ledger", Ledger.as_view(), name="api-ledger"),
]
