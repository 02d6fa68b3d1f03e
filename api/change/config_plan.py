"""Preview changes of configuration: ``POST config-plans`` returns 201 with a diff per broker.

Nothing is changed. A kind with its parameters is a serializer in ``KINDS``; applying, undoing and watching are those of
every plan (``/plans/{id}/apply``, …).
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.change.operation import KEY_HEADER, AcceptWithoutField, MakesPlan, PlanSerializer
from console.broker.config.keys import KEY_LENGTH_MAX, VALUE_LENGTH_MAX
from console.group.mode.facts import MODES
from console.group.mode.plans import SHARE_MAX
from console.group.pause.plans import TOPICS_MAX
from console.group.settings.config import RETRY_QUEUES_MAX, RETRY_TIMES_MAX, TIMEOUT_MINUTES_MAX
from console.topic.topic_config import MESSAGE_TYPES, PERMISSIONS, QUEUES_MAX

NAME_LENGTH_MAX = 255
BROKERS_MAX = 200


class NothingSerializer(serializers.Serializer[Any]):
    """No parameters except the brokers that may be left out."""

    accept_without = AcceptWithoutField()


class BrokersSerializer(NothingSerializer):
    brokers = serializers.ListField(
        child=serializers.CharField(max_length=NAME_LENGTH_MAX),
        required=False,
        max_length=BROKERS_MAX,
        help_text="only on these; on all without it",
    )


class TopicParamsSerializer(BrokersSerializer):
    """Omitted fields stay as they are; a new topic gets RocketMQ's defaults."""

    read_queues = serializers.IntegerField(required=False, min_value=1, max_value=QUEUES_MAX)
    write_queues = serializers.IntegerField(required=False, min_value=1, max_value=QUEUES_MAX)
    perm = serializers.ChoiceField(required=False, choices=list(PERMISSIONS.items()))
    order = serializers.BooleanField(required=False)
    message_type = serializers.ChoiceField(required=False, choices=MESSAGE_TYPES)


class GroupParamsSerializer(BrokersSerializer):
    """Omitted fields stay as they are; a new group gets RocketMQ's defaults."""

    retry_max_times = serializers.IntegerField(required=False, min_value=-1, max_value=RETRY_TIMES_MAX)
    retry_queues = serializers.IntegerField(required=False, min_value=1, max_value=RETRY_QUEUES_MAX)
    consume_enable = serializers.BooleanField(required=False)
    consume_broadcast_enable = serializers.BooleanField(required=False)
    consume_from_min_enable = serializers.BooleanField(required=False)
    consume_message_orderly = serializers.BooleanField(required=False)
    notify_members = serializers.BooleanField(required=False)
    consume_timeout_minutes = serializers.IntegerField(
        required=False, min_value=1, max_value=TIMEOUT_MINUTES_MAX
    )


class GroupDeleteParamsSerializer(NothingSerializer):
    keep_offsets = serializers.BooleanField(required=False, help_text="its committed offsets stay")
    with_topics = serializers.BooleanField(
        required=False, help_text="its retry and dead-letter topics go too"
    )


class GroupReadingParamsSerializer(BrokersSerializer):
    """RocketMQ pauses a group on a topic, not one queue; its %RETRY% topic is one of them."""

    topics = serializers.ListField(
        child=serializers.CharField(max_length=NAME_LENGTH_MAX),
        required=False,
        max_length=TOPICS_MAX,
        help_text="only these; without it all that the group reads, or all that are paused",
    )


class GroupModeParamsSerializer(BrokersSerializer):
    """Applies to members that let the broker divide the queues (clientRebalance false)."""

    topic = serializers.CharField(max_length=NAME_LENGTH_MAX)
    mode = serializers.ChoiceField(choices=MODES)
    pop_share_queues = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=SHARE_MAX,
        help_text="POP: over how many further members a queue is shared; 0: over all",
    )


class BrokerConfigParamsSerializer(BrokersSerializer):
    """One value for the chosen brokers, or ``values`` with one per broker."""

    key = serializers.CharField(max_length=KEY_LENGTH_MAX)
    value = serializers.CharField(
        required=False, allow_blank=True, trim_whitespace=False, max_length=VALUE_LENGTH_MAX
    )
    values = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=VALUE_LENGTH_MAX),
        required=False,
        help_text="broker → value",
    )


class BrokerDrainParamsSerializer(serializers.Serializer[Any]):
    direction = serializers.ChoiceField(choices=["drain", "give_back"])


def _request(
    kind: str, params: type[serializers.Serializer[Any]], what: str
) -> type[serializers.Serializer[Any]]:
    """Return the serializer of the request body of one kind: {kind, subject, params}."""
    name = "".join(word.capitalize() for word in kind.split("_")) + "PlanRequestSerializer"
    fields = {
        "kind": serializers.ChoiceField(choices=[kind]),
        "subject": serializers.CharField(max_length=NAME_LENGTH_MAX, help_text=f"name of the {what}"),
        "params": params(required=False),
        "__doc__": f"{kind.replace('_', ' ')}.",
    }
    return type(name, (serializers.Serializer,), fields)


PARAMS: dict[str, tuple[str, type[serializers.Serializer[Any]]]] = {
    "topic_create": ("topic", TopicParamsSerializer),
    "topic_change": ("topic", TopicParamsSerializer),
    "topic_quarantine": ("topic", NothingSerializer),
    "topic_release": ("topic", NothingSerializer),
    "topic_delete": ("topic", NothingSerializer),
    "topic_force_delete": ("topic", NothingSerializer),
    "group_create": ("group", GroupParamsSerializer),
    "group_change": ("group", GroupParamsSerializer),
    "group_quarantine": ("group", NothingSerializer),
    "group_release": ("group", NothingSerializer),
    "group_delete": ("group", GroupDeleteParamsSerializer),
    "group_force_delete": ("group", GroupDeleteParamsSerializer),
    "group_pause": ("group", GroupReadingParamsSerializer),
    "group_resume": ("group", GroupReadingParamsSerializer),
    "group_mode": ("group", GroupModeParamsSerializer),
    "broker_config_change": ("broker, or * for several", BrokerConfigParamsSerializer),
    "broker_drain": ("broker", BrokerDrainParamsSerializer),
}
KINDS = {kind: _request(kind, params, what) for kind, (what, params) in PARAMS.items()}


class KindSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=list(KINDS))


class ConfigPlans(MakesPlan):
    """Preview a change of a topic, of a group's settings or of a broker. Changes nothing."""

    verbs: ClassVar[dict[str, str]] = {"POST": "CONFIGURE"}

    @extend_schema(
        operation_id="config_plans_create",
        tags=["changes"],
        parameters=[KEY_HEADER],
        request=PolymorphicProxySerializer(
            component_name="ConfigPlanRequest",
            serializers=dict(KINDS),
            resource_type_field_name="kind",
        ),
        responses={201: PlanSerializer},
    )
    def post(self, request: Request, cluster: str) -> Response:
        chosen = KindSerializer(data=request.data)
        chosen.is_valid(raise_exception=True)
        kind = chosen.validated_data["kind"]
        wanted = KINDS[kind](data=request.data)
        wanted.is_valid(raise_exception=True)
        params = dict(wanted.validated_data.get("params", {}))
        return self.make(request, cluster, kind, wanted.validated_data["subject"], params)


urlpatterns = [path("clusters/<str:cluster>/config-plans", ConfigPlans.as_view(), name="api-config-plans")]
