"""Clusters."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import pagination
from api.rest.resource import Resource, remote_addr
from console.cluster import selectors, services
from console.cluster.admission import may_add_clusters
from console.cluster.connection_change import ConnectionChange
from console.cluster.diagnosis import Fault
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.lag.models import Round


class ClusterSerializer(serializers.ModelSerializer[Cluster]):
    class Meta:
        model = Cluster
        fields: tuple[str, ...] = (
            "name",
            "namesrv_addrs",
            "is_embedded",
            "is_production",
            "typed_confirm_messages",
            "second_person_messages",
            "poll_interval_s",
            "created_at",
        )
        read_only_fields = fields


class RoundSerializer(serializers.ModelSerializer[Round]):
    """One collection round: how old the figures are and what they cost."""

    class Meta:
        model = Round
        exclude = ("id", "cluster")


class ClusterDetailSerializer(ClusterSerializer):
    last_round = RoundSerializer(allow_null=True)

    class Meta(ClusterSerializer.Meta):
        fields = (*ClusterSerializer.Meta.fields, "last_round")
        read_only_fields = fields


def _secret(what: str) -> serializers.CharField:
    return serializers.CharField(required=False, write_only=True, trim_whitespace=False, help_text=what)


class ConnectionRequestSerializer(serializers.Serializer[Any]):
    """What is left out stays as it is. An empty access key or certificate removes its secrets too."""

    namesrv_addrs = serializers.CharField(
        max_length=1000, required=False, help_text="host:port, several separated by semicolons"
    )
    uses_tls = serializers.BooleanField(required=False)
    tls_ca = serializers.CharField(
        required=False, allow_blank=True, help_text="authorities (PEM); empty: those of the system"
    )
    tls_checks_host_name = serializers.BooleanField(required=False)
    tls_certificate = serializers.CharField(
        required=False, allow_blank=True, help_text="certificate of this client (PEM)"
    )
    tls_key = _secret("its key (PEM); never returned")
    access_key = serializers.CharField(required=False, allow_blank=True)
    secret_key = _secret("never returned")
    security_token = _secret("never returned")


class ClusterRequestSerializer(ConnectionRequestSerializer):
    """A new cluster and how it is reached."""

    name = serializers.RegexField(
        r"^[a-z0-9][a-z0-9-]{0,62}$",
        error_messages={"invalid": "Send 1 to 63 lower-case letters, digits and dashes, no dash first."},
    )
    namesrv_addrs = serializers.CharField(
        max_length=1000, help_text="host:port, several separated by semicolons"
    )
    is_production = serializers.BooleanField(default=False)


class ConnectionSerializer(serializers.ModelSerializer[Cluster]):
    """How a cluster is reached; of secrets, whether there is one."""

    has_tls_key = serializers.BooleanField(source="tls_key_sealed")
    has_secret_key = serializers.BooleanField(source="secret_key_sealed")
    has_security_token = serializers.BooleanField(source="security_token_sealed")

    class Meta:
        model = Cluster
        fields = (
            "namesrv_addrs",
            "uses_tls",
            "tls_ca",
            "tls_checks_host_name",
            "tls_certificate",
            "access_key",
            "has_tls_key",
            "has_secret_key",
            "has_security_token",
        )
        read_only_fields = fields


class ConnectionFindingSerializer(serializers.Serializer[Any]):
    """What is wrong at one address."""

    addr = serializers.CharField()
    fault = serializers.ChoiceField(choices=[str(fault) for fault in Fault])
    text = serializers.CharField()


class ConnectionTestSerializer(serializers.Serializer[Any]):
    """Everything that is wrong; nothing is if there are no findings."""

    findings = ConnectionFindingSerializer(many=True)


class Clusters(Resource):
    """Clusters the caller may see; adding one needs ADMIN on every cluster."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW", "POST": "ADMIN"}
    asks_brokers = True

    @pagination.list_operation(
        selectors.CLUSTERS,
        "Cluster",
        ClusterSerializer,
        query="part of the name or of a name server's address",
        operation_id="clusters_list",
        tags=["clusters"],
    )
    def get(self, request: Request) -> HttpResponseBase:
        found = selectors.clusters_for(request.user)
        return pagination.answer_in_memory(request, found, selectors.CLUSTERS, ClusterSerializer)

    @extend_schema(
        operation_id="clusters_add",
        tags=["clusters"],
        request=ClusterRequestSerializer,
        responses={201: ClusterSerializer},
    )
    def post(self, request: Request) -> Response:
        if not may_add_clusters(request.user):
            raise PermissionDenied("Adding a cluster needs ADMIN on every cluster.")
        wanted = ClusterRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = wanted.validated_data
        cluster = services.add_cluster(
            values.pop("name"),
            values.pop("namesrv_addrs"),
            request.user,
            is_production=values.pop("is_production"),
            connection=ConnectionChange(**values),
            remote_addr=remote_addr(request),
        )
        return Response(ClusterSerializer(cluster).data, status=201)


class ClusterDetail(Resource):
    """A cluster and its last collection round."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}

    @extend_schema(operation_id="clusters_get", tags=["clusters"], responses=ClusterDetailSerializer)
    def get(self, request: Request, cluster: str) -> Response:
        found: Any = selectors.cluster_by_name(cluster)
        found.last_round = lag_selectors.last_round(cluster)
        return Response(ClusterDetailSerializer(found).data)


class Connection(Resource):
    """How a cluster is reached: name servers, TLS and access keys. Needs ADMIN on every cluster."""

    verbs: ClassVar[dict[str, str]] = {"GET": "ADMIN", "POST": "ADMIN"}
    asks_brokers = True

    @extend_schema(operation_id="clusters_connection", tags=["clusters"], responses=ConnectionSerializer)
    def get(self, request: Request, cluster: str) -> Response:
        _require_all_clusters(request)
        return Response(ConnectionSerializer(selectors.cluster_by_name(cluster)).data)

    @extend_schema(
        operation_id="clusters_connection_change",
        tags=["clusters"],
        request=ConnectionRequestSerializer,
        responses=ConnectionSerializer,
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Change how a cluster is reached; settings that are refused are not stored."""
        _require_all_clusters(request)
        wanted = ConnectionRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        change = ConnectionChange(**wanted.validated_data)
        changed = services.change_cluster(
            cluster, request.user, connection=change, remote_addr=remote_addr(request)
        )
        return Response(ConnectionSerializer(changed).data)


class ConnectionTest(Resource):
    """Test the stored connection of a cluster. Needs ADMIN on every cluster."""

    verbs: ClassVar[dict[str, str]] = {"POST": "ADMIN"}
    asks_brokers = True

    @extend_schema(
        operation_id="clusters_connection_test",
        tags=["clusters"],
        request=None,
        responses=ConnectionTestSerializer,
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Name what is wrong: reachability, TLS, keys, and rights that a round needs."""
        _require_all_clusters(request)
        findings = services.check_connection(selectors.cluster_by_name(cluster).connection)
        return Response(ConnectionTestSerializer({"findings": findings}).data)


def _require_all_clusters(request: Request) -> None:
    if not may_add_clusters(request.user):
        raise PermissionDenied("The connection of a cluster needs ADMIN on every cluster.")


urlpatterns = [
    path("clusters", Clusters.as_view(), name="api-clusters"),
    path("clusters/<str:cluster>", ClusterDetail.as_view(), name="api-cluster"),
    path("clusters/<str:cluster>/connection", Connection.as_view(), name="api-connection"),
    path("clusters/<str:cluster>/connection/test", ConnectionTest.as_view(), name="api-connection-test"),
]
