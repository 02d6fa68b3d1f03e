"""Percentiles of a period from every sample of its hours, for the queues of grids.

The hours of a queue leave two bytes a sample for its lag and two for its time lag, the numbers of their buckets
(`spark.histogram`), beside the messages that left with that time lag. When the period is whole they are counted, some
queues at a time, and the counts are gone again: the same counts as of histograms hour by hour, of which making and
adding took 20 of 92 ns of CPU a sample more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark import histogram
from spark.lag.snapshot import Int64Array

Int32Array = npt.NDArray[np.int32]
CodeMatrix = npt.NDArray[np.uint16]
SLAB_ROWS = 16  # queues whose codes of a day, and counts of them, stay in the second cache


@dataclass(frozen=True, slots=True)
class Codes:
    """Queues x rounds of an hour: the buckets of lag and time lag, and the messages that left with the latter."""

    lag: CodeMatrix
    time_lag: CodeMatrix
    messages: Int32Array

    def take(self, rows: Int64Array) -> Codes:
        """Some of the queues."""
        if len(rows) == len(self.lag):
            return self
        return Codes(self.lag[rows], self.time_lag[rows], self.messages[rows])


class HourRows(NamedTuple):
    """Rows of an hour and, where they have no histograms, the codes of each."""

    table: pa.Table
    codes: Codes | None = None


class Counted(NamedTuple):
    """Counts of rows first, first + 1, … in all buckets: matrices rows x buckets."""

    first: int
    counts: dict[str, Int64Array]


class Listed(NamedTuple):
    """Counts that are there as lists: `counts[i]` in `buckets[i]` of row `rows[i]`, by rows."""

    rows: Int64Array
    buckets: Int32Array
    counts: Int64Array


def counted(
    hours: Sequence[tuple[Int64Array, Codes]], listed: dict[str, Listed], row_count: int
) -> Iterator[Counted]:
    """Count the codes of `hours`, each with the row that each of its queues belongs to (ascending), and what is
    `listed`; some rows at a time, until all of `row_count` are counted.
    """
    for first in range(0, row_count, SLAB_ROWS):
        codes, missing = _side_by_side(hours, first, min(first + SLAB_ROWS, row_count))
        counts = {
            "lag": _counts(codes.lag, missing),
            "time_lag": _counts(codes.time_lag, missing),
            "latency": _weighed(codes.time_lag, codes.messages),
        }
        yield Counted(first, {name: _with(counts[name], listed[name], first) for name in counts})


def _side_by_side(
    hours: Sequence[tuple[Int64Array, Codes]], first: int, end: int
) -> tuple[Codes, Int64Array]:
    """The codes of rows [first, end) in all hours, 0 in hours in which a row is not; and how many rounds those have."""
    own = []
    width = 0
    for rows, codes in hours:
        low, high = np.searchsorted(rows, (first, end)).tolist()
        if low < high:
            rounds = codes.lag.shape[1]
            own.append((rows[low:high] - first, slice(width, width + rounds), codes, slice(low, high)))
            width += rounds
    missing = np.full(end - first, width)
    shape = end - first, width
    found = Codes(*(np.zeros(shape, dtype=kind) for kind in (np.uint16, np.uint16, np.int32)))
    for rows, columns, codes, part in own:
        missing[rows] -= columns.stop - columns.start
        found.lag[rows, columns] = codes.lag[part]
        found.time_lag[rows, columns] = codes.time_lag[part]
        found.messages[rows, columns] = codes.messages[part]
    return found, missing


def _counts(codes: CodeMatrix, missing: Int64Array) -> Int64Array:
    """Counts of each row's codes, but for so many that are 0 because they are missing."""
    width = int(codes.max(initial=0)) + 1
    counts = np.empty((len(codes), width), dtype=np.int64)
    for row, own in enumerate(codes):
        counts[row] = np.bincount(own, minlength=width)
    counts[:, 0] -= missing
    return counts


def _weighed(codes: CodeMatrix, weights: Int32Array) -> Int64Array:
    """The weights of each row's codes added up; sums of doubles are exact up to 2**53."""
    width = int(codes.max(initial=0)) + 1
    counts = np.empty((len(codes), width), dtype=np.int64)
    for row, own in enumerate(codes):
        counts[row] = np.bincount(own, weights[row], minlength=width)
    return counts


def _with(counts: Int64Array, listed: Listed, first: int) -> Int64Array:
    own = slice(*np.searchsorted(listed.rows, (first, first + len(counts))).tolist())
    buckets = listed.buckets[own]
    if not len(buckets):
        return counts
    more = int(buckets.max()) + 1 - counts.shape[1]
    if more > 0:
        counts = np.pad(counts, ((0, 0), (0, more)))
    np.add.at(counts, (listed.rows[own] - first, buckets), listed.counts[own])
    return counts


def codes_of(lag: Int32Array, time_lag: Int32Array, messages: Int32Array) -> Codes:
    """The codes of some queues; buckets of 32-bit numbers need 12 bits."""
    return Codes(histogram.codes_of(lag), histogram.codes_of(time_lag), messages)
