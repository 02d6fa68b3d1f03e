"""Lag over time: charts, latency by message, throughput."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from django.http.response import HttpResponseBase
from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.group import existing
from api.rest import list_file, pagination
from api.rest.resource import Resource
from api.rest.struct import HelpTexts, StructSerializer
from console.group import selectors as group_selectors
from console.group.flow import Flow
from console.group.queue_history.readings import (
    HISTORY_STEPS_MAX,
    QUEUE_HISTORY,
    QueueReading,
    queue_history,
    refusal,
    usual_step_ms,
)
from console.lag import selectors
from console.lag.history import owners
from console.lag.models import HistoryGap, LagEvent
from console.lag.past import by_client, measures
from console.lag.past.by_client import OwnerFigures, OwnerSteps, TooManyChanges
from console.lag.past.marks import Who
from console.lag.past.measures import Bucket, Burn
from console.lag.promise_versions import promises_of
from console.operation.plan.places import QueuePlace
from spark.lag.local_time import HOUR_MS

SPAN_MS_MAX = 31 * 24 * HOUR_MS  # the longest range the pages draw; more is a report
LATENCY_SPAN_MS_MAX = 7 * 24 * HOUR_MS  # every message of the range is counted
POINTS_MAX = 2_000
FLOW_POINTS_MAX = 1_000
STEPS_MAX = 120  # of each client: a fold each
TENURES_MAX = 10_000
SLO_MS_MAX = 31 * 24 * HOUR_MS


def _counts(meaning: str = "") -> serializers.ListField:
    """Return a list of numbers that has nulls where nothing is known."""
    return serializers.ListField(child=serializers.IntegerField(allow_null=True), help_text=meaning)


class WhoSerializer(StructSerializer):
    """How many clients, and the ids of the first ten of them."""

    struct = Who


class MembersSerializer(serializers.Serializer[Any]):
    """Clients that joined or left between two sweeps, about 30 s apart; empty changes are absent."""

    joined = WhoSerializer(required=False)
    left = WhoSerializer(required=False)
    restarted = WhoSerializer(required=False, help_text="the ids that they have now")


class LagEventSerializer(serializers.ModelSerializer[LagEvent]):
    """Something that happened between two rounds, with the change by this console that explains it in ``cause``.

    MEMBERS: ``from_offset`` and ``to_offset`` are the numbers of clients before and after, ``members`` names them.
    BROKER_RESTART: ``broker_name`` runs in another process than when it answered last.
    """

    members = MembersSerializer()

    class Meta:
        model = LagEvent
        exclude = ("id", "cluster", "group")


class HistoryGapSerializer(serializers.ModelSerializer[HistoryGap]):
    """Time without rounds (``broker_name`` empty) or with a silent broker; ``to_ms`` null: it goes on."""

    class Meta:
        model = HistoryGap
        exclude = ("id", "cluster")


class LagHistorySerializer(StructSerializer):
    """Lists of one length, null in a gap; the rounds with the largest and smallest figures of each step."""

    struct = selectors.LagHistory
    help_texts: ClassVar[HelpTexts] = {
        "interval_ms": "the collector's period",
        "time_lag_low_ms": "the truth is not below",
        "time_lag_high_ms": "nor above; null: the message predates the history",
        "in_flight": "null where it was not read",
        "lower_bound": "some queue was missing in that round",
        "markers_lower_bound": "there were more: the newest are here",
        "clients_min": "as far as changes were seen; null: unknown",
    }

    markers = LagEventSerializer(many=True, help_text="oldest first, at most 500")
    gaps = HistoryGapSerializer(many=True)


class LatencyBucketSerializer(StructSerializer):
    """Messages that waited up to ``up_to_ms`` and longer than the bucket before; null: everything above."""

    struct = Bucket


class BurnSerializer(StructSerializer):
    """How many times faster than allowed the error budget is used, over a long and a short window up to ``to_ms``."""

    struct = Burn
    help_texts: ClassVar[HelpTexts] = {"factor": "both above it: page someone"}


class LatencySerializer(StructSerializer):
    """How long messages waited from being stored to being confirmed; skips and rewinds are not counted."""

    struct = measures.Latency
    help_texts: ClassVar[HelpTexts] = {
        "interval_ms": "each latency is within one interval of the truth",
        "censored": "of these only a lower bound is known",
        "little_mean_ms": "the same mean by Little's law, without store times: a cross-check",
        "watched_ms": "time that was neither a gap nor unread",
        "breach_ms": "some queue was late",
        "breach_weighted_ms": "each late queue by its share of the messages",
        "budget_left": "1: untouched, negative: overspent",
    }

    histogram = LatencyBucketSerializer(many=True)
    burn = BurnSerializer(many=True)


class ThroughputSerializer(StructSerializer):
    """Messages per step of whole minutes; null where nothing was collected."""

    struct = measures.Throughput
    help_texts: ClassVar[HelpTexts] = {"times": "begin of each step"}


class OwnerStepsSerializer(StructSerializer):
    """One value a step; null where the owner had no queue, or nothing is known."""

    struct = OwnerSteps
    help_texts: ClassVar[HelpTexts] = {
        "lag": "at the end of the step",
        "time_lag_ms": "at the end of the step",
    }


class OwnerFiguresSerializer(StructSerializer):
    """A client or a host in the time in which it owned queues; null is unknown."""

    struct = OwnerFigures
    help_texts: ClassVar[HelpTexts] = {
        "owner": "empty: queues of which no owner was known",
        "queues": "at the end of the window",
        "queues_max": "at once",
        "first_ms": "it owned a queue from then on",
        "last_ms": "until then",
        "lag": "null where it owns no queue at the end",
        "lag_at_ms": "when `lag` was read",
        "out_rate": "messages a second while it owned queues",
        "breach_ms": "the oldest message of some queue waited above slo_ms",
        "coverage_pct": "of owned_ms every queue was read",
    }

    steps = OwnerStepsSerializer()


class ByClientSerializer(StructSerializer):
    """Figures of a window by who owned the queues, slowest first. Owners are known to a sweep, about 30 s."""

    struct = by_client.ByClient
    help_texts: ClassVar[HelpTexts] = {
        "times": "begin of each step",
        "swept_ms": "when members were read last",
        "changes": "times inside the window at which owners changed",
    }

    clients = OwnerFiguresSerializer(many=True)
    hosts = OwnerFiguresSerializer(many=True)


class GroupFlowSerializer(StructSerializer):
    """Lists of one length, in messages since the first committed offset; null in a gap.

    Produced minus committed is the lag; "queues" of "queues_total" were read completely and are in the sums.
    """

    struct = Flow


class QueueReadingSerializer(StructSerializer):
    """The last reading of a step; offsets null: nothing was read from at_ms to to_ms, for the reason."""

    struct = QueueReading
    help_texts: ClassVar[HelpTexts] = {
        "read_at_ms": "the round; null: none",
        "age_ms": "of the reading when the step ended",
        "moved": "since the reading before; negative after a rewind",
        "lag_max": "in the rounds of the step",
        "lag_lower_bound": "more messages may wait than the offsets show",
        "offset_is_not_count": "there are at most as many messages as the lag says",
        "is_recreated": "the topic, since the reading before: its offsets began again",
    }


def span_parameters(longest: str) -> list[OpenApiParameter]:
    """Return the description of `GroupPast.window` in the OpenAPI document."""
    return [
        OpenApiParameter("from_ms", int, description="default: an hour before to_ms"),
        OpenApiParameter("to_ms", int, description=f"default: now; at most {longest} after from_ms"),
        OpenApiParameter("topic", str, description="default: all topics but the group's %RETRY%"),
    ]


SLO = OpenApiParameter(
    "slo_ms", int, description="the promise; default: the group's, or the installation's, in force at to_ms"
)
POINTS = OpenApiParameter("points", int, description=f"4 to {POINTS_MAX}, default 600")


class Window(NamedTuple):
    """The requested part of a group's past."""

    from_ms: int
    to_ms: int
    topic: str | None


class GroupPast(Resource):
    """A resource about the past of one group."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "group"
    throttle_scope = "search"

    def window(self, request: Request, span_ms_max: int = SPAN_MS_MAX) -> Window:
        """Return the requested window, or raise with the field's name."""
        to_ms = pagination.integer(request, "to_ms", round(timezone.now().timestamp() * 1000), high=2**53)
        from_ms = pagination.integer(request, "from_ms", max(0, to_ms - HOUR_MS), high=2**53)
        if not 0 < to_ms - from_ms <= span_ms_max:
            days = span_ms_max // (24 * HOUR_MS)
            most = "a day" if days == 1 else f"{days} days"
            raise ValidationError({"from_ms": [f"Must lie before to_ms, at most {most}."]})
        return Window(from_ms, to_ms, request.query_params.get("topic") or None)


class LagHistory(GroupPast):
    """Lag and time lag of a group over time, with what happened."""

    @extend_schema(
        operation_id="group_lag",
        tags=["groups"],
        parameters=[*span_parameters("31 days"), POINTS],
        responses=LagHistorySerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        from_ms, to_ms, topic = self.window(request)
        points = pagination.integer(request, "points", 600, low=4, high=POINTS_MAX)
        found = selectors.lag_history(cluster, group, from_ms, to_ms, points, topic)
        return Response(LagHistorySerializer(found).data)


class Latency(GroupPast):
    """How long the messages of a group waited, and how its promise was kept."""

    @extend_schema(
        operation_id="group_latency",
        tags=["groups"],
        parameters=[
            *span_parameters("7 days"),
            SLO,
            OpenApiParameter(
                "target", float, description="share of the time it holds, 0 to 0.99999; default: the group's"
            ),
        ],
        responses=LatencySerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        from_ms, to_ms, topic = self.window(request, LATENCY_SPAN_MS_MAX)
        promised = promises_of(cluster, [group]).at(group, to_ms)
        slo_ms = pagination.integer(request, "slo_ms", promised.slo_ms, low=1, high=SLO_MS_MAX)
        target = _share(request, "target", promised.target)
        found = selectors.latency(cluster, group, from_ms, to_ms, slo_ms=slo_ms, target=target, topic=topic)
        return Response(LatencySerializer(found).data)


class Throughput(GroupPast):
    """Messages written and read by a group, by whole minutes."""

    @extend_schema(
        operation_id="group_throughput",
        tags=["groups"],
        parameters=[*span_parameters("31 days"), POINTS],
        responses=ThroughputSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        from_ms, to_ms, topic = self.window(request)
        points = pagination.integer(request, "points", 600, low=4, high=POINTS_MAX)
        return Response(
            ThroughputSerializer(selectors.throughput(cluster, group, from_ms, to_ms, points, topic)).data
        )


class GroupFlow(GroupPast):
    """Cumulative flow of a group: produced, pulled, committed, oldest stored."""

    @extend_schema(
        operation_id="group_flow",
        tags=["groups"],
        parameters=[
            OpenApiParameter("from_ms", int, description="default: an hour before to_ms"),
            OpenApiParameter("to_ms", int, description="default: now; at most a day after from_ms"),
            OpenApiParameter("points", int, description=f"2 to {FLOW_POINTS_MAX}, default 300"),
        ],
        responses=GroupFlowSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        from_ms, to_ms, _ = self.window(request, group_selectors.FLOW_MS_MAX)
        points = pagination.integer(request, "points", 300, low=2, high=FLOW_POINTS_MAX)
        found = group_selectors.group_flow(cluster, group, from_ms, to_ms, points)
        return Response(GroupFlowSerializer(found).data)


class ByClient(GroupPast):
    """Lag, consumption and latency of a group by client and by host."""

    @extend_schema(
        operation_id="group_by_client",
        tags=["groups"],
        parameters=[
            *span_parameters("7 days"),
            OpenApiParameter("points", int, description=f"1 to {STEPS_MAX} steps, default 12"),
            SLO,
        ],
        responses=ByClientSerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        from_ms, to_ms, topic = self.window(request, LATENCY_SPAN_MS_MAX)
        points = pagination.integer(request, "points", 12, low=1, high=STEPS_MAX)
        promised = promises_of(cluster, [group]).at(group, to_ms)
        slo_ms = pagination.integer(request, "slo_ms", promised.slo_ms, low=1, high=SLO_MS_MAX)
        try:
            found = selectors.by_client_between(
                cluster, group, from_ms, to_ms, points, slo_ms=slo_ms, topic=topic
            )
        except TooManyChanges as error:
            raise ValidationError({"from_ms": [f"{error} Ask for a shorter window."]}) from error
        return Response(ByClientSerializer(found).data)


class QueueTenureSerializer(serializers.Serializer[Any]):
    """One owner of one queue in [from_ms, to_ms), as members reported it; as exact as the time between two sweeps.

    Tenures of one queue overlap only where ``is_claim``: several members reported it at once.
    """

    topic = serializers.CharField()
    broker_name = serializers.CharField()
    queue_id = serializers.IntegerField()
    client_id = serializers.CharField()
    host = serializers.CharField()
    from_ms = serializers.IntegerField()
    to_ms = serializers.IntegerField(help_text="in the future: known to last until the next sweep at least")
    is_claim = serializers.BooleanField(
        help_text="others reported the queue too: its messages may have been handled twice"
    )


class OwnerHistorySerializer(serializers.Serializer[Any]):
    """The owners of queues in a window, oldest first. A queue is in none while its owner was not known."""

    tenures = QueueTenureSerializer(many=True)
    is_cut = serializers.BooleanField(help_text=f"whether there are more than the first {TENURES_MAX:,}")


class OwnerHistory(GroupPast):
    """Who owned which queue of a group over time."""

    @extend_schema(
        operation_id="group_owner_history",
        tags=["groups"],
        parameters=span_parameters("31 days"),
        responses=OwnerHistorySerializer,
    )
    def get(self, request: Request, cluster: str, group: str) -> Response:
        existing(cluster, group)
        from_ms, to_ms, topic = self.window(request)
        found = owners.between(cluster, group, from_ms, to_ms, with_claims=True, topic=topic)
        kept = {"tenures": found[:TENURES_MAX], "is_cut": len(found) > TENURES_MAX}
        return Response(OwnerHistorySerializer(kept).data)


class QueueHistory(GroupPast):
    """Committed offset, end and lag of one queue over time, newest first by default."""

    renderer_classes = list_file.RENDERERS

    @pagination.list_operation(
        QUEUE_HISTORY,
        "QueueReading",
        QueueReadingSerializer,
        query="part of the reason",
        operation_id="group_queue_history",
        tags=["groups"],
        more=[
            OpenApiParameter("topic", str, required=True),
            OpenApiParameter("broker_name", str, required=True),
            OpenApiParameter("queue_id", int, required=True),
            *span_parameters("31 days")[:2],
            OpenApiParameter(
                "step_ms",
                int,
                description=f"at most {HISTORY_STEPS_MAX:,} in the range; default: by its length",
            ),
        ],
    )
    def get(self, request: Request, cluster: str, group: str) -> HttpResponseBase:
        existing(cluster, group)
        from_ms, to_ms, topic = self.window(request)
        broker_name, queue_id = (
            pagination.text(request, "broker_name"),
            pagination.integer(request, "queue_id"),
        )
        given = {"topic": topic, "broker_name": broker_name, "queue_id": queue_id}
        missing = {name: ["Name the queue."] for name, value in given.items() if value in (None, "")}
        if not topic or queue_id is None or missing:
            raise ValidationError(missing)
        interval_ms = selectors.collect_interval_ms(cluster)
        usual_ms = usual_step_ms(to_ms - from_ms, interval_ms)
        step_ms = max(
            interval_ms, pagination.integer(request, "step_ms", usual_ms, low=1_000, high=SPAN_MS_MAX)
        )
        words = refusal(from_ms, to_ms, step_ms)
        if words is not None:
            raise ValidationError({"step_ms": [str(words)]})
        queue = QueuePlace(topic=topic, broker_name=broker_name, queue_id=queue_id).queue
        now_ms = round(timezone.now().timestamp() * 1000)
        found = queue_history(cluster, group, queue, from_ms, to_ms, step_ms, now_ms)
        return pagination.answer_in_memory(
            request, found, QUEUE_HISTORY, QueueReadingSerializer, cluster=cluster
        )


def _share(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 0.99999:
        raise ValidationError({name: ["Must be a number from 0 to 0.99999."]})
    return value


GROUP = "clusters/<str:cluster>/groups/<str:group>"
urlpatterns = [
    path(f"{GROUP}/lag", LagHistory.as_view(), name="api-group-lag"),
    path(f"{GROUP}/flow", GroupFlow.as_view(), name="api-group-flow"),
    path(f"{GROUP}/latency", Latency.as_view(), name="api-group-latency"),
    path(f"{GROUP}/throughput", Throughput.as_view(), name="api-group-throughput"),
    path(f"{GROUP}/owner-history", OwnerHistory.as_view(), name="api-group-owner-history"),
    path(f"{GROUP}/queue-history", QueueHistory.as_view(), name="api-group-queue-history"),
    path(f"{GROUP}/by-client", ByClient.as_view(), name="api-group-by-client"),
]
