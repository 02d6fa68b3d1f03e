"""Topics as the last round saw them: list, one, queues, groups."""

from __future__ import annotations

from typing import Any, ClassVar

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
from console.lag.models import TopicQueueRow, TopicRow
from console.topic import selectors


class TopicSerializer(serializers.ModelSerializer[TopicRow]):
    """Null is unknown, never zero."""

    class Meta:
        model = TopicRow
        exclude = ("id", "cluster", "trend_minute")


class TopicQueueSerializer(serializers.ModelSerializer[TopicQueueRow]):
    class Meta:
        model = TopicQueueRow
        exclude = ("id", "cluster", "topic")


class TopicGroupSerializer(serializers.Serializer[Any]):
    group = serializers.CharField()
    status = serializers.CharField()
    partial = serializers.BooleanField()  # type: ignore[assignment]
    clients = serializers.IntegerField(allow_null=True)
    queues = serializers.IntegerField()
    lag = serializers.IntegerField(allow_null=True)
    lag_lower_bound = serializers.BooleanField()
    time_lag_ms = serializers.IntegerField(allow_null=True)


class Topics(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True

    @extend_schema(
        operation_id="topics_list",
        tags=["topics"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            OpenApiParameter("query", str, description="part of the name"),
            OpenApiParameter(
                "kind", str, enum=["", *selectors.KINDS], description="default NORMAL; empty: all"
            ),
            pagination.ordering_parameter(list(selectors.SORTS), "topic"),
        ],
        responses=pagination.page_of("Topic", TopicSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        sort, descending = pagination.ordering(request, list(selectors.SORTS), "topic")
        kind = pagination.choice(request, "kind", ["", *selectors.KINDS], "NORMAL")
        page = selectors.topic_page(
            cluster,
            scope=view_scope(request.user, cluster),
            query=pagination.text(request, "query"),
            kinds=(kind,) if kind else selectors.KINDS,
            sort=sort,
            descending=descending,
            **pagination.page_arguments(request),
        )
        return Response(pagination.page_body(request, page, lambda row: TopicSerializer(row).data))


class TopicDetail(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(operation_id="topics_get", tags=["topics"], responses=TopicSerializer)
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        return Response(TopicSerializer(existing(cluster, topic)).data)


class TopicQueues(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(operation_id="topic_queues", tags=["topics"], responses=TopicQueueSerializer(many=True))
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        existing(cluster, topic)
        return Response(TopicQueueSerializer(selectors.topic_queues(cluster, topic), many=True).data)


class TopicGroups(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(operation_id="topic_groups", tags=["topics"], responses=TopicGroupSerializer(many=True))
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        existing(cluster, topic)
        return Response(TopicGroupSerializer(selectors.topic_groups(cluster, topic), many=True).data)


def existing(cluster: str, topic: str) -> TopicRow:
    """The topic's row; raises NotFound."""
    cluster_selectors.cluster_by_name(cluster)
    found = selectors.topic(cluster, topic)
    if found is None:
        raise NotFound(f"There is no topic {topic} in {cluster}.")
    return found


urlpatterns = [
    path("clusters/<str:cluster>/topics", Topics.as_view(), name="api-topics"),
    path("clusters/<str:cluster>/topics/<str:topic>", TopicDetail.as_view(), name="api-topic"),
    path("clusters/<str:cluster>/topics/<str:topic>/queues", TopicQueues.as_view(), name="api-topic-queues"),
    path("clusters/<str:cluster>/topics/<str:topic>/groups", TopicGroups.as_view(), name="api-topic-groups"),
]
