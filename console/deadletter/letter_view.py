"""A dead letter as pages show it: the message, its origin, whether it was replayed."""

from __future__ import annotations

import dataclasses

from console.brokers.masking import Masks
from console.brokers.message_view import MessageView, message_view
from console.brokers.mqadmin import MessageProperty, MessageRecord
from console.deadletter.dead_letters import cause_of, original_topic

SAMPLE_BODY_BYTES = 4 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetterView:
    """One letter; ``replayed_by`` is the newest plan that sent it, "" when none did."""

    message: MessageView
    original_topic: str
    origin_message_id: str
    replayed_by: str
    cause: str  # "" when its properties do not say


def letter_view(
    record: MessageRecord, broker_name: str, masks: Masks, replayed_by: str = ""
) -> DeadLetterView:
    """Render one letter, without masked values."""
    record = masks.masked(record)
    return DeadLetterView(
        message=message_view(record, broker_name, masks=masks, limit_bytes=SAMPLE_BODY_BYTES),
        original_topic=original_topic(record),
        origin_message_id=record.properties.get(MessageProperty.ORIGIN_MESSAGE_ID, ""),
        replayed_by=replayed_by,
        cause=cause_of(record),
    )
