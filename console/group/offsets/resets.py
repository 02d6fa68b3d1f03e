"""Resets of a group's offsets since a plan was made, by any person: this console's own moves, and jumps that rounds
saw. A plan computed before such a reset means other messages than those its rows name."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from console.lag import selectors as lag_selectors
from console.lag.collect import reset
from console.lag.models import LagEvent
from console.operation import selectors as operation_selectors
from console.operation.models import Plan

SEEN = {LagEvent.Kind.REWIND: "went back", LagEvent.Kind.SKIPPED: "jumped ahead"}
Place = tuple[str, str, int]  # topic, broker name, queue id


def resets_since(plan: Plan, rows: Iterable[Mapping[str, Any]], now_ms: int) -> list[str]:
    """A sentence for each reset of a queue of these rows after the plan was computed."""
    since_ms: int = plan.before["read_at_ms"]
    before = {(row["topic"], row["broker_name"], row["queue_id"]): row["before"] for row in rows}
    own = _own_moves(plan, before, since_ms, now_ms)
    return own or _seen_jumps(plan, before, since_ms, now_ms)


def _own_moves(plan: Plan, before: Mapping[Place, int | None], since_ms: int, now_ms: int) -> list[str]:
    """What jobs of this console moved since."""
    by_moment: dict[int, int] = {}
    for key, move in reset.recent_moves(plan.cluster, now_ms=now_ms).items():
        if key.group == plan.subject and move.at_ms > since_ms and tuple(key)[1:] in before:
            by_moment[move.at_ms] = by_moment.get(move.at_ms, 0) + 1
    if not by_moment:
        return []
    last_ms, number = max(by_moment), sum(by_moment.values())
    queues = (
        f"{number} queue{'' if number == 1 else 's'} of {plan.subject} {'was' if number == 1 else 'were'}"
    )
    job = operation_selectors.job_at(plan.cluster, plan.subject, last_ms)
    by = "" if job is None else f" by {job.created_by} ({job.id})"
    return [f"{queues} moved at {_clock(last_ms)}{by}, after this plan was made"]


def _seen_jumps(plan: Plan, before: Mapping[Place, int | None], since_ms: int, now_ms: int) -> list[str]:
    """What rounds saw since, and no job of this console explains."""
    sentences = []
    for event in lag_selectors.markers(plan.cluster, plan.subject, since_ms + 1, now_ms + 1):
        place = event.topic, event.broker_name, event.queue_id
        if event.kind not in SEEN or place not in before or _is_in_plan(event, before[place]):
            continue
        went = SEEN[LagEvent.Kind(event.kind)]
        sentences.append(
            f"{event.topic} {went} by {event.messages:,} messages at {_clock(event.at_ms)}, after this plan was made"
        )
    return sentences


def _is_in_plan(event: LagEvent, before: int | None) -> bool:
    """Whether the plan was computed between the jump and the round that saw it: it stands where the jump led."""
    if before is None or event.from_offset is None or event.to_offset is None:
        return False
    return abs(before - event.to_offset) < abs(before - event.from_offset)


def _clock(at_ms: int) -> str:
    return f"{datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC):%H:%M:%S} UTC"
