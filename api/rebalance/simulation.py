"""What if: who gets which queue with other clients, another strategy or weights; nothing is changed."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api import group as group_api
from api.rest import pagination
from api.rest.resource import Resource
from console.rebalance.observed.group import TopicOwnership, group_ownership
from console.rebalance.simulation import NEW_CLIENTS_MAX, SIMULATED, WEIGHT_MAX, Outcome
from console.rebalance.what_if import WhatIf, what_if


class OutcomeSerializer(serializers.Serializer[Any]):
    """What a strategy gives the clients. ``reason``: why it does not apply; figures are then null."""

    strategy = serializers.CharField()
    smallest = serializers.IntegerField(allow_null=True, help_text="queues of the client with the fewest")
    largest = serializers.IntegerField(allow_null=True, help_text="queues of the client with the most")
    without_owner = serializers.IntegerField(allow_null=True)
    moves = serializers.IntegerField(allow_null=True, help_text="queues that change owners")
    reason = serializers.CharField()


class MoveSerializer(serializers.Serializer[Any]):
    """A queue that changes owners."""

    broker_name = serializers.CharField()
    queue_id = serializers.IntegerField()
    owners = serializers.ListField(child=serializers.CharField(), help_text="now; [] is none, or unknown")
    is_owner_unknown = serializers.BooleanField()
    to = serializers.CharField(help_text="empty: no client")


class ShareSerializer(serializers.Serializer[Any]):
    """What one client gets."""

    client_id = serializers.CharField()
    queues = serializers.ListField(
        child=serializers.ListField(), help_text="[broker name, queue id], in the order of the division"
    )


class SimulationSerializer(serializers.Serializer[Any]):
    """Every strategy with its figures, the chosen one with shares and moves."""

    topic = serializers.CharField()
    strategy = serializers.CharField()
    clients = serializers.ListField(child=serializers.CharField())
    fewest_moves = serializers.IntegerField(
        allow_null=True, help_text="that give each queue one client, evenly"
    )
    unknown_owners = serializers.IntegerField(help_text="queues with an unknown owner, which count as moves")
    outcomes = OutcomeSerializer(many=True)
    shares = ShareSerializer(many=True)
    moves = MoveSerializer(many=True)


class GroupSimulation(Resource):
    """Compute who would get which queue; reads no broker and changes nothing."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    throttle_scope = "search"

    @extend_schema(
        operation_id="group_simulation",
        tags=["rebalance"],
        parameters=[
            OpenApiParameter("topic", str, description="needed where the group reads several"),
            OpenApiParameter(
                "strategy", str, enum=["", *SIMULATED], description="empty: the one of the group"
            ),
            OpenApiParameter(
                "without", str, many=True, description="client id to leave out; may be repeated"
            ),
            OpenApiParameter(
                "new", int, description=f"new clients, at most {NEW_CLIENTS_MAX}: new-1, new-2, …"
            ),
            OpenApiParameter(
                "weight", str, many=True, description="CLIENT_ID:WEIGHT, for FEWEST_MOVES; may be repeated"
            ),
        ],
        responses=SimulationSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        found = group_ownership(group_api.existing(cluster, group), time.time_ns() // 1_000_000)
        if found.shared:
            raise ValidationError(
                {"group": [f"{group} shares its queues ({found.shared}): nothing is divided."]}
            )
        topic = _topic(found.topics, pagination.text(request, "topic"))
        ids = {one.client_id for one in found.members}
        without = set(request.query_params.getlist("without"))
        if strangers := sorted(without - ids):
            raise ValidationError({"without": [f"No client {strangers[0][:80]} is connected."]})
        scenario = what_if(
            topic,
            found.members,
            strategy=pagination.choice(request, "strategy", ["", *SIMULATED], ""),
            without=without,
            new_clients=(new := pagination.integer(request, "new", 0, high=NEW_CLIENTS_MAX)),
            weights=_weights(request, ids | {f"new-{number + 1}" for number in range(new)}),
        )
        return Response(_body(topic, scenario))


def _topic(topics: tuple[TopicOwnership, ...], name: str) -> TopicOwnership:
    by_name = {one.topic: one for one in topics}
    if name:
        if name not in by_name:
            raise NotFound(f"The group has no queue of a topic {name}.")
        return by_name[name]
    if len(topics) != 1:
        names = ", ".join(sorted(by_name)[:5]) or "none"
        raise ValidationError({"topic": [f"Required: the group reads {len(topics)} topics ({names})."]})
    return topics[0]


def _weights(request: Request, known: set[str]) -> dict[str, int]:
    found = {}
    for text in request.query_params.getlist("weight"):
        client_id, _, number = text.rpartition(":")
        is_number = number.isascii() and number.isdigit() and len(number) < 4 and int(number) <= WEIGHT_MAX
        if client_id not in known or not is_number:
            raise ValidationError(
                {"weight": [f"Send CLIENT_ID:WEIGHT, a client of the scenario and 0 to {WEIGHT_MAX}."]}
            )
        found[client_id] = int(number)
    return found


def _body(topic: TopicOwnership, scenario: WhatIf) -> dict[str, object]:
    chosen = scenario.chosen
    return {
        "topic": topic.topic,
        "strategy": chosen.strategy,
        "clients": sorted(scenario.scenario.clients),
        "fewest_moves": scenario.fewest,
        "unknown_owners": len(scenario.unknown),
        "outcomes": [_outcome(one) for one in scenario.outcomes],
        "shares": [
            {"client_id": client_id, "queues": [[queue.broker_name, queue.queue_id] for queue in share]}
            for client_id, share in chosen.shares.items()
        ],
        "moves": [
            {
                "broker_name": one.queue.broker_name,
                "queue_id": one.queue.queue_id,
                "owners": list(one.owners),
                "is_owner_unknown": one.queue in scenario.unknown,
                "to": one.to,
            }
            for one in scenario.moves
        ],
    }


def _outcome(one: Outcome) -> dict[str, object]:
    applies = not one.reason
    return {
        "strategy": one.strategy,
        "smallest": one.smallest if applies else None,
        "largest": one.largest if applies else None,
        "without_owner": one.without_owner if applies else None,
        "moves": one.moved if applies else None,
        "reason": one.reason,
    }


urlpatterns = [
    path(
        "clusters/<str:cluster>/groups/<str:group>/simulation",
        GroupSimulation.as_view(),
        name="api-group-simulation",
    ),
]
