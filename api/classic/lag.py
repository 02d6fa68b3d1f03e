"""Topics and groups of the classic dashboard: figures are those of the last round, and no broker is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.classic.resource import SYSTEM_PREFIX, UNKNOWN, Classic, answer
from api.group import existing as existing_group
from api.rest import pagination
from api.rest.permissions import view_scope
from api.topic import existing as existing_topic
from console.cluster import selectors as cluster_selectors
from console.group import selectors as group_selectors
from console.lag.models import GroupRow, TopicRow
from console.lag.rows.queue_row import QueueRow
from console.text import JsonObject
from console.topic import selectors as topic_selectors


class TopicList(Classic):
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
        return answer({"topicList": names, "brokerAddr": None})


class TopicStats(Classic):
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
        return answer({"offsetTable": table})


class TopicConsumers(Classic):
    """`topic/queryConsumerByTopic.query?topic`: group → its figures of the topic."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        topic = self.name(request, "topic")
        existing_topic(cluster, topic)
        scope = view_scope(request.user, cluster)
        groups = [
            one.group for one in topic_selectors.topic_groups(cluster, topic) if scope.covers(one.group)
        ]
        return answer(
            {
                group: _topic_info(topic, group_selectors.group_queues(cluster, group, topic=topic))
                for group in groups
            }
        )


class GroupList(Classic):
    """`consumer/groupList.query?skipSysGroup`."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        cluster_selectors.cluster_by_name(cluster)
        keeps_names = pagination.boolean(request, "skipSysGroup")
        rows = view_scope(request.user, cluster).filter(GroupRow.objects.filter(cluster=cluster), "group")
        return answer([_group_info(row, keeps_names=keeps_names) for row in rows.order_by("group")])


class Group(Classic):
    """`consumer/group.query?consumerGroup`."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        group = self.name(request, "consumerGroup")
        return answer(_group_info(existing_group(cluster, group), keeps_names=True))


class GroupTopics(Classic):
    """`consumer/queryTopicByConsumer.query?consumerGroup`: its topics with their queues."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        group = self.name(request, "consumerGroup")
        existing_group(cluster, group)
        by_topic = groupby(group_selectors.group_queues(cluster, group), attrgetter("topic"))
        return answer([_topic_info(topic, list(queues)) for topic, queues in by_topic])


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
