"""Findings: what is wrong with a cluster, a group or a topic, in the words of its page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api import group as group_api
from api import topic as topic_api
from api.rest import pagination
from api.rest.permissions import view_scope
from api.rest.resource import Resource
from api.rest.struct import HelpTexts, StructSerializer
from console.broker import selectors as broker_selectors
from console.broker.findings import Finding as BrokerFinding
from console.cluster import selectors as cluster_selectors
from console.group import group_page, pauses
from console.group import selectors as group_selectors
from console.group.findings import Finding as GroupFinding
from console.lag import selectors as lag_selectors
from console.lists.page import cut
from console.overview import selectors as overview_selectors
from console.text import JsonObject
from console.topic import findings as topic_findings
from console.topic import selectors as topic_selectors

# What the columns of all findings mean.
MEANINGS = {
    "status": "how bad it is, as a status of a group",
    "text": "evidence, and what to do next",
}
DATED = {**MEANINGS, "since_ms": "null: not known, or it has no beginning"}


class FindingSerializer(StructSerializer):
    """One problem: how bad, what, and the reason with the next step."""

    struct = topic_findings.Finding
    help_texts: ClassVar[HelpTexts] = MEANINGS


class DatedFindingSerializer(StructSerializer):
    """One problem: how bad, what, and the reason with the next step."""

    struct = GroupFinding
    hidden = ("action", "head")
    help_texts: ClassVar[HelpTexts] = DATED


class ClusterFindingSerializer(StructSerializer):
    """``group`` or ``broker_name`` is its subject; with neither it is about the cluster."""

    struct = BrokerFinding
    hidden = ("tab",)
    help_texts: ClassVar[HelpTexts] = DATED


def _page_of(
    name: str, row: type[StructSerializer], **more: serializers.Field[Any, Any, Any, Any]
) -> serializers.Serializer[Any]:
    """Return the serializer of a page of findings, worst first; none is good news only while rounds take place."""
    return pagination.page_of(
        name,
        row(many=True),
        as_of_ms=serializers.IntegerField(
            allow_null=True, help_text="end of the last round; null: none took place yet"
        ),
        is_current=serializers.BooleanField(help_text="false: no round took place lately"),
        **more,
    )


class ClusterFindings(Resource):
    """What needs attention in a cluster, as its overview lists it; at most the 100 groups that wait longest."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    throttle_scope = "search"

    @extend_schema(
        operation_id="findings_list",
        tags=["clusters"],
        parameters=pagination.PAGE_PARAMETERS,
        responses=_page_of(
            "ClusterFinding",
            ClusterFindingSerializer,
            judges_ownership=serializers.BooleanField(
                help_text="false: too many clients or queues to judge who owns which; each group's findings do"
            ),
        ),
    )
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        scope = view_scope(request.user, cluster)
        servers = broker_selectors.name_servers(cluster)
        views = broker_selectors.broker_views(cluster, scope, servers)
        owned = overview_selectors.ownership(cluster, _now_ms(), scope)
        found = overview_selectors.findings(cluster, views, servers, scope, owned)
        body = _body(request, cluster, found, ClusterFindingSerializer)
        return Response({**body, "judges_ownership": owned is not None})


class GroupFindings(Resource):
    """What is wrong with a group, as its page lists it."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(
        operation_id="group_findings",
        tags=["groups"],
        parameters=pagination.PAGE_PARAMETERS,
        responses=_page_of("GroupFinding", DatedFindingSerializer),
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        row, now_ms = group_api.existing(cluster, group), _now_ms()
        found = group_page.findings_at(
            now_ms,
            row,
            group_selectors.group_queues(cluster, group),
            group_selectors.reports(cluster, group),
            pauses.pauses_of(cluster, group, now_ms),
        )
        return Response(_body(request, cluster, found, DatedFindingSerializer))


class TopicFindings(Resource):
    """What is wrong with a topic, as its page lists it."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(
        operation_id="topic_findings",
        tags=["topics"],
        parameters=pagination.PAGE_PARAMETERS,
        responses=_page_of("TopicFinding", FindingSerializer),
    )
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        row = topic_api.existing(cluster, topic)
        silent = {one.broker_name for one in lag_selectors.silent_brokers(cluster)}
        found = topic_findings.findings(row, topic_selectors.topic_queues(cluster, topic), silent)
        return Response(_body(request, cluster, found, FindingSerializer))


def _body(
    request: Request, cluster: str, found: Sequence[object], serializer: type[StructSerializer]
) -> JsonObject:
    last = lag_selectors.last_round(cluster)
    page = cut(found, **pagination.page_arguments(request))
    return {
        **pagination.page_body(request, page, serializer(page.rows, many=True).data),
        "as_of_ms": None if last is None else lag_selectors.ended_ms(last),
        "is_current": lag_selectors.is_current(cluster, _now_ms()),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


urlpatterns = [
    path("clusters/<str:cluster>/findings", ClusterFindings.as_view(), name="api-findings"),
    path(
        "clusters/<str:cluster>/groups/<str:group>/findings",
        GroupFindings.as_view(),
        name="api-group-findings",
    ),
    path(
        "clusters/<str:cluster>/topics/<str:topic>/findings",
        TopicFindings.as_view(),
        name="api-topic-findings",
    ),
]
