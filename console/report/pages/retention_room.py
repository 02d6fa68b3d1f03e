"""The room of a group before retention deletes messages it has not read, by the brokers' store time.

For every queue two messages matter: the oldest that is kept (s(n)) and the first unread one (s(ĉ)). Retention
moves the former towards the latter; between them is the room. Both store times come from the history of max
offsets, without reading a broker; history is sampled every STEP_MS, which limits the precision. A message older
than the history has a lower bound of its age, never an extrapolation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from console.lag.past import history_reads
from console.lag.selectors import collect_interval_ms
from spark.lag.local_time import DAY_MS
from spark.lag.samples import Samples, SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array

STEP_MS = 10 * 60_000
LOOKBACK_MS = 7 * DAY_MS  # before the window, for ages at its left edge; brokers keep three days by default
SPAN_MS_MAX = 7 * DAY_MS
NOTHING = -1


@dataclass(frozen=True, slots=True)
class _Queue:
    """One queue of the group, a sample per step: parallel arrays, ascending in time."""

    t_ms: Int64Array
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array


@dataclass(frozen=True, slots=True)
class Room:
    """A point every `interval_ms`, all of the queue that has the least room at that moment; None if unobserved.

    `kept_ms`: age of the oldest message kept; `unread_ms`: age of the first unread one (0: nothing waits); `room_ms`:
    the time between them. `kept_lower_bound`: the oldest message is older than the history, so kept and room are at
    least that. Queues from which nothing was removed yet have no edge and are left out; `queues` counts the others.
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
    queues = _queues(cluster, group, topic, from_ms - LOOKBACK_MS, to_ms)
    times = np.arange(from_ms - from_ms % STEP_MS + STEP_MS, to_ms, STEP_MS, dtype=np.int64)
    best = np.full(len(times), np.iinfo(np.int64).max)
    kept, unread = np.full(len(times), NOTHING), np.full(len(times), NOTHING)
    bound = np.zeros(len(times), dtype=np.bool_)
    with_edge = 0
    for queue in queues.values():
        at, own_kept, own_unread, own_bound = _ages(queue, times)
        if len(at) == 0:
            continue
        with_edge += 1
        left = np.maximum(own_kept - own_unread, 0)
        nearer = left < best[at]
        place = at[nearer]
        best[place], kept[place], unread[place] = left[nearer], own_kept[nearer], own_unread[nearer]
        bound[place] = own_bound[nearer]
    return Room(
        interval_ms=STEP_MS,
        queues=with_edge,
        times=times.tolist(),
        kept_ms=_nulls(kept),
        unread_ms=_nulls(unread),
        room_ms=_nulls(np.where(kept == NOTHING, NOTHING, best)),
        kept_lower_bound=bound.tolist(),
    )


def _nulls(values: Int64Array) -> list[int | None]:
    return [None if value == NOTHING else value for value in values.tolist()]


def _ages(queue: _Queue, times: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, BoolArray]:
    """(places in `times`, age of the oldest kept, of the first unread, whether the first is a lower bound) where the
    queue was read within a step, holds messages, and has lost its first ones to retention.
    """
    row = np.searchsorted(queue.t_ms, times, side="right") - 1
    is_known = (row >= 0) & (times - queue.t_ms[np.maximum(row, 0)] < STEP_MS)
    row = np.maximum(row, 0)
    low, high = queue.min_offset[row], queue.max_offset[row]
    at = np.flatnonzero(is_known & (low > 0) & (low < high))
    now_ms, row = queue.t_ms[row[at]], row[at]
    oldest, is_older = _stored(queue, row, queue.min_offset[row])
    next_offset = np.maximum(queue.committed[row], queue.min_offset[row])
    waits = next_offset < queue.max_offset[row]
    first, _ = _stored(queue, row, np.where(waits, next_offset, queue.max_offset[row] - 1))
    kept = now_ms - oldest
    return at, kept, np.minimum(np.where(waits, now_ms - first, 0), kept), is_older


def _stored(queue: _Queue, row: Int64Array, offset: Int64Array) -> tuple[Int64Array, BoolArray]:
    """(estimated store time, whether it was then or earlier) of one offset for each row, from the heads up to it."""
    heads = np.maximum.accumulate(queue.max_offset)
    at = np.searchsorted(heads, offset, side="right") - 1
    is_older = at < 0
    after = np.maximum(at, 0)
    until = np.minimum(after + 1, row)
    share = (offset + 0.5 - heads[after]) / np.maximum(heads[until] - heads[after], 1)
    found = queue.t_ms[after] + np.rint(
        np.clip(share, 0, 1) * (queue.t_ms[until] - queue.t_ms[after])
    ).astype(np.int64)
    return np.where(is_older, queue.t_ms[0], found), is_older


def _queues(cluster: str, group: str, topic: str | None, from_ms: int, to_ms: int) -> dict[SeriesKey, _Queue]:
    """The group's queues in [from_ms, to_ms), day by day, so that weeks cost the memory of a day."""
    interval_ms = collect_interval_ms(cluster)
    parts: dict[SeriesKey, list[_Queue]] = {}
    for start_ms in range(from_ms - from_ms % DAY_MS, to_ms, DAY_MS):
        begin, end = max(start_ms, from_ms), min(start_ms + DAY_MS, to_ms)
        day = history_reads.load_main(cluster, group, begin, end, interval_ms=interval_ms, topic=topic)
        for key, part in _thinned(day):
            parts.setdefault(key, []).append(part)
    names = ("t_ms", "max_offset", "min_offset", "committed")
    return {
        key: _Queue(*(np.concatenate([getattr(part, name) for part in own]) for name in names))
        for key, own in parts.items()
    }


def _thinned(samples: Samples) -> Iterator[tuple[SeriesKey, _Queue]]:
    """The last sample of every step, of each queue."""
    for key, place in samples.slices():
        times = samples.t_ms[place]
        last = np.flatnonzero(np.diff(times // STEP_MS, append=-1))
        if len(last):
            rows = place.start + last
            yield (
                key,
                _Queue(
                    samples.t_ms[rows],
                    samples.max_offset[rows],
                    samples.min_offset[rows],
                    samples.committed[rows],
                ),
            )
