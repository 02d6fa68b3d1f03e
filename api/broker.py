"""Brokers as of the last round and survey, their configuration side by side, and the name servers."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import list_file, pagination
from api.rest.permissions import view_scope
from api.rest.resource import Resource, existing_row
from api.rest.struct import HelpTexts, StructSerializer
from console.access.name_scope import EVERYTHING, NameScope
from console.broker import selectors
from console.broker.broker_list import BROKERS, NAME_SERVERS, OWN_BROKERS
from console.broker.models import NameServerRow, RouteDifference
from console.broker.own_share import OwnShare
from console.broker.selectors import BrokerView
from console.broker.survey import runtime
from console.broker.survey.connections import ControlledReplica, Producer, Replica
from console.broker.survey.held_back import DelayLevel, HeldBack
from console.broker.survey.slaves import Link, Slave
from console.cluster import selectors as cluster_selectors
from console.text import JsonObject


class OwnShareSerializer(StructSerializer):
    """The part of a broker's traffic for topics and groups that the caller has the right to VIEW."""

    struct = OwnShare
    hidden = ("reason", "unknown_since_ms", "status")
    help_texts: ClassVar[HelpTexts] = {
        "queues": "of those topics",
        "in_rate": "into those topics, messages per second",
        "lag": "of those groups on this broker, messages",
    }


# Of a broker: hidden from a caller who may VIEW some names only.
WHOLE_TRAFFIC = ("in_rate", "out_rate", "queues", "held_back")


class BrokerSerializer(serializers.Serializer[Any]):
    """A broker; null is unknown, never zero.

    ``answered`` false: silent ``since_ms``, because of ``reason``. ``own`` is null for a caller who may VIEW the whole
    cluster; for others ``own`` is their part, and the broker's whole traffic is null.
    """

    broker_name = serializers.CharField(source="row.broker_name")
    broker_id = serializers.IntegerField(source="row.broker_id")
    addr = serializers.CharField(source="row.addr")
    version = serializers.CharField(source="row.version", allow_blank=True)
    answered = serializers.BooleanField(source="row.answered")
    since_ms = serializers.IntegerField(source="row.since_ms", help_text="when answered last changed")
    reason = serializers.CharField(source="row.reason", allow_blank=True)
    in_rate = serializers.FloatField(source="row.in_rate", allow_null=True, help_text="messages per second")
    out_rate = serializers.FloatField(source="row.out_rate", allow_null=True)
    disk_ratio = serializers.FloatField(source="row.disk_ratio", allow_null=True, help_text="0 to 1")
    filling = serializers.ChoiceField(choices=["UNKNOWN", "IDLE", "FILLING", "FULL"])
    full_in_ms = serializers.IntegerField(
        allow_null=True, help_text="until writes are refused, if nothing is deleted"
    )
    full_words = serializers.CharField(help_text="how it was computed, or why it is unknown")
    put_p99_ms = serializers.FloatField(allow_null=True, help_text="slowest 1 % of the last minute's writes")
    put_p99_reason = serializers.CharField(allow_blank=True, help_text="why it is unknown")
    page_cache = serializers.SerializerMethodField(help_text="empty: unknown")
    queues = serializers.IntegerField(allow_null=True, help_text="of all topics, as of the last survey")
    drained_at = serializers.ListField(
        child=serializers.CharField(), help_text="name servers that do not offer it to producers"
    )
    listed_at = serializers.ListField(child=serializers.CharField(), help_text="name servers that list it")
    rpc_ms = serializers.IntegerField(source="row.rpc_ms", allow_null=True)
    clock_offset_ms = serializers.IntegerField(
        source="row.clock_offset_ms",
        allow_null=True,
        help_text="its clock minus ours; 0: within a second; null: no message showed it yet",
    )
    capabilities = serializers.ListField(source="row.capabilities", child=serializers.CharField())
    read_at_ms = serializers.IntegerField(source="row.read_at_ms")
    own = OwnShareSerializer(allow_null=True)

    def to_representation(self, view: BrokerView) -> JsonObject:
        found = super().to_representation(view)
        return found if view.own is None else {**found, **dict.fromkeys(found.keys() & set(WHOLE_TRAFFIC))}

    def get_page_cache(self, view: BrokerView) -> str:
        return view.page_cache[0]


class ReplicaSerializer(StructSerializer):
    struct = Replica


class SlaveSerializer(StructSerializer):
    struct = Slave
    help_texts: ClassVar[HelpTexts] = {
        "behind_bytes": "by its master, else by the ends of both logs at the survey",
        "serves_reads": "whether consumers can read from it while its master is gone",
    }

    link = serializers.ChoiceField(
        choices=list(Link), help_text="APART: not connected to its master; SILENT: did not answer the survey"
    )


class ControlledReplicaSerializer(StructSerializer):
    struct = ControlledReplica


class ProducerSerializer(StructSerializer):
    struct = Producer

    seen_ms = serializers.IntegerField()


class DelayLevelSerializer(StructSerializer):
    struct = DelayLevel
    help_texts: ClassVar[HelpTexts] = {
        "delay_ms": "by the broker's configuration",
        "late_ms": "even its newest message was due so long ago: it is not being delivered",
    }


class HeldBackSerializer(StructSerializer):
    """Messages that are stored but not in their topics yet, so in no lag.

    As of ``read_at_ms``; null is unknown because of the reason beside it.
    """

    struct = HeldBack
    hidden = ("timer_late_s",)
    help_texts: ClassVar[HelpTexts] = {
        "delayed": "of all delay levels; retries of consumers too",
        "timed": "in the timer wheel of 5.x, for a set time",
        "half": "of transactions that have not ended, at most: progress is noted at checks",
    }

    levels = DelayLevelSerializer(many=True, help_text="those with messages")
    timed_topics = serializers.SerializerMethodField(help_text="topic → messages of timed")

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_timed_topics(self, held: HeldBack) -> dict[str, int]:
        return dict(held.timed_topics)


class BrokerDetailSerializer(BrokerSerializer):
    """A broker with replicas, producers and messages held back.

    ``replicas`` and ``producers`` null: this release does not report them, or no survey was done yet. Producers are
    those of groups that the caller may VIEW. ``held_back`` null: the caller may VIEW some names only.
    """

    held_back = HeldBackSerializer(allow_null=True)

    replicas = ReplicaSerializer(source="survey.replicas", many=True, allow_null=True, default=None)
    slaves = SlaveSerializer(many=True, help_text="those that name servers list")
    sync_set = ControlledReplicaSerializer(
        source="survey.sync_set",
        many=True,
        allow_null=True,
        default=None,
        help_text="replicas by the broker's controller; null: it has none, or it did not answer",
    )
    epoch = serializers.IntegerField(
        source="survey.epoch", allow_null=True, default=None, help_text="the newest in its log"
    )
    master_epoch = serializers.IntegerField(
        source="survey.master_epoch", allow_null=True, default=None, help_text="by the broker's controller"
    )
    producers = serializers.SerializerMethodField()
    surveyed_at_ms = serializers.IntegerField(source="survey.read_at_ms", allow_null=True, default=None)

    @extend_schema_field(ProducerSerializer(many=True, allow_null=True))
    def get_producers(self, view: BrokerView) -> Any:
        found = selectors.producers(view, self.context["scope"])
        return None if found is None else ProducerSerializer(found, many=True).data


class RuntimeFigureSerializer(StructSerializer):
    """``text`` empty: unknown, ``says`` is the reason; ``raw`` is the broker's own value."""

    struct = runtime.RuntimeFigure
    hidden = ("tone", "trend", "usual", "at_ms")


class RuntimeGroupSerializer(StructSerializer):
    struct = runtime.RuntimeGroup
    hidden = ("question",)

    figures = RuntimeFigureSerializer(many=True)


class RuntimeSerializer(serializers.Serializer[Any]):
    read_at_ms = serializers.IntegerField(allow_null=True)
    groups = RuntimeGroupSerializer(many=True)


class ConfigSerializer(serializers.Serializer[Any]):
    """Values of secret keys are replaced by ``(set, not shown)``. ``config`` null: never read, because ``reason``."""

    config = serializers.DictField(child=serializers.CharField(allow_blank=True), allow_null=True)
    read_at_ms = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)


class ConfigDifferenceSerializer(serializers.Serializer[Any]):
    """``values``: broker → value, null where a broker has no such key; ``odd``: those unlike most."""

    key = serializers.CharField()
    says = serializers.CharField(allow_blank=True)
    danger = serializers.CharField(allow_blank=True)
    values = serializers.DictField(child=serializers.CharField(allow_null=True))
    odd = serializers.ListField(child=serializers.CharField())


class ConfigDifferencesSerializer(serializers.Serializer[Any]):
    brokers = serializers.ListField(child=serializers.CharField(), help_text="whose configuration is known")
    unread = serializers.DictField(child=serializers.CharField(), help_text="the others → why")
    differences = ConfigDifferenceSerializer(many=True)


class NameServerSerializer(serializers.ModelSerializer[NameServerRow]):
    """``answered`` false: silent ``since_ms``, because ``reason``; the rest is as of its last answer."""

    brokers = serializers.DictField(child=serializers.DictField(child=serializers.CharField()))
    unwritable = serializers.ListField(child=serializers.CharField())
    config = serializers.DictField(child=serializers.CharField(allow_blank=True), allow_null=True)

    class Meta:
        model = NameServerRow
        exclude = ("id", "cluster")


class RouteDifferenceSerializer(serializers.ModelSerializer[RouteDifference]):
    views = serializers.DictField(child=serializers.CharField(), help_text="name server → its route in words")

    class Meta:
        model = RouteDifference
        exclude = ("id", "cluster")


class Brokers(Resource):
    """Brokers with their figures; for readers of some names only, the sums over those."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        BROKERS,
        "Broker",
        BrokerSerializer,
        query="part of the name, the address or the version",
        operation_id="brokers_list",
        tags=["brokers"],
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        scope = view_scope(request.user, cluster)
        page = selectors.broker_page(cluster, pagination.list_query(request, BROKERS), scope=scope)
        spec = BROKERS if scope.is_everything else OWN_BROKERS
        return pagination.list_answer(request, page, spec, cluster, BrokerSerializer)


class BrokerDetail(Resource):
    """A broker with its replicas, producers and messages held back."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True

    @extend_schema(operation_id="brokers_get", tags=["brokers"], responses=BrokerDetailSerializer)
    def get(self, request: Request, cluster: str, broker: str) -> Response:
        scope = view_scope(request.user, cluster)
        view = existing(cluster, broker, scope)
        return Response(BrokerDetailSerializer(view, context={"scope": scope}).data)


class BrokerRuntime(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(operation_id="broker_runtime", tags=["brokers"], responses=RuntimeSerializer)
    def get(self, request: Request, cluster: str, broker: str) -> Response:
        """Return the broker's runtime figures (28), grouped and explained."""
        view = existing(cluster, broker)
        groups = runtime.figures(view.figures) if view.figures else []
        return Response(RuntimeSerializer({"read_at_ms": view.figures_at_ms, "groups": groups}).data)


class BrokerConfig(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(operation_id="broker_config", tags=["brokers"], responses=ConfigSerializer)
    def get(self, request: Request, cluster: str, broker: str) -> Response:
        """Return its configuration (26) as the last survey read it."""
        survey = existing(cluster, broker).survey
        found = {
            "config": None if survey is None else survey.config,
            "read_at_ms": None if survey is None else survey.config_at_ms,
            "reason": "the first survey is not done yet" if survey is None else survey.config_reason,
        }
        return Response(ConfigSerializer(found).data)


class BrokerConfigDifferences(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(
        operation_id="broker_config_differences", tags=["brokers"], responses=ConfigDifferencesSerializer
    )
    def get(self, request: Request, cluster: str) -> Response:
        """List keys with different values on brokers, without addresses and folders, which always differ."""
        cluster_selectors.cluster_by_name(cluster)
        table = selectors.config_table(cluster, only_differences=True)
        names = [one.broker_name for one in table.brokers]
        found = [
            {
                "key": line.key.name,
                "says": line.key.says,
                "danger": line.key.danger,
                "values": dict(zip(names, line.values, strict=True)),
                "odd": [name for name, is_odd in zip(names, line.odd, strict=True) if is_odd],
            }
            for line in table.lines
        ]
        return Response(
            ConfigDifferencesSerializer({"brokers": names, "unread": table.unread, "differences": found}).data
        )


class NameServers(Resource):
    """Name servers with the brokers and routes that each of them lists."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @pagination.list_operation(
        NAME_SERVERS,
        "NameServer",
        NameServerSerializer,
        query="part of the address",
        operation_id="name_servers_list",
        tags=["brokers"],
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        found = selectors.name_servers(cluster)
        return pagination.answer_in_memory(request, found, NAME_SERVERS, NameServerSerializer)


class RouteDifferences(Resource):
    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(
        operation_id="route_differences_list",
        tags=["brokers"],
        parameters=[
            *pagination.PAGE_PARAMETERS,
            OpenApiParameter("query", str, description="part of the topic's name"),
        ],
        responses=pagination.page_of("RouteDifference", RouteDifferenceSerializer(many=True)),
    )
    def get(self, request: Request, cluster: str) -> Response:
        """List topics about which the name servers do not agree, oldest disagreement first."""
        cluster_selectors.cluster_by_name(cluster)
        page = selectors.route_differences(
            cluster, query=pagination.text(request, "query"), **pagination.page_arguments(request)
        )
        return Response(
            pagination.page_body(request, page, RouteDifferenceSerializer(page.rows, many=True).data)
        )


def existing(cluster: str, broker: str, scope: NameScope = EVERYTHING) -> BrokerView:
    """Return a broker; raises NotFound."""
    return existing_row("broker", partial(selectors.broker, scope=scope), cluster, broker)


urlpatterns = [
    path("clusters/<str:cluster>/brokers", Brokers.as_view(), name="api-brokers"),
    path("clusters/<str:cluster>/brokers/<str:broker>", BrokerDetail.as_view(), name="api-broker"),
    path(
        "clusters/<str:cluster>/brokers/<str:broker>/runtime",
        BrokerRuntime.as_view(),
        name="api-broker-runtime",
    ),
    path(
        "clusters/<str:cluster>/brokers/<str:broker>/config", BrokerConfig.as_view(), name="api-broker-config"
    ),
    path(
        "clusters/<str:cluster>/config-differences",
        BrokerConfigDifferences.as_view(),
        name="api-config-differences",
    ),
    path("clusters/<str:cluster>/name-servers", NameServers.as_view(), name="api-name-servers"),
    path(
        "clusters/<str:cluster>/route-differences", RouteDifferences.as_view(), name="api-route-differences"
    ),
]
