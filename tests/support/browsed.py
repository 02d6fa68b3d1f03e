"""Search and look-up of messages in few words, over `console.message.services`."""

from __future__ import annotations

from console.brokers.message_view import BODY_SHOWN_BYTES, MessageView
from console.message import services
from console.message.search.query import Query


def browse(
    cluster: str,
    topic: str,
    *,
    newest: bool = True,
    queue: tuple[str, int] | None = None,
    tag: str | None = None,
    from_ms: int | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> services.MessagePage:
    """Find messages of a topic, optionally of one queue and one tag."""
    query = Query(
        topic,
        newest=newest,
        queues=frozenset() if queue is None else frozenset({queue}),
        tags=(tag,) if tag else (),
        from_ms=from_ms,
    )
    return services.find(cluster, query, limit=limit, cursor=cursor or "")


def message_by_id(cluster: str, message_id: str, topic: str | None = None) -> MessageView | None:
    """Return a message by its unique key (needs the topic) or its offset id; None if no broker has it."""
    found = services.hit_by_id(cluster, message_id, topic)
    return None if found is None else services.views([found], limit_bytes=BODY_SHOWN_BYTES)[0]
