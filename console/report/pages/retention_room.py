"""Read the room of a group before retention deletes messages it has not read, from what the rounds judged.

For every queue two ages matter: for how long messages are kept, and how long the first unread one has waited. Between
them is the room. Both are in history as the collector found them; nothing is dated here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from console.lag.past.measures import days_of
from console.lag.selectors import collect_interval_ms
from spark.lag.folds.rounds import rounds_of
from spark.lag.grid import QUEUE_WIDTH, Grid
from spark.lag.local_time import DAY_MS
from spark.lag.snapshot import BoolArray, Int64Array

STEP_MS = 10 * 60_000
SPAN_MS_MAX = 7 * DAY_MS
NOTHING = -1
FOR_EVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Room:
    """A point every `interval_ms`, all of the queue that has the least room at that moment; None if unobserved.

    `kept_ms`: the age at which its messages are deleted; `unread_ms`: age of the first unread one (0: nothing waits);
    `room_ms`: the time between them. `kept_lower_bound`: the queue has lost nothing yet, its broker is configured to
    keep messages so long at least. `queues`: those of which it is known how long messages are kept.
    """

    interval_ms: int
    queues: int
    times: list[int]
    kept_ms: list[int | None]
    unread_ms: list[int | None]
    room_ms: list[int | None]
    kept_lower_bound: list[bool]


def room(cluster: str, group: str, from_ms: int, to_ms: int, topic: str | None = None) -> Room:
    """Return the group's room over [from_ms, to_ms)."""
    times = np.arange(from_ms - from_ms % STEP_MS + STEP_MS, to_ms, STEP_MS, dtype=np.int64)
    kept, unread, left = (np.full(len(times), NOTHING, dtype=np.int64) for _ in range(3))
    bound = np.zeros(len(times), dtype=np.bool_)
    queues: set[tuple[str | int, ...]] = set()
    interval_ms = collect_interval_ms(cluster)
    for _, end_ms, grid in days_of(cluster, group, topic, from_ms, to_ms, interval_ms):
        rounds, at = _last_rounds(grid, times, end_ms)
        kept_ms, age_ms, is_known = _ages(grid, rounds)
        rooms = np.where(is_known, np.maximum(kept_ms - age_ms, 0), FOR_EVER)
        points = np.flatnonzero(is_known.any(axis=0))
        nearest, at = rooms.argmin(axis=0)[points], at[points]
        left[at], kept[at] = rooms[nearest, points], kept_ms[nearest, points]
        unread[at] = age_ms[nearest, points]
        bound[at] = grid.min_offset[nearest, rounds[points]] == 0
        queues |= {grid.keys[row][:QUEUE_WIDTH] for row in np.flatnonzero(is_known.any(axis=1)).tolist()}
    return Room(
        interval_ms=STEP_MS,
        queues=len(queues),
        times=times.tolist(),
        kept_ms=_nulls(kept),
        unread_ms=_nulls(unread),
        room_ms=_nulls(left),
        kept_lower_bound=bound.tolist(),
    )


def _last_rounds(grid: Grid, times: Int64Array, end_ms: int) -> tuple[Int64Array, Int64Array]:
    """Return the last round of each step up to `end_ms`, and which of `times` it is; steps without one are left out."""
    last = np.searchsorted(grid.t_ms, times, side="right") - 1
    is_seen = (last >= 0) & (times <= end_ms) & (times - grid.t_ms[np.maximum(last, 0)] < STEP_MS)
    at = np.flatnonzero(is_seen)
    return last[at], at


def _ages(grid: Grid, rounds: Int64Array) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Return the age of deletion, that of the first unread message, and where both are known, queues x rounds."""
    found = rounds_of(grid)
    oldest_ms = grid.oldest_ms[:, rounds]
    return (
        grid.t_ms[rounds] - oldest_ms,
        found.age_ms[:, rounds],
        found.is_aged[:, rounds] & (oldest_ms >= 0),
    )


def _nulls(values: Int64Array) -> list[int | None]:
    return [None if value == NOTHING else value for value in values.tolist()]
