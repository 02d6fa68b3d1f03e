"""Message queries of the classic dashboard: by key, by id, the newest of a time. These calls read brokers."""

from __future__ import annotations

import time

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.classic.resource import Classic, answer
from api.rest import pagination
from api.rest.permissions import view_scope
from console.brokers.message_view import MessageView
from console.cluster import selectors as cluster_selectors
from console.message import services
from console.message.forms import OFFSET_MAX
from console.message.life_line.events import GroupLife, State, life_line
from console.message.search.message_search import open_search, source_of
from console.message.search.query import Query
from console.text import JsonObject

MESSAGES_MAX = 2_000  # of a time, as there
# What became of a message, in the dashboard's words; any other state is UNKNOWN there.
TRACK_TYPES = {
    State.CONSUMED: "CONSUMED",
    State.FILTERED: "CONSUMED_BUT_FILTERED",
    State.NOT_YET: "NOT_CONSUME_YET",
}


class _Messages(Classic):
    asks_brokers = True


class ByKey(_Messages):
    """`message/queryMessageByTopicAndKey.query?topic&key`: newest first."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        topic, key = self.name(request, "topic"), pagination.text(request, "key")
        if not key:
            raise ValidationError({"key": ["Required."]})
        found = services.by_key(cluster, topic, key, body_format="text")
        return answer([_message(view) for view in found])


class ById(_Messages):
    """`message/viewMessage.query?topic&msgId`: the message, and what became of it in each group."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        topic, message_id = self.name(request, "topic"), pagination.text(request, "msgId")
        if not message_id:
            raise ValidationError({"msgId": ["Required."]})
        found = services.hit_by_id(cluster, message_id, topic)
        if found is None:
            raise NotFound(f"No broker has a message {message_id} of {topic}.")
        here, scope = cluster_selectors.cluster_by_name(cluster), view_scope(request.user, cluster)
        life = life_line(here, found, scope, now_ms=time.time_ns() // 1_000_000)
        view = services.shown(cluster, found, body_format="text")
        tracks = [_track(group) for group in life.groups]
        return answer({"messageView": _message(view), "messageTrackList": tracks})


class ByTime(_Messages):
    """`message/queryMessageByTopic.query?topic&begin&end`: the newest of that time, without bodies, as there."""

    @extend_schema(exclude=True)
    def get(self, request: Request, cluster: str) -> Response:
        topic = self.name(request, "topic")
        query = Query(
            topic,
            from_ms=pagination.integer(request, "begin", high=OFFSET_MAX - 1),
            to_ms=pagination.integer(request, "end", high=OFFSET_MAX - 1),
        )
        source = source_of(cluster, topic)
        search = open_search(source, query, limit=MESSAGES_MAX, time_ms=services.SEARCH_MS)
        while not search.is_done:
            search.step()
        page = services.page_of(search, has_cursor=False)
        return answer([_message(view) | {"messageBody": None} for view in page.rows])


def _message(view: MessageView) -> JsonObject:
    """Return a message with the dashboard's members; the body is what mask rules leave of it, as text."""
    return {
        "topic": view.topic,
        "msgId": view.message_id,
        "offsetMsgId": view.offset_message_id,
        "brokerName": view.broker_name,
        "queueId": view.queue_id,
        "queueOffset": view.queue_offset,
        "storeSize": view.size_bytes,
        "commitLogOffset": view.commit_log_offset,
        "bornTimestamp": view.born_timestamp_ms,
        "bornHost": view.born_host,
        "storeTimestamp": view.store_timestamp_ms,
        "storeHost": view.store_host,
        "reconsumeTimes": view.reconsume_times,
        "flag": view.flag,
        "sysFlag": view.sys_flag,
        "properties": view.properties,
        "messageBody": view.body_text,
    }


def _track(life: GroupLife) -> JsonObject:
    kind = TRACK_TYPES.get(life.state, "UNKNOWN")
    if life.state is State.NOT_YET and life.is_offline:
        kind = "NOT_ONLINE"
    return {"consumerGroup": life.group, "trackType": kind, "exceptionDesc": str(life.reason)}
