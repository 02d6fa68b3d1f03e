"""Topics whose offsets are not a count of messages: a difference of offsets says only how many there are at most.

Told by the broker's table of topics (21): attributes of 5.x, and which topics are mapped over brokers. Pages and REST
say so beside every number made of offsets; ages are as good as of any topic (lag.md 1.3).
"""

from collections.abc import Mapping

LMQ_PREFIX = "%LMQ%"
COMPACTION, BATCH, STATIC, LIGHT = "COMPACTION", "BATCH", "STATIC", "LIGHT"
REASONS = {
    COMPACTION: "compaction keeps the newest message of each key: there are at most as many messages as offsets",
    BATCH: "its queues are kept in batches: there are at most as many messages to read as offsets",
    STATIC: "a static topic: its offsets leave gaps where a queue moved, so there are at most as many messages",
    LIGHT: "a light queue over other topics' messages: there are at most as many messages as offsets",
}


def offset_kind(topic: str, attributes: Mapping[str, str], *, is_static: bool) -> str:
    """Return a key of `REASONS`, or "" for a topic with an offset for each message."""
    if topic.startswith(LMQ_PREFIX):
        return LIGHT
    if is_static:
        return STATIC
    if attributes.get("cleanup.policy") == "COMPACTION":
        return COMPACTION
    return BATCH if attributes.get("queue.type") == "BatchCQ" else ""
