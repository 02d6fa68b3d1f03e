"""Queues in REST, as the last round read them."""

from __future__ import annotations

from api.rest.struct import StructSerializer
from console.lag.rows.queue_row import QueueRow, TopicQueueRow


class GroupQueueSerializer(StructSerializer):
    """``committed_offset`` null: never committed."""

    struct = QueueRow
    hidden = ("group",)


class TopicQueueSerializer(StructSerializer):
    struct = TopicQueueRow
    hidden = ("topic",)
