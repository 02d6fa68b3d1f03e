"""Topics that a group may not read, as of the brokers' last answers. Pausing and resuming are config-plans."""

from __future__ import annotations

from typing import ClassVar

from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.group import existing
from api.rest.resource import Resource
from api.rest.struct import HelpTexts, StructSerializer
from console.group import pauses


class PauseSerializer(StructSerializer):
    """A topic that the group may not read.

    ``topic`` "" is the whole group (consumeEnable false). ``since_ms`` null: since before the first read; ``by`` "":
    not by this console.
    """

    struct = pauses.Pause


class UnknownPauseSerializer(StructSerializer):
    """A broker that does not report now whether the group may read; ``read_at_ms`` null: it never did."""

    struct = pauses.Unknown


class GroupPausesSerializer(StructSerializer):
    struct = pauses.GroupPauses
    help_texts: ClassVar[HelpTexts] = {"unable": "brokers whose release cannot pause a group on a topic"}

    paused = PauseSerializer(many=True)
    unknown = UnknownPauseSerializer(many=True)


class GroupPausesResource(Resource):
    """Topics a group may not read, as of the brokers' last answers (read twice a minute)."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(operation_id="group_pauses", tags=["groups"], responses=GroupPausesSerializer)
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        found = pauses.pauses_of(cluster, group, round(timezone.now().timestamp() * 1000))
        return Response(GroupPausesSerializer(found).data)


urlpatterns = [
    path(
        "clusters/<str:cluster>/groups/<str:group>/pauses",
        GroupPausesResource.as_view(),
        name="api-group-pauses",
    ),
]
