"""Samples of some series laid out as a matrix, series by rounds, and added up to group-topics and queues.

The rows of every report are sums, maxima and runs over this matrix. A round is one time for every series of a cluster,
so a cell is a sample or is missing; a series that stands for a queue nobody answered for keeps its row, empty: its
group-topic is then incomplete in those rounds, never smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from spark.lag.rollup import GAP_INTERVALS, Figures
from spark.lag.samples import Samples, SeriesKey
from spark.lag.snapshot import UNKNOWN_OFFSET, BoolArray, Int64Array
from spark.lag.status import SKIP_MESSAGES

T = TypeVar("T", bound=np.generic)
FloatArray = npt.NDArray[np.float64]
QUEUE_WIDTH, TOPIC_WIDTH = 4, 2  # leading parts of a SeriesKey that name a queue of a group, a group's topic


@dataclass(frozen=True, slots=True)
class Matrix:
    """Figures of the samples in one window. All matrices are series x rounds; cells without `present` are 0.

    `gap_ms` is the time since the series' sample before, -1 without one; counts belong to that interval.
    """

    keys: Sequence[SeriesKey]
    times: Int64Array
    interval_ms: int
    begins: Int64Array  # when each series was first seen, or earlier
    present: BoolArray
    valid: BoolArray
    lag: Int64Array
    time_lag_ms: Int64Array
    censored: BoolArray
    gap_ms: Int64Array
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array
    pulled: Int64Array
    produced: Int64Array
    consumed: Int64Array
    skipped: Int64Array
    lost: Int64Array
    rewound: BoolArray

    @classmethod
    def of(cls, samples: Samples, figures: Figures, from_ms: int, to_ms: int, interval_ms: int) -> Matrix:
        """Lay out the samples of [from_ms, to_ms); older ones only say when a series began."""
        inside = (samples.t_ms >= from_ms) & (samples.t_ms < to_ms)
        is_all = bool(inside.all())
        t_ms = samples.t_ms if is_all else samples.t_ms[inside]
        times = _round_times(t_ms, len(samples.keys))
        shape = (len(samples.keys), len(times))
        is_full = len(t_ms) == shape[0] * shape[1]
        series = np.empty(0, dtype=np.int64) if is_full else samples.series[inside]
        cells = slice(None) if is_full else series * shape[1] + np.searchsorted(times, t_ms)

        def laid_out(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
            values = values if is_all else values[inside]
            if is_full:
                return values.reshape(shape)
            matrix = np.zeros(shape[0] * shape[1], dtype=values.dtype)
            matrix[cells] = values
            return matrix.reshape(shape)

        seen_ms = np.full(shape[0], np.iinfo(np.int64).max)
        has_samples = samples.counts > 0
        seen_ms[has_samples] = samples.t_ms[samples.starts[:-1][has_samples]]
        begins = np.where(samples.previous.t_ms >= 0, samples.previous.t_ms, seen_ms)
        names = (
            "valid",
            "lag",
            "time_lag_ms",
            "censored",
            "gap_ms",
            "produced",
            "consumed",
            "lost",
            "rewound",
        )
        columns = {name: laid_out(getattr(figures, name)) for name in names}
        columns |= {
            name: laid_out(getattr(samples, name))
            for name in ("max_offset", "min_offset", "committed", "pulled")
        }
        columns["skipped"] = laid_out(_skipped(samples, figures))
        present = (
            np.ones(shape, dtype=np.bool_)
            if is_full
            else laid_out(np.ones(len(samples.t_ms), dtype=np.bool_))
        )
        return cls(samples.keys, times, interval_ms, begins, present, **columns)  # type: ignore[arg-type]

    @property
    def gap_limit_ms(self) -> int:
        """A longer silence is unknown, not good or bad."""
        return GAP_INTERVALS * self.interval_ms

    @property
    def counted_ms(self) -> Int64Array:
        """The length of each interval that counts; 0 where there is no sample before or the gap is too long."""
        return np.where((self.gap_ms > 0) & (self.gap_ms <= self.gap_limit_ms), self.gap_ms, 0)

    def take(self, rows: Int64Array) -> Matrix:
        """Some of the series."""
        own = ("keys", "times", "interval_ms")
        cut = {field.name: getattr(self, field.name)[rows] for field in fields(self) if field.name not in own}
        return replace(self, keys=[self.keys[row] for row in rows.tolist()], **cut)


def _round_times(t_ms: Int64Array, series: int) -> Int64Array:
    """Each round's time once; mostly every series has all of them, which one look tells sooner than sorting."""
    width = len(t_ms) // series if series else 0
    if width and width * series == len(t_ms):
        grid = t_ms.reshape(series, width)
        first: Int64Array = grid[0]
        if (grid == first).all() and (np.diff(first) > 0).all():
            return first
    return np.unique(t_ms)


def _skipped(samples: Samples, figures: Figures) -> Int64Array:
    """Messages that a forward jump of the committed offset passed by: gained, and not counted as consumed."""
    before = np.empty_like(samples.committed)
    before[1:] = np.maximum(samples.committed[:-1], samples.min_offset[:-1])
    at = samples.first
    before[at] = np.maximum(samples.previous.committed, samples.previous.min_offset)[samples.counts > 0]
    gained = samples.committed - before
    is_jump = (gained >= SKIP_MESSAGES) & (figures.consumed == 0) & (figures.gap_ms > 0)
    jumped: Int64Array = np.where(is_jump & (before > UNKNOWN_OFFSET), gained, 0)
    return jumped


@dataclass(frozen=True, slots=True)
class Bundles:
    """Which series make one row: [starts[i], starts[i + 1]) of them."""

    starts: Int64Array
    series: Int64Array  # the bundle of every series

    @classmethod
    def of(cls, keys: Sequence[SeriesKey], width: int) -> Bundles:
        """Bundle series whose keys share their first `width` parts; keys are sorted."""
        begins = [i for i in range(len(keys)) if i == 0 or keys[i][:width] != keys[i - 1][:width]]
        starts = np.array([*begins, len(keys)], dtype=np.int64)
        return cls(starts, np.repeat(np.arange(len(begins), dtype=np.int64), np.diff(starts)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def is_single(self) -> bool:
        """Whether every series is a row of its own."""
        return len(self) == len(self.series)

    def sums(self, matrix: npt.NDArray[np.generic]) -> Int64Array:
        """Add the series of each bundle."""
        if self.is_single:
            return matrix.astype(np.int64, copy=False)
        added: Int64Array = np.add.reduceat(matrix, self.starts[:-1], axis=0, dtype=np.int64)
        return added

    def largest(self, matrix: npt.NDArray[T]) -> npt.NDArray[T]:
        """The maximum over the series of each bundle."""
        if self.is_single:
            return matrix
        found: npt.NDArray[T] = np.maximum.reduceat(matrix, self.starts[:-1], axis=0)
        return found


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rows' series added up per round: matrices bundles x rounds.

    `complete`: every queue that existed was read, so that sums are not too small. `gap_ms` is the time since the
    row's round before, 0 without one.
    """

    seen: BoolArray
    complete: BoolArray
    lag: Int64Array
    time_lag_ms: Int64Array
    censored: BoolArray
    gap_ms: Int64Array
    produced: Int64Array
    consumed: Int64Array

    @classmethod
    def of(cls, matrix: Matrix, bundles: Bundles) -> Rounds:
        """Add up."""
        read = bundles.sums(matrix.present & matrix.valid)
        seen = bundles.largest(matrix.present.astype(np.int64)) > 0
        return cls(
            seen,
            seen & (read == _expected(matrix, bundles)),
            bundles.sums(matrix.lag),
            bundles.largest(matrix.time_lag_ms),
            bundles.largest(matrix.censored.astype(np.int64)) > 0,
            _round_gaps(matrix, bundles, seen),
            bundles.sums(matrix.produced),
            bundles.sums(matrix.consumed),
        )


def join_rounds(parts: Sequence[Rounds]) -> Rounds:
    """Bundles of several, over the same rounds, behind each other."""
    names = [field.name for field in fields(Rounds)]
    return Rounds(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _expected(matrix: Matrix, bundles: Bundles) -> Int64Array:
    """How many queues exist at each round: each from its first sample until its next incarnation begins."""
    keys, begins = matrix.keys, matrix.begins
    earliest, latest = (int(begins.min()), int(begins.max())) if len(begins) else (0, 0)
    one_life = all(key.incarnation == 0 for key in keys)
    if one_life and len(matrix.times) and latest <= matrix.times[0]:
        return np.repeat(np.diff(bundles.starts)[:, None], len(matrix.times), axis=1)
    assert earliest >= 0
    alive = begins[:, None] <= matrix.times[None, :]
    for i in range(len(keys) - 1):
        if (
            keys[i].incarnation != keys[i + 1].incarnation
            and keys[i][:QUEUE_WIDTH] == keys[i + 1][:QUEUE_WIDTH]
        ):
            alive[i] &= matrix.times < begins[i + 1]
    return bundles.sums(alive)


def _round_gaps(matrix: Matrix, bundles: Bundles, seen: BoolArray) -> Int64Array:
    """The time between the rounds of each row; of the first one what its series say."""
    rows, width = seen.shape
    if width == 0:
        return np.zeros(seen.shape, dtype=np.int64)
    if seen.all():
        gaps = np.empty(seen.shape, dtype=np.int64)
        gaps[:, 1:] = np.diff(matrix.times)[None, :]
        gaps[:, 0] = np.maximum(bundles.largest(matrix.gap_ms[:, :1])[:, 0], 0)
        return gaps
    last_seen = np.maximum.accumulate(np.where(seen, np.arange(width), -1), axis=1)
    before = np.full((rows, width), -1, dtype=np.int64)
    before[:, 1:] = last_seen[:, :-1]
    own = np.where(matrix.present, matrix.gap_ms, -1)
    gaps = np.where(
        before >= 0, matrix.times[None, :] - matrix.times[np.maximum(before, 0)], bundles.largest(own)
    )
    return np.where(seen, np.maximum(gaps, 0), 0)


def before(matrix: Int64Array, first: int = 0) -> Int64Array:
    """Each cell's neighbour to the left; `first` in the first column."""
    shifted = np.full_like(matrix, first)
    shifted[:, 1:] = matrix[:, :-1]
    return shifted
