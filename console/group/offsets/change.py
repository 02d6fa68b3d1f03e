"""The arithmetic of an offset change: rows, refusals, drift. Pure; its texts are in ``words.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.state import GroupState
from console.group.offsets.target_request import Known, Standing, TargetRequest
from console.lag.last_seen import QueueSeen
from console.operation.errors import PlanRejected
from console.operation.plan.coverage import LEFT_OUT, Absent
from console.operation.plan.places import QueuePlace
from console.text import Names, Text

RESET_PER_QUEUE, RESET_BY_TIME, UPDATE_PER_QUEUE, UNCHANGED = "222_queue", "222_time", "15", ""
HOW_WORDS = {
    RESET_PER_QUEUE: Text("moved by the broker (222)"),
    RESET_BY_TIME: Text("looked up by clients (222)"),
    UPDATE_PER_QUEUE: Text("written directly (15)"),
    UNCHANGED: Text("stays"),
    LEFT_OUT: Text("not covered"),
}

# Normal progress of an online group between plan and apply, per queue: twice the observed pace of that queue, over
# the time since the plan plus what clients had read and not committed. A queue that was not moving may deliver a
# few batches. More than that, or any move backwards, is a reset.
PROGRESS_FLOOR = 100  # messages: three pulls of 32
PROGRESS_FACTOR = 2.0
# Clients commit every 5 s: the offset read for the plan may be one commit old, the one read now just committed.
COMMIT_SLACK_S = 10.0
SENTENCES_MAX = 5


class DiffRow(QueuePlace, frozen=True, kw_only=True, omit_defaults=False):
    """A queue in ``Plan.diff``.

    ``after`` is ``before`` where the queue stays; None: never committed, or unknown.
    """

    before: int | None
    after: int | None
    delta: int | None
    lag_before: int | None
    lag_after: int | None
    min_offset: int | None
    max_offset: int | None
    store_time_ms: int | None
    moves: bool
    how: str
    how_words: Text
    note: Text


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One row of the plan.

    ``before`` None: never committed. ``after`` None: the queue is left alone, and ``note`` says why.
    """

    queue: MessageQueue
    before: int | None
    after: int | None
    min_offset: int
    max_offset: int
    how: str = UNCHANGED
    note: Text = Text()
    store_time_ms: int | None = None
    is_expired: bool = False  # the requested offset is no longer stored

    @property
    def moves(self) -> bool:
        return self.after is not None and self.after != self.before

    @property
    def delta(self) -> int | None:
        return None if self.before is None or self.after is None else self.after - self.before

    def at(self, store_time_ms: int | None) -> Change:
        """Return the same row with the store time of the message at its target."""
        return dataclasses.replace(self, store_time_ms=store_time_ms)

    @classmethod
    def of_row(cls, row: DiffRow) -> Change:
        """Return the change of a row of ``Plan.diff`` that the plan covers."""
        return cls(
            row.queue,
            row.before,
            row.after if row.moves else None,
            row.min_offset or 0,
            row.max_offset or 0,
            row.how,
            row.note,
            row.store_time_ms,
        )

    def as_row(self) -> DiffRow:
        """Return the row to store in ``Plan.diff``."""
        after = self.before if self.after is None else self.after
        return DiffRow(
            topic=self.queue.topic,
            broker_name=self.queue.broker_name,
            queue_id=self.queue.queue_id,
            before=self.before,
            after=after,
            delta=self.delta,
            lag_before=None if self.before is None else max(0, self.max_offset - self.before),
            lag_after=None if after is None else max(0, self.max_offset - after),
            min_offset=self.min_offset,
            max_offset=self.max_offset,
            store_time_ms=self.store_time_ms,
            moves=self.moves,
            how=self.how,
            how_words=HOW_WORDS[self.how],
            note=self.note,
        )


def covered_changes(diff: Sequence[DiffRow]) -> list[Change]:
    """Return the queues of a diff that the plan covers."""
    return [Change.of_row(row) for row in diff if row.how != LEFT_OUT]


# --- Targets ------------------------------------------------------------------------------------------------


def changes(state: GroupState, requested: TargetRequest, known: Known) -> list[Change]:
    """Return one row per queue in scope.

    Raises PlanRejected when a named queue does not exist.
    """
    scope = {queue: each for queue, each in state.queues.items() if requested.covers(queue)}
    missing = sorted((requested.queues or frozenset()) - set(scope) - set(state.lost))
    if missing:
        queue = missing[0]
        raise PlanRejected(
            Text(
                "There is no queue %(queue)s.",
                queue=f"{queue.topic} · {queue.broker_name} · {queue.queue_id}",
            ),
            field="queues",
        )
    rows = []
    for queue, each in sorted(scope.items()):
        low, high = each.place.min_offset, each.place.max_offset
        wanted, note = requested.target.wanted(requested, Standing(queue, each.committed, low, high, known))
        after = None if wanted is None else min(max(wanted, low), high)
        if wanted is not None and wanted < low:
            note = Text(
                "requested %(wanted)s; the oldest that is still stored is %(low)s", wanted=wanted, low=low
            )
        elif wanted is not None and wanted > high:
            note = Text("requested %(wanted)s; the queue ends at %(high)s", wanted=wanted, high=high)
        is_expired = wanted is not None and wanted < low
        row = Change(queue, each.committed, after, low, high, note=note, is_expired=is_expired)
        rows.append(dataclasses.replace(row, how=_how(state, row)) if row.moves else row)
    return rows


def lost_queues(state: GroupState, requested: TargetRequest) -> dict[MessageQueue, QueueSeen]:
    """Return queues in scope on brokers that do not answer."""
    return {queue: each for queue, each in state.lost.items() if requested.covers(queue)}


def left_out_row(queue: MessageQueue, seen: QueueSeen, absent: Absent) -> DiffRow:
    """Return the row of a queue that the plan does not cover, as last read; its lag now is unknown."""
    return DiffRow(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        before=seen.committed_offset,
        after=seen.committed_offset,
        delta=None,
        lag_before=None,
        lag_after=None,
        min_offset=seen.min_offset,
        max_offset=seen.max_offset,
        store_time_ms=None,
        moves=False,
        how=LEFT_OUT,
        how_words=HOW_WORDS[LEFT_OUT],
        note=absent.words,
    )


def is_by_time(state: GroupState, queue: MessageQueue) -> bool:
    """Return whether members there receive a time and the broker looks up the offset (222, as 4.x does)."""
    # 222 by time refuses a topic with a queue that has no stored offset
    return (
        state.online
        and not state.server_side_reset.get(queue.broker_name)
        and state.queues[queue].committed is not None
    )


def _how(state: GroupState, row: Change) -> str:
    """Return the request that moves this queue: 15 when no member is online, 222 to notify members."""
    if is_by_time(state, row.queue):
        return RESET_BY_TIME
    if state.online and state.server_side_reset.get(row.queue.broker_name):
        return RESET_PER_QUEUE
    return UPDATE_PER_QUEUE


def blocked(state: GroupState, requested: TargetRequest, rows: Sequence[Change]) -> Text:
    """Return why a plan with these rows cannot be applied; empty where it can."""
    if state.broadcasting:
        return Text(
            "The group is broadcasting: each client keeps its own offsets, and brokers cannot move them."
        )
    moving = [row for row in rows if row.moves]
    if not moving:
        level = sum(row.after is not None for row in rows)
        if rows and not level:
            return Text("Nothing would change: all %(rows)s queues stay unchanged.", rows=len(rows))
        if level < len(rows):
            return Text(
                "Nothing would change: %(level)s of %(rows)s queues are at the target, the others stay "
                "unchanged.",
                level=level,
                rows=len(rows),
            )
        return Text("Nothing would change: all %(rows)s queues are at the target already.", rows=len(rows))
    by_time = [row for row in moving if row.how == RESET_BY_TIME]
    if by_time and not requested.target.is_time:
        names = Names(sorted({row.queue.broker_name for row in by_time}))
        return Text(
            "%(names)s can send running clients only a time, not an offset (RocketMQ 4.x, or "
            "useServerSideResetOffset=false). Stop the group's clients, or choose earliest, latest or a "
            "time.",
            names=names,
        )
    if by_time and _covers_part(state, by_time, moving):
        return Text(
            "Only some queues are selected, but these brokers (RocketMQ 4.x) move all queues of a topic "
            "while clients run. Stop the group's clients, or select whole topics."
        )
    return Text()


def _covers_part(state: GroupState, by_time: Sequence[Change], moving: Sequence[Change]) -> bool:
    """Return whether 222 by time would also move a queue that is not part of the plan."""
    pairs = {(row.queue.topic, row.queue.broker_name) for row in by_time}
    source = {row.queue for row in moving}
    return any(
        (queue.topic, queue.broker_name) in pairs
        and queue not in source
        and each.committed is not None
        and each.committed < each.place.max_offset
        for queue, each in state.queues.items()
    )


# --- Drift --------------------------------------------------------------------------------------------------


def drift(
    rows: Sequence[Change],
    was_online: bool,
    state: GroupState,
    elapsed_s: float,
    paces: Mapping[MessageQueue, float],
) -> list[Text]:
    """Return what moved beyond normal progress since the plan's rows were computed.

    ``paces``: messages per second the group was reading of each queue before the plan.
    """
    if state.online != was_online:
        if state.online:
            return [Text("the group came online, so its offsets are changed in another way")]
        return [Text("the group went offline, so its offsets are changed in another way")]
    found = []
    for row in rows:
        queue = row.queue
        now_state = state.queues.get(queue)
        name = f"{queue.topic} · {queue.broker_name} · {queue.queue_id}"
        if now_state is None:
            found.append(Text("%(queue)s is gone", queue=name))
        elif row.moves:
            pace = PROGRESS_FACTOR * paces.get(queue, 0.0)
            allowed = PROGRESS_FLOOR + pace * (elapsed_s + COMMIT_SLACK_S)
            sentence = _drift_of(
                name, row, now_state.committed, now_state.place.min_offset, was_online, allowed
            )
            if sentence:
                found.append(sentence)
    if len(found) > SENTENCES_MAX:
        return [*found[:SENTENCES_MAX], Text("and %(number)s more queues", number=len(found) - SENTENCES_MAX)]
    return found


def _drift_of(
    queue: str, row: Change, now: int | None, low: int, online: bool, allowed: float
) -> Text | None:
    before, after = row.before, row.after
    if after is not None and after < low:
        return Text(
            "%(queue)s no longer holds the target %(offset)s: it starts at %(low)s",
            queue=queue,
            offset=after,
            low=low,
        )
    if now == before:
        return None
    moved = Text(
        "%(queue)s moved from %(before)s to %(after)s",
        queue=queue,
        before=_offset(before),
        after=_offset(now),
    )
    if not online or now is None:
        return moved
    if before is None:
        return None
    if now < before:
        return Text("%(moved)s, backwards", moved=moved)
    if now - before > allowed:
        return Text("%(moved)s, more than the group's own rate on this queue explains", moved=moved)
    return None


def _offset(value: int | None) -> Text | int:
    return Text("never committed") if value is None else value
