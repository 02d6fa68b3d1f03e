"""Find messages: pages of a search, one message by id, key, or offset. Never moves an offset of a group."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

from console.brokers.body_format import ProtobufDecoder
from console.brokers.body_unpack import DoesNotUnpack, inner_messages, is_batch
from console.brokers.masking import NO_MASKS, Masks
from console.brokers.message_view import BODY_IN_LIST_BYTES, BODY_SHOWN_BYTES, MessageView, message_view
from console.brokers.mqadmin import (
    BlockingMQAdmin,
    MessageRecord,
    MQAdmin,
    MQBrokerError,
    decode_offset_message_id,
    with_admin,
)
from console.brokers.queues import masters
from console.cluster import selectors as cluster_selectors
from console.cluster.masks import masks_of
from console.lag.rows.queues import topic_queues
from console.message import schemas
from console.message.search.body_match import MatchRefused
from console.message.search.cursor import BadCursor
from console.message.search.lanes import Hit
from console.message.search.message_search import Figures, Search, TopicNotFound, open_search, source_of
from console.message.search.query import Query, QueryRefused
from console.text import Text

__all__ = [
    "BadCursor",
    "MatchRefused",
    "MessagePage",
    "MessageView",
    "Query",
    "QueryRefused",
    "TopicNotFound",
    "by_key",
    "by_unique_key",
    "find",
    "hit_by_id",
    "message_at",
    "page_of",
    "record_at",
    "shown",
]

LIMIT_MAX = 200  # messages on a page
SEARCH_MS = 8_000  # for one page; a longer search continues from the cursor
KEY_HITS_MAX = 64
TAGS_SHOWN = 8
QUERY_DEADLINE_MS = 5_000
NOT_FOUND_CODES = (1, 17, 22)  # SYSTEM_ERROR of 33, TOPIC_NOT_EXIST, QUERY_NOT_FOUND
INVALID_PARAMETER = 29  # a queue the topic does not have


@dataclasses.dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages of one page. The cursors stay valid while messages arrive and expire."""

    rows: list[MessageView]
    cursor: str | None  # the next page; None at the end of what was there when the search began
    previous: str | None  # the page before; None if there is none
    end_cursor: str  # after the last row, also at the end of the topic: oldest first, it follows what arrives
    scanned: int  # offsets read for this page
    queues: int
    silent: dict[str, Text]  # broker name → why it could not be read; its messages are missing above
    cut: bool  # a limit was reached before the page was full; the cursor continues
    figures: Figures | None = None
    stop_reason: str = ""
    tags: Sequence[tuple[str, int]] = ()  # the most frequent of the messages read, with their counts


def find(
    cluster: str, query: Query, *, limit: int = 50, cursor: str = "", time_ms: int = SEARCH_MS
) -> MessagePage:
    """Return one page of a search.

    Raises TopicNotFound, BadCursor, QueryRefused, and BrokerUnavailable if no name server answers.
    """
    limit = max(1, min(limit, LIMIT_MAX))
    search = open_search(
        source_of(cluster, query.topic), query, limit=limit, time_ms=time_ms, cursor_text=cursor
    )
    while not search.is_done:
        search.step()
    return page_of(search, has_cursor=bool(cursor))


def page_of(search: Search, *, has_cursor: bool) -> MessagePage:
    """Return the page of a search. Rows are in the query's order, whichever way they were read."""
    far, near = search.far_cut, search.near_cut
    more = not search.merge.is_ended
    rows = views(search.picked, protobuf=search.protobuf)
    onward = search.merge.up is not search.query.newest  # read in the direction of the list
    if not onward:
        rows.reverse()
    figures = search.figures()
    return MessagePage(
        rows=rows,
        cursor=(far.to_text() if more else None) if onward else near.to_text(),
        previous=(near.to_text() if has_cursor else None) if onward else (far.to_text() if more else None),
        end_cursor=(far if onward else near).to_text(),
        scanned=figures.scanned,
        queues=figures.queues,
        silent=dict(search.silent),
        cut=bool(search.stop_reason) and more,
        figures=figures,
        stop_reason=search.stop_reason,
        tags=[(tag, count) for tag, count in search.tags.most_common(TAGS_SHOWN) if tag],
    )


def views(
    hits: Sequence[Hit], *, limit_bytes: int = BODY_IN_LIST_BYTES, protobuf: ProtobufDecoder | None = None
) -> list[MessageView]:
    """Return hits of a search, which have no masked values, as rows of a list."""
    return [
        message_view(
            hit.record,
            hit.broker_name,
            masks=NO_MASKS,
            limit_bytes=limit_bytes,
            protobuf=protobuf,
            batch=hit.batch,
        )
        for hit in hits
    ]


def shown(
    cluster: str,
    hit: Hit,
    *,
    limit_bytes: int = BODY_SHOWN_BYTES,
    body_format: str = "auto",
    masks: Masks | None = None,
) -> MessageView:
    """Return one message with its body as text, decoded with the topic's schema if it has one.

    ``masks`` None: those of the cluster.
    """
    return message_view(
        hit.record,
        hit.broker_name,
        masks=masks_of(cluster) if masks is None else masks,
        limit_bytes=limit_bytes,
        body_format=body_format,
        protobuf=schemas.decoder_of(cluster, hit.record.topic),
        batch=hit.batch,
    )


# --- One message --------------------------------------------------------------------------------------------


def hit_by_id(cluster: str, message_id: str, topic: str | None = None) -> Hit | None:
    """Return a message by its unique key (needs the topic) or its offset id; None if no broker has it.

    Masked values included. Both ids are 32 hexadecimal digits, so the unique key is tried first. An offset id
    contains an address: only a broker of this cluster is read, never an address from the request.
    """
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    addrs = masters(admin)
    if topic:
        hits = _query(admin, addrs, topic, message_id, unique_key=True)
        if hits:
            return Hit(*hits[-1])  # the newest: a replayed copy keeps the unique key
    try:
        host, port, commit_log_offset = decode_offset_message_id(message_id)
    except ValueError:
        return None
    names = {addr: name for name, addr in addrs.items()}
    addr = f"{host}:{port}"
    if addr not in names:
        return None
    try:
        record = admin.view_message(addr, commit_log_offset)
    except MQBrokerError as error:
        if error.code in NOT_FOUND_CODES:
            return None
        raise
    if topic and record.topic != topic:
        return None
    return Hit(names[addr], record)


def message_at(
    cluster: str, topic: str, broker_name: str, queue_id: int, queue_offset: int
) -> MessageView | None:
    """Return the message at an offset of a queue: the target of a permalink topic/queue/offset."""
    found = record_at(cluster, topic, broker_name, queue_id, queue_offset)
    return None if found is None else shown(cluster, found)


def newest_message(cluster: str, topic: str) -> MessageView | None:
    """Return the newest message of a topic as of the last round, for one broker request; None without one."""
    written = [
        row for row in topic_queues(cluster, [topic]) if row.last_write_ms and row.max_offset > row.min_offset
    ]
    if not written:
        return None
    queue = max(written, key=lambda row: row.last_write_ms or 0)
    return message_at(cluster, topic, queue.broker_name, queue.queue_id, queue.max_offset - 1)


def record_at(cluster: str, topic: str, broker_name: str, queue_id: int, queue_offset: int) -> Hit | None:
    """Return the stored record of `message_at`, out of its batch; None if it is gone. Not masked."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    addr = masters(admin).get(broker_name)
    if addr is None:
        return None
    try:
        result = admin.pull(addr, topic, queue_id, queue_offset, 1)
    except MQBrokerError as error:
        if error.code in NOT_FOUND_CODES or error.code == INVALID_PARAMETER:
            return None
        raise
    for record in result.messages:
        inner = _inner(record)
        for index, each in enumerate(inner or [record], start=1):
            if each.queue_offset == queue_offset:
                return Hit(broker_name, each, (index, len(inner)) if inner else (0, 0))
    return None


def _inner(record: MessageRecord) -> list[MessageRecord]:
    """Return the messages of a stored batch; [] for any other record and for an unreadable batch."""
    try:
        return inner_messages(record) if is_batch(record) else []
    except DoesNotUnpack:
        return []


def by_key(
    cluster: str,
    topic: str,
    key: str,
    *,
    begin_ms: int = 0,
    end_ms: int | None = None,
    limit: int = KEY_HITS_MAX,
    limit_bytes: int = BODY_SHOWN_BYTES,
    body_format: str = "auto",
) -> list[MessageView]:
    """Return messages of a topic with this key, newest first. Raises if no broker answered at all."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    hits = _query(
        admin, masters(admin), topic, key, unique_key=False, begin_ms=begin_ms, end_ms=end_ms, limit=limit
    )
    hits.sort(key=lambda hit: (hit[1].store_timestamp_ms, hit[1].queue_offset), reverse=True)
    masks = masks_of(cluster)
    return [
        message_view(record, name, masks=masks, limit_bytes=limit_bytes, body_format=body_format)
        for name, record in hits[:limit]
    ]


def by_unique_key(cluster: str, topic: str, unique_key: str) -> list[MessageView]:
    """Return every message of the topic with this unique key, newest first: resent copies keep it."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    hits = _query(admin, masters(admin), topic, unique_key, unique_key=True)
    hits.sort(key=lambda hit: (hit[1].store_timestamp_ms, hit[1].queue_offset), reverse=True)
    masks = masks_of(cluster)
    return [message_view(record, name, masks=masks, limit_bytes=BODY_IN_LIST_BYTES) for name, record in hits]


def _query(
    admin: BlockingMQAdmin,
    addrs: dict[str, str],
    topic: str,
    key: str,
    *,
    unique_key: bool,
    begin_ms: int = 0,
    end_ms: int | None = None,
    limit: int = KEY_HITS_MAX,
) -> list[tuple[str, MessageRecord]]:
    """Return (broker name, record) of every hit (request 12), oldest first.

    Brokers that do not answer are skipped unless none does.
    """
    bounds: dict[str, int] = {"begin_ms": begin_ms} | ({} if end_ms is None else {"end_ms": end_ms})

    def ask(addr: str) -> Callable[[MQAdmin], Awaitable[list[MessageRecord]]]:
        return lambda client: client.query_message(
            addr, topic, key, min(limit, KEY_HITS_MAX), unique_key=unique_key, **bounds
        )

    answers = admin.gather({name: ask(addr) for name, addr in addrs.items()}, QUERY_DEADLINE_MS)
    errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    hits = [
        (name, record)
        for name, answer in answers.items()
        if not isinstance(answer, Exception)
        for record in answer
    ]
    return sorted(hits, key=lambda hit: (hit[1].store_timestamp_ms, hit[1].queue_offset))
