"""What scripts call on the classic RocketMQ dashboard, under `/api/classic/<cluster>/`: its reads, and its reset.

Addresses, parameters and members are those of that dashboard; figures are those of the last round, and no broker is
read. A response is ``{"status": 0, "data", "errMsg": null}``; a refusal has status -1 and, unlike there, its HTTP
status. Not in the OpenAPI document: new scripts use `/api/v1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.group import existing as existing_group
from api.rest import pagination
from api.rest.permissions import VIEW, require, view_scope
from api.rest.resource import Resource, remote_addr
from api.topic import existing as existing_topic
from console.cluster import selectors as cluster_selectors
from console.group import selectors as group_selectors
from console.group.offsets.targets import OFFSET_MAX
from console.lag.models import GroupRow, TopicRow
from console.lag.rows.queue_row import QueueRow
from console.operation import services
from console.operation.errors import OperationError
from console.operation.models import Plan
from console.text import JsonObject
from console.topic import selectors as topic_selectors

# As the dashboard marks names of RocketMQ's own, unless they are skipped.
SYSTEM_PREFIX = "%SYS%"
UNKNOWN = -1  # there, too: a total that is not known, an offset that was never committed
NEWEST = -1  # a reset to this time skips everything
GROUPS_MAX = 20  # of one request: each makes a plan, which reads the brokers


class _Classic(Resource):
    """Base of these views. Names are parameters, so each view requires the right to them itself."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    filters_names = True
    takes_any_parameter = True
    throttle_scope = "search"

    def handle_exception(self, exc: Exception) -> Response:
        """Return a refusal as the dashboard writes it."""
        refusal = super().handle_exception(exc)
        refusal.data = {"status": -1, "data": None, "errMsg": refusal.data["detail"]}
        refusal.content_type = "application/json"
        return refusal

    def name(self, request: Request, parameter: str) -> str:
        """Return the named topic or group, if the caller may VIEW it; raises ValidationError without one."""
        found = pagination.text(request, parameter).removeprefix(SYSTEM_PREFIX)
        if not found:
            raise ValidationError({parameter: ["Required."]})
        require(request.user, VIEW, self.kwargs["cluster"], found)
        return found


def _answer(data: object) -> Response:
    return Response({"status": 0, "data": data, "errMsg": None})


class TopicList(_Classic):
    """`topic/list.query?skipSysProcess&skipRetryAndDlq`."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        keeps_names = pagination.boolean(request, "skipSysProcess")
        rows = view_scope(request.user, cluster).filter(TopicRow.objects.filter(cluster=cluster), "topic")
        if pagination.boolean(request, "skipRetryAndDlq"):
            rows = rows.exclude(kind__in=("RETRY", "DLQ"))
        names = [
            f"{SYSTEM_PREFIX}{name}" if kind == "SYSTEM" and not keeps_names else name
            for name, kind in rows.order_by("topic").values_list("topic", "kind")
        ]
        return _answer({"topicList": names, "brokerAddr": None})


class TopicStats(_Classic):
    """`topic/stats.query?topic`."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        topic = self.name(request, "topic")
        existing_topic(cluster, topic)
        table: JsonObject = {
            f"MessageQueue [topic={topic}, brokerName={one.broker_name}, queueId={one.queue_id}]": {
                "minOffset": one.min_offset,
                "maxOffset": one.max_offset,
                "lastUpdateTimestamp": one.last_write_ms,
            }
            for one in topic_selectors.topic_queues(cluster, topic)
        }
        return _answer({"offsetTable": table})


class TopicConsumers(_Classic):
    """`topic/queryConsumerByTopic.query?topic`: group → its figures of the topic."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        topic = self.name(request, "topic")
        existing_topic(cluster, topic)
        scope = view_scope(request.user, cluster)
        groups = [
            one.group for one in topic_selectors.topic_groups(cluster, topic) if scope.covers(one.group)
        ]
        return _answer(
            {
                group: _topic_info(topic, group_selectors.group_queues(cluster, group, topic=topic))
                for group in groups
            }
        )


class GroupList(_Classic):
    """`consumer/groupList.query?skipSysGroup`."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        keeps_names = pagination.boolean(request, "skipSysGroup")
        rows = view_scope(request.user, cluster).filter(GroupRow.objects.filter(cluster=cluster), "group")
        return _answer([_group_info(row, keeps_names=keeps_names) for row in rows.order_by("group")])


class Group(_Classic):
    """`consumer/group.query?consumerGroup`."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        group = self.name(request, "consumerGroup")
        return _answer(_group_info(existing_group(cluster, group), keeps_names=True))


class GroupTopics(_Classic):
    """`consumer/queryTopicByConsumer.query?consumerGroup`: its topics with their queues."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        group = self.name(request, "consumerGroup")
        existing_group(cluster, group)
        by_topic = groupby(group_selectors.group_queues(cluster, group), attrgetter("topic"))
        return _answer([_topic_info(topic, list(queues)) for topic, queues in by_topic])


class ResetRequestSerializer(serializers.Serializer[Any]):
    """A reset as the dashboard requests it; a further `force` has no meaning here."""

    consumerGroupList = serializers.ListField(  # noqa: N815 (the dashboard's names)
        child=serializers.CharField(max_length=255), min_length=1, max_length=GROUPS_MAX
    )
    topic = serializers.CharField(max_length=255)
    resetTime = serializers.IntegerField(min_value=NEWEST, max_value=OFFSET_MAX)  # noqa: N815


class Reset(_Classic):
    """`consumer/resetOffset.do` and `consumer/skipAccumulate.do`: a plan for each group, applied at once.

    A plan that is blocked, or large enough to need a typed name or a second person, is refused by its group; it can
    be applied on its page. The job runs after the response: `job` is its id.
    """

    verbs: ClassVar[dict[str, str]] = {"POST": "RESET"}
    asks_brokers = True

    @extend_schema(exclude=True)
    def post(self, request: Request, cluster: str) -> Response:
        wanted = ResetRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        groups, topic = wanted.validated_data["consumerGroupList"], wanted.validated_data["topic"]
        for group in groups:
            require(request.user, "RESET", cluster, group)
        cluster_selectors.cluster_by_name(cluster)
        time_ms: int = wanted.validated_data["resetTime"]
        target: JsonObject = (
            {"target": "latest"} if time_ms == NEWEST else {"target": "time", "time_ms": time_ms}
        )
        return _answer(
            {group: _reset(request, cluster, group, {**target, "topics": [topic]}) for group in groups}
        )


def _reset(request: Request, cluster: str, group: str, params: JsonObject) -> JsonObject:
    plan: Plan | None = None
    try:
        addr = remote_addr(request)
        plan = services.create_plan("offset_change", cluster, group, params, request.user, remote_addr=addr)
        job = services.apply_plan(plan.id, request.user, remote_addr=addr)
    except OperationError as error:
        place = "" if plan is None else f" Nothing was changed; the plan is {plan.id}."
        return {"status": False, "errMsg": f"{error}{place}", "rollbackStatsList": []}
    rows = [
        {
            "brokerName": row["broker_name"],
            "queueId": row["queue_id"],
            "consumerOffset": UNKNOWN if row["before"] is None else row["before"],
            "rollbackOffset": row["after"],
        }
        for row in plan.diff
    ]
    return {"status": True, "errMsg": None, "rollbackStatsList": rows, "plan": plan.id, "job": job.id}


def _group_info(row: GroupRow, *, keeps_names: bool) -> JsonObject:
    """Return the figures of a group; ``partial``, which is not there: some queues are unknown, the total is less."""
    return {
        "group": f"{SYSTEM_PREFIX}{row.group}" if row.is_system and not keeps_names else row.group,
        "count": row.clients,
        "messageModel": row.model or None,
        "consumeTps": None if row.out_rate is None else round(row.out_rate),
        "diffTotal": UNKNOWN if row.lag is None else row.lag,
        "partial": row.lag_lower_bound,
        "updateTime": row.read_at_ms,
    }


def _topic_info(topic: str, queues: Sequence[QueueRow]) -> JsonObject:
    known = [one.lag for one in queues if one.lag is not None]
    return {
        "topic": topic,
        "diffTotal": sum(known) if known else UNKNOWN,
        "partial": len(known) < len(queues) or any(one.lag_lower_bound for one in queues),
        "queueStatInfoList": _queue_infos(queues),
    }


def _queue_infos(queues: Iterable[QueueRow]) -> list[JsonObject]:
    return [
        {
            "brokerName": one.broker_name,
            "queueId": one.queue_id,
            "brokerOffset": one.max_offset,
            "consumerOffset": UNKNOWN if one.committed_offset is None else one.committed_offset,
            "clientInfo": one.owner or None,
        }
        for one in queues
    ]


urlpatterns = [
    path("topic/list.query", TopicList.as_view(), name="api-classic-topics"),
    path("topic/stats.query", TopicStats.as_view(), name="api-classic-topic-stats"),
    path("topic/queryConsumerByTopic.query", TopicConsumers.as_view(), name="api-classic-topic-consumers"),
    path("consumer/groupList.query", GroupList.as_view(), name="api-classic-groups"),
    path("consumer/group.query", Group.as_view(), name="api-classic-group"),
    path("consumer/queryTopicByConsumer.query", GroupTopics.as_view(), name="api-classic-group-topics"),
    path("consumer/resetOffset.do", Reset.as_view(), name="api-classic-reset"),
    path("consumer/skipAccumulate.do", Reset.as_view(), name="api-classic-skip"),
]
