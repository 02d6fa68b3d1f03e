"""The newest round of a window for all its series at once: what `LagWindow` tells of one queue, as arrays.

A cluster of 10,000 groups has tens of thousands of queues in a round of five seconds; asked one by one they take
seconds. Arrays run parallel to the columns that are asked for; `UNKNOWN_OFFSET` and NaN stand for unknown.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.forecast import DRAIN_MS_MAX
from spark.lag.snapshot import UNKNOWN_OFFSET, BoolArray, Int64Array
from spark.lag.status import BACKLOG_GRACE_MS, QUIET_MS, SKIP_MESSAGES, TIME_LAG_ALLOWED_MS
from spark.lag.window import RATE_MS, SPEED_MS, LagWindow

FloatArray = npt.NDArray[np.float64]


class Ages(NamedTuple):
    """Of messages: age in ms; whether it is only the least it can be; whether its own store time would tell more."""

    ms: Int64Array
    lower_bound: BoolArray
    is_wanted: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Queues of groups with a committed offset: columns of `commits` and `heads`, and their offsets now."""

    commits: Int64Array
    heads: Int64Array
    min_offset: Int64Array
    max_offset: Int64Array
    committed: Int64Array

    @property
    def first_unread(self) -> Int64Array:
        """What can still be read begins here."""
        return np.maximum(self.committed, self.min_offset)

    def part(self, chosen: BoolArray | Int64Array) -> "Progress":
        """Return some of the queues."""
        return Progress(
            self.commits[chosen],
            self.heads[chosen],
            self.min_offset[chosen],
            self.max_offset[chosen],
            self.committed[chosen],
        )


def ages(window: LagWindow, heads: Int64Array, offsets: Int64Array) -> Ages:
    """Return how old messages are: of each column of `heads`, which the newest round read, the one at an offset below
    its max offset.
    """
    count = len(heads)
    found = Ages(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool), np.zeros(count, dtype=bool))
    first = np.zeros(count, dtype=np.int64)  # the round of each column's first reading
    first_offset = window.heads.first[window.order[0], heads]
    late = np.flatnonzero(first_offset == UNKNOWN_OFFSET)
    first[late] = (window.heads.first[window.order[:, None], heads[late]] != UNKNOWN_OFFSET).argmax(axis=0)
    first_offset[late] = window.heads.first[window.order[first[late]], heads[late]]
    is_young = offsets >= first_offset
    young = np.flatnonzero(is_young)
    found.ms[young] = _young_ages(window, heads[young], offsets[young])
    first_ms = window.times[window.order[first]]
    for at in np.flatnonzero(~is_young).tolist():
        key = window.heads.keys[heads[at]]
        found.ms[at], found.lower_bound[at], found.is_wanted[at] = window.old_age(
            key, int(first_ms[at]), int(first_offset[at]), int(offsets[at])
        )
    return found


def _young_ages(window: LagWindow, heads: Int64Array, offsets: Int64Array) -> Int64Array:
    """Return the ages of messages that came within the minutes kept in full."""
    times, place = window.times[window.order], np.arange(len(heads))
    read_offsets = window.heads.first[window.order[:, None], heads]
    reached = np.maximum.accumulate(read_offsets, axis=0)
    until = (reached <= offsets).sum(axis=0)  # the first round in which it was there
    rows = np.where(read_offsets != UNKNOWN_OFFSET, np.arange(len(times))[:, None], -1)
    after = np.maximum.accumulate(rows, axis=0)[until - 1, place]
    low, high = reached[after, place], reached[until, place]
    share = (offsets + 0.5 - low) / (high - low)
    stored_ms = times[after] + np.rint(share * (times[until] - times[after])).astype(np.int64)
    found: Int64Array = np.maximum(0, window.ts_ms - stored_ms)
    return found


def is_ordinary(window: LagWindow, queues: Progress, age: Ages) -> BoolArray:
    """Return of which queues with messages waiting it is certain, without looking at their history, that `judge` calls
    them OK: somebody is there, the offset lies between min and max and moved on as usual, and what waits is young.

    `age` is of the first unread message. Who says no has to be judged.
    """
    sound = (queues.committed <= queues.max_offset) & (queues.committed >= queues.min_offset)
    sound &= ~window.moved_oddly(queues.commits)
    times = window.times[window.order]
    if window.ts_ms - times[0] < min(QUIET_MS, BACKLOG_GRACE_MS):
        return sound
    recent = window.order[times >= window.ts_ms - min(QUIET_MS, BACKLOG_GRACE_MS - 1)]
    committed = window.commits.first[recent][:, queues.commits]
    high = window.heads.first[recent][:, queues.heads]
    is_read = (committed != UNKNOWN_OFFSET) & (high != UNKNOWN_OFFSET)
    was_empty = (is_read & (committed >= high)).any(axis=0)
    moved = (is_read & (committed != queues.committed)).any(axis=0)
    young = ~age.lower_bound & (age.ms <= TIME_LAG_ALLOWED_MS)
    found: BoolArray = sound & (was_empty | (moved & young))
    return found


def speeds(window: LagWindow, queues: Progress, age: Ages) -> FloatArray:
    """Return `LagWindow.speed` of queues with messages waiting, NaN where unknown. `age` is of the first unread one."""
    order = window.order[-(SPEED_MS // window.interval_ms + 1) :]
    order = order[window.times[order] >= window.ts_ms - SPEED_MS]
    times, place = window.times[order], np.arange(len(queues.heads))
    committed = window.commits.first[order][:, queues.commits]
    high = window.heads.first[order][:, queues.heads]
    is_read = (committed != UNKNOWN_OFFSET) & (high != UNKNOWN_OFFSET)
    committed = np.where(is_read, committed, UNKNOWN_OFFSET)
    went_back = (is_read & (committed < np.maximum.accumulate(committed, axis=0))).any(axis=0)
    first = is_read.argmax(axis=0)
    first_high = high[first, place]
    begun = np.maximum(committed[first, place], window.heads.second[order[first], queues.heads])
    stood = (begun == queues.first_unread) & (queues.first_unread < queues.max_offset)
    moving = ~went_back & (first < len(order) - 1) & ~stood
    reached_ms = times[first]
    asked = np.flatnonzero(moving & (begun < first_high))
    earlier = ages(window, queues.heads[asked], begun[asked])
    reached_ms[asked] = window.ts_ms - earlier.ms
    moving[asked[earlier.lower_bound]] = False
    now_ms = np.where(queues.first_unread >= queues.max_offset, window.ts_ms, window.ts_ms - age.ms)
    moving &= ~age.lower_bound
    found = np.full(len(place), np.nan)
    span_ms = np.maximum(window.ts_ms - times[first], 1)
    exact = ((now_ms - reached_ms) / span_ms)[moving].tolist()
    found[moving] = [round(one, 2) for one in exact]  # as Python rounds: NumPy's way differs at the half
    found[~went_back & (first < len(order) - 1) & stood & (begun < first_high)] = 0.0
    return found


def produce_rates(window: LagWindow, heads: Int64Array) -> FloatArray:
    """Return `LagWindow.produce_rate` of columns of `heads`; NaN is unknown."""
    return window.rates(window.heads)[heads]


def consume_rates(window: LagWindow, commits: Int64Array) -> FloatArray:
    """Return `LagWindow.consume_rate` of columns of `commits`, NaN where unknown."""
    found = window.rates(window.commits)[commits]
    suspect = found * RATE_MS >= SKIP_MESSAGES * 1000 / 2
    told = window.told_jumps()
    if len(told):
        suspect |= np.isin(commits, told)
    for at in np.flatnonzero(suspect).tolist():
        rate = window.consume_rate(window.commits.keys[commits[at]])
        found[at] = np.nan if rate is None else rate
    return found


def losses_ms(ahead_ms: Int64Array, speed: FloatArray) -> FloatArray:
    """Return `forecast.time_to_loss` in ms of queues that read slower than retention deletes; NaN is never."""
    left = np.rint(np.maximum(0, ahead_ms) / (1.0 - speed))
    return np.where(left > DRAIN_MS_MAX, np.nan, left)
