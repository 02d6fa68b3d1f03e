"""Rows of the message list for page and socket: the message, its sort key, and the excerpt of the hit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence

from django.template.loader import render_to_string

from console.brokers.body_format import ProtobufDecoder
from console.brokers.message_view import MessageView
from console.cluster.models import Cluster
from console.message.search.body_match import Match
from console.message.search.lanes import Hit
from console.message.services import views

EXCERPT_SOURCE_BYTES = 16 * 1024  # searched in a body for the excerpt
PREVIEW_LENGTH = 160  # characters of a body in its row


@dataclasses.dataclass(frozen=True, slots=True)
class ListRow:
    """One row of the list.

    ``key``: store time, broker, queue, offset as JSON, by which the browser sorts. ``excerpt``: before, hit, after.
    """

    message: MessageView
    key: str
    excerpt: tuple[str, str, str] | None
    preview: str


def list_rows(messages: Iterable[MessageView], match: Match | None = None) -> list[ListRow]:
    """Return rows of messages, whose bodies may be longer than a row shows."""
    return [
        ListRow(
            message,
            json.dumps(
                [message.store_timestamp_ms, message.broker_name, message.queue_id, message.queue_offset],
                ensure_ascii=False,
                separators=(",", ":"),
            ),
            None if match is None else match.excerpt(message.body_text),
            " ".join(message.body_text[: 2 * PREVIEW_LENGTH].split())[:PREVIEW_LENGTH],
        )
        for message in messages
    ]


def hit_rows(
    hits: Sequence[Hit], match: Match | None, protobuf: ProtobufDecoder | None = None
) -> list[ListRow]:
    """Return rows of hits; with a filter, read far enough into the body to show the hit."""
    if match is None:
        return list_rows(views(hits, protobuf=protobuf))
    return list_rows(views(hits, limit_bytes=EXCERPT_SOURCE_BYTES, protobuf=protobuf), match)


@dataclasses.dataclass(frozen=True, slots=True)
class RenderedRow:
    """A row for the socket: its sort key and its HTML."""

    key: str
    html: str


def rendered(rows: Sequence[ListRow], cluster: Cluster) -> list[RenderedRow]:
    """Return key and HTML of each row for the socket; times are UTC, the browser converts them."""
    return [
        RenderedRow(row.key, render_to_string("message/_row.html", {"row": row, "cluster": cluster}))
        for row in rows
    ]
