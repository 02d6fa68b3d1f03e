"""Lag over time."""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api import pagination
from api.group import existing
from api.resource import Resource
from console.lag import selectors

HOUR_MS = 3_600_000
SPAN_MS_MAX = 31 * 24 * HOUR_MS  # the longest range the pages draw; more is a report
POINTS_MAX = 2_000


class LagHistorySerializer(serializers.Serializer[Any]):
    """Lists of one length; null in a gap. ``lower_bound``: some queue was missing in that round."""

    interval_ms = serializers.IntegerField(help_text="the collector's period")
    step_ms = serializers.IntegerField()
    times = serializers.ListField(child=serializers.IntegerField())
    lag = serializers.ListField(child=serializers.IntegerField(allow_null=True))
    time_lag_ms = serializers.ListField(child=serializers.IntegerField(allow_null=True))
    lower_bound = serializers.ListField(child=serializers.BooleanField())
    time_lag_lower_bound = serializers.ListField(child=serializers.BooleanField())


class LagHistory(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    throttle_scope = "search"

    @extend_schema(
        operation_id="group_lag",
        tags=["groups"],
        parameters=[
            OpenApiParameter("from_ms", int, description="default: an hour before to_ms"),
            OpenApiParameter("to_ms", int, description="default: now; at most 31 days after from_ms"),
            OpenApiParameter("points", int, description=f"2 to {POINTS_MAX}, default 600"),
        ],
        responses=LagHistorySerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        to_ms = pagination.integer(request, "to_ms", round(timezone.now().timestamp() * 1000), high=2**53)
        assert to_ms is not None
        from_ms = pagination.integer(request, "from_ms", max(0, to_ms - HOUR_MS), high=2**53)
        points = pagination.integer(request, "points", 600, low=2, high=POINTS_MAX)
        assert from_ms is not None and points is not None
        if not 0 < to_ms - from_ms <= SPAN_MS_MAX:
            raise ValidationError({"from_ms": ["Must lie before to_ms, at most 31 days."]})
        return Response(
            LagHistorySerializer(selectors.lag_history(cluster, group, from_ms, to_ms, points)).data
        )


urlpatterns = [
    path("clusters/<str:cluster>/groups/<str:group>/lag", LagHistory.as_view(), name="api-group-lag"),
]
