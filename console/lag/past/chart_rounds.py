"""Add up a group's queues round by round for a chart of its lag, and choose which rounds to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark.lag.folds.rounds import Standing, standing_of
from spark.lag.grid import Grid
from spark.lag.snapshot import Int64Array


@dataclass(frozen=True, slots=True)
class Rounds:
    """Hold rounds in time order, those in which some queue was read.

    `missing` counts queues with unknown lag, `bounded` is 1 where some age is a lower bound; the age of the oldest
    message is certainly between `age_low_ms` and `age_high_ms`. `in_flight` is -1 where it was not read for every
    queue.
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
        """Join rounds of parts that follow each other; at least one part."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


def rounds_of(grid: Grid, from_ms: int) -> Rounds:
    """Return the rounds from `from_ms` on. Ages are exact to an interval (`spark.lag.round.round_arrays`)."""
    if not grid.keys:
        nothing = np.empty(0, dtype=np.int64)
        return Rounds(*[nothing] * len(Rounds.__slots__))
    queues = standing_of(grid)
    there, age_ms = queues.exists, queues.age_ms.max(axis=0)
    waits = age_ms > 0
    kept = (grid.t_ms >= from_ms) & (there & queues.is_read).any(axis=0)
    return Rounds(
        grid.t_ms,
        queues.lag.sum(axis=0),
        age_ms,
        np.where(waits, np.maximum(age_ms - grid.interval_ms, 0), 0),
        np.where(waits, age_ms + grid.interval_ms, 0),
        (there & ~queues.is_counted).sum(axis=0),
        queues.is_bound.max(axis=0).astype(np.int64),
        _in_flight(queues),
    ).select(np.flatnonzero(kept))


def _in_flight(queues: Standing) -> Int64Array:
    """Return what was pulled and not confirmed, -1 where it was not read of every queue."""
    if queues.in_flight is None:
        return np.full(queues.exists.shape[1], -1, dtype=np.int64)
    is_known = ~(queues.exists & (queues.in_flight < 0)).any(axis=0)
    return np.where(is_known, np.maximum(queues.in_flight, 0).sum(axis=0), -1)


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
    """Return which rounds to draw: all if they fit, else the smallest and largest of each series and step."""
    if len(times) <= points:
        return np.arange(len(times), dtype=np.int64)
    steps = (times - from_ms) * (points // (2 * len(series))) // max(1, to_ms - from_ms)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1])
    kept = [np.array([0, len(times) - 1], dtype=np.int64)]
    for values in series:
        kept += [_first_where(values, np.minimum, starts), _first_where(values, np.maximum, starts)]
    return np.unique(np.concatenate(kept))


def _first_where(values: Int64Array, extreme: np.ufunc, starts: Int64Array) -> Int64Array:
    """Return the first index in each step that holds its extreme value."""
    found = extreme.reduceat(values, starts)
    lengths = np.diff(np.append(starts, len(values)))
    places = np.where(values == np.repeat(found, lengths), np.arange(len(values)), len(values))
    first: Int64Array = np.minimum.reduceat(places, starts)
    return first
