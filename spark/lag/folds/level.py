"""Figures of a window that merge, for some rows: sums, extremes, first and last ones, runs and histograms.

`merge` of the folds of two windows side by side is the fold of both: what goes over the edge (a standstill, the last
known lag, the longest gap) is carried as its two ends. Figures that pages show are made from these at the end
(`spark.lag.folds.figures`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spark.lag.folds import histogram
from spark.lag.folds.rounds import RANKS
from spark.lag.grid import QUEUE_WIDTH
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import Int64Array

HIGHEST = int(np.iinfo(np.int64).max)
NONE = -1  # no such round, lag or age
HISTOGRAMS = ("lag", "time_lag", "latency", "in_flight", "ready")
STRIDE = 1 << 14  # above every bucket of a 64-bit number


def _added() -> Any:
    return field(metadata={"by": np.add, "neutral": 0})


def _largest() -> Any:
    return field(metadata={"by": np.maximum, "neutral": NONE})


def _least() -> Any:
    return field(metadata={"by": np.minimum, "neutral": HIGHEST})


@dataclass(frozen=True, slots=True)
class Sums:
    """Hold one number a row.

    Times are milliseconds, each of which belongs to one window; `status_ms` has a column for each severity rank.
    `samples`: rounds in which all was counted. `watched_ms`: time in which it is known whether the promise was kept.
    `latency_ms`: sum over `timed` messages, those whose wait is known. `breach_weighted` is thousandths of
    milliseconds, `lag_area` messages times milliseconds. `newest_ms`: store time of the newest message that was
    consumed. `not_count`: 1 where offsets did not count messages in some round, NONE where no round was read.
    """

    incarnation: Int64Array = _largest()
    queues: Int64Array = _largest()
    exists_ms: Int64Array = _added()
    known_ms: Int64Array = _added()
    watched_ms: Int64Array = _added()
    status_ms: Int64Array = _added()
    exists_from_ms: Int64Array = _least()
    exists_to_ms: Int64Array = _largest()
    samples: Int64Array = _added()
    partial_samples: Int64Array = _added()
    bound_samples: Int64Array = _added()
    lag_max: Int64Array = _largest()
    age_max_ms: Int64Array = _largest()
    counted_ms: Int64Array = _added()
    produced: Int64Array = _added()
    consumed: Int64Array = _added()
    skipped: Int64Array = _added()
    lost: Int64Array = _added()
    rewinds: Int64Array = _added()
    breach_ms: Int64Array = _added()
    breach_weighted: Int64Array = _added()
    late_message_ms: Int64Array = _added()
    lag_area: Int64Array = _added()
    timed: Int64Array = _added()
    in_time: Int64Array = _added()
    latency_ms: Int64Array = _added()
    runway_ms: Int64Array = _least()
    newest_ms: Int64Array = _largest()
    not_count: Int64Array = _largest()


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the last round with a figure, and the figure; `t_ms` NONE: there was none."""

    first_ms: Int64Array
    first: Int64Array
    last_ms: Int64Array
    last: Int64Array
    gap_ms: Int64Array  # the longest time between two such rounds

    @classmethod
    def none(cls, count: int) -> Ends:
        first_ms, first, last_ms, last = (np.full(count, NONE, dtype=np.int64) for _ in range(4))
        return cls(first_ms, first, last_ms, last, np.zeros(count, dtype=np.int64))

    def then(self, later: Ends) -> Ends:
        """Return the ends of both."""
        has, had = later.last_ms >= 0, self.last_ms >= 0
        between = np.where(has & had, later.first_ms - self.last_ms, 0)
        return Ends(
            np.where(had, self.first_ms, later.first_ms),
            np.where(had, self.first, later.first),
            np.where(has, later.last_ms, self.last_ms),
            np.where(has, later.last, self.last),
            np.maximum(np.maximum(self.gap_ms, later.gap_ms), between),
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Hold how long something went on without a break: at most, up to the end, and from the beginning.

    `is_whole`: the whole time. Each part is the time since the round before, which may be older than the window.
    """

    longest_ms: Int64Array
    leading_ms: Int64Array
    trailing_ms: Int64Array
    is_whole: npt.NDArray[np.bool_]

    @classmethod
    def none(cls, count: int) -> Stretch:
        longest, leading, trailing = (np.zeros(count, dtype=np.int64) for _ in range(3))
        return cls(longest, leading, trailing, np.ones(count, dtype=np.bool_))

    def then(self, later: Stretch) -> Stretch:
        """Return the stretch of both."""
        across = self.trailing_ms + later.leading_ms
        return Stretch(
            np.maximum(np.maximum(self.longest_ms, later.longest_ms), across),
            self.leading_ms + np.where(self.is_whole, later.leading_ms, 0),
            later.trailing_ms + np.where(later.is_whole, self.trailing_ms, 0),
            self.is_whole & later.is_whole,
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts in buckets (`spark.lag.folds.histogram`): `counts[i]` in `buckets[i]` of row `rows[i]`."""

    rows: Int64Array
    buckets: Int64Array
    counts: Int64Array

    @classmethod
    def of(cls, parts: Sequence[Counts]) -> Counts:
        """Return all of them, each bucket of a row once, in order."""
        if not parts:
            nothing = np.empty(0, dtype=np.int64)
            return cls(nothing, nothing, nothing)
        keys = np.concatenate([part.rows * STRIDE + part.buckets for part in parts])
        keys, counts = histogram.merged(keys, np.concatenate([part.counts for part in parts]))
        return cls(keys // STRIDE, keys % STRIDE, counts)

    def into(self, rows: Int64Array) -> Counts:
        """Return them of other rows: row i becomes rows[i]."""
        return Counts(rows[self.rows], self.buckets, self.counts)

    def starts(self, count: int) -> Int64Array:
        """Return where each of `count` rows begins, and the end."""
        return np.searchsorted(self.rows, np.arange(count + 1))

    def take(self, rows: Int64Array, count: int) -> Counts:
        """Return those of some of `count` rows, in their order, some of them more than once."""
        starts = self.starts(count)
        lengths = np.diff(starts)[rows]
        ends = np.cumsum(lengths)
        places = np.repeat(starts[rows] - (ends - lengths), lengths) + np.arange(int(lengths.sum()))
        return Counts(np.repeat(np.arange(len(rows)), lengths), self.buckets[places], self.counts[places])


@dataclass(frozen=True, slots=True)
class Minutes:
    """What was consumed by the minute while a row was behind, and for how long it was: `row` in minute `minutes[i]`."""

    rows: Int64Array
    minutes: Int64Array
    consumed: Int64Array
    behind_ms: Int64Array

    @classmethod
    def of(cls, parts: Sequence[Minutes]) -> Minutes:
        """Return all of them, each minute of a row once, in order."""
        columns = [np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Minutes)]
        if not len(columns[0]):
            return cls(*columns)
        order = np.lexsort((columns[1], columns[0]))
        rows, minutes, consumed, behind_ms = (column[order] for column in columns)
        starts = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]) | (minutes[1:] != minutes[:-1])))
        return cls(
            rows[starts],
            minutes[starts],
            np.add.reduceat(consumed, starts),
            np.add.reduceat(behind_ms, starts),
        )

    def into(self, rows: Int64Array) -> Minutes:
        """Return them of other rows: row i becomes rows[i]."""
        return Minutes(rows[self.rows], self.minutes, self.consumed, self.behind_ms)


@dataclass(frozen=True, slots=True)
class Level:
    """The rows of one grain in the order of their keys; of topics `broker_name` is "" and `queue_id` -1.

    `counted` and `aged` are the ends of the rounds in which the lag, or the age of the oldest message, was known.
    """

    keys: Sequence[SeriesKey]
    sums: Sums
    counted: Ends
    aged: Ends
    still: Stretch
    minutes: Minutes
    histograms: dict[str, Counts]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Int64Array, keys: Sequence[SeriesKey]) -> Level:
        """Return rows with other keys, some of them more than once; those have no minutes of their own."""
        incarnation = np.array([key.incarnation for key in keys], dtype=np.int64)
        first = np.full(len(self), NONE, dtype=np.int64)
        first[rows[::-1]] = np.arange(len(rows))[::-1]
        return Level(
            keys,
            replace(_taken(self.sums, rows), incarnation=incarnation),
            _taken(self.counted, rows),
            _taken(self.aged, rows),
            _taken(self.still, rows),
            self.minutes.into(first),
            {name: counts.take(rows, len(self)) for name, counts in self.histograms.items()},
        )


def merge(parts: Sequence[Level]) -> Level:
    """Return the level of all parts: windows one after the other, or other rows of the same window."""
    if len(parts) == 1:
        return parts[0]
    keys, places = _united(parts)
    count = len(keys)
    counted, aged, still = Ends.none(count), Ends.none(count), Stretch.none(count)
    for part, rows in zip(parts, places, strict=True):
        counted = counted.then(_spread(part.counted, Ends.none(count), rows))
        aged = aged.then(_spread(part.aged, Ends.none(count), rows))
        still = still.then(_spread(part.still, Stretch.none(count), rows))
    return Level(
        keys,
        _sums(parts, places, count),
        counted,
        aged,
        still,
        Minutes.of([part.minutes.into(rows) for part, rows in zip(parts, places, strict=True)]),
        {
            name: Counts.of(
                [part.histograms[name].into(rows) for part, rows in zip(parts, places, strict=True)]
            )
            for name in HISTOGRAMS
        },
    )


def side_by_side(parts: Sequence[Level]) -> Level:
    """Return the level of other rows of the same window, part after part."""
    lengths = [len(part) for part in parts]
    ends = np.cumsum([0, *lengths])
    places = [np.arange(first, end) for first, end in zip(ends, ends[1:], strict=False)]
    several = list(zip(parts, places, strict=True))

    return Level(
        [key for part in parts for key in part.keys],
        _concatenated([part.sums for part in parts]),
        _concatenated([part.counted for part in parts]),
        _concatenated([part.aged for part in parts]),
        _concatenated([part.still for part in parts]),
        _concatenated([part.minutes.into(rows) for part, rows in several]),
        {
            name: _concatenated([part.histograms[name].into(rows) for part, rows in several])
            for name in HISTOGRAMS
        },
    )


def _concatenated(parts: Sequence[Any]) -> Any:
    names = [one.name for one in fields(parts[0])]
    return type(parts[0])(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _taken(own: Any, rows: Int64Array) -> Any:
    return type(own)(**{one.name: getattr(own, one.name)[rows] for one in fields(own)})


def _united(parts: Sequence[Level]) -> tuple[Sequence[SeriesKey], list[Int64Array]]:
    """Return the keys of all parts in order, and the place of each part's rows among them."""
    if all(part.keys == parts[0].keys for part in parts):
        return parts[0].keys, [np.arange(len(part.keys)) for part in parts]
    names = [[key[:QUEUE_WIDTH] for key in part.keys] for part in parts]
    found = {
        name: key
        for part, own in zip(parts, names, strict=True)
        for name, key in zip(own, part.keys, strict=True)
    }
    ordered = sorted(found)
    place = {name: at for at, name in enumerate(ordered)}
    return [found[name] for name in ordered], [
        np.array([place[name] for name in own], dtype=np.int64) for own in names
    ]


def _sums(parts: Sequence[Level], places: Sequence[Int64Array], count: int) -> Sums:
    merged = {}
    for one in fields(Sums):
        shape = (count, RANKS) if one.name == "status_ms" else count
        total = np.full(shape, one.metadata["neutral"], dtype=np.int64)
        for part, rows in zip(parts, places, strict=True):
            total[rows] = one.metadata["by"](total[rows], getattr(part.sums, one.name))
        merged[one.name] = total
    return Sums(**merged)


def _spread(own: Any, onto: Any, rows: Int64Array) -> Any:
    """Put the rows of a part into their places of `onto`, and return that."""
    for one in fields(own):
        getattr(onto, one.name)[rows] = getattr(own, one.name)
    return onto
