"""The newest round of a window for all its series at once: ages, speeds and rates, as arrays.

A cluster of 10,000 groups has tens of thousands of queues in a round of five seconds; one by one they take
seconds. Arrays run parallel to the requested columns; `UNKNOWN_OFFSET` and NaN stand for unknown.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.forecast import LOSS_HORIZON_MS_MIN
from spark.lag.round.old_heads import NOT_FOUND, Brackets
from spark.lag.round.status import BACKLOG_GRACE_MS, QUIET_MS, TIME_LAG_ALLOWED_MS
from spark.lag.round.window import COARSE_STEP_MS, SPEED_MS, KnownTime, LagWindow
from spark.lag.snapshot import UNKNOWN_OFFSET, BoolArray, HeadKey, Int64Array

FloatArray = npt.NDArray[np.float64]


NO_AGE = -1
BRACKET_INTERVALS = 1.5  # rounds come up to half an interval late


class Ages(NamedTuple):
    """The ages of messages in ms, and how far they can be relied on.

    With `lower_bound` an age is the least it can be: the two readings between which the message came are
    further apart than rounds are. `estimate_ms` is the likely one, `NO_AGE` where no reading is old enough;
    `is_wanted`: then, and where that is uncertain by more than old readings are, its own store time would
    help.
    """

    ms: Int64Array
    lower_bound: BoolArray
    estimate_ms: Int64Array
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
        """Return the offset of the first message that can still be read."""
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
    """Return the age of one message of each queue that the newest round read.

    The queues are columns of `heads`; each message has an offset below the queue's max offset.
    """
    first = np.zeros(len(heads), dtype=np.int64)  # the round of each column's first reading
    first_offset = window.heads.first[window.order[0], heads]
    late = np.flatnonzero(first_offset == UNKNOWN_OFFSET)
    first[late] = (window.heads.first[window.order[:, None], heads[late]] != UNKNOWN_OFFSET).argmax(axis=0)
    first_offset[late] = window.heads.first[window.order[first[late]], heads[late]]
    is_young = offsets >= first_offset
    found = Brackets(*(np.full(len(heads), NOT_FOUND, dtype=np.int64) for _ in Brackets._fields))
    old = np.flatnonzero(~is_young)
    first_ms = window.times[window.order[first[old]]]
    for chosen, some in (
        (np.flatnonzero(is_young), _young(window, heads[is_young], offsets[is_young])),
        (old, _old(window, heads[old], offsets[old], first_ms, first_offset[old])),
    ):
        for everything, part in zip(found, some, strict=True):
            everything[chosen] = part
    return _ages(window, found, offsets)


def age_of(window: LagWindow, head: HeadKey, offset: int) -> tuple[int, bool]:
    """Return (age in ms, at least?) of one message of a queue that the newest round read."""
    column = np.array([window.heads.index[head]], dtype=np.int64)
    found = ages(window, column, np.array([offset], dtype=np.int64))
    return int(found.ms[0]), bool(found.lower_bound[0])


def _ages(window: LagWindow, between: Brackets, offsets: Int64Array) -> Ages:
    after_ms, after, until_ms, until = between
    is_found = after_ms != NOT_FOUND
    span_ms = until_ms - after_ms
    share = (offsets + 0.5 - after) / np.maximum(until - after, 1)
    stored_ms = after_ms + np.rint(share * span_ms).astype(np.int64)
    is_exact = is_found & (span_ms <= BRACKET_INTERVALS * window.interval_ms)
    return Ages(
        np.maximum(0, window.ts_ms - np.where(is_exact, stored_ms, until_ms)),
        ~is_exact,
        np.where(is_found, np.maximum(0, window.ts_ms - stored_ms), NO_AGE),
        ~is_found | (span_ms > 2 * COARSE_STEP_MS),
    )


def _young(window: LagWindow, heads: Int64Array, offsets: Int64Array) -> Brackets:
    """Return between which rounds messages came, of those kept in full."""
    times, place = window.times[window.order], np.arange(len(heads))
    read_offsets = window.heads.first[window.order[:, None], heads]
    reached = np.maximum.accumulate(read_offsets, axis=0)
    until = (reached <= offsets).sum(axis=0)  # the first round in which it was there
    rows = np.where(read_offsets != UNKNOWN_OFFSET, np.arange(len(times))[:, None], -1)
    after = np.maximum.accumulate(rows, axis=0)[until - 1, place]
    return Brackets(times[after], reached[after, place], times[until], reached[until, place])


def _old(
    window: LagWindow, heads: Int64Array, offsets: Int64Array, first_ms: Int64Array, first_offset: Int64Array
) -> Brackets:
    """Return the two readings between which each message arrived that is older than those kept in full.

    Those kept in full begin with `first_offset` at `first_ms`.
    """
    slots = window.late.slots[heads]
    found = Brackets(*(np.full(len(heads), NOT_FOUND, dtype=np.int64) for _ in Brackets._fields))
    for log, columns in ((window.late.log, slots), (window.coarse, heads)):
        wanted = np.flatnonzero((columns >= 0) & (found.after_ms == NOT_FOUND))
        some = log.find(columns[wanted], offsets[wanted])
        nearer = (found.until_ms[wanted] == NOT_FOUND) | (some.until_ms < found.until_ms[wanted])
        nearer &= some.until_ms != NOT_FOUND
        found.after_ms[wanted], found.after[wanted] = some.after_ms, some.after
        found.until_ms[wanted[nearer]], found.until[wanted[nearer]] = (
            some.until_ms[nearer],
            some.until[nearer],
        )
    is_last = (found.until_ms == NOT_FOUND) | (found.until_ms > first_ms)
    found.until_ms[is_last], found.until[is_last] = first_ms[is_last], first_offset[is_last]
    for at in range(len(heads)):
        known = window.known_times.get(window.heads.keys[heads[at]])
        if known:
            _narrow(found, at, known, int(offsets[at]))
    return found


def _narrow(found: Brackets, at: int, known: list[KnownTime], offset: int) -> None:
    """Take messages whose store time was read for readings, where they are nearer."""
    for one in known:
        if one.offset <= offset and (found.after_ms[at] == NOT_FOUND or one.stored_ms >= found.after_ms[at]):
            found.after_ms[at], found.after[at] = one.stored_ms, one.offset
            if one.offset == offset:
                found.until_ms[at], found.until[at] = one.stored_ms, one.offset
        elif one.offset > offset and one.stored_ms < found.until_ms[at]:
            found.until_ms[at], found.until[at] = one.stored_ms, one.offset


def is_ordinary(window: LagWindow, queues: Progress, age: Ages) -> BoolArray:
    """Return the queues with messages waiting for which `judge` certainly returns OK, without their history.

    A client is connected, the offset lies between min and max and moved on as usual, and what waits is young.
    `age` is of the first unread message. The other queues have to be judged.
    """
    sound = (queues.committed <= queues.max_offset) & (queues.committed >= queues.min_offset)
    sound &= ~window.has_moved(queues.commits)
    times = window.times[window.order]
    if window.ts_ms - times[0] < min(QUIET_MS, BACKLOG_GRACE_MS):
        return sound
    recent = window.order[times >= window.ts_ms - min(QUIET_MS, BACKLOG_GRACE_MS - 1)]
    committed = window.commits.first[recent][:, queues.commits]
    high = window.heads.first[recent][:, queues.heads]
    is_read = (committed != UNKNOWN_OFFSET) & (high != UNKNOWN_OFFSET)
    was_empty = (is_read & (committed >= high)).any(axis=0)
    moved = (is_read & (committed != queues.committed)).any(axis=0)
    young = (age.estimate_ms != NO_AGE) & (age.estimate_ms <= TIME_LAG_ALLOWED_MS)
    found: BoolArray = sound & (was_empty | (moved & young))
    return found


def speeds(window: LagWindow, queues: Progress, age: Ages) -> FloatArray:
    """Return the catch-up speed (lag.md 1.2, 13) of queues with messages waiting.

    Seconds of messages read in a second; 1 keeps pace, 0 stands. `age` is of the first unread one.

    Of the last two minutes, or as much of them as was read. NaN with fewer than two readings, when the offset was set
    meanwhile, and while no reading is as old as a message (unless nothing was confirmed: that is 0).
    """
    order = window.order[-(SPEED_MS // window.interval_ms + 1) :]
    order = order[window.times[order] >= window.ts_ms - SPEED_MS]
    times, place = window.times[order], np.arange(len(queues.heads))
    committed = window.commits.first[order][:, queues.commits]
    high = window.heads.first[order][:, queues.heads]
    is_read = (committed != UNKNOWN_OFFSET) & (high != UNKNOWN_OFFSET)
    committed = np.where(is_read, committed, UNKNOWN_OFFSET)
    first = is_read.argmax(axis=0)
    was_set = window.has_moved(queues.commits, times[first])
    first_high = high[first, place]
    begun = np.maximum(committed[first, place], window.heads.second[order[first], queues.heads])
    stood = (begun == queues.first_unread) & (queues.first_unread < queues.max_offset)
    moving = ~was_set & (first < len(order) - 1) & ~stood
    reached_ms = times[first]
    wanted = np.flatnonzero(moving & (begun < first_high))
    earlier = ages(window, queues.heads[wanted], begun[wanted])
    reached_ms[wanted] = window.ts_ms - earlier.estimate_ms
    moving[wanted[earlier.estimate_ms == NO_AGE]] = False
    now_ms = np.where(queues.first_unread >= queues.max_offset, window.ts_ms, window.ts_ms - age.estimate_ms)
    moving &= age.estimate_ms != NO_AGE
    found = np.full(len(place), np.nan)
    span_ms = np.maximum(window.ts_ms - times[first], 1)
    exact = ((now_ms - reached_ms) / span_ms)[moving].tolist()
    found[moving] = [round(one, 2) for one in exact]  # as Python rounds: NumPy's way differs at the half
    found[~was_set & (first < len(order) - 1) & stood & (begun < first_high)] = 0.0
    return found


def losses_ms(age_ms: Int64Array, speed: FloatArray, kept_ms: Int64Array) -> FloatArray:
    """Return in ms when retention reaches queues that read slower than retention deletes; NaN is never.

    A speed of NaN is not known: those queues are taken to stand still.
    """
    left = np.rint(np.maximum(0, kept_ms - age_ms) / (1.0 - np.nan_to_num(speed)))
    return np.where(left > np.maximum(kept_ms, LOSS_HORIZON_MS_MIN), np.nan, left)
