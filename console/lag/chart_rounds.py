"""A group's queues added up round by round: what a chart of its lag draws, and which rounds it draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark.lag import inversion
from spark.lag.samples import Samples
from spark.lag.snapshot import Int64Array


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds in time order. `missing` counts queues not read, `bounded` is 1 where some age is a lower bound; the age
    of the oldest message is certainly between `age_low_ms` and `age_high_ms`. `in_flight` is -1 where it was not read
    of every queue.
    """

    t_ms: Int64Array
    lag: Int64Array
    age_ms: Int64Array
    age_low_ms: Int64Array
    age_high_ms: Int64Array
    missing: Int64Array
    bounded: Int64Array
    in_flight: Int64Array

    def select(self, at: Int64Array | slice) -> Rounds:
        """Return some of the rounds."""
        return Rounds(*(getattr(self, name)[at] for name in self.__slots__))

    def between(self, from_ms: int, to_ms: int) -> Rounds:
        """Return the rounds of [from_ms, to_ms)."""
        first, last = np.searchsorted(self.t_ms, [from_ms, to_ms]).tolist()
        return self.select(slice(first, last))

    @classmethod
    def joined(cls, parts: Sequence[Rounds]) -> Rounds:
        """Return rounds of parts that follow each other; at least one."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


class _ByRound:
    """Adds figures of samples up by the round they are of, from `from_ms` on.

    Mostly every queue was read in every round: then figures are a matrix, a row a queue, and adding up is ten times as
    fast as one by one.
    """

    def __init__(self, samples: Samples, from_ms: int) -> None:
        self._count = 0
        counts = samples.counts
        if len(counts) and bool((counts == counts[0]).all()):
            grid = samples.t_ms.reshape(len(counts), -1)
            if bool((grid == grid[0]).all()):
                self._count = len(counts)
                self._first = int(np.searchsorted(grid[0], from_ms))
                self.times: Int64Array = grid[0][self._first :]
                return
        self._inside = np.flatnonzero(samples.t_ms >= from_ms)
        self.times, self._round_of = np.unique(samples.t_ms[self._inside], return_inverse=True)

    def total(self, values: Int64Array) -> Int64Array:
        """Return the sum of each round's samples."""
        found: Int64Array = np.zeros(len(self.times), dtype=np.int64)
        if self._count:
            return values.reshape(self._count, -1)[:, self._first :].sum(axis=0, out=found)
        np.add.at(found, self._round_of, values[self._inside])
        return found

    def highest(self, values: Int64Array) -> Int64Array:
        """Return the largest figure of each round; no figure is negative."""
        found: Int64Array = np.zeros(len(self.times), dtype=np.int64)
        if self._count:
            return values.reshape(self._count, -1)[:, self._first :].max(axis=0, out=found)
        np.maximum.at(found, self._round_of, values[self._inside])
        return found


def rounds_of(samples: Samples, from_ms: int) -> Rounds:
    """Return the rounds from `from_ms` on; a queue counts as missing from its first sample to its incarnation's end."""
    by_round = _ByRound(samples, from_ms)
    effective = np.maximum(samples.committed, samples.min_offset)
    # A committed offset beyond max says nothing: its lag is unknown and drawn as none.
    lag = np.where(samples.committed <= samples.max_offset, samples.max_offset - effective, 0)
    np.maximum(lag, 0, out=lag)
    waiting = np.flatnonzero((lag > 0) & (samples.t_ms >= from_ms)).astype(np.int64)
    stored = inversion.store_times(samples, waiting, effective[waiting])
    age, low, high, bounded = (np.zeros(len(lag), dtype=np.int64) for _ in range(4))
    age[waiting] = samples.t_ms[waiting] - stored.estimate_ms
    low[waiting] = samples.t_ms[waiting] - stored.until_ms
    high[waiting] = samples.t_ms[waiting] - stored.after_ms
    bounded[waiting] = stored.censored
    age_by_round = by_round.highest(age)
    return Rounds(
        by_round.times,
        by_round.total(lag),
        age_by_round,
        by_round.highest(low),
        np.maximum(by_round.highest(high), age_by_round),
        _expected(samples, by_round.times) - by_round.total(np.ones(len(lag), dtype=np.int64)),
        by_round.highest(bounded),
        _in_flight(samples, effective, lag, by_round),
    )


def _in_flight(samples: Samples, effective: Int64Array, lag: Int64Array, by_round: _ByRound) -> Int64Array:
    is_unread = samples.pulled < 0
    if is_unread.all():
        return np.full(len(by_round.times), -1, dtype=np.int64)
    flying = np.where(is_unread, 0, np.clip(samples.pulled - effective, 0, lag))
    total = by_round.total(flying)
    total[by_round.highest(is_unread.astype(np.int64)) > 0] = -1
    return total


def _expected(samples: Samples, times: Int64Array) -> Int64Array:
    """Return how many queues there were in each round."""
    begins = np.sort(samples.t_ms[samples.starts[:-1]]) if len(samples.keys) else times[:0]
    begun = np.searchsorted(begins, times, side="right")
    expected: Int64Array = begun - np.searchsorted(_incarnation_ends(samples), times, side="right")
    return expected


def _incarnation_ends(samples: Samples) -> Int64Array:
    """Return when series ended because their topic was made again."""
    pairs = zip(samples.keys, samples.keys[1:], samples.starts[1:-1].tolist(), strict=False)
    ends = [int(samples.t_ms[start]) for one, following, start in pairs if one[:4] == following[:4]]
    return np.array(sorted(ends), dtype=np.int64)


def thinned(rounds: Rounds, step_ms: int) -> Rounds:
    """Keep the largest and the smallest of every step, and both sides of every gap."""
    if len(rounds.t_ms) < 2:
        return rounds
    first, last = int(rounds.t_ms[0]), int(rounds.t_ms[-1]) + 1
    steps = max(1, (last - first) // step_ms)
    kept = decimate(rounds.t_ms, (rounds.lag, rounds.age_ms), first, last, 4 * steps)
    gaps = np.flatnonzero(np.diff(rounds.t_ms) > step_ms)
    return rounds.select(np.unique(np.concatenate([kept, gaps, gaps + 1])))


def decimate(
    times: Int64Array, series: Sequence[Int64Array], from_ms: int, to_ms: int, points: int
) -> Int64Array:
    """Return which rounds to draw: all while they fit, else the smallest and the largest of each series and step."""
    if len(times) <= points:
        return np.arange(len(times), dtype=np.int64)
    steps = (times - from_ms) * (points // (2 * len(series))) // max(1, to_ms - from_ms)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1])
    kept = [np.array([0, len(times) - 1], dtype=np.int64)]
    for values in series:
        kept += [_first_where(values, np.minimum, starts), _first_where(values, np.maximum, starts)]
    return np.unique(np.concatenate(kept))


def _first_where(values: Int64Array, extreme: np.ufunc, starts: Int64Array) -> Int64Array:
    """Return the first place in each step that holds its extreme value."""
    found = extreme.reduceat(values, starts)
    lengths = np.diff(np.append(starts, len(values)))
    places = np.where(values == np.repeat(found, lengths), np.arange(len(values)), len(values))
    first: Int64Array = np.minimum.reduceat(places, starts)
    return first
