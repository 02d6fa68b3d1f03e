"""Send a message: ``POST send-plans`` previews it (201) and sends nothing; apply it as every plan."""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.change.operation import KEY_HEADER, MakesPlan, PlanSerializer, QueueSerializer
from console.group.offsets.targets import OFFSET_MAX
from console.message.sending.params import PROPERTIES_MAX, TYPED_BODY_BYTES_MAX


class TargetQueueSerializer(serializers.Serializer[Any]):
    broker_name = serializers.CharField(max_length=255)
    queue_id = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class CopySourceSerializer(QueueSerializer):
    queue_offset = serializers.IntegerField(min_value=0, max_value=OFFSET_MAX)


class SendPlanRequestSerializer(serializers.Serializer[Any]):
    """Give one of body, body_base64 and, for a copy, keep_body."""

    topic = serializers.CharField(max_length=255)
    body = serializers.CharField(
        required=False, max_length=TYPED_BODY_BYTES_MAX, trim_whitespace=False, allow_blank=True
    )
    body_base64 = serializers.CharField(required=False, max_length=2 * TYPED_BODY_BYTES_MAX)
    keep_body = serializers.BooleanField(required=False, help_text="the original's, byte by byte")
    tags = serializers.CharField(required=False, max_length=255, allow_blank=True)
    keys = serializers.CharField(
        required=False, max_length=1_000, allow_blank=True, help_text="separated by spaces"
    )
    properties = serializers.DictField(
        child=serializers.CharField(allow_blank=True, max_length=30_000),
        required=False,
        help_text=f"at most {PROPERTIES_MAX}",
    )
    queue = TargetQueueSerializer(required=False)
    copy_of = CopySourceSerializer(required=False, help_text="the original of an edited copy")


class SendPlans(MakesPlan):
    """Preview a message to send, new or an edited copy. Sends nothing."""

    verbs: ClassVar[dict[str, str]] = {"POST": "SEND"}

    @extend_schema(
        operation_id="send_plans_create",
        tags=["messages"],
        parameters=[KEY_HEADER],
        request=SendPlanRequestSerializer,
        responses={201: PlanSerializer},
    )
    def post(self, request: Request, cluster: str) -> Response:
        wanted = SendPlanRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        params = dict(wanted.validated_data)
        topic = params.pop("topic")
        params["source"] = params.pop("copy_of", None)
        params = {name: dict(value) if isinstance(value, dict) else value for name, value in params.items()}
        return self.make(request, cluster, "message_send", topic, params)


urlpatterns = [path("clusters/<str:cluster>/send-plans", SendPlans.as_view(), name="api-send-plans")]
