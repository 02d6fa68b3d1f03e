"""The room of a group before retention deletes its unread messages."""

from __future__ import annotations

from typing import ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.lag import GroupPast, span_parameters
from api.rest.struct import HelpTexts, StructSerializer
from console.cluster import selectors as cluster_selectors
from console.report.pages import retention_room


def _ages(meaning: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.IntegerField(allow_null=True), help_text=meaning)


class RetentionRoomSerializer(StructSerializer):
    """Lists of one length, of the queue with the least room at each moment; null where nothing was collected."""

    struct = retention_room.Room
    help_texts: ClassVar[HelpTexts] = {
        "interval_ms": "between two points; ages are exact to it",
        "queues": "of which it is known how long messages are kept",
        "kept_ms": "age at which retention deletes messages",
        "unread_ms": "age of the first unread one; 0: nothing waits",
        "room_ms": "the time between them",
        "kept_lower_bound": "the queue has lost nothing yet: kept and room are at least so",
    }


class RetentionRoom(GroupPast):
    """The distance of retention from the first unread message of a group, over time."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(
        operation_id="group_retention_room",
        tags=["reports"],
        parameters=span_parameters("7 days"),
        responses=RetentionRoomSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        from_ms, to_ms, topic = self.window(request, retention_room.SPAN_MS_MAX)
        found = retention_room.room(cluster, group, from_ms, to_ms, topic)
        return Response(RetentionRoomSerializer(found).data)


urlpatterns = [
    path(
        "clusters/<str:cluster>/groups/<str:group>/retention-room",
        RetentionRoom.as_view(),
        name="api-group-retention-room",
    ),
]
