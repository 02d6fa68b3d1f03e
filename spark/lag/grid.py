"""Judged samples of some queues side by side: matrices of queues x rounds, the one form that folds work on.

A round is one time for every series of a cluster, and a known series has a sample in each (`spark.lag.snapshot`), so
the matrices are dense. Where files are missing they are not: a series that is not in a round after its first one is
UNKNOWN there, with its last offsets, and ABSENT before its first sample and from its tombstone on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import ne
from typing import Any

import numpy as np
import numpy.typing as npt

from spark.lag.codes import ABSENT, NO_FLAGS, UNKNOWN_CODE, ByteArray, SampleFlag
from spark.lag.samples import SAMPLE_COLUMNS, Previous, Samples, SeriesKey, samples_of, starts_of
from spark.lag.snapshot import UNKNOWN_TIME, BoolArray, Int64Array

MATRICES = SAMPLE_COLUMNS[1:]
QUEUE_WIDTH, TOPIC_WIDTH = 4, 2  # leading parts of a SeriesKey that name a queue of a group, a group's topic


@dataclass(frozen=True, slots=True)
class Grid:
    """Queues in key order; of a queue with several incarnations each round has the one that lived then.

    `is_linked` where the round before has a sample of the same series, and a comparable one (`SampleFlag.SWITCHED`):
    only what changed since then is a difference.

    A compact grid has one row for all queues of a topic in which nothing happens: queue i is row `source[i]`. Its
    offsets count from the lowest one of their queue, in 32 bits: good for differences only. `decoded` makes it whole.
    """

    keys: Sequence[SeriesKey]
    t_ms: Int64Array
    interval_ms: int
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array
    pulled: Int64Array
    time_lag_ms: Int64Array
    status: ByteArray
    flags: ByteArray
    oldest_ms: Int64Array
    is_linked: BoolArray
    source: Int64Array | None = None
    decoded: Callable[[], Grid] | None = None

    def between(self, from_ms: int, to_ms: int) -> Grid:
        """Return the rounds of [from_ms, to_ms) and the one before them, all that figures of this window depend on."""
        first, last = np.searchsorted(self.t_ms, [from_ms, to_ms]).tolist()
        return self._part(slice(None), slice(max(first - 1, 0), last))

    def rows(self, place: slice) -> Grid:
        """Return some of the queues of a grid that is not compact."""
        return self._part(place, slice(None))

    def distinct(self) -> tuple[Grid, Int64Array]:
        """Return a grid of the rows alone, and which of them each queue is."""
        if self.source is None:
            return self, np.arange(len(self.keys))
        first = np.unique(self.source, return_index=True)[1].tolist()
        return replace(self, keys=[self.keys[at] for at in first], source=None, decoded=None), self.source

    def take(self, rows: Int64Array) -> Grid:
        """Return some of the queues."""
        own = {name: getattr(self, name)[rows] for name in (*MATRICES, "is_linked")}
        return Grid([self.keys[row] for row in rows.tolist()], self.t_ms, self.interval_ms, **own)

    def _part(self, rows: slice, columns: slice) -> Grid:
        own = {name: getattr(self, name)[rows, columns] for name in (*MATRICES, "is_linked")}
        return replace(self, keys=self.keys[rows], t_ms=self.t_ms[columns], **own)

    def whole(self) -> Grid:
        """Return the same with a row for every queue, and offsets as they were read."""
        return self if self.decoded is None else self.decoded()

    def starts(self, width: int) -> Int64Array:
        """Return where queues begin whose keys share their first `width` parts, and the end."""
        names = [key[:width] for key in self.keys]
        is_new = np.fromiter(map(ne, names[1:], names), dtype=np.bool_, count=max(len(names) - 1, 0))
        return np.array([*[0] * bool(names), *np.flatnonzero(is_new) + 1, len(names)], dtype=np.int64)


def carried(samples: Samples, before: Grid) -> Samples:
    """Append samples to an earlier grid.

    The grid's last round is the sample before the first one of each series without one. A series that exists at its
    end and is not among the samples was not read: it is not gone.
    """
    place = {key: row for row, key in enumerate(samples.keys)}
    lasts = Previous(
        np.full(len(before.keys), before.t_ms[-1]), *(getattr(before, name)[:, -1] for name in MATRICES)
    )
    lives = np.flatnonzero(lasts.status != ABSENT)
    own = np.array([place.get(before.keys[row], -1) for row in lives.tolist()], dtype=np.int64)
    known = own >= 0
    lacks = np.zeros_like(known)
    lacks[known] = samples.previous.t_ms[own[known]] < before.t_ms[-1]
    previous = samples.previous.take(np.arange(len(samples.keys)))
    previous.put(own[lacks], lasts, lives[lacks])
    queues = {key[:QUEUE_WIDTH] for key in samples.keys} if not known.all() else set()
    absent = [row for row in lives[~known].tolist() if before.keys[row][:QUEUE_WIDTH] not in queues]
    keys = [*samples.keys, *(before.keys[row] for row in absent)]
    columns = [getattr(samples, name) for name in SAMPLE_COLUMNS]
    if not absent:
        return samples_of(samples.keys, samples.starts, columns, previous)
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    more = lasts.take(np.array(absent, dtype=np.int64))
    whole = {
        name: np.concatenate([getattr(previous, name), getattr(more, name)])[order] for name in SAMPLE_COLUMNS
    }
    counts = np.concatenate([samples.counts, np.zeros(len(absent), dtype=np.int64)])[order]
    return samples_of([keys[at] for at in order.tolist()], starts_of(counts), columns, Previous(**whole))


def follows(grid: Grid, before: Grid | None) -> bool:
    """Return whether `carried` has nothing to add: the same series, and the sample before each is known."""
    if before is None:
        return True
    return grid.t_ms[0] == before.t_ms[-1] and grid.keys == before.keys


def grid_of(samples: Samples, interval_ms: int) -> Grid:
    """Return the grid of some samples; its first round is the one before them, where it is known."""
    t_ms, matrices = _even(samples) or _uneven(samples)
    grid = linked(list(samples.keys), t_ms.astype(np.int64), interval_ms, matrices)
    again = lives_again(grid.keys)
    return _one_life_a_round(grid, again) if again else grid


def linked(keys: Sequence[SeriesKey], t_ms: Int64Array, interval_ms: int, matrices: dict[str, Any]) -> Grid:
    """Return the grid of series without later incarnations."""
    exists = matrices["status"] != ABSENT
    is_linked = np.zeros(exists.shape, dtype=np.bool_)
    np.logical_and(exists[:, 1:], exists[:, :-1], out=is_linked[:, 1:])
    if matrices["flags"].any():
        is_linked &= (matrices["flags"] & SampleFlag.SWITCHED) == 0
    return Grid(keys, t_ms, interval_ms, **matrices, is_linked=is_linked)


def lives_again(keys: Sequence[SeriesKey]) -> list[int]:
    """Return which series are later incarnations of the queue of the series before them."""
    later = [i for i, key in enumerate(keys) if key.incarnation and i]
    return [i for i in later if keys[i][:QUEUE_WIDTH] == keys[i - 1][:QUEUE_WIDTH]]


def _even(samples: Samples) -> tuple[Int64Array, dict[str, npt.NDArray[Any]]] | None:
    """Return the rounds and the matrices of series that were all read in the same rounds: nothing is put in place."""
    count, before = len(samples.keys), samples.previous.t_ms
    if not count or len(samples.t_ms) % count or (before != before[0]).any():
        return None
    times = samples.t_ms.reshape(count, -1)
    width = times.shape[1]
    if (samples.counts != width).any() or (times != times[0]).any():
        return None
    has_before = before[0] >= 0
    if has_before and width and before[0] >= times[0, 0]:
        return None
    matrices = {}
    for name in MATRICES:
        own = getattr(samples, name).reshape(count, width)
        first = getattr(samples.previous, name)[:, None]
        matrices[name] = np.concatenate([first, own], axis=1) if has_before else own
    return np.concatenate([before[:1], times[0]]) if has_before else times[0], matrices


def _uneven(samples: Samples) -> tuple[Int64Array, dict[str, npt.NDArray[Any]]]:
    """Return the same of any series: the samples before the window are samples as others are."""
    count = len(samples.keys)
    has_before = np.flatnonzero(samples.previous.t_ms >= 0)
    series = np.concatenate([has_before, samples.series])
    at_ms = np.concatenate([samples.previous.t_ms[has_before], samples.t_ms])
    t_ms, column = np.unique(at_ms, return_inverse=True)
    place = np.full((count, len(t_ms)), -1, dtype=np.int64)
    place[series, column] = np.arange(len(at_ms))
    latest = np.maximum.accumulate(np.where(place >= 0, np.arange(len(t_ms)), -1), axis=1)
    is_read, has_any = place >= 0, latest >= 0
    source = np.take_along_axis(place, np.maximum(latest, 0), axis=1)
    matrices = {}
    for name in MATRICES:
        values = np.concatenate([getattr(samples.previous, name)[has_before], getattr(samples, name)])
        matrices[name] = values[source]
    is_over = matrices["status"] == ABSENT
    for name, value in (("status", UNKNOWN_CODE), ("flags", NO_FLAGS), ("time_lag_ms", UNKNOWN_TIME)):
        matrices[name][~is_read & ~is_over] = value
    matrices["status"][~has_any] = ABSENT
    # The round before the first one of the window; what is older was only carried there.
    first = int(np.searchsorted(t_ms, samples.t_ms.min())) if len(samples.t_ms) else len(t_ms)
    kept = slice(max(first - 1, 0), None)
    return t_ms[kept], {name: matrix[:, kept] for name, matrix in matrices.items()}


def _one_life_a_round(grid: Grid, again: Sequence[int]) -> Grid:
    """Put the incarnations of a queue into one row, that of the last one; `again` are rows of later incarnations."""
    names = (*MATRICES, "is_linked")
    matrices = {name: getattr(grid, name).copy() for name in names}  # they may be the samples' own
    dropped = np.zeros(len(grid.keys), dtype=np.bool_)
    lives = np.repeat(np.arange(len(grid.keys))[:, None], len(grid.t_ms), axis=1)
    for row in again:
        is_older = matrices["status"][row] == ABSENT
        for matrix in matrices.values():
            matrix[row, is_older] = matrix[row - 1, is_older]
        lives[row] = np.where(is_older, lives[row - 1], row)
        matrices["is_linked"][row, 1:] &= lives[row, 1:] == lives[row, :-1]
        dropped[row - 1] = True
    kept = np.flatnonzero(~dropped)
    return Grid(
        [grid.keys[row] for row in kept.tolist()],
        grid.t_ms,
        grid.interval_ms,
        **{name: matrix[kept] for name, matrix in matrices.items()},
    )
