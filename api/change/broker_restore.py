"""Restore the offsets of all groups on a broker that lost them: compare, make a plan for each group, apply them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api import broker as broker_api
from api.change.operation import ApplyRequestSerializer
from api.rest import pagination
from api.rest.error_words import one_of
from api.rest.resource import Resource, remote_addr
from console.group.broker_restore.compared import moment_before_loss, offsets_now
from console.group.broker_restore.plans import (
    LOST,
    PLANS_MAX,
    SCOPES,
    GroupRestore,
    apply_plans,
    make_plans,
    restores,
)
from console.operation import journal
from console.operation.errors import PlanRejected
from console.text import Text

TIME_MS_MAX = 2**53
TIME = "the last round at or before it counts"


class RestoredGroupSerializer(serializers.Serializer[Any]):
    """A group: queues by what became of the recorded offset, and its plan; all else of a plan is at plans/{id}."""

    group = serializers.CharField()
    recorded = serializers.IntegerField(help_text="queues with a recorded offset")
    lost = serializers.IntegerField(help_text="of them without an offset now")
    ahead = serializers.IntegerField(help_text="of them further on now")
    behind = serializers.IntegerField(help_text="of them behind it now")
    same = serializers.IntegerField(help_text="of them as recorded")
    unrecorded = serializers.IntegerField(help_text="queues with an offset now and none recorded; they stay")
    messages_back = serializers.IntegerField(help_text="delivered again if those that are ahead go back")
    plan = serializers.CharField(allow_null=True)
    plan_state = serializers.CharField(allow_null=True)
    job = serializers.CharField(allow_null=True)
    job_state = serializers.CharField(allow_null=True)
    refusal = serializers.CharField(allow_blank=True, help_text="why this request did nothing for the group")


class BrokerRestoreSerializer(serializers.Serializer[Any]):
    """All groups of a broker at a moment. Plans for the same moment belong together, also those of other users."""

    broker_name = serializers.CharField()
    time_ms = serializers.IntegerField()
    groups = RestoredGroupSerializer(many=True)


class RestoreRequestSerializer(serializers.Serializer[Any]):
    time_ms = serializers.IntegerField(min_value=0, max_value=TIME_MS_MAX, help_text=TIME)
    scope = serializers.ChoiceField(
        choices=list(SCOPES),
        default=LOST,
        error_messages=one_of(SCOPES),
        help_text="lost: only queues without an offset now; all: every recorded one",
    )


class RestoreApplySerializer(ApplyRequestSerializer):
    """``confirm_text``: the cluster's name."""

    time_ms = serializers.IntegerField(min_value=0, max_value=TIME_MS_MAX, help_text=TIME)


class BrokerRestore(Resource):
    """Compare a broker's recorded offsets with those it has now; make a plan for each group that lacks one."""

    verbs: ClassVar[dict[str, str]] = {"GET": "RESET", "POST": "RESET"}
    asks_brokers = True

    @extend_schema(
        operation_id="broker_restore_get",
        tags=["changes"],
        parameters=[
            OpenApiParameter(
                "time_ms", int, description=f"{TIME}; default: the last round that read offsets now gone"
            )
        ],
        responses=BrokerRestoreSerializer,
    )
    def get(self, request: Request, cluster: str, broker: str) -> Response:
        broker_api.existing(cluster, broker)
        offsets = offsets_now(cluster, (broker,))
        at_ms = pagination.integer(request, "time_ms", high=TIME_MS_MAX)
        if at_ms is None:
            at_ms = moment_before_loss(cluster, (broker,), offsets, journal.now_ms())
        if at_ms is None:
            raise PlanRejected(
                Text("No offset that was recorded in the last day is gone now."), field="time_ms"
            )
        return _answer(broker, at_ms, restores(cluster, (broker,), at_ms, offsets))

    @extend_schema(
        operation_id="broker_restore_plan",
        tags=["changes"],
        request=RestoreRequestSerializer,
        responses={200: BrokerRestoreSerializer},
    )
    def post(self, request: Request, cluster: str, broker: str) -> Response:
        """Make the plans that are missing, a hundred at most; changes nothing on brokers."""
        broker_api.existing(cluster, broker)
        wanted = RestoreRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        at_ms = wanted.validated_data["time_ms"]
        found = make_plans(
            cluster,
            (broker,),
            at_ms,
            offsets_now(cluster, (broker,)),
            request.user,
            scope=wanted.validated_data["scope"],
            most=PLANS_MAX,
            remote_addr=remote_addr(request),
        )
        return _answer(broker, at_ms, found)


class BrokerRestoreApply(Resource):
    """Apply every plan of a moment that can be applied; a refused one does not stop the others."""

    verbs: ClassVar[dict[str, str]] = {"POST": "RESET"}
    asks_brokers = True

    @extend_schema(
        operation_id="broker_restore_apply",
        tags=["changes"],
        request=RestoreApplySerializer,
        responses={202: BrokerRestoreSerializer},
    )
    def post(self, request: Request, cluster: str, broker: str) -> Response:
        broker_api.existing(cluster, broker)
        wanted = RestoreApplySerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        at_ms = wanted.validated_data["time_ms"]
        found = apply_plans(
            cluster,
            restores(cluster, (broker,), at_ms, offsets_now(cluster, (broker,))),
            request.user,
            confirm_text=wanted.validated_data["confirm_text"],
            reason=wanted.validated_data["reason"],
            remote_addr=remote_addr(request),
        )
        return _answer(broker, at_ms, found, status=202)


def _answer(broker: str, at_ms: int, found: Sequence[GroupRestore], status: int = 200) -> Response:
    body = {"broker_name": broker, "time_ms": at_ms, "groups": [_row(each) for each in found]}
    return Response(BrokerRestoreSerializer(body).data, status=status)


def _row(each: GroupRestore) -> dict[str, object]:
    return each.compared.counts | {
        "group": each.group,
        "recorded": len(each.compared.recorded),
        "messages_back": each.compared.messages_back,
        "plan": each.plan and each.plan.id,
        "plan_state": each.shown_plan or None,
        "job": each.job and each.job.id,
        "job_state": each.job and each.job.state,
        "refusal": str(each.refusal),
    }


urlpatterns = [
    path(
        "clusters/<str:cluster>/brokers/<str:broker>/offset-restore",
        BrokerRestore.as_view(),
        name="api-broker-restore",
    ),
    path(
        "clusters/<str:cluster>/brokers/<str:broker>/offset-restore/apply",
        BrokerRestoreApply.as_view(),
        name="api-broker-restore-apply",
    ),
]
