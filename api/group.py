"""Consumer groups as of the last round: list, one, queues, clients."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.queue import GroupQueueSerializer
from api.rest import list_file, pagination
from api.rest.permissions import view_scope
from api.rest.resource import Resource, existing_row
from api.rest.struct import HelpTexts, StructSerializer
from console.cluster import selectors as cluster_selectors
from console.group import selectors
from console.group.clients import member
from console.group.clients.client_list import CLIENTS, ListedClient, client_page
from console.group.clients.kept_offsets import (
    CLIENT_OFFSETS,
    REPORTS_MAX,
    SPAN_MS,
    ClientOffset,
    kept_offsets,
)
from console.group.group_list import GROUPS
from console.group.group_page import QUEUES
from console.group.offset_file import layout
from console.group.offset_file.export import exported
from console.group.offset_file.response import offset_file_response
from console.lag import selectors as lag_selectors
from console.lag.models import ClientRow, GroupRow

CLIENT_WORDS = "part of the client id, the group, the address, the language or the version"


def _stale_since_ms(cluster: str) -> int | None:
    return lag_selectors.stale_since_ms(cluster, int(timezone.now().timestamp() * 1000))


class GroupSerializer(serializers.ModelSerializer[GroupRow]):
    """Null is unknown, never zero; with ``lag_lower_bound`` the lag is at least that."""

    class Meta:
        model = GroupRow
        exclude = ("id", "cluster", "trend_minute")


class ClientQueueSerializer(serializers.Serializer[Any]):
    """A queue as one client of a broadcasting group has consumed it; null where it did not report it."""

    topic = serializers.CharField()
    broker_name = serializers.CharField()
    queue_id = serializers.IntegerField()
    committed_offset = serializers.IntegerField(allow_null=True)
    min_offset = serializers.IntegerField(allow_null=True)
    max_offset = serializers.IntegerField(allow_null=True)
    lag = serializers.IntegerField(allow_null=True)
    read_at_ms = serializers.IntegerField()


class GroupClientSerializer(serializers.ModelSerializer[ClientRow]):
    """``progress``: how far a member of a broadcasting group is, queue by queue; [] in other groups."""

    progress = serializers.SerializerMethodField()

    @extend_schema_field(ClientQueueSerializer(many=True))
    def get_progress(self, client: ListedClient) -> Any:
        return ClientQueueSerializer(selectors.client_queues(client.row), many=True).data

    class Meta:
        model = ClientRow
        exclude = ("id", "cluster", "group")


class ClientSerializer(serializers.ModelSerializer[ClientRow]):
    """A member of a group as it described itself at the last sweep; ``queues`` null: it did not answer."""

    model = serializers.CharField(help_text="of its group: CLUSTERING, BROADCASTING; empty: not known")
    consume_mode = serializers.CharField(
        help_text="of its group: CONCURRENTLY, ORDERLY, POP; empty: not known"
    )
    lag = serializers.IntegerField(
        allow_null=True,
        help_text="over the queues it owns, in the last round; null: unknown, or it owns none",
    )
    lag_lower_bound = serializers.BooleanField(help_text="the lag of some of its queues is unknown")

    class Meta:
        model = ClientRow
        exclude = ("id", "cluster", "progress")


class AssignmentSerializer(serializers.Serializer[Any]):
    """A queue and its owner in the last round: the one member that reports that it holds it.

    No queue of a POP or broadcasting group has an owner; ``clients`` lists what each of their members reads.
    """

    client_id = serializers.SerializerMethodField(help_text="null: no owner is known")
    host = serializers.CharField(allow_null=True, help_text="where it connects from; null: not known")
    topic = serializers.CharField(source="queue.topic")
    broker_name = serializers.CharField(source="queue.broker_name")
    queue_id = serializers.IntegerField(source="queue.queue_id")
    lag = serializers.IntegerField(source="queue.lag", allow_null=True)
    since_ms = serializers.IntegerField(allow_null=True, help_text="its owner since then; null: not known")
    read_at_ms = serializers.IntegerField(source="queue.read_at_ms")

    def get_client_id(self, one: selectors.Assignment) -> str | None:
        return one.queue.owner or None


class Groups(Resource):
    """Consumer groups as of the last round."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        GROUPS,
        "Group",
        GroupSerializer,
        query="part of the name",
        operation_id="groups_list",
        tags=["groups"],
        more=[
            OpenApiParameter("status", str, description="a lag status, or PARTIAL"),
            OpenApiParameter("include_system", bool, description="RocketMQ's own groups too"),
        ],
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        page = selectors.group_page(
            cluster,
            pagination.list_query(request, GROUPS),
            scope=view_scope(request.user, cluster),
            status=pagination.text(request, "status", most=32) or None,
            include_system=pagination.boolean(request, "include_system"),
            stale_since_ms=(since_ms := _stale_since_ms(cluster)),
        )
        for row in page.rows:
            lag_selectors.made_stale(row, since_ms)
        return pagination.list_answer(request, page, GROUPS, cluster, GroupSerializer)


class GroupDetail(Resource):
    """A consumer group as of the last round."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(operation_id="groups_get", tags=["groups"], responses=GroupSerializer)
    def get(self, request: Request, cluster: str, group: str) -> Response:
        row = lag_selectors.made_stale(existing(cluster, group), _stale_since_ms(cluster))
        return Response(GroupSerializer(row).data)


class GroupQueues(Resource):
    """The queues that a group consumes, as of the last round, its `%RETRY%` topic included."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        QUEUES,
        "GroupQueue",
        GroupQueueSerializer,
        query="part of the topic, the broker, the owner or the status",
        operation_id="group_queues",
        tags=["groups"],
        more=[OpenApiParameter("topic", str, description="its whole name")],
    )
    def get(self, request: Request, cluster: str, group: str) -> HttpResponseBase:
        existing(cluster, group)
        rows = selectors.group_queues(cluster, group, topic=pagination.text(request, "topic") or None)
        since_ms = _stale_since_ms(cluster)
        shown = [lag_selectors.made_stale(row, since_ms) for row in rows]
        return pagination.answer_in_memory(request, shown, QUEUES, GroupQueueSerializer, cluster=cluster)


class FileQueueSerializer(serializers.Serializer[Any]):
    topic = serializers.CharField()
    broker_name = serializers.CharField()
    queue_id = serializers.IntegerField()
    offset = serializers.IntegerField(allow_null=True, help_text="null: never committed, or unknown")
    state = serializers.ChoiceField(choices=layout.STATES)
    min_offset = serializers.IntegerField(allow_null=True)
    max_offset = serializers.IntegerField(allow_null=True)
    read_at = serializers.DateTimeField(allow_null=True)
    read_at_ms = serializers.IntegerField(allow_null=True)
    age_ms = serializers.IntegerField(allow_null=True, help_text="of the reading, when this was written")


class OffsetFileSerializer(serializers.Serializer[Any]):
    """The committed offsets of a group, its retry topic included; ``POST offset-plans`` takes it as ``file``."""

    format = serializers.CharField()
    cluster = serializers.CharField()
    group = serializers.CharField()
    read_at = serializers.DateTimeField(help_text="the newest reading")
    read_at_ms = serializers.IntegerField()
    written_at = serializers.DateTimeField()
    queues = FileQueueSerializer(many=True)


class GroupOffsets(Resource):
    """Export the committed offsets of a group: of the last round, or as recorded at a time."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    renderer_classes = list_file.RENDERERS

    @extend_schema(
        operation_id="group_offsets",
        tags=["groups"],
        parameters=[
            OpenApiParameter("time_ms", int, description="as recorded then; default: the last round"),
            list_file.parameter("the same queues"),
        ],
        responses=list_file.responses(OffsetFileSerializer),
    )
    def get(self, request: Request, cluster: str, group: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        at_ms = pagination.integer(request, "time_ms", high=2**53)
        found = exported(cluster, group, int(timezone.now().timestamp() * 1000), at_ms)
        if list_file.is_wanted(request):
            return offset_file_response(found, "csv")
        return Response(layout.document(found))


class Clients(Resource):
    """The members of all groups, RocketMQ's own included. Producers are those of each broker."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        CLIENTS, "Client", ClientSerializer, query=CLIENT_WORDS, operation_id="clients_list", tags=["groups"]
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        scope = view_scope(request.user, cluster)
        page = client_page(cluster, pagination.list_query(request, CLIENTS), scope=scope)
        return pagination.list_answer(request, page, CLIENTS, cluster, ClientSerializer)


class GroupAssignments(Resource):
    """Who owns which queue of the group."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @pagination.list_operation(
        selectors.ASSIGNMENTS,
        "Assignment",
        AssignmentSerializer,
        query="part of the topic, the broker, the client id or its host",
        operation_id="group_assignments",
        tags=["groups"],
    )
    def get(self, request: Request, cluster: str, group: str) -> HttpResponseBase:
        existing(cluster, group)
        found = selectors.assignments(cluster, group, int(timezone.now().timestamp() * 1000))
        return pagination.answer_in_memory(request, found, selectors.ASSIGNMENTS, AssignmentSerializer)


class GroupClients(Resource):
    """The members of a group at the last sweep, about every 30 s."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        CLIENTS,
        "GroupClient",
        GroupClientSerializer,
        query=CLIENT_WORDS,
        operation_id="group_clients",
        tags=["groups"],
    )
    def get(self, request: Request, cluster: str, group: str) -> HttpResponseBase:
        existing(cluster, group)
        page = client_page(cluster, pagination.list_query(request, CLIENTS), group=group)
        return pagination.list_answer(request, page, CLIENTS, cluster, GroupClientSerializer)


class ClientOffsetSerializer(StructSerializer):
    """A queue as a member of a broadcasting group reported it at ``at_ms``."""

    struct = ClientOffset
    properties = ("lag",)
    help_texts: ClassVar[HelpTexts] = {"lag": "null: its offset lies beyond the end"}


class ClientOffsets(Resource):
    """What members of a broadcasting group reported: every quarter of an hour, and before they left."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        CLIENT_OFFSETS,
        "ClientOffset",
        ClientOffsetSerializer,
        query="part of the client id, the topic or the broker",
        operation_id="group_client_offsets",
        tags=["groups"],
        more=[
            OpenApiParameter("client_id", str, description="its whole id"),
            OpenApiParameter("from_ms", int, description="default: a day before to_ms"),
            OpenApiParameter(
                "to_ms", int, description=f"default: now; the newest {REPORTS_MAX} reports before it"
            ),
        ],
    )
    def get(self, request: Request, cluster: str, group: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        to_ms = pagination.integer(request, "to_ms", int(timezone.now().timestamp() * 1000), high=2**53)
        from_ms = pagination.integer(request, "from_ms", max(0, to_ms - SPAN_MS), high=2**53)
        found = kept_offsets(cluster, group, from_ms, to_ms, pagination.text(request, "client_id"))
        return pagination.answer_in_memory(
            request, found, CLIENT_OFFSETS, ClientOffsetSerializer, cluster=cluster
        )


class ReportedQueueSerializer(StructSerializer):
    struct = member.ReportedQueue


class ReportedTopicSerializer(StructSerializer):
    struct = member.ReportedTopic


class RunningInfoSerializer(StructSerializer):
    """A member's own report, read now. ``stack`` null: not requested, or the client does not report it."""

    struct = member.RunningInfo

    queues = ReportedQueueSerializer(many=True, help_text="what it holds, with its own offsets")
    topics = ReportedTopicSerializer(many=True, help_text="times in ms, rates per second")


class ClientRunningInfo(Resource):
    """Read one member's report through its broker; a client that hangs takes up to 10 s."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    throttle_scope = "search"
    asks_brokers = True

    @extend_schema(
        operation_id="group_client_running_info",
        tags=["groups"],
        parameters=[OpenApiParameter("stack", bool, description="its threads too; Java clients report them")],
        responses=RunningInfoSerializer,
    )
    def get(self, request: Request, cluster: str, group: str, client: str) -> Response:
        existing(cluster, group)
        info = member.ask_member(cluster, group, client, with_stack=pagination.boolean(request, "stack"))
        return Response(RunningInfoSerializer(info).data)


def existing(cluster: str, group: str) -> GroupRow:
    """Return the group's row; raises NotFound."""
    return existing_row("group", selectors.group, cluster, group)


urlpatterns = [
    path("clusters/<str:cluster>/clients", Clients.as_view(), name="api-clients"),
    path("clusters/<str:cluster>/groups", Groups.as_view(), name="api-groups"),
    path("clusters/<str:cluster>/groups/<str:group>", GroupDetail.as_view(), name="api-group"),
    path(
        "clusters/<str:cluster>/groups/<str:group>/clients/<path:client>/running-info",
        ClientRunningInfo.as_view(),
        name="api-group-client-running-info",
    ),
    path(
        "clusters/<str:cluster>/groups/<str:group>/assignments",
        GroupAssignments.as_view(),
        name="api-group-assignments",
    ),
    path(
        "clusters/<str:cluster>/groups/<str:group>/offsets", GroupOffsets.as_view(), name="api-group-offsets"
    ),
    path("clusters/<str:cluster>/groups/<str:group>/queues", GroupQueues.as_view(), name="api-group-queues"),
    path(
        "clusters/<str:cluster>/groups/<str:group>/client-offsets",
        ClientOffsets.as_view(),
        name="api-group-client-offsets",
    ),
    path(
        "clusters/<str:cluster>/groups/<str:group>/clients", GroupClients.as_view(), name="api-group-clients"
    ),
]
