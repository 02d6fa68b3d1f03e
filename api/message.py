"""Messages of a topic: pages with cursors, by id, by key; streams (search, tail, export). These calls read brokers."""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponseBase, StreamingHttpResponse
from django.urls import path
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import renderers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import pagination
from api.rest.list_file import CsvRenderer
from api.rest.resource import Resource, remote_addr
from api.rest.struct import HelpTexts, StructSerializer
from console.brokers.body_format import FORMAT_NAMES
from console.brokers.body_format import FORMATS as BODY_FORMATS
from console.brokers.message_view import MessageView
from console.cluster.masks import unmasked
from console.message import services
from console.message.forms import OFFSET_MAX, QUEUES_MAX, SQL_LENGTH_MAX, place_of
from console.message.search import body_match
from console.message.search.export import EXPORT_MESSAGES_MAX, EXPORT_MS, FORMATS, export
from console.message.search.message_search import Search, open_search, source_of
from console.message.search.query import Query, QueryRefused, tags_of
from console.message.search.tail import TAIL_MS, Tail
from console.message.streaming import (
    NDJSON,
    STREAM_MESSAGES_MAX,
    STREAM_MS,
    Streamed,
    search_lines,
    tail_lines,
)

TAIL_SECONDS = 60


class MessageSerializer(StructSerializer):
    """Times in ms since 1970 UTC, sizes in bytes."""

    struct = MessageView
    help_texts: ClassVar[HelpTexts] = {
        "body_bytes": "decompressed",
        "body_packing": "layers undone: ZSTD flag, gzip",
        "body_format": "json, text, msgpack, protobuf, hex, base64",
        "batch_index": "from 1 inside of a stored batch, else 0",
        "is_masked": "values are hidden by a rule of the administrators",
    }


class MessagePageSerializer(StructSerializer):
    struct = services.MessagePage
    hidden = ("rows", "figures", "stop_reason", "tags")
    help_texts: ClassVar[HelpTexts] = {
        "cursor": "send it back for the next page",
        "previous": "send it back for the page before",
        "end_cursor": "behind the last row also at the end: oldest first, it follows what arrives",
        "scanned": "offsets looked at for this page",
        "silent": "broker → why it could not be read; its messages are missing",
        "cut": "a limit was reached before the page was full; the cursor goes on",
    }

    results = MessageSerializer(many=True, source="rows")


class NdjsonRenderer(renderers.JSONRenderer):
    """Accept the media type of a stream; refusals are JSON nevertheless."""

    media_type = NDJSON
    format = "ndjson"


class ParquetRenderer(renderers.JSONRenderer):
    """Accept requests for a Parquet file; refusals are JSON nevertheless."""

    media_type = "application/vnd.apache.parquet"
    format = "parquet"


SEARCH_PARAMETERS = [
    OpenApiParameter("order", str, enum=["newest", "oldest"], description="default newest"),
    OpenApiParameter("broker_name", str),
    OpenApiParameter("queue_id", int),
    OpenApiParameter("queue", str, many=True, description="broker-a:3; may be repeated"),
    OpenApiParameter("tag", str, description="paid || refunded; the broker filters"),
    OpenApiParameter("sql", str, description="SQL92; the broker filters, 400 where it cannot"),
    OpenApiParameter("find_in", str, enum=sorted(body_match.KIND_NAMES), description="default body"),
    OpenApiParameter("find", str, description='looked for here: text, $.a.b == "x", name == "x", a key'),
    OpenApiParameter("from_ms", int, description="not older than this"),
    OpenApiParameter("to_ms", int, description="not newer than this"),
    OpenApiParameter("from_offset", int, description="not before this offset of each queue"),
    OpenApiParameter("cursor", str),
]


def query_of(request: Request, topic: str) -> Query:
    """Return the search of a request; raises ValidationError."""
    try:
        return Query(
            topic,
            newest=pagination.choice(request, "order", ["newest", "oldest"], "newest") == "newest",
            queues=_queues(request),
            from_ms=pagination.integer(request, "from_ms"),
            to_ms=pagination.integer(request, "to_ms", high=OFFSET_MAX - 1),
            from_offset=pagination.integer(request, "from_offset"),
            tags=tags_of(pagination.text(request, "tag", most=1_000)),
            sql=pagination.text(request, "sql", most=SQL_LENGTH_MAX).strip(),
            match=body_match.read_match(
                pagination.text(request, "find_in", "body", most=20),
                pagination.text(request, "find", most=body_match.TEXT_LENGTH_MAX),
            ),
        )
    except QueryRefused as refusal:
        raise ValidationError({refusal.field or "tag": [str(refusal)]}) from refusal
    except body_match.MatchRefused as refusal:
        raise ValidationError({"find": [str(refusal)]}) from refusal


def _queues(request: Request) -> frozenset[tuple[str, int]]:
    name = pagination.text(request, "broker_name")
    queue_id = pagination.integer(request, "queue_id", high=2**31 - 1)
    if bool(name) != (queue_id is not None):
        raise ValidationError({"queue_id": ["Send broker_name and queue_id together."]})
    found = set() if queue_id is None else {(name, queue_id)}
    for text in request.query_params.getlist("queue")[:QUEUES_MAX]:
        broker_name, _, number = text.rpartition(":")
        if not broker_name or not number.isascii() or not number.isdigit() or len(number) > 9:
            raise ValidationError(
                {"queue": ["Enter a queue as broker name, colon and number, like broker-a:3."]}
            )
        found.add((broker_name, int(number)))
    return frozenset(found)


class _Reads(Resource):
    """Base of all views of messages."""

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    name_kwarg = "topic"
    throttle_scope = "search"
    asks_brokers = True

    def search(self, request: Request, cluster: str, topic: str, *, limit: int, time_ms: int) -> Search:
        """Open the search of a request; raises ValidationError for what a broker cannot filter."""
        try:
            return open_search(
                source_of(cluster, topic),
                query_of(request, topic),
                limit=limit,
                time_ms=time_ms,
                cursor_text=pagination.text(request, "cursor", most=20_000),
            )
        except QueryRefused as refusal:
            raise ValidationError({refusal.field or "sql": [str(refusal)]}) from refusal


class Messages(_Reads):
    """Newest first, or oldest first; with ``key`` only messages with that key."""

    @extend_schema(
        operation_id="messages_list",
        tags=["messages"],
        parameters=[
            *SEARCH_PARAMETERS,
            OpenApiParameter("key", str, description="looked up in the brokers' index; not with the others"),
            OpenApiParameter("limit", int, description=f"1 to {services.LIMIT_MAX}, default 50"),
        ],
        responses=MessagePageSerializer,
    )
    def get(self, request: Request, cluster: str, topic: str) -> Response:
        limit = pagination.integer(request, "limit", 50, low=1, high=services.LIMIT_MAX)
        key = pagination.text(request, "key")
        if key:
            rows = services.by_key(cluster, topic, key, limit=min(limit, services.KEY_HITS_MAX))
            page = services.MessagePage(
                rows,
                cursor=None,
                previous=None,
                end_cursor="",
                scanned=len(rows),
                queues=0,
                silent={},
                cut=False,
            )
        else:
            search = self.search(request, cluster, topic, limit=limit, time_ms=services.SEARCH_MS)
            while not search.is_done:
                search.step()
            page = services.page_of(search, has_cursor="cursor" in request.query_params)
        return Response(MessagePageSerializer(page).data)


class MessageStream(_Reads):
    """Run the same search as an NDJSON stream.

    {"message": …} per hit in order, {"progress": …} once a second, {"end": …} at the end, with a cursor if the search
    is not complete. Closing the connection ends the search.
    """

    renderer_classes = (NdjsonRenderer, renderers.JSONRenderer)

    @extend_schema(
        operation_id="messages_stream",
        tags=["messages"],
        parameters=[
            *SEARCH_PARAMETERS,
            OpenApiParameter("limit", int, description=f"1 to {STREAM_MESSAGES_MAX}, default 1000"),
        ],
        responses={(200, NDJSON): OpenApiTypes.STR},
    )
    def get(self, request: Request, cluster: str, topic: str) -> HttpResponseBase:
        limit = pagination.integer(request, "limit", 1_000, low=1, high=STREAM_MESSAGES_MAX)
        search = self.search(request, cluster, topic, limit=limit, time_ms=STREAM_MS)
        return _streaming(Streamed(_person(request), lambda: search_lines(search)), NDJSON)


class MessageTail(_Reads):
    """Stream new messages as NDJSON, like a search; what a slow reader misses is skipped and counted."""

    renderer_classes = (NdjsonRenderer, renderers.JSONRenderer)

    @extend_schema(
        operation_id="messages_tail",
        tags=["messages"],
        parameters=[
            *(each for each in SEARCH_PARAMETERS if each.name in ("queue", "tag", "sql", "find_in", "find")),
            OpenApiParameter("seconds", int, description=f"1 to {TAIL_MS // 1000}, default {TAIL_SECONDS}"),
            OpenApiParameter("limit", int, description="ends after so many messages"),
        ],
        responses={(200, NDJSON): OpenApiTypes.STR},
    )
    def get(self, request: Request, cluster: str, topic: str) -> HttpResponseBase:
        seconds = pagination.integer(request, "seconds", TAIL_SECONDS, low=1, high=TAIL_MS // 1000)
        most = pagination.integer(request, "limit", STREAM_MESSAGES_MAX, low=1, high=STREAM_MESSAGES_MAX)
        try:
            tail = Tail(source_of(cluster, topic), query_of(request, topic))
        except QueryRefused as refusal:
            raise ValidationError({refusal.field or "sql": [str(refusal)]}) from refusal
        return _streaming(
            Streamed(_person(request), lambda: tail_lines(tail, seconds=seconds, most=most)), NDJSON
        )


class MessageExport(_Reads):
    """Stream the whole search as a file, up to a million messages."""

    renderer_classes = (NdjsonRenderer, CsvRenderer, ParquetRenderer)

    @extend_schema(
        operation_id="messages_export",
        tags=["messages"],
        parameters=[
            *SEARCH_PARAMETERS,
            OpenApiParameter("format", str, enum=list(FORMATS), description="default ndjson"),
        ],
        responses={(200, kind): OpenApiTypes.BINARY for _, kind, _ in FORMATS.values()},
    )
    def get(self, request: Request, cluster: str, topic: str) -> HttpResponseBase:
        name = str(request.accepted_renderer.format)
        _, content_type, writer = FORMATS[name]
        search = self.search(request, cluster, topic, limit=EXPORT_MESSAGES_MAX, time_ms=EXPORT_MS)
        answer = _streaming(Streamed(_person(request), lambda: export(search, writer())), content_type)
        answer["Content-Disposition"] = content_disposition_header(True, f"{topic}.{name}") or "attachment"
        return answer


def _streaming(pieces: Streamed, content_type: str) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(pieces, content_type=content_type)
    answer["X-Accel-Buffering"] = "no"  # a proxy must not buffer it
    return answer


def _person(request: Request) -> str:
    return str(request.user.get_username())


class MessageDetail(_Reads):
    """A message by unique key or offset id.

    ``at`` gives its position, which needs no index and also finds it in a batch.
    """

    @extend_schema(
        operation_id="messages_get",
        tags=["messages"],
        parameters=[
            OpenApiParameter("as", str, enum=[value for value, _ in BODY_FORMATS]),
            OpenApiParameter("at", str, description="broker-a:3:88204118"),
            OpenApiParameter(
                "unmasked", bool, description="with masked fields: needs UNMASK, and is audited"
            ),
        ],
        responses=MessageSerializer,
    )
    def get(self, request: Request, cluster: str, topic: str, message_id: str) -> Response:
        wanted = pagination.choice(request, "as", sorted(FORMAT_NAMES), "auto")
        place = place_of(pagination.text(request, "at"))
        found = services.record_at(cluster, topic, *place) if place else None
        found = found or services.hit_by_id(cluster, message_id, topic)
        if found is None:
            raise NotFound(f"No broker has a message {message_id} of {topic}.")
        masks = None
        if pagination.boolean(request, "unmasked"):
            masks = unmasked(request.user, cluster, topic, message_id, remote_addr=remote_addr(request))
        shown = services.shown(cluster, found, body_format=wanted, masks=masks)
        return Response(MessageSerializer(shown).data)


PLACE = "clusters/<str:cluster>/topics/<str:topic>/messages"
urlpatterns = [
    path(PLACE, Messages.as_view(), name="api-messages"),
    path(f"{PLACE}/stream", MessageStream.as_view(), name="api-message-stream"),
    path(f"{PLACE}/tail", MessageTail.as_view(), name="api-message-tail"),
    path(f"{PLACE}/export", MessageExport.as_view(), name="api-message-export"),
    path(f"{PLACE}/<str:message_id>", MessageDetail.as_view(), name="api-message"),
]
