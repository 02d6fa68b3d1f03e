"""Consumer groups as the last round saw them: list, one, queues, clients."""

from __future__ import annotations

from typing import ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from api import pagination
from api.permissions import view_scope
from api.resource import Resource
from console.cluster import selectors as cluster_selectors
from console.group import selectors
from console.lag.models import ClientRow, GroupRow, QueueRow


class GroupSerializer(serializers.ModelSerializer[GroupRow]):
    """Null is unknown, never zero; with ``lag_lower_bound`` the lag is at least that."""

    class Meta:
        model = GroupRow
        exclude = ("id", "cluster", "trend_minute")


class GroupQueueSerializer(serializers.ModelSerializer[QueueRow]):
    """``committed_offset`` null: never committed."""

    class Meta:
        model = QueueRow
        exclude = ("id", "cluster", "group")


class GroupClientSerializer(serializers.ModelSerializer[ClientRow]):
    class Meta:
        model = ClientRow
        exclude = ("id", "cluster", "group")


class Groups(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True

    @extend_schema(
        operation_id="groups_list",
        tags=["groups"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            OpenApiParameter("query", str, description="part of the name"),
            OpenApiParameter("status", str, description="a lag status, or PARTIAL"),
            OpenApiParameter("include_system", bool, description="RocketMQ's own groups too"),
            pagination.ordering_parameter(list(selectors.SORTS), "-attention"),
        ],
        responses=pagination.page_of("Group", GroupSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        sort, descending = pagination.ordering(request, list(selectors.SORTS), "-attention")
        page = selectors.group_page(
            cluster,
            scope=view_scope(request.user, cluster),
            query=pagination.text(request, "query"),
            status=pagination.text(request, "status", most=32) or None,
            include_system=pagination.boolean(request, "include_system"),
            sort=sort,
            descending=descending,
            **pagination.page_arguments(request),
        )
        return Response(pagination.page_body(request, page, lambda row: GroupSerializer(row).data))


class GroupDetail(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(operation_id="groups_get", tags=["groups"], responses=GroupSerializer)
    def get(self, request: Request, cluster: str, group: str) -> Response:
        return Response(GroupSerializer(existing(cluster, group)).data)


class GroupQueues(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(
        operation_id="group_queues",
        tags=["groups"],
        parameters=[OpenApiParameter("topic", str)],
        responses=GroupQueueSerializer(many=True),
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        rows = selectors.group_queues(cluster, group, topic=pagination.text(request, "topic") or None)
        return Response(GroupQueueSerializer(rows, many=True).data)


class GroupClients(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(operation_id="group_clients", tags=["groups"], responses=GroupClientSerializer(many=True))
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        return Response(GroupClientSerializer(selectors.group_clients(cluster, group), many=True).data)


def existing(cluster: str, group: str) -> GroupRow:
    """The group's row; raises NotFound."""
    cluster_selectors.cluster_by_name(cluster)
    found = selectors.group(cluster, group)
    if found is None:
        raise NotFound(f"There is no group {group} in {cluster}.")
    return found


urlpatterns = [
    path("clusters/<str:cluster>/groups", Groups.as_view(), name="api-groups"),
    path("clusters/<str:cluster>/groups/<str:group>", GroupDetail.as_view(), name="api-group"),
    path("clusters/<str:cluster>/groups/<str:group>/queues", GroupQueues.as_view(), name="api-group-queues"),
    path(
        "clusters/<str:cluster>/groups/<str:group>/clients", GroupClients.as_view(), name="api-group-clients"
    ),
]
