"""Replays of a message's dead letters, as events of its life line."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from console.deadletter.models import LedgerState, ReplayLedger
from console.operation.message_events import MessageEvent, MessageTrail
from console.text import Text

EVENTS_MAX = 50  # one row per plan that touched this message
TONES = {LedgerState.SENT: "ok", LedgerState.FAILED: "bad", LedgerState.HANDLED: "ok"}  # any other: "warn"


def replays_of(cluster: str, trail: MessageTrail) -> Sequence[MessageEvent]:
    """Return the newest EVENTS_MAX replays of the message's dead letters."""
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
            _words(row),
            row.plan_id,
            TONES.get(LedgerState(row.state), "warn"),
        )
        for row in rows[:EVENTS_MAX]
    ]


def _words(row: ReplayLedger) -> Text:
    """Return what a replay did with the letter."""
    reason = row.reason or Text("no reason")
    if row.state == LedgerState.SENT:
        return Text("replayed to %(target)s", target=row.target_topic)
    if row.state == LedgerState.PENDING:
        return Text("replay is running")
    if row.state == LedgerState.HANDLED:
        return Text("marked as handled, not sent")
    if row.state == LedgerState.SKIPPED:
        return Text("skipped by a replay: %(reason)s", reason=reason)
    if row.state == LedgerState.FAILED:
        return Text("replay failed: %(reason)s", reason=reason)
    return Text("outcome of the replay unknown: %(reason)s", reason=reason)
