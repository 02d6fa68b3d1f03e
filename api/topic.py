"""Topics as of the last round: list, one, queues, groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from api.queue import TopicQueueSerializer
from api.rest import list_file, pagination
from api.rest.permissions import view_scope
from api.rest.resource import Resource, existing_row
from api.rest.struct import HelpTexts, StructSerializer
from console.cluster import selectors as cluster_selectors
from console.lag import selectors as lag_selectors
from console.lag.models import TopicRow
from console.operation.config.quarantine import Quarantine, quarantine_of
from console.operation.config.row import GROUP, TOPIC
from console.operation.config.table import ConfigTable, read_table
from console.text import JsonObject
from console.topic import selectors
from console.topic.producers import Sender, Senders, senders_of
from console.topic.topic_list import TOPIC_GROUPS, TOPIC_QUEUES, TOPICS


class TopicSerializer(serializers.ModelSerializer[TopicRow]):
    """Null is unknown, never zero. ``worst_group`` null: a group that the caller has no right to VIEW."""

    worst_group = serializers.CharField(allow_null=True, allow_blank=True)

    class Meta:
        model = TopicRow
        exclude = ("id", "cluster", "trend_minute")


class TopicGroupSerializer(StructSerializer):
    struct = selectors.TopicGroup


class TopicProducerSerializer(StructSerializer):
    struct = Sender
    help_texts: ClassVar[HelpTexts] = {
        "messages": "of the sampled messages, those from its address",
        "mean_bytes": "of those, as they are stored",
        "mean_delay_ms": "of those, from born (by the clock of the producer) to stored",
    }


class TopicProducersSerializer(StructSerializer):
    """Connected producers, and those named by the newest messages: RocketMQ records no senders by topic."""

    struct = Senders
    help_texts: ClassVar[HelpTexts] = {
        "others": "address → sampled messages of producers not connected now",
        "sampled": "messages looked at",
        "unread": "what did not answer, and why",
    }

    senders = TopicProducerSerializer(many=True)


class ConfigKeySerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    values = serializers.ListField(
        child=serializers.JSONField(allow_null=True), source="cells", help_text="in the order of brokers"
    )
    differs = serializers.BooleanField()

    def to_representation(self, instance: Any) -> JsonObject:
        """Return the values without the mark of each cell."""
        values = [value for value, _ in instance.cells]
        return {"key": instance.key, "values": values, "differs": instance.differs}


class ConfigTableSerializer(StructSerializer):
    """Configuration side by side, as the brokers have it now."""

    struct = ConfigTable
    hidden = ("areas",)
    help_texts: ClassVar[HelpTexts] = {
        "silent": "broker → why it did not answer",
        "without": "brokers that do not have it",
        "problem": "why no broker could be read; empty when some were",
    }

    rows = ConfigKeySerializer(many=True)


class QuarantineSerializer(StructSerializer):
    struct = Quarantine
    hidden = ("written",)
    properties = ("deletable_at_ms",)
    help_texts: ClassVar[HelpTexts] = {"deletable_at_ms": "deleting is offered from then on"}

    former = serializers.DictField(help_text="broker → configuration before")


class Topics(Resource):
    """Topics as of the last round."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        TOPICS,
        "Topic",
        TopicSerializer,
        query="part of the name",
        operation_id="topics_list",
        tags=["topics"],
        more=[
            OpenApiParameter(
                "kind", str, enum=["", *selectors.KINDS], description="default NORMAL; empty: all"
            ),
            OpenApiParameter(
                "message_type",
                str,
                enum=["", *selectors.SPECIAL_TYPES],
                description="topics of this message type (the attribute message.type of RocketMQ 5)",
            ),
            OpenApiParameter(
                "reader", str, enum=["", "none"], description="none: topics that no consumer group reads"
            ),
        ],
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        scope = view_scope(request.user, cluster)
        kind = pagination.choice(request, "kind", ["", *selectors.KINDS], "NORMAL")
        page = selectors.topic_page(
            cluster,
            pagination.list_query(request, TOPICS),
            scope=scope,
            kinds=(kind,) if kind else selectors.KINDS,
            message_type=pagination.choice(request, "message_type", ["", *selectors.SPECIAL_TYPES], ""),
            only_unread=pagination.choice(request, "reader", ["", "none"], "") == "none",
        )
        for row in page.rows:
            selectors.without_hidden_group(row, scope)
        return pagination.list_answer(request, page, TOPICS, cluster, TopicSerializer)


class TopicDetail(Resource):
    """A topic as of the last round."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(operation_id="topics_get", tags=["topics"], responses=TopicSerializer)
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        row = selectors.without_hidden_group(existing(cluster, topic), view_scope(request.user, cluster))
        return Response(TopicSerializer(row).data)


class TopicQueues(Resource):
    """The queues of a topic as of the last round."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        TOPIC_QUEUES,
        "TopicQueue",
        TopicQueueSerializer,
        query="part of the broker's name",
        operation_id="topic_queues",
        tags=["topics"],
    )
    def get(self, request: Request, cluster: str, topic: str) -> HttpResponseBase:
        existing(cluster, topic)
        found = selectors.topic_queues(cluster, topic)
        return pagination.answer_in_memory(
            request, found, TOPIC_QUEUES, TopicQueueSerializer, cluster=cluster
        )


class TopicGroups(Resource):
    """Groups that read the topic, as far as the caller may VIEW them."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        TOPIC_GROUPS,
        "TopicGroup",
        TopicGroupSerializer,
        query="part of the group's name or its status",
        operation_id="topic_groups",
        tags=["topics"],
    )
    def get(self, request: Request, cluster: str, topic: str) -> HttpResponseBase:
        existing(cluster, topic)
        scope = view_scope(request.user, cluster)
        readers = selectors.topic_groups(cluster, topic)
        found = [one for one in readers if scope.covers(one.group)]
        if lag_selectors.stale_since_ms(cluster, int(timezone.now().timestamp() * 1000)) is not None:
            found = [replace(one, status="UNKNOWN") for one in found]
        return pagination.answer_in_memory(
            request,
            found,
            TOPIC_GROUPS,
            TopicGroupSerializer,
            cluster=cluster,
            not_shown=len(readers) - len(found),
        )


class TopicProducers(Resource):
    """Producers of the topic, read from its brokers."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(operation_id="topic_producers", tags=["topics"], responses=TopicProducersSerializer)
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        row = existing(cluster, topic)
        here = cluster_selectors.cluster_by_name(cluster)
        found = senders_of(here, row.brokers, topic, selectors.topic_queues(cluster, topic))
        return Response(TopicProducersSerializer(found).data)


class TopicConfigs(Resource):
    """The topic's configuration, read from every broker."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(operation_id="topic_config", tags=["topics"], responses=ConfigTableSerializer)
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        existing(cluster, topic)
        table = read_table(cluster_selectors.cluster_by_name(cluster), TOPIC, topic)
        return Response(ConfigTableSerializer(table).data)


class TopicQuarantine(Resource):
    """The topic's quarantine; 404 unless this console put it there."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"

    @extend_schema(operation_id="topic_quarantine", tags=["topics"], responses=QuarantineSerializer)
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        existing(cluster, topic)
        found = quarantine_of(cluster, TOPIC, topic)
        if found is None:
            raise NotFound(f"{topic} is not in quarantine.")
        return Response(QuarantineSerializer(found).data)


class GroupSettings(Resource):
    """The group's configuration, read from every broker."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(operation_id="group_settings", tags=["groups"], responses=ConfigTableSerializer)
    def get(self, request: Request, cluster: str, group: str) -> Response:
        table = read_table(cluster_selectors.cluster_by_name(cluster), GROUP, group)
        return Response(ConfigTableSerializer(table).data)


def existing(cluster: str, topic: str) -> TopicRow:
    """Return the topic's row; raises NotFound."""
    return existing_row("topic", selectors.topic, cluster, topic)


urlpatterns = [
    path(
        "clusters/<str:cluster>/groups/<str:group>/settings",
        GroupSettings.as_view(),
        name="api-group-settings",
    ),
    path("clusters/<str:cluster>/topics/<str:topic>/config", TopicConfigs.as_view(), name="api-topic-config"),
    path(
        "clusters/<str:cluster>/topics/<str:topic>/producers",
        TopicProducers.as_view(),
        name="api-topic-producers",
    ),
    path(
        "clusters/<str:cluster>/topics/<str:topic>/quarantine",
        TopicQuarantine.as_view(),
        name="api-topic-quarantine",
    ),
    path("clusters/<str:cluster>/topics", Topics.as_view(), name="api-topics"),
    path("clusters/<str:cluster>/topics/<str:topic>", TopicDetail.as_view(), name="api-topic"),
    path("clusters/<str:cluster>/topics/<str:topic>/queues", TopicQueues.as_view(), name="api-topic-queues"),
    path("clusters/<str:cluster>/topics/<str:topic>/groups", TopicGroups.as_view(), name="api-topic-groups"),
]
