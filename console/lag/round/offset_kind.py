"""Recognise topics whose offsets do not count messages: a difference of offsets is only an upper bound.

The broker's table of topics (21) shows which: attributes of 5.x, and topics mapped over brokers (static topics). Pages
and REST mark every number made of offsets (`rows.reasons`); ages are as good as of any topic (lag.md 1.3).
"""

from collections.abc import Mapping

LMQ_PREFIX = "%LMQ%"
COMPACTION, BATCH, STATIC, LIGHT = "COMPACTION", "BATCH", "STATIC", "LIGHT"


def offset_kind(topic: str, attributes: Mapping[str, str], *, is_static: bool) -> str:
    """Return one of the kinds, or "" for a topic with an offset for each message."""
    if topic.startswith(LMQ_PREFIX):
        return LIGHT
    if is_static:
        return STATIC
    if attributes.get("cleanup.policy") == "COMPACTION":
        return COMPACTION
    return BATCH if attributes.get("queue.type") == "BatchCQ" else ""
