"""Who owns which queue: the list of groups, and one group with members, queues and findings."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api import group as group_api
from api.rest import list_file, pagination
from api.rest.permissions import view_scope
from api.rest.resource import Resource
from api.rest.struct import HelpTexts, StructSerializer
from console.cluster import selectors as cluster_selectors
from console.rebalance.observed.findings import Finding
from console.rebalance.observed.group import GroupOwnership, TopicOwnership, group_ownership
from console.rebalance.observed.group_list import REBALANCED, RebalancedGroup, rebalance_page
from console.rebalance.observed.ownership import Member, Owned, Source, State
from console.rebalance.placement.in_force import InForce, placement_in_force


class RebalancedGroupSerializer(StructSerializer):
    """A group by who reads its queues; null is unknown."""

    struct = RebalancedGroup
    help_texts: ClassVar[HelpTexts] = {
        "unknown": "queues whose owner is not known for certain, last known ones included",
        "idle": "clients that report no queue",
        "silent": "clients that did not report their queues",
        "changed_at_ms": "when a client last joined, left or restarted; null: not observed",
        "read_at_ms": "the last sweep of its clients; null: none yet",
    }

    state = serializers.CharField()


class FindingQueueSerializer(serializers.Serializer[Any]):
    """A queue by name."""

    topic = serializers.CharField()
    broker_name = serializers.CharField()
    queue_id = serializers.IntegerField()


class OwnershipFindingSerializer(StructSerializer):
    """One problem, with the clients that cause it and the queues it is about."""

    struct = Finding
    help_texts: ClassVar[HelpTexts] = {
        "status": "how bad it is, as a status of a group",
        "text": "evidence, and what to do next",
        "since_ms": "null: not known, or it has no beginning",
    }

    queues = FindingQueueSerializer(many=True)


class OwnedQueueSerializer(serializers.Serializer[Any]):
    """A queue of the group with its owners, and whom it falls to by the strategy."""

    topic = serializers.CharField()
    broker_name = serializers.CharField()
    queue_id = serializers.IntegerField()
    state = serializers.ChoiceField([one.value for one in State])
    clients = serializers.ListField(
        child=serializers.CharField(), help_text="its owners; of LAST_KNOWN the last"
    )
    falls_to = serializers.CharField(
        allow_null=True, help_text="by the strategy; null: not known, or to none"
    )
    lag = serializers.IntegerField(allow_null=True)
    growth = serializers.FloatField(allow_null=True, help_text="messages a second: in minus out")


class OwnershipMemberSerializer(StructSerializer):
    """A connected client; ``is_silent``: it did not report its queues, ``last_known_at_ms`` is when it last did."""

    struct = Member
    hidden = ("queues", "last_known", "topics")

    is_silent = serializers.SerializerMethodField()
    topics = serializers.DictField(child=serializers.CharField(), help_text="topic: subscription")

    def get_is_silent(self, member: Member) -> bool:
        return member.queues is None


class PlacementInForceSerializer(serializers.Serializer[Any]):
    """What an operator put into force on a topic; all empty: the strategy alone decides."""

    pins = serializers.DictField(child=serializers.CharField(), help_text="broker-a/3: client id")
    drained = serializers.ListField(child=serializers.CharField())
    weights = serializers.DictField(child=serializers.IntegerField())
    canary_version = serializers.CharField()
    canary_share = serializers.IntegerField(help_text="percent of the queues")
    placed_at_ms = serializers.IntegerField()
    placed_by = serializers.CharField(help_text="empty: its plan is no longer kept")
    plan_id = serializers.CharField(help_text="of the plan that put it there; undo: plans/{id}/undo")


class TopicStrategySerializer(serializers.Serializer[Any]):
    """How the queues of a topic are divided."""

    topic = serializers.CharField()
    strategy = serializers.CharField(
        allow_null=True, help_text="null: clients disagree, or it is not known here"
    )
    known_by = serializers.ChoiceField(
        [one.value for one in Source],
        allow_null=True,
        help_text="SERVER: this console assigns; REPORTED by the clients; FITS what they hold; ASSUMED: the default",
    )
    placement = PlacementInForceSerializer(allow_null=True, help_text="null: there never was one")


class OwnershipSerializer(serializers.Serializer[Any]):
    """Who reads what in a group, as of the last sweep (about every 30 s) and round."""

    group = serializers.CharField()
    shared = serializers.CharField(help_text="BROADCASTING or POP: no queue has an owner; else empty")
    are_members_known = serializers.BooleanField(help_text="false: a broker that may list members is silent")
    changed_at_ms = serializers.IntegerField(allow_null=True)
    swept_at_ms = serializers.IntegerField(allow_null=True)
    strategies = TopicStrategySerializer(many=True)
    members = OwnershipMemberSerializer(many=True)
    queues = OwnedQueueSerializer(many=True)
    findings = OwnershipFindingSerializer(many=True)


class Rebalance(Resource):
    """Groups by who reads their queues, those that need attention first."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    throttle_scope = "search"
    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        REBALANCED,
        "RebalancedGroup",
        RebalancedGroupSerializer,
        query="part of the name",
        operation_id="rebalance_list",
        tags=["rebalance"],
    )
    def get(self, request: Request, cluster: str) -> HttpResponseBase:
        cluster_selectors.cluster_by_name(cluster)
        query = pagination.list_query(request, REBALANCED)
        page = rebalance_page(cluster, query, now_ms(), scope=view_scope(request.user, cluster))
        return pagination.list_answer(request, page, REBALANCED, cluster, RebalancedGroupSerializer)


class GroupOwnershipDetail(Resource):
    """Who owns which queue of a group, and what is wrong with it."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"

    @extend_schema(operation_id="group_ownership", tags=["rebalance"], responses=OwnershipSerializer)
    def get(self, request: Request, cluster: str, group: str) -> Response:
        found = group_ownership(group_api.existing(cluster, group), now_ms())
        return Response(_body(found))


def _body(found: GroupOwnership) -> dict[str, object]:
    return {
        "group": found.group,
        "shared": found.shared,
        "are_members_known": found.are_members_known,
        "changed_at_ms": found.changed_at_ms,
        "swept_at_ms": found.swept_at_ms,
        "strategies": [
            {
                "topic": one.topic,
                "strategy": None if one.expected is None else one.expected.strategy,
                "known_by": None if one.expected is None else one.expected.source.value,
                "placement": _placement(placement_in_force(one.server_side)),
            }
            for one in found.topics
        ],
        "members": OwnershipMemberSerializer(found.members, many=True).data,
        "queues": [queue for topic in found.topics for queue in _queues(topic)],
        "findings": OwnershipFindingSerializer(found.findings, many=True).data,
    }


def _placement(found: InForce | None) -> dict[str, object] | None:
    if found is None:
        return None
    kept = found.placement
    return {
        "pins": kept.pins,
        "drained": kept.drained,
        "weights": kept.weights,
        "canary_version": kept.canary_version,
        "canary_share": kept.canary_share,
        "placed_at_ms": found.placed_at_ms,
        "placed_by": found.placed_by,
        "plan_id": found.plan_id,
    }


def _queues(topic: TopicOwnership) -> list[dict[str, object]]:
    falls_to = topic.expected.owner_of() if topic.expected is not None else {}
    return [_queue(topic, one, falls_to.get(one.queue)) for one in topic.owned]


def _queue(topic: TopicOwnership, one: Owned, falls_to: str | None) -> dict[str, object]:
    figures = topic.figures[one.queue]
    return {
        **FindingQueueSerializer(one.queue).data,
        "state": one.state.value,
        "clients": list(one.clients),
        "falls_to": falls_to,
        "lag": figures.lag,
        "growth": figures.growth,
    }


def now_ms() -> int:
    """Return the time, in epoch ms."""
    return time.time_ns() // 1_000_000


urlpatterns = [
    path("clusters/<str:cluster>/rebalance", Rebalance.as_view(), name="api-rebalance"),
    path(
        "clusters/<str:cluster>/groups/<str:group>/ownership",
        GroupOwnershipDetail.as_view(),
        name="api-group-ownership",
    ),
]
