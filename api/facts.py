"""Facts to alert on, of every group: burn rates, stall, time to loss, forecast breach, dead letters."""

from __future__ import annotations

import time
from typing import ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import pagination
from api.rest.permissions import view_scope
from api.rest.resource import Resource
from api.rest.struct import HelpTexts, StructSerializer
from console.cluster import selectors as cluster_selectors
from console.group.group_list import GROUPS
from console.lag import selectors
from console.lag.alert_facts import GroupFacts, TopicFacts, facts_of
from console.lag.facts import Burn
from console.lag.models import GroupRow
from console.lists.page import cut


class WindowBurnSerializer(StructSerializer):
    """Times the error budget was used faster than allowed in the last ``window_ms``; null: too little is known."""

    struct = Burn


class TopicFactsSerializer(StructSerializer):
    """Facts of a topic. Null is unknown. ``burn`` is empty for unknown lag and for broadcasting groups."""

    struct = TopicFacts
    help_texts: ClassVar[HelpTexts] = {
        "burning": "factors of the SRE workbook's alerts whose windows both burn faster",
        "time_to_loss_ms": "null with time_to_loss_never: never",
    }

    burn = WindowBurnSerializer(many=True)


class GroupFactsSerializer(StructSerializer):
    """Facts of a group. Null is unknown, never zero or false: a rule must not treat it as either."""

    struct = GroupFacts
    help_texts: ClassVar[HelpTexts] = {
        "is_current": "false: no round took place lately, and nothing is known of now",
        "slo_ms": "the promise in force",
        "slo_from_ms": "since when; 0: always",
        "forecast_breach": "late now, and for longer than slo_ms by the drain forecast",
        "dead_letter_rate": "messages a second into the group's dead letter topic",
    }

    topics = TopicFactsSerializer(many=True)


class Facts(Resource):
    """Input of alert rules, group by group, by name or in an order of the list of groups, without RocketMQ's own."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    throttle_scope = "search"

    @extend_schema(
        operation_id="facts_list",
        tags=["groups"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            OpenApiParameter("name", str, description="part of the group's name"),
            pagination.ordering_parameter(GROUPS.sorts, "group"),
        ],
        responses=pagination.page_of("GroupFacts", GroupFactsSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str) -> Response:
        here = cluster_selectors.cluster_by_name(cluster)
        now_ms = time.time_ns() // 1_000_000
        name = pagination.text(request, "name")
        whole = GroupRow.objects.filter(cluster=cluster, is_system=False, group__icontains=name)
        order = GROUPS.order_by(*pagination.ordering(request, GROUPS.sorts, "group"))
        found = view_scope(request.user, cluster).filter(whole, "group")
        total = found.count()
        page = cut(
            found.order_by(*order),
            total=total,
            not_shown=whole.count() - total,
            **pagination.page_arguments(request),
        )
        facts = facts_of(
            cluster,
            page.rows,
            interval_ms=here.poll_interval_s * 1_000,
            now_ms=now_ms,
            is_current=selectors.is_current(cluster, now_ms),
        )
        return Response(pagination.page_body(request, page, GroupFactsSerializer(facts, many=True).data))


urlpatterns = [path("clusters/<str:cluster>/facts", Facts.as_view(), name="api-facts")]
