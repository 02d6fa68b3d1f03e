"""Latency of a group's messages over time, slice by slice."""

from __future__ import annotations

from typing import ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.lag import GroupPast, LatencyBucketSerializer, span_parameters
from api.rest import pagination
from api.rest.struct import HelpTexts, StructSerializer
from console.cluster import selectors as cluster_selectors
from console.report.pages import latency_heat

SLO_MS_MAX = 7 * 86_400_000


class LatencySliceSerializer(StructSerializer):
    struct = latency_heat.Slice
    help_texts: ClassVar[HelpTexts] = {"censored": "of these only a lower bound is known"}

    histogram = LatencyBucketSerializer(many=True, allow_null=True, help_text="null: nothing was collected")


class LatencyHeatSerializer(StructSerializer):
    """The distribution of ``…/latency``, cut into slices of ``step_ms``; the first and the last may be shorter."""

    struct = latency_heat.LatencyHeat

    slices = LatencySliceSerializer(many=True)


class LatencyHeat(GroupPast):
    """The latency of a group by time, from the history: also of deleted groups."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(
        operation_id="group_latency_heat",
        tags=["reports"],
        parameters=[
            *span_parameters("7 days"),
            OpenApiParameter(
                "slo_ms",
                int,
                description="the promise; default: the group's, or the installation's, at the end of each slice",
            ),
        ],
        responses=LatencyHeatSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        from_ms, to_ms, topic = self.window(request, latency_heat.SPAN_MS_MAX)
        slo_ms = pagination.integer(request, "slo_ms", low=1, high=SLO_MS_MAX)
        found = latency_heat.latency_heat(cluster, group, from_ms, to_ms, slo_ms=slo_ms, topic=topic)
        return Response(LatencyHeatSerializer(found).data)


urlpatterns = [
    path(
        "clusters/<str:cluster>/groups/<str:group>/latency-heat",
        LatencyHeat.as_view(),
        name="api-group-latency-heat",
    ),
]
