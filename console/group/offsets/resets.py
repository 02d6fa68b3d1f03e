"""Resets of a group's offsets since a plan was made: moves by this console, and jumps that rounds recorded.

A plan computed before such a reset means other messages than its rows name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.change import Change
from console.group.offsets.stored import OffsetBefore
from console.lag import selectors as lag_selectors
from console.lag.collect import reset
from console.lag.models import LagEvent
from console.operation import selectors as operation_selectors
from console.operation.models import Plan
from console.text import Moment, Text

SEEN = (LagEvent.Kind.REWIND, LagEvent.Kind.SKIPPED)


def resets_since(plan: Plan, rows: Iterable[Change], now_ms: int) -> list[Text]:
    """Return a sentence for each reset of a queue of these rows after the plan was computed."""
    since_ms = OffsetBefore.of(plan).read_at_ms
    before = {row.queue: row.before for row in rows}
    own = _own_moves(plan, before, since_ms, now_ms)
    return own or _seen_jumps(plan, before, since_ms, now_ms)


def _own_moves(
    plan: Plan, before: Mapping[MessageQueue, int | None], since_ms: int, now_ms: int
) -> list[Text]:
    """Return what jobs of this console moved since."""
    by_moment: dict[int, int] = {}
    for key, move in reset.recent_moves(plan.cluster, now_ms=now_ms).items():
        queue = MessageQueue(key.topic, key.broker_name, key.queue_id)
        if key.group == plan.subject and move.at_ms > since_ms and queue in before:
            by_moment[move.at_ms] = by_moment.get(move.at_ms, 0) + 1
    if not by_moment:
        return []
    last_ms, number = max(by_moment), sum(by_moment.values())
    job = operation_selectors.job_at(plan.cluster, plan.subject, last_ms)
    if job is None:
        return [
            Text(
                "%(number)s queue(s) of %(group)s {was|were} moved at %(time)s, after this plan was made",
                number=number,
                group=plan.subject,
                time=Moment(last_ms),
            )
        ]
    return [
        Text(
            "%(number)s queue(s) of %(group)s {was|were} moved at %(time)s by %(by)s, after this plan was "
            "made",
            number=number,
            group=plan.subject,
            time=Moment(last_ms),
            by=f"{job.created_by} ({job.id})",
        )
    ]


def _seen_jumps(
    plan: Plan, before: Mapping[MessageQueue, int | None], since_ms: int, now_ms: int
) -> list[Text]:
    """Return jumps that rounds recorded since and that no job of this console explains."""
    sentences = []
    for event in lag_selectors.markers(plan.cluster, plan.subject, since_ms + 1, now_ms + 1):
        place = MessageQueue(event.topic, event.broker_name, event.queue_id)
        if event.kind not in SEEN or place not in before or _is_in_plan(event, before[place]):
            continue
        jump: dict[str, str | int | Moment] = {
            "name": event.topic,
            "number": event.messages or 0,
            "time": Moment(event.at_ms),
        }
        sentences.append(
            Text("%(name)s went back by %(number)s messages at %(time)s, after this plan was made", **jump)
            if event.kind == LagEvent.Kind.REWIND
            else Text(
                "%(name)s jumped ahead by %(number)s messages at %(time)s, after this plan was made", **jump
            )
        )
    return sentences


def _is_in_plan(event: LagEvent, before: int | None) -> bool:
    """Return whether the plan already includes the jump: its offset is nearer to where the jump led."""
    if before is None or event.from_offset is None or event.to_offset is None:
        return False
    return abs(before - event.to_offset) < abs(before - event.from_offset)
