"""Replays as events of the message they were made of, for its life line."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from console.deadletter.models import LedgerState, ReplayLedger
from console.operation.message_events import MessageEvent, MessageTrail

EVENTS_MAX = 50  # one row per plan that touched this message
WORDS = {
    LedgerState.SENT: ("replayed to {target}", "ok"),
    LedgerState.PENDING: ("replay is running", "warn"),
    LedgerState.SKIPPED: ("replay passed it over: {reason}", "warn"),
    LedgerState.FAILED: ("replay failed: {reason}", "bad"),
    LedgerState.UNKNOWN: ("replay without an outcome: {reason}", "warn"),
}


def replays_of(cluster: str, trail: MessageTrail) -> Sequence[MessageEvent]:
    """Every replay of the message's dead letters, newest EVENTS_MAX."""
    places = Q()
    for topic, broker_name, queue_id, queue_offset in trail.dead_letters[:EVENTS_MAX]:
        places |= Q(topic=topic, broker_name=broker_name, queue_id=queue_id, queue_offset=queue_offset)
    if not trail.dead_letters:
        return []
    rows = ReplayLedger.objects.filter(places, cluster=cluster).order_by("-updated_at_ms")
    return [
        MessageEvent(
            row.updated_at_ms,
            row.group,
            WORDS[LedgerState(row.state)][0].format(
                target=row.target_topic, reason=row.reason or "no reason"
            ),
            row.plan_id,
            WORDS[LedgerState(row.state)][1],
        )
        for row in rows[:EVENTS_MAX]
    ]
