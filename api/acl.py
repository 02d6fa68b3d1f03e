"""Access control as every broker reports it now: accounts of 4.x, users and policies of 5.x, white addresses.

Secrets are in no answer. Changes are plans: ``POST config-plans`` with a kind that begins with ``acl_``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest.resource import Resource
from console.broker.acl.facts import Generation
from console.broker.acl.page import read_table
from console.broker.acl.rights import ACCOUNT, USER
from console.cluster import selectors as cluster_selectors


class AclBrokerSerializer(serializers.Serializer[Any]):
    """What a broker decides by; null is unknown, because of ``reason``."""

    broker_name = serializers.CharField(source="name")
    generation = serializers.ChoiceField(choices=[each.value for each in Generation], allow_null=True)
    is_checked = serializers.BooleanField(
        allow_null=True, help_text="false: any client may do anything on this broker"
    )
    settings = serializers.DictField(child=serializers.CharField(), help_text="of its configuration")
    white_addresses = serializers.CharField(
        allow_null=True, help_text="hosts that need no account; null: unknown, or a broker without accounts"
    )
    reason = serializers.CharField(allow_blank=True)


class AclRightSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="of an account: topic NAME, group NAME; of a user: a resource")
    value = serializers.CharField()
    differs = serializers.BooleanField(help_text="between the brokers")


class AclVariantSerializer(serializers.Serializer[Any]):
    """An account or user as some brokers have it."""

    brokers = serializers.ListField(child=serializers.CharField())
    rights = AclRightSerializer(many=True)


class AclHolderSerializer(serializers.Serializer[Any]):
    what = serializers.ChoiceField(choices=[ACCOUNT, USER])
    name = serializers.CharField()
    differs = serializers.BooleanField(help_text="between the brokers")
    variants = AclVariantSerializer(many=True, help_text="one where the brokers agree")
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="brokers of its generation without it"
    )


class AclSerializer(serializers.Serializer[Any]):
    """Accounts and users without their secrets. ``problem``: why no broker could be queried."""

    read_at_ms = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True)
    brokers = AclBrokerSerializer(many=True)
    holders = AclHolderSerializer(many=True)


class Acl(Resource):
    """Who may use the brokers of a cluster. Needs CONFIGURE on the whole cluster, changes need ADMIN."""

    verbs: ClassVar[dict[str, str]] = {"GET": "CONFIGURE"}

    @extend_schema(operation_id="acl", tags=["brokers"], responses=AclSerializer)
    def get(self, request: Request, cluster: str) -> Response:
        """Ask every broker and return what each decides by; an unknown one stands with its reason."""
        return Response(AclSerializer(read_table(cluster_selectors.cluster_by_name(cluster))).data)


urlpatterns = [path("clusters/<str:cluster>/acl", Acl.as_view(), name="api-acl")]
