"""Max offsets of many queues at common times, to find the two readings between which an old message came.

The rounds of ten minutes are kept in full by the window; what leaves them goes here, in two ways: of every queue a
reading every two minutes for a day, and of queues whose first unread message is older than the window every reading,
for as long as that is so. So the age of an unread message is known to an interval however late its group is; of what
a group went back to it is known to two minutes, and its bound is as wide (`round_arrays.ages`).
"""

from typing import NamedTuple

import numpy as np

from spark.lag.samples import Samples
from spark.lag.snapshot import BoolArray, Int64Array

NOT_FOUND = -1


class Brackets(NamedTuple):
    """Of each offset: the last reading at or below it and the first above it, `NOT_FOUND` where there is none."""

    after_ms: Int64Array
    after: Int64Array
    until_ms: Int64Array
    until: Int64Array


class HeadLog:
    """Keep a ring of readings: a row per time, a column per queue.

    Columns never fall (a lost tail is a stretch without messages); what was not read has the value before it, as its
    complement.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.times = np.zeros(rows, dtype=np.int64)
        self.values = np.full((rows, columns), ~0, dtype=np.int64)
        self.newest_ms = -1
        self._filled = 0
        self._next = 0

    def widen(self, columns: int) -> None:
        """Make room for more columns, of which nothing was read yet."""
        missing = columns - self.values.shape[1]
        if missing > 0:
            self.values = np.pad(self.values, ((0, 0), (0, missing)), constant_values=~0)

    def clear(self, columns: Int64Array) -> None:
        """Clear the readings of columns that now belong to other queues."""
        self.values[:, columns] = ~0

    def put(self, t_ms: int, values: Int64Array, read: BoolArray) -> None:
        """Add a row; one that is not newer than all others is ignored."""
        if t_ms <= self.newest_ms:
            return
        self.newest_ms = t_ms
        count = len(values)
        row, before = self._next, (self._next - 1) % len(self.times)
        last = _known(self.values[before, :count])
        self.times[row] = t_ms
        self.values[row, count:] = ~_known(self.values[before, count:])
        self.values[row, :count] = np.where(read, np.maximum(values, last), ~last)
        self._next = (row + 1) % len(self.times)
        self._filled = min(self._filled + 1, len(self.times))

    def find(self, columns: Int64Array, offsets: Int64Array) -> Brackets:
        """Return between which readings the messages at offsets of columns came."""
        count, start = self._filled, self._next - self._filled
        rows = len(self.times)
        below, above = np.zeros(len(columns), dtype=np.int64), np.full(len(columns), count, dtype=np.int64)
        while np.any(below < above):  # binary search in all columns at once
            middle = (below + above) // 2
            # what is settled looks at some row that exists, and keeps its place
            value = _known(self.values[(start + np.minimum(middle, count - 1)) % rows, columns])
            is_below = (below < above) & (value <= offsets)
            above = np.where(is_below | (below >= above), above, middle)
            below = np.where(is_below, middle + 1, below)
        after = self._read_before(columns, below - 1)
        at_after, at_until = (start + after) % rows, (start + below) % rows
        found, has_next = after >= 0, below < count
        return Brackets(
            np.where(found, self.times[at_after], NOT_FOUND),
            np.where(found, self.values[at_after, columns], NOT_FOUND),
            np.where(has_next, self.times[at_until], NOT_FOUND),
            np.where(has_next, _known(self.values[at_until, columns]), NOT_FOUND),
        )

    def _read_before(self, columns: Int64Array, places: Int64Array) -> Int64Array:
        """Return the places, or those before them, in which the column was read; -1 where it was in none."""
        start, rows = self._next - self._filled, len(self.times)
        places = places.copy()
        while True:
            unread = np.flatnonzero((places >= 0) & (self.values[(start + places) % rows, columns] < 0))
            if len(unread) == 0:
                return places
            places[unread] -= 1


def _known(values: Int64Array) -> Int64Array:
    """Return values, also of readings that did not take place."""
    return np.where(values < 0, ~values, values)


def thinned(
    samples: Samples, columns: Int64Array, count: int, step_ms: int
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Return (times, a row of max offsets for each, what of them was read): of the first round in every `step_ms`.

    `columns`: which of `count` columns each series is. The rounds are those of the series with the most readings.
    """
    longest = int(samples.counts.argmax())
    rounds = samples.t_ms[samples.starts[longest] : samples.starts[longest + 1]]
    first = rounds[np.unique(rounds // step_ms, return_index=True)[1]]
    row = np.minimum(np.searchsorted(first, samples.t_ms), len(first) - 1)
    chosen = np.flatnonzero(first[row] == samples.t_ms)
    series = np.repeat(columns, samples.counts)
    table = np.full((len(first), count), NOT_FOUND, dtype=np.int64)
    table[row[chosen], series[chosen]] = samples.max_offset[chosen]
    return first, table, table != NOT_FOUND
