"""The rolling window of one cluster: the state of the collector between rounds.

It is a fold over snapshots: appending the frames of the write-ahead log in order gives the same window that
the live collector had, so it may be thrown away at any time. Ten minutes are kept at full resolution (rates
and statuses), max offsets for longer (`old_heads`: ages of old messages). The figures of its newest round are in
`round_arrays`.
"""

from bisect import insort
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from spark.lag.codes import ABSENT, OK_CODE, SampleFlag
from spark.lag.round.old_heads import HeadLog, thinned
from spark.lag.round.status import WINDOW_MS, QueueHistory
from spark.lag.samples import Samples
from spark.lag.snapshot import UNKNOWN_OFFSET, BoolArray, CommitKey, HeadKey, Int64Array, Snapshot, no_offsets

RATE_MS = 60_000  # the one-minute rates that pages show
SPEED_MS = 120_000  # catch-up speed is measured over so long: four commits of the slowest healthy consumer
COARSE_STEP_MS = 120_000  # 40,000 queues: 230 MB for a day
COARSE_ROWS = 24 * 30  # a day; a message older than that has a looked-up age or a lower bound
LATE_ROWS = 24 * 240  # readings of queues with a late group: a day at 15 s, 8 hours at 5 s
LATE_QUEUES_MAX = 2_048  # of more, those that were late first: 94 MB
KNOWN_TIMES_MAX = 8  # per queue; the oldest looked-up one and the newest matter
# a master switch loses a tail this small; a larger fall means the topic was made again
REGRESSION_SHARE = 0.05
FIRST_CAPACITY = 64

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class KnownTime:
    """A message whose store time was read: the newest one in the topic's statistics, or one that was looked up."""

    offset: int
    stored_ms: int


class Ring(Generic[Key]):
    """Keep the last rounds of many series: a row per round, a column per series, two numbers in each cell.

    `last` is the first number as it was last read, however long ago.
    """

    def __init__(self, rows: int) -> None:
        self.index: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.last = np.full(FIRST_CAPACITY, UNKNOWN_OFFSET, dtype=np.int64)
        self.first = np.full((rows, FIRST_CAPACITY), UNKNOWN_OFFSET, dtype=np.int64)
        self.second = np.full((rows, FIRST_CAPACITY), UNKNOWN_OFFSET, dtype=np.int64)
        self._newest: tuple[Sequence[Key], Int64Array] = ((), no_offsets())

    def columns(self, keys: Sequence[Key]) -> Int64Array:
        """Return the columns of some series, new ones for those not seen before.

        Rounds mostly have the series of the round before.
        """
        if keys == self._newest[0]:
            return self._newest[1]
        found = np.empty(len(keys), dtype=np.int64)
        for place, key in enumerate(keys):
            column = self.index.get(key)
            if column is None:
                column = self.index[key] = len(self.keys)
                self.keys.append(key)
            found[place] = column
        missing = len(self.keys) - self.first.shape[1]
        if missing > 0:
            more = max(missing, self.first.shape[1])
            wider = ((0, 0), (0, more))
            self.first = np.pad(self.first, wider, constant_values=UNKNOWN_OFFSET)
            self.second = np.pad(self.second, wider, constant_values=UNKNOWN_OFFSET)
            self.last = np.pad(self.last, (0, more), constant_values=UNKNOWN_OFFSET)
        self._newest = keys, found
        return found

    def put(self, row: int, columns: Int64Array, first: Int64Array, second: Int64Array) -> None:
        """Overwrite a row: these columns were read, the others were not."""
        self.first[row, :] = UNKNOWN_OFFSET
        self.second[row, :] = UNKNOWN_OFFSET
        self.first[row, columns] = first
        self.second[row, columns] = second
        self.last[columns] = first


def is_lost_tail(before: tuple[int, int], now: tuple[int, int]) -> bool:
    """Return whether a queue whose max offset fell lost only its newest messages, as at a master switch.

    It has the same oldest message, and nearly all of them. Else its topic was made again. Both are (min, max).
    """
    return now[0] == before[0] and before[1] - now[1] <= REGRESSION_SHARE * before[1]


class LagWindow:
    """Snapshots in, figures out. Caller: the collector, one thread at a time, under its lease."""

    def __init__(self, interval_ms: int) -> None:
        self.interval_ms = interval_ms
        self.number = 0
        self.ts_ms = -1
        self.rows = WINDOW_MS // interval_ms + 2
        self._filled = 0
        self._next = 0
        self.times = np.zeros(self.rows, dtype=np.int64)
        self.order = np.empty(0, dtype=np.int64)  # the filled rows, oldest first
        self.heads: Ring[HeadKey] = Ring(self.rows)
        self.commits: Ring[CommitKey] = Ring(self.rows)
        self.newest_heads = no_offsets()  # columns of the newest round, in the order of its keys
        self.newest_commits = no_offsets()
        self.coarse = HeadLog(COARSE_ROWS, FIRST_CAPACITY)
        self.late = LateHeads()
        self.known_times: dict[HeadKey, list[KnownTime]] = {}
        # time of a round → columns of `commits` that were set, not consumed, since the reading before
        self._moves: dict[int, Int64Array] = {}
        # ... that are not comparable with the reading before (`SampleFlag.SWITCHED`)
        self._switches: dict[int, Int64Array] = {}
        # per column of `commits`, the highest offset since the last comparable reading
        self._peaks = no_offsets()
        self._rates: dict[str, npt.NDArray[np.float64]] = {}  # of the newest round, computed on first use
        self._newest: dict[tuple[str, str, int], int] = {}  # incarnation of each queue
        self._head_of = no_offsets()  # per column of `commits`, the queue's column of `heads`

    def append(self, snapshot: Snapshot) -> None:
        """Add the next round; rounds must come in time order.

        In a judged round, from the log, what was not read counts as such: it has the offsets of the round before.
        """
        row = self._next
        self._rates.clear()
        read = snapshot.head_status == OK_CODE
        has = (snapshot.status != ABSENT) & (snapshot.committed != UNKNOWN_OFFSET)
        self.newest_heads = self._head_columns(snapshot.head_keys)[read]
        self.newest_commits = self._commit_columns(snapshot.commit_keys)[has]
        committed = snapshot.committed[has]
        before = self.commits.last[self.newest_commits]
        self._keep_late(row)
        self.times[row] = snapshot.ts_ms
        self.heads.put(row, self.newest_heads, snapshot.max_offset[read], snapshot.min_offset[read])
        self.commits.put(row, self.newest_commits, committed, snapshot.pulled[has])
        self._next = (row + 1) % self.rows
        self._filled = min(self._filled + 1, self.rows)
        self.order = np.arange(self._next - self._filled, self._next, dtype=np.int64) % self.rows
        if self.ts_ms // COARSE_STEP_MS != snapshot.ts_ms // COARSE_STEP_MS:
            now = self.heads.first[row, : len(self.heads.keys)]
            self.coarse.put(snapshot.ts_ms, now, now != UNKNOWN_OFFSET)
        self.number, self.ts_ms = snapshot.number, snapshot.ts_ms
        flags = snapshot.flags[has]
        switched = (flags & SampleFlag.SWITCHED) != 0
        moved = (before != UNKNOWN_OFFSET) & (committed < before) & ~switched
        moved |= (flags & SampleFlag.MOVED) != 0
        self.mark_moved(self.newest_commits[moved])
        self._mark(self._switches, self.newest_commits[switched])
        peaks = np.maximum(self._peaks[self.newest_commits], committed)
        self._peaks[self.newest_commits] = np.where(switched, peaks, committed)

    def _head_columns(self, keys: Sequence[HeadKey]) -> Int64Array:
        known = len(self.heads.keys)
        found = self.heads.columns(keys)
        for key in self.heads.keys[known:]:
            self._newest[key[:3]] = max(key.incarnation, self._newest.get(key[:3], 0))
        self.coarse.widen(self.heads.first.shape[1])
        self.late.widen(self.heads.first.shape[1])
        return found

    def _commit_columns(self, keys: Sequence[CommitKey]) -> Int64Array:
        known = len(self.commits.keys)
        found = self.commits.columns(keys)
        new = self.commits.keys[known:]
        if new:
            heads = [self.heads.index.get(key.head, -1) for key in new]
            if -1 in heads:  # of a queue whose own offsets were not read
                self._head_columns([key.head for key in new])
                heads = [self.heads.index[key.head] for key in new]
            self._head_of = np.append(self._head_of, np.array(heads, dtype=np.int64))
            self._peaks = np.append(self._peaks, np.full(len(new), UNKNOWN_OFFSET, dtype=np.int64))
        return found

    def is_below_known(self, keys: Sequence[CommitKey], committed: Int64Array) -> BoolArray:
        """Return which committed offsets lie, or lay at the reading before, below one that is known."""
        found = np.zeros(len(keys), dtype=np.bool_)
        for at, key in enumerate(keys):
            column = self.commits.index.get(key)
            if column is not None:
                found[at] = min(self.commits.last[column], committed[at]) < self._peaks[column]
        return found

    def mark_moved(self, columns: Int64Array) -> None:
        """Note which committed offsets (columns of `commits`) were set, not consumed, before the newest round."""
        self._mark(self._moves, columns)

    def _mark(self, marks: dict[int, Int64Array], columns: Int64Array) -> None:
        """Note columns of `commits` in the newest round, and drop what has left the window."""
        if len(columns):
            for t_ms in [t_ms for t_ms in marks if t_ms < self.times[self.order[0]]]:
                del marks[t_ms]
            marks[self.ts_ms] = np.union1d(marks.get(self.ts_ms, no_offsets()), columns)
            self._rates.clear()

    def has_moved(self, columns: Int64Array, since_ms: Int64Array | None = None) -> BoolArray:
        """Return which committed offsets were set, or are of another machine.

        In this window, or in it after each one's reading of `since_ms`.
        """
        after_ms = self.times[self.order[0]] if since_ms is None else since_ms
        found = np.zeros(len(columns), dtype=np.bool_)
        for t_ms, moved in chain(self._moves.items(), self._switches.items()):
            found |= np.isin(columns, moved) & (t_ms > after_ms)
        return found

    def _keep_late(self, row: int) -> None:
        """Hand the readings that are about to be overwritten to `late`, of the queues that need them."""
        if self._filled < self.rows:
            return
        count = len(self._head_of)
        following = self.heads.first[(row + 1) % self.rows]
        following = np.where(following == UNKNOWN_OFFSET, self.heads.last, following)
        committed = self.commits.last[:count]
        alive = (self.commits.first[self.order[-1], :count] != UNKNOWN_OFFSET) & (committed != UNKNOWN_OFFSET)
        is_late = np.zeros(len(following), dtype=np.bool_)
        is_late[self._head_of[alive & (committed < following[self._head_of])]] = True
        is_read = self.heads.first[self.order[-1]] != UNKNOWN_OFFSET
        self.late.put(int(self.times[row]), self.heads.first[row], is_late, is_read)

    def seed(self, samples: Samples, late: Collection[tuple[str, str, int]] = ()) -> None:
        """Add max offsets older than the log, from chunks: heads only, oldest first.

        Every reading of the queues (topic, broker name, queue id) in `late`, whose first unread message is that old.
        """
        samples = samples.read_part()
        if not len(samples.t_ms):
            return
        columns = self._columns_of(samples)
        count = len(self.heads.keys)
        for t_ms, values, read in zip(*thinned(samples, columns, count, COARSE_STEP_MS), strict=True):
            self.coarse.put(int(t_ms), values, read)
        ends = samples.starts[1:] - 1
        filled = ends >= samples.starts[:-1]
        newest = columns[filled]
        self.heads.last[newest] = np.maximum(self.heads.last[newest], samples.max_offset[ends[filled]])
        waited = samples.select(lambda key: (key.topic, key.broker_name, key.queue_id) in late)
        if len(waited.t_ms):
            self.late.seed(waited, self._columns_of(waited), self.interval_ms)

    def _columns_of(self, samples: Samples) -> Int64Array:
        return self._head_columns([HeadKey(*key[1:]) for key in samples.keys])

    def add_known_time(self, head: HeadKey, offset: int, stored_ms: int) -> None:
        """Record the store time of a message, on the collector's clock."""
        known = self.known_times.setdefault(head, [])
        if any(one.offset == offset for one in known):
            return
        insort(known, KnownTime(offset, stored_ms), key=lambda one: one.offset)
        if len(known) > KNOWN_TIMES_MAX:
            del known[1]

    def has_known_times(self, head: HeadKey) -> bool:
        """Whether some message of this queue has a store time that was read."""
        return head in self.known_times

    def newest(self, topic: str, broker_name: str, queue_id: int) -> HeadKey | None:
        """Return a queue's series in its newest incarnation, null when no round read it."""
        incarnation = self._newest.get((topic, broker_name, queue_id))
        return None if incarnation is None else HeadKey(topic, broker_name, queue_id, incarnation)

    def incarnation(
        self, topic: str, broker_name: str, queue_id: int, min_offset: int, max_offset: int
    ) -> int:
        """Return a queue's incarnation with these offsets: the last, or the next if the topic is new."""
        newest = self._newest.get((topic, broker_name, queue_id))
        if newest is None:
            return 0
        head = HeadKey(topic, broker_name, queue_id, newest)
        last = self._last(self.heads, head)
        if last is None:  # not read for ten minutes
            last = int(self.heads.last[self.heads.index[head]]), min_offset
        if max_offset >= last[0]:
            return newest
        kept = is_lost_tail((last[1], last[0]), (min_offset, max_offset))
        return newest if kept else newest + 1

    def incarnations(
        self, queues: Sequence[tuple[str, str, int]], min_offset: Int64Array, max_offset: Int64Array
    ) -> tuple[list[int], Int64Array]:
        """Return `incarnation` of many queues (topic, broker name, queue id) and their last max offsets.

        `UNKNOWN_OFFSET` of those never read.
        """
        found = [self._newest.get(queue, 0) for queue in queues]
        index = self.heads.index
        places = zip(queues, found, strict=True)
        columns = np.array([index.get(HeadKey(*key, newest), -1) for key, newest in places], dtype=np.int64)
        before = np.where(columns < 0, UNKNOWN_OFFSET, self.heads.last[columns])
        for at in np.flatnonzero((before == UNKNOWN_OFFSET) | (max_offset < before)).tolist():
            found[at] = self.incarnation(*queues[at], int(min_offset[at]), int(max_offset[at]))
        return found, before

    def head(self, key: HeadKey) -> tuple[int, int] | None:
        """Return (min, max) of a queue in the newest round, None when it was not read."""
        high, low = self._now(self.heads, key)
        return None if high == UNKNOWN_OFFSET else (low, high)

    def history(self, key: CommitKey) -> QueueHistory:
        """Return the window of a queue as a group consumes it, without the rounds that did not read it."""
        order = self.order
        commits, heads = self.commits, self.heads
        column, head = commits.index[key], heads.index[key.head]
        committed, high = commits.first[order, column], heads.first[order, head]
        read = (committed != UNKNOWN_OFFSET) & (high != UNKNOWN_OFFSET)
        times = self.times[order][read]
        low = heads.second[order, head][read]
        moved, switched = (
            np.isin(times, [t_ms for t_ms, columns in marks.items() if column in columns])
            for marks in (self._moves, self._switches)
        )
        return QueueHistory(times, high[read], low, committed[read], moved, switched)

    def coverage_pct(self) -> float:
        """Return which share of the window's rounds took place, since this window began."""
        if self._filled < 2:
            return 100.0
        times = self.times[self.order]
        expected = (int(times[-1]) - int(times[0])) / self.interval_ms
        return round(min(100.0, 100 * (len(times) - 1) / max(1.0, expected)), 1)

    def dead_share(self) -> float:
        """Return which share of the columns is empty in the whole window; a rebuilt one has none of them."""
        alive = (self.commits.first[:, : len(self.commits.keys)] != UNKNOWN_OFFSET).any(axis=0)
        return float(1 - alive.mean()) if len(alive) else 0.0

    def _now(self, ring: Ring[Key], key: Key) -> tuple[int, int]:
        column = ring.index.get(key)
        if column is None or not self._filled:
            return UNKNOWN_OFFSET, UNKNOWN_OFFSET
        row = (self._next - 1) % self.rows
        return int(ring.first[row, column]), int(ring.second[row, column])

    def _last(self, ring: Ring[Key], key: Key) -> tuple[int, int] | None:
        """Return a series' numbers the last time it was read."""
        column = ring.index.get(key)
        if column is None:
            return None
        order = self.order
        read = np.flatnonzero(ring.first[order, column] != UNKNOWN_OFFSET)
        if len(read) == 0:
            return None
        row = order[read[-1]]
        return int(ring.first[row, column]), int(ring.second[row, column])

    def produce_rates(self) -> npt.NDArray[np.float64]:
        """Return messages per second that arrived in the last minute, by column of `heads`; NaN where unknown."""
        if "heads" not in self._rates:
            self._rates["heads"] = self._rises(self.heads, None)
        return self._rates["heads"]

    def consume_rates(self) -> npt.NDArray[np.float64]:
        """Return messages per second confirmed in the last minute, by column of `commits`; NaN where unknown.

        What an offset passes by being set, below min or beyond max is no consumption.
        """
        if "commits" not in self._rates:
            self._rates["commits"] = self._rises(self.commits, self._head_of)
        return self._rates["commits"]

    def _rises(self, ring: Ring[Key], head_of: Int64Array | None) -> npt.NDArray[np.float64]:
        """Return rises per second of every column since the last round that is a minute old.

        Over a gap of rounds that is longer, both of whose ends are known.
        """
        count = len(ring.keys)
        before, gained = np.full(count, UNKNOWN_OFFSET, dtype=np.int64), np.zeros(count, dtype=np.int64)
        first_ms, last_ms = np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        old = np.flatnonzero(self.times[self.order] <= self.ts_ms - RATE_MS)
        for row in self.order[max(0, int(old[-1]) if len(old) else 0) :].tolist():
            t_ms = int(self.times[row])
            now = ring.first[row, :count]
            read = now != UNKNOWN_OFFSET
            if head_of is not None:
                low, high = self.heads.second[row, head_of], self.heads.first[row, head_of]
                read &= high != UNKNOWN_OFFSET
                now, before = np.clip(now, low, high), np.where(read, np.maximum(before, low), before)
            known = read & (last_ms >= 0)
            for marks in (self._moves, self._switches) if head_of is not None else ():
                known[marks.get(t_ms, no_offsets())] = False
            gained[known] += np.maximum(now - before, 0)[known]
            first_ms[read & (last_ms < 0)] = t_ms
            last_ms[read] = t_ms
            before = np.where(read, now, before)
        span_ms = last_ms - first_ms
        return np.where(span_ms > 0, gained * 1000.0 / np.maximum(span_ms, 1), np.nan)


class LateHeads:
    """Every reading that left the window, of queues whose first unread message is older still."""

    def __init__(self) -> None:
        self.log = HeadLog(LATE_ROWS, 0)
        self.slots = np.full(FIRST_CAPACITY, -1, dtype=np.int64)  # of each column of `heads`, -1: not late
        self._heads = no_offsets()  # of each slot, -1: free

    def widen(self, columns: int) -> None:
        """Make room for more queues."""
        missing = max(0, columns - len(self.slots))
        self.slots = np.pad(self.slots, (0, missing), constant_values=-1) if missing else self.slots

    def put(self, t_ms: int, values: Int64Array, is_late: BoolArray, is_read: BoolArray) -> None:
        """Add a row of the window; `is_late`: columns with messages waiting, `is_read`: those certain of it."""
        over = np.flatnonzero((self.slots >= 0) & ~is_late & is_read)
        self._heads[self.slots[over]] = -1
        self.slots[over] = -1
        self._begin(np.flatnonzero(is_late & (self.slots < 0)))
        kept = np.where(self._heads >= 0, values[self._heads], UNKNOWN_OFFSET)
        if len(kept):
            self.log.put(t_ms, kept, kept != UNKNOWN_OFFSET)

    def seed(self, samples: Samples, columns: Int64Array, interval_ms: int) -> None:
        """Take every reading of queues, which are these columns of `heads`."""
        self._begin(columns[self.slots[columns] < 0])
        count = len(self._heads)
        slots = np.where(
            self.slots[columns] < 0, count, self.slots[columns]
        )  # no room: a column that is cut off
        for t_ms, values, read in zip(*thinned(samples, slots, count + 1, interval_ms), strict=True):
            self.log.put(int(t_ms), values[:count], read[:count])

    def _begin(self, columns: Int64Array) -> None:
        free = np.flatnonzero(self._heads < 0)
        room = min(len(columns) - len(free), LATE_QUEUES_MAX - len(self._heads))
        if room > 0:
            self.log.widen(len(self._heads) + room)
            free = np.append(free, np.arange(len(self._heads), len(self._heads) + room))
            self._heads = np.append(self._heads, np.full(room, -1, dtype=np.int64))
        columns, free = columns[: len(free)], free[: len(columns)]
        self.slots[columns], self._heads[free] = free, columns
        self.log.clear(free)
