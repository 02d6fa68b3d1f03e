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


class ClusterRequestSerializer(serializers.Serializer[Any]):
    name = serializers.RegexField(
        r"^[a-z0-9][a-z0-9-]{0,62}$",
        error_messages={"invalid": "Send 1 to 63 lower-case letters, digits and dashes, no dash first."},
    )
    namesrv_addrs = serializers.CharField(
        max_length=1000, help_text="host:port, several separated by semicolons"
    )
    is_production = serializers.BooleanField(default=False)


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
        cluster = services.add_cluster(
            wanted.validated_data["name"],
            wanted.validated_data["namesrv_addrs"],
            request.user,
            is_production=wanted.validated_data["is_production"],
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


urlpatterns = [
    path("clusters", Clusters.as_view(), name="api-clusters"),
    path("clusters/<str:cluster>", ClusterDetail.as_view(), name="api-cluster"),
]
