"""The plain twin of `spark.lag.round.round_arrays`: the newest round of a window, a queue at a time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from spark.lag.round.window import RATE_MS, SPEED_MS, LagWindow
from spark.lag.snapshot import UNKNOWN_OFFSET, CommitKey, HeadKey, Int64Array


@dataclass(frozen=True, slots=True)
class Age:
    """`estimate_ms` null: no reading is as old as the message."""

    ms: int
    lower_bound: bool
    estimate_ms: int | None


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue of a group in the newest round."""

    key: CommitKey
    min_offset: int
    max_offset: int
    committed: int
    pulled: int | None
    age: Age | None  # of the first unread message

    @property
    def first_unread(self) -> int:
        return max(self.committed, self.min_offset)

    @property
    def lag(self) -> int:
        return max(0, self.max_offset - self.first_unread)

    @property
    def time_lag_ms(self) -> int | None:
        if self.committed > self.max_offset:
            return None
        return 0 if self.age is None else self.age.ms

    @property
    def time_lag_lower_bound(self) -> bool:
        return self.age is not None and self.age.lower_bound

    @property
    def in_flight(self) -> int | None:
        return None if self.pulled is None else min(self.lag, max(0, self.pulled - self.first_unread))

    @property
    def available(self) -> int | None:
        if self.pulled is None:
            return None
        return max(0, self.max_offset - max(self.pulled, self.first_unread))


def state(window: LagWindow, key: CommitKey) -> QueueState | None:
    """Return a queue of a group as the newest round saw it; None when that round did not read it."""
    now = window.order[-1] if len(window.order) else None
    if now is None or key not in window.commits.index or key.head not in window.heads.index:
        return None
    column, head = window.commits.index[key], window.heads.index[key.head]
    committed, pulled = int(window.commits.first[now, column]), int(window.commits.second[now, column])
    high, low = int(window.heads.first[now, head]), int(window.heads.second[now, head])
    if UNKNOWN_OFFSET in (committed, high):
        return None
    found = age(window, key.head, max(committed, low)) if max(committed, low) < high else None
    return QueueState(key, low, high, committed, None if pulled == UNKNOWN_OFFSET else pulled, found)


def age(window: LagWindow, head: HeadKey, offset: int) -> Age:
    """Return the age of a message below the max offset of the newest round."""
    after, until = _readings(window, head, offset)
    until_ms = until[0]
    if after is None:
        return Age(max(0, window.ts_ms - until_ms), True, None)
    share = (offset + 0.5 - after[1]) / max(1, until[1] - after[1])
    estimate_ms = max(0, window.ts_ms - after[0] - round(share * (until_ms - after[0])))
    if until_ms - after[0] <= 1.5 * window.interval_ms:
        return Age(estimate_ms, False, estimate_ms)
    return Age(max(0, window.ts_ms - until_ms), True, estimate_ms)


def _readings(
    window: LagWindow, head: HeadKey, offset: int
) -> tuple[tuple[int, int] | None, tuple[int, int]]:
    """The nearest readings (time, max offset) around a message, of all that are known."""
    column = window.heads.index[head]
    known = [
        (int(window.times[row]), int(window.heads.first[row, column]))
        for row in window.order.tolist()
        if window.heads.first[row, column] != UNKNOWN_OFFSET
    ]
    is_old = offset < known[0][1]
    if is_old:
        older = list(_log(window.coarse, column))
        if column < len(window.late.slots) and window.late.slots[column] >= 0:
            older += _log(window.late.log, int(window.late.slots[column]))
        known = sorted([*(one for one in older if one[0] < known[0][0]), *known])
    reached = np.maximum.accumulate([one[1] for one in known]).tolist()
    at = bisect_right(reached, offset)
    after = (known[at - 1][0], reached[at - 1]) if at else None
    until = known[at][0], reached[at]
    if is_old:
        for one in window.known_times.get(head, ()):
            if one.offset == offset:
                return (one.stored_ms, offset), (one.stored_ms, offset)
            if one.offset < offset and (after is None or one.stored_ms >= after[0]):
                after = one.stored_ms, one.offset
            if one.offset > offset and one.stored_ms < until[0]:
                until = one.stored_ms, one.offset
    return after, until


def _log(log: object, column: int) -> list[tuple[int, int]]:
    times, values = log.times, log.values[:, column]  # type: ignore[attr-defined]
    return [(int(t), int(v)) for t, v in zip(times, values, strict=True) if v >= 0]


def produce_rate(window: LagWindow, head: HeadKey) -> float | None:
    """Return messages per second that arrived since the last round that is a minute old."""
    column = window.heads.index.get(head)
    if column is None:
        return None
    rows = _recent(window)
    read = [row for row in rows if window.heads.first[row, column] != UNKNOWN_OFFSET]
    highs = [int(window.heads.first[row, column]) for row in read]
    return _rate(window, read, [max(0, b - a) for a, b in zip(highs, highs[1:], strict=False)])


def consume_rate(window: LagWindow, key: CommitKey) -> float | None:
    """Return messages per second consumed in that time: never what an offset was set over, or what is gone."""
    if key not in window.commits.index:
        return None
    past = window.history(key)
    rows = [row for row in _recent(window) if window.times[row] in past.t_ms]
    at = np.searchsorted(past.t_ms, window.times[rows])
    gains = []
    for before, now in zip(at, at[1:], strict=False):
        low, high = int(past.min_offset[now]), int(past.max_offset[now])
        was = min(int(past.committed[before]), int(past.max_offset[before]))
        gained = min(max(int(past.committed[now]), low), high) - max(was, int(past.min_offset[before]), low)
        gains.append(0 if past.moved[now] else max(0, gained))
    return _rate(window, rows, gains)


def _recent(window: LagWindow) -> list[int]:
    old = [at for at, row in enumerate(window.order) if window.times[row] <= window.ts_ms - RATE_MS]
    return [int(row) for row in window.order[old[-1] if old else 0 :]]


def _rate(window: LagWindow, rows: list[int], gains: list[int]) -> float | None:
    if len(rows) < 2:
        return None
    return sum(gains) * 1000.0 / int(window.times[rows[-1]] - window.times[rows[0]])


def speed(window: LagWindow, key: CommitKey) -> float | None:
    """Return the catch-up speed over two minutes, or as much of them as was read."""
    past = window.history(key)
    past = past.part(int(np.searchsorted(past.t_ms, window.ts_ms - SPEED_MS)))
    if len(past.t_ms) < 2 or past.moved[1:].any():
        return None
    begun, ended = (max(int(past.committed[at]), int(past.min_offset[at])) for at in (0, -1))
    highs: Int64Array = past.max_offset
    if begun == ended and ended < highs[-1]:
        return 0.0 if begun < highs[0] else None  # a burst came; it cannot be said yet
    reached_ms = []
    for at, offset in ((0, begun), (-1, ended)):
        if offset >= highs[at]:
            reached_ms.append(int(past.t_ms[at]))
            continue
        found = age(window, key.head, offset)
        if found.estimate_ms is None:
            return None
        reached_ms.append(window.ts_ms - found.estimate_ms)
    return round((reached_ms[1] - reached_ms[0]) / int(past.t_ms[-1] - past.t_ms[0]), 2)


def queueing_ms(window: LagWindow, seen: QueueState) -> int | None:
    """Return how long the first message that no client has pulled has waited."""
    if seen.pulled is None:
        return None
    first = max(seen.pulled, seen.first_unread)
    return 0 if first >= seen.max_offset else age(window, seen.key.head, first).estimate_ms
