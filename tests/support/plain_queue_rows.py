"""The plain twin of `console.lag.rows.queue_rows`: a queue at a time, one rule after the other, as lag.md has them."""

from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np

from console.lag.round.broker_reads import BrokerAnswers, QueueOffsets
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import QueueKey, RoundSeries, TopicQueueKey
from console.lag.round.view import RoundView
from console.lag.rows.queue_row import QueueRow, TopicQueueRow
from console.lag.rows.queue_rows import (
    NEVER_READ,
    ROUNDS_TO_TOMBSTONE,
    unknown_row,
)
from console.lag.rows.reasons import reason_text
from spark.lag.forecast import DRAINED, UNKNOWN_DRAIN, Drain
from spark.lag.round.status import (
    SPAN_MESSAGES,
    Evidence,
    Judgement,
    LagStatus,
    Reason,
    is_beyond_handling,
    judge,
)
from spark.lag.snapshot import CommitKey, HeadKey
from tests.support import plain_window
from tests.support.plain_forecast import TimeToLoss, time_to_loss
from tests.support.plain_window import QueueState

RowDict = dict[str, Any]
# For how long brokers keep messages; of the third one it is not known.
KEPT_MS = {"broker-a": 1_800_000, "broker-b": 400_000}
NO_FIGURES: RowDict = {
    **dict.fromkeys(("lag", "in_flight", "available", "time_lag_ms", "queueing_ms", "speed", "drain_ms")),
    **dict.fromkeys(("drain_low_ms", "drain_high_ms", "drain_window_ms", "time_to_loss_ms")),
    **dict.fromkeys(("lag_lower_bound", "moved", "time_lag_lower_bound", "drain_never"), False),
    **dict.fromkeys(("time_to_loss_never", "time_to_loss_lower_bound"), False),
}


@lru_cache(maxsize=2)
def heads_of(series: RoundSeries) -> dict[TopicQueueKey, HeadKey]:
    """Return the series of every queue that was read."""
    topics = series.topics
    return {key: head for key, head in zip(topics.keys, topics.heads, strict=True) if head is not None}


def commit_key(view: RoundView, key: QueueKey) -> CommitKey | None:
    """Return the series of a queue of a group, None when this round did not read the queue."""
    head = heads_of(view.series).get(TopicQueueKey(key.topic, key.broker_name, key.queue_id))
    return None if head is None else CommitKey(key.group, *head)


def previous_rows(view: RoundView) -> dict[QueueKey, RowDict]:
    """Return the rows of the round before."""
    return _rows_of(view.previous_queues)


@lru_cache(maxsize=2)
def _rows_of(columns: KeyedColumns[QueueKey]) -> dict[QueueKey, RowDict]:
    return {key: plain(row) for key, row in columns.rows(QueueRow).items()}


def plain(row: QueueRow | TopicQueueRow) -> RowDict:
    """Return a row's figures by name, without its key."""
    return {one.name: getattr(row, one.name) for one in fields(row) if one.name not in QueueKey._fields}


def queue_rows(view: RoundView) -> dict[QueueKey, RowDict]:
    """Return the row of every queue of every group: read in this round, or known from before and now unknown."""
    rows: dict[QueueKey, RowDict] = {}
    for answer in view.answers:
        if answer.answered:
            rows.update(_read_rows(view, answer))
    for key, previous in previous_rows(view).items():
        if key not in rows:
            row = _unknown_row(view, key, previous)
            if row["missed_rounds"] < ROUNDS_TO_TOMBSTONE:
                rows[key] = row
    return rows


def _read_rows(view: RoundView, answer: BrokerAnswers) -> Iterator[tuple[QueueKey, RowDict]]:
    broker_name = answer.address.broker_name
    for (topic, group), committed in answer.offsets.items():
        if topic in answer.unread:
            for queue_id in committed:
                key = QueueKey(group, topic, broker_name, queue_id)
                yield key, _unknown_row(view, key, previous_rows(view).get(key))
        for queue in answer.stats.get(topic, ()):
            key = QueueKey(group, topic, broker_name, queue.queue_id)
            yield key, _row(view, key, queue, committed.get(queue.queue_id), answer.read_max_ms)


def _unknown_row(view: RoundView, key: QueueKey, previous: RowDict | None) -> RowDict:
    before = NEVER_READ if previous is None else QueueRow(**key._asdict(), **previous)
    return plain(unknown_row(view, key, before))


def _row(
    view: RoundView, key: QueueKey, queue: QueueOffsets, committed: int | None, read_at_ms: int
) -> RowDict:
    previous = previous_rows(view).get(key)
    series = commit_key(view, key)
    state = None if committed is None or series is None else plain_window.state(view.window, series)
    judgement = _never_committed(queue, view.now_ms) if state is None else _judge(view, state, previous)
    figures = _untouched(queue, judgement) if state is None else _figures(view, state, judgement)
    is_kept = previous is not None and previous["status"] == judgement.status.value
    since_ms = previous["since_ms"] if is_kept else judgement.since_ms
    return {
        "min_offset": queue.min_offset,
        "max_offset": queue.max_offset,
        "committed_offset": committed,
        "pulled_offset": None if state is None else state.pulled,
        **figures,
        "lost": _lost(queue, committed, previous),
        "status": judgement.status.value,
        "since_ms": since_ms,
        "owner": view.owners.get(key, ""),
        "out_rate": None
        if committed is None or series is None
        else plain_window.consume_rate(view.window, series),
        "last_commit_ms": _last_commit_ms(view, committed, previous),
        "read_at_ms": read_at_ms,
        "reason": _reason(queue, judgement, view.now_ms - since_ms),
        "missed_rounds": 0,
        "offset_is_not_count": key.topic in view.offset_kinds,
        "lag_lower_bound": False,
        "moved": _moved(view, previous, state),
        "paused": False,
        **_reset(view, previous, state),
    }


def _moved(view: RoundView, previous: RowDict | None, state: QueueState | None) -> bool:
    """Whether the offset was set: back, beyond max, or further than the group can have handled."""
    if state is None or previous is None or previous["committed_offset"] is None:
        return False
    rise = state.committed - previous["committed_offset"]
    if rise <= 0 or state.committed > state.max_offset:
        return bool(rise)
    past = view.window.history(state.key)
    return bool(rise > SPAN_MESSAGES and (past.moved[-1] or is_beyond_handling(past)))


def _reset(view: RoundView, previous: RowDict | None, state: QueueState | None) -> RowDict:
    if previous is None or state is None:
        return {
            "reset_pending": False,
            "reset_at_ms": previous["reset_at_ms"] if previous else None,
        }
    if _moved(view, previous, state):
        return {"reset_pending": True, "reset_at_ms": view.now_ms}
    if previous["committed_offset"] in (state.committed, None):
        return {name: previous[name] for name in ("reset_pending", "reset_at_ms")}
    return {"reset_pending": False, "reset_at_ms": previous["reset_at_ms"]}


def _untouched(queue: QueueOffsets, judgement: Judgement) -> RowDict:
    """Figures of a queue the group never committed on: nothing in an empty one, else unknown."""
    is_empty = queue.max_offset == queue.min_offset
    is_fine = judgement.status is LagStatus.OK
    return {**NO_FIGURES, "lag": 0 if is_empty else None, "time_lag_ms": 0 if is_fine else None}


def _figures(view: RoundView, state: QueueState, judgement: Judgement) -> RowDict:
    is_valid = state.committed <= state.max_offset
    speed = _speed(view, state) if is_valid else None
    loss = _time_to_loss(view, state, speed) if is_valid else TimeToLoss(None, False)
    return {
        "lag": state.lag if is_valid else None,
        "in_flight": state.in_flight if is_valid else None,
        "available": state.available if is_valid else None,
        "time_lag_ms": state.time_lag_ms,
        "time_lag_lower_bound": state.time_lag_lower_bound,
        "queueing_ms": plain_window.queueing_ms(view.window, state) if is_valid else None,
        "speed": speed,
        **drain_row(_end(view, state, judgement)),
        "time_to_loss_ms": loss.ms,
        "time_to_loss_never": loss.never,
        "time_to_loss_lower_bound": loss.lower_bound,
    }


def _end(view: RoundView, state: QueueState, judgement: Judgement) -> Drain:
    """Return when the backlog ends: not never of a queue that gained in the last minute."""
    arrived = plain_window.produce_rate(view.window, state.key.head)
    left = plain_window.consume_rate(view.window, state.key)
    is_gaining = arrived is not None and left is not None and left > arrived
    is_open = is_gaining and judgement.drain.never and judgement.status is not LagStatus.OFFLINE
    return UNKNOWN_DRAIN if is_open else judgement.drain


def drain_row(found: Drain) -> RowDict:
    names = ("drain_ms", "drain_never", "drain_low_ms", "drain_high_ms", "drain_window_ms")
    return dict(
        zip(names, (found.ms, found.never, found.low_ms, found.high_ms, found.window_ms), strict=True)
    )


def trend(previous: RowDict | None, value: float | None, now_ms: int) -> RowDict:
    """Return the points of the last hour, one a minute, the last for the current minute; gaps are null."""
    minute = now_ms // 60_000
    points = list(previous["trend"]) if previous is not None else []
    last = previous["trend_minute"] if previous is not None else minute
    missing = min(max(minute - last, 0), 60)
    if points and missing == 0:
        points[-1] = value
    else:
        points += [None] * (missing - 1) + [value]
    return {"trend": points[-60:], "trend_minute": minute}


def drain_of(row: RowDict) -> Drain:
    """Return a row's drain as a value."""
    names = ("drain_ms", "drain_never", "drain_low_ms", "drain_high_ms", "drain_window_ms")
    return Drain(*(row[name] for name in names))


def _speed(view: RoundView, state: QueueState) -> float | None:
    """Return the catch-up speed; a queue in which nothing waits keeps pace by definition."""
    return 1.0 if state.lag == 0 else plain_window.speed(view.window, state.key)


def _time_to_loss(view: RoundView, state: QueueState, speed: float | None) -> TimeToLoss:
    """Return when retention reaches the first unread message: never where nothing waits or the group keeps pace.

    A queue whose first message is still there has seen no retention yet: then what its broker keeps counts.
    """
    if state.lag == 0 or (speed is not None and speed >= 1):
        return TimeToLoss(None, True)
    if state.committed < state.min_offset:
        return TimeToLoss(0, False)
    if state.age is None or state.age.estimate_ms is None:
        return TimeToLoss(None, False)
    if state.min_offset == 0:
        kept_ms = KEPT_MS.get(state.key.broker_name)
        if kept_ms is None:
            return TimeToLoss(None, False)
        return time_to_loss(kept_ms - state.age.estimate_ms, speed, kept_ms=kept_ms, lower_bound=True)
    oldest = plain_window.age(view.window, state.key.head, state.min_offset)
    oldest_ms = oldest.ms if oldest.estimate_ms is None else oldest.estimate_ms
    is_bound = oldest.estimate_ms is None
    return time_to_loss(oldest_ms - state.age.estimate_ms, speed, kept_ms=oldest_ms, lower_bound=is_bound)


def _lost(queue: QueueOffsets, committed: int | None, previous: RowDict | None) -> int | None:
    """Return how many messages retention took unread since this console watches: each is counted once."""
    if committed is None:
        return None
    if previous is None or previous["committed_offset"] is None or previous["min_offset"] is None:
        return max(0, queue.min_offset - committed)
    if queue.min_offset < previous["min_offset"]:  # the topic was made again
        return 0
    unread_from = max(previous["committed_offset"], previous["min_offset"], committed)
    gone: int = (previous["lost"] or 0) + max(0, queue.min_offset - unread_from)
    return gone


def _never_committed(queue: QueueOffsets, now_ms: int) -> Judgement:
    """Never committed is not "all of it waits" and not zero; an empty queue is well either way."""
    if queue.max_offset == queue.min_offset:
        return Judgement(LagStatus.OK, now_ms)
    return Judgement(LagStatus.NEVER_COMMITTED, now_ms)


def _reason(queue: QueueOffsets, judgement: Judgement, lasted_ms: int) -> str:
    if judgement.status is LagStatus.NEVER_COMMITTED:
        return f"no committed offset yet, the queue holds {queue.max_offset - queue.min_offset:,} messages"
    reason = judgement.reason
    if reason is not None and reason.evidence is Evidence.NO_PROGRESS:
        longest_ms = max(lasted_ms, reason.figures["time_ms"])
        reason = Reason(reason.evidence, {"time_ms": longest_ms, "number": reason.figures["number"]})
    return reason_text(reason)


def _judge(view: RoundView, state: QueueState, previous: RowDict | None) -> Judgement:
    before = None if previous is None else LagStatus(previous["status"])
    past = view.window.history(state.key)
    column = np.array([view.window.commits.index[state.key]])
    if state.committed == state.max_offset and not view.window.has_moved(column)[0]:
        return Judgement(LagStatus.OK, view.now_ms, drain=DRAINED)
    members = view.members.get(state.key.group)
    return judge(
        past,
        time_lag_ms=state.time_lag_ms if state.age is None else state.age.estimate_ms,
        clients=None if members is None else members.clients,
        previous=before,
    )


def _last_commit_ms(view: RoundView, committed: int | None, previous: RowDict | None) -> int | None:
    """Return when the committed offset was last seen to move: now, or what the row said before."""
    if previous is None or previous["committed_offset"] is None or committed is None:
        return None
    return view.now_ms if previous["committed_offset"] != committed else previous["last_commit_ms"]
