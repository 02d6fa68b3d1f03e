"""Messages of a topic: browse with cursors, by id, by key. These calls ask brokers."""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api import pagination
from api.resource import Resource
from console.message import services


class MessageSerializer(serializers.Serializer[Any]):
    """Times in ms since 1970 UTC, sizes in bytes. ``body_format``: json, text, hex."""

    topic = serializers.CharField()
    broker_name = serializers.CharField()
    queue_id = serializers.IntegerField()
    queue_offset = serializers.IntegerField()
    message_id = serializers.CharField()
    offset_message_id = serializers.CharField()
    keys = serializers.CharField(allow_blank=True)
    tags = serializers.CharField(allow_blank=True)
    store_timestamp_ms = serializers.IntegerField()
    born_timestamp_ms = serializers.IntegerField()
    born_host = serializers.CharField()
    store_host = serializers.CharField()
    reconsume_times = serializers.IntegerField()
    size_bytes = serializers.IntegerField()
    body_bytes = serializers.IntegerField()
    body_text = serializers.CharField(allow_blank=True)
    body_format = serializers.CharField()
    body_cut = serializers.BooleanField()
    body_problem = serializers.CharField(allow_blank=True)
    properties = serializers.DictField(child=serializers.CharField(allow_blank=True))
    flag = serializers.IntegerField()
    sys_flag = serializers.IntegerField()
    commit_log_offset = serializers.IntegerField()


class MessagePageSerializer(serializers.Serializer[Any]):
    results = MessageSerializer(many=True, source="rows")
    cursor = serializers.CharField(allow_null=True, help_text="send it back for the next page")
    end_cursor = serializers.CharField(
        allow_blank=True, help_text="the same also at the end: oldest first, it follows what arrives"
    )
    scanned = serializers.IntegerField(help_text="offsets looked at so far")
    queues = serializers.IntegerField()
    silent = serializers.DictField(
        child=serializers.CharField(), help_text="broker → why it could not be read; its messages are missing"
    )
    cut = serializers.BooleanField(help_text="time was up before the page was full")


class Messages(Resource):
    """Newest first, or oldest first from a time on; with ``key`` only messages with that key."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"
    throttle_scope = "search"
    asks_brokers = True

    @extend_schema(
        operation_id="messages_list",
        tags=["messages"],
        parameters=[
            OpenApiParameter("order", str, enum=["newest", "oldest"], description="default newest"),
            OpenApiParameter("broker_name", str),
            OpenApiParameter("queue_id", int),
            OpenApiParameter("tag", str),
            OpenApiParameter("key", str, description="looked up in the brokers' index; not with the others"),
            OpenApiParameter("from_ms", int, description="not older than this"),
            OpenApiParameter("limit", int, description=f"1 to {services.LIMIT_MAX}, default 50"),
            OpenApiParameter("cursor", str),
        ],
        responses=MessagePageSerializer,
    )
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        limit = pagination.integer(request, "limit", 50, low=1, high=services.LIMIT_MAX)
        assert limit is not None
        key = pagination.text(request, "key")
        if key:
            rows = services.by_key(cluster, topic, key, limit=min(limit, services.KEY_HITS_MAX))
            page = services.MessagePage(
                rows, cursor=None, end_cursor="", scanned=len(rows), queues=0, silent={}, cut=False
            )
        else:
            page = services.browse(
                cluster,
                topic,
                newest=pagination.choice(request, "order", ["newest", "oldest"], "newest") == "newest",
                queue=self._queue(request),
                tag=pagination.text(request, "tag") or None,
                from_ms=pagination.integer(request, "from_ms"),
                limit=limit,
                cursor=pagination.text(request, "cursor", most=20_000) or None,
            )
        return Response(MessagePageSerializer(page).data)

    def _queue(self, request: Request) -> tuple[str, int] | None:
        name = pagination.text(request, "broker_name")
        queue_id = pagination.integer(request, "queue_id", high=2**31 - 1)
        if bool(name) != (queue_id is not None):
            raise ValidationError({"queue_id": ["A queue is broker_name and queue_id together."]})
        return None if queue_id is None else (name, queue_id)


class MessageDetail(Resource):
    """By unique key or offset id."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"
    throttle_scope = "search"
    asks_brokers = True

    @extend_schema(operation_id="messages_get", tags=["messages"], responses=MessageSerializer)
    def get(self, request: Request, cluster: str, topic: str, message_id: str) -> Response:
        found = services.message_by_id(cluster, message_id, topic)
        if found is None:
            raise NotFound(f"No broker has a message {message_id} of {topic}.")
        return Response(MessageSerializer(found).data)


urlpatterns = [
    path("clusters/<str:cluster>/topics/<str:topic>/messages", Messages.as_view(), name="api-messages"),
    path(
        "clusters/<str:cluster>/topics/<str:topic>/messages/<str:message_id>",
        MessageDetail.as_view(),
        name="api-message",
    ),
]
