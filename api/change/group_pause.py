"""Topics that a group may not read, as of the brokers' last answers. Pausing and resuming are config-plans."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.group import existing
from api.rest.resource import Resource
from console.group import pauses


class PauseSerializer(serializers.Serializer[Any]):
    """A topic that the group may not read.

    ``topic`` "" is the whole group (consumeEnable false). ``since_ms`` null: since before the first read; ``by`` "":
    not by this console.
    """

    topic = serializers.CharField(allow_blank=True)
    brokers = serializers.ListField(child=serializers.CharField())
    since_ms = serializers.IntegerField(allow_null=True)
    by = serializers.CharField(allow_blank=True)
    plan_id = serializers.CharField(allow_blank=True)
    read_at_ms = serializers.IntegerField()


class UnknownPauseSerializer(serializers.Serializer[Any]):
    """A broker that does not report now whether the group may read; ``read_at_ms`` null: it never did."""

    broker_name = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    read_at_ms = serializers.IntegerField(allow_null=True)


class GroupPausesSerializer(serializers.Serializer[Any]):
    paused = PauseSerializer(many=True)
    unknown = UnknownPauseSerializer(many=True)
    unable = serializers.ListField(
        child=serializers.CharField(), help_text="brokers whose release cannot pause a group on a topic"
    )


class GroupPausesResource(Resource):
    """Topics a group may not read, as of the brokers' last answers (read twice a minute)."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(operation_id="group_pauses", tags=["groups"], responses=GroupPausesSerializer)
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        found = pauses.pauses_of(cluster, group, round(timezone.now().timestamp() * 1000))
        return Response(GroupPausesSerializer(dataclasses.asdict(found)).data)


urlpatterns = [
    path(
        "clusters/<str:cluster>/groups/<str:group>/pauses",
        GroupPausesResource.as_view(),
        name="api-group-pauses",
    ),
]
