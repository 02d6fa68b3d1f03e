"""Each round of some rows: queues, or queues added up to a group's topic or to a whole group.

Nothing is judged here: statuses and ages are the collector's, as stored. Differences of offsets count at the later
sample, across gaps too: what was produced and consumed in a gap is known, only not when. A row of several queues has
the worst status (`codes.WORST_FIRST`), the sum of the known lags and the age of the oldest message known; `is_read`,
`is_counted` and `is_aged` are false where that is not all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from spark.lag.codes import (
    ABSENT,
    CODE_OF,
    NEVER_COMMITTED_CODE,
    OK_CODE,
    SEVERITY,
    UNKNOWN_CODE,
    ByteArray,
    LagStatus,
    SampleFlag,
)
from spark.lag.grid import Grid
from spark.lag.snapshot import BoolArray, Int64Array

GAP_INTERVALS = 4  # a sample holds so long; then it is unknown what holds (lag.md 1.2, metric 20)
INVALID_CODE = CODE_OF[LagStatus.INVALID]
UNKNOWN_RANK = SEVERITY[LagStatus.UNKNOWN]
RANKS = len(SEVERITY) + 1  # 0: the row does not exist
RANK_OF_CODE = np.array([0, *(SEVERITY[status] for status in LagStatus)], dtype=np.uint8)

# Standing states, in which a queue may be beside others in other states.
STALL, OFFLINE, LOST = 1, 2, 4
_BITS = {
    LagStatus.STALLED: STALL,
    LagStatus.STOPPED: STALL,
    LagStatus.OFFLINE: OFFLINE,
    LagStatus.LOST: LOST,
}
BITS_OF_CODE = np.array([0, *(_BITS.get(status, 0) for status in LagStatus)], dtype=np.uint8)

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Matrices rows x rounds. Differences are since the round before, 0 in the first column.

    `exists`: how many queues the row has then; `rank`: severity of the worst status, `states` the standing ones of any
    queue (bits). `is_counted`: the lag of every queue is known, `is_aged`: the age of its oldest message is; `age_ms`
    is 0 where none waits, at least so much where `is_bound`. `moved`: a committed offset was set. `in_flight` is
    -1 where it was not read of every queue.
    """

    t_ms: Int64Array
    interval_ms: int
    exists: npt.NDArray[np.int32]
    rank: ByteArray
    states: ByteArray
    is_read: BoolArray
    is_counted: BoolArray
    is_aged: BoolArray
    is_bound: BoolArray
    lag: Int64Array
    age_ms: Int64Array
    produced: Int64Array
    consumed: Int64Array
    skipped: Int64Array
    lost: Int64Array
    rewound: BoolArray
    moved: BoolArray
    is_still: BoolArray  # messages waited in some queue in both rounds and its committed offset is the same
    in_flight: Int64Array | None
    late_lag: Int64Array | None = None  # in queues whose age is above what is promised; None: of none

    def together(self, starts: Int64Array) -> Rounds:
        """Add the rows of each range [starts[i], starts[i + 1]) up to one."""
        first = starts[:-1]
        if len(first) == len(self.rank):
            return self

        def total(matrix: npt.NDArray[Any]) -> Any:
            return _bundled(np.add, matrix, starts, np.int64)

        def any_of(matrix: BoolArray) -> BoolArray:
            found: BoolArray = _bundled(np.logical_or, matrix, starts, np.bool_)
            return found

        exists = total(self.exists)
        is_there = self.exists > 0

        def all_of(matrix: BoolArray) -> BoolArray:
            found: BoolArray = (exists > 0) & ~any_of(is_there & ~matrix)
            return found

        in_flight = None
        if self.in_flight is not None:
            is_known = all_of(self.in_flight >= 0)
            in_flight = np.where(is_known, total(np.maximum(self.in_flight, 0)), -1)
        return Rounds(
            t_ms=self.t_ms,
            interval_ms=self.interval_ms,
            exists=exists,
            rank=_bundled(np.maximum, self.rank, starts, np.uint8),
            states=_bundled(np.bitwise_or, self.states, starts, np.uint8),
            is_read=all_of(self.is_read),
            is_counted=all_of(self.is_counted),
            is_aged=all_of(self.is_aged),
            is_bound=any_of(self.is_bound),
            lag=total(self.lag),
            age_ms=_bundled(np.maximum, self.age_ms, starts, np.int64),
            produced=total(self.produced),
            consumed=total(self.consumed),
            skipped=total(self.skipped),
            lost=total(self.lost),
            rewound=any_of(self.rewound),
            moved=any_of(self.moved),
            is_still=any_of(self.is_still),
            in_flight=in_flight,
            late_lag=None if self.late_lag is None else total(self.late_lag),
        )

    @classmethod
    def stacked(cls, parts: Sequence[Rounds]) -> Rounds:
        """Return the rows of all parts; the parts have the same rounds."""
        own: dict[str, Any] = {}
        for name in MATRICES:
            found = [getattr(part, name) for part in parts]
            if any(one is not None for one in found):
                shapes = [part.rank.shape for part in parts]
                own[name] = np.concatenate(
                    [
                        np.full(shape, WITHOUT[name], dtype=np.int64) if one is None else one
                        for one, shape in zip(found, shapes, strict=True)
                    ]
                )
        return replace(parts[0], **own)

    @property
    def limit_ms(self) -> int:
        """Return how long a sample holds."""
        return GAP_INTERVALS * self.interval_ms

    def spans(self, from_ms: int, to_ms: int) -> tuple[Int64Array, Int64Array]:
        """Return for how much of [from_ms, to_ms) each round holds, and how long it is unknown after that."""
        ends = np.append(self.t_ms, to_ms)[1:]
        holds_to = np.minimum(ends, self.t_ms + self.limit_ms)
        held = np.minimum(holds_to, to_ms) - np.maximum(self.t_ms, from_ms)
        whole = np.minimum(ends, to_ms) - np.maximum(self.t_ms, from_ms)
        held = np.maximum(held, 0)
        return held, np.maximum(whole, 0) - held


def _bundled(by: np.ufunc, matrix: npt.NDArray[Any], starts: Int64Array, kind: type[np.generic]) -> Any:
    """Return the rows of each range [starts[i], starts[i + 1]) in one; most matrices are zero.

    Range by range, if ranges are long: three times as fast as `reduceat` on numbers.
    """
    shape = len(starts) - 1, matrix.shape[1]
    if not matrix.max(initial=0) and not matrix.min(initial=0):
        return np.zeros(shape, dtype=kind)
    if len(matrix) < 16 * shape[0]:
        return by.reduceat(matrix, starts[:-1], axis=0, dtype=kind)
    found = np.empty(shape, dtype=kind)
    for own, first, end in zip(found, starts.tolist(), starts[1:].tolist(), strict=False):
        by.reduce(matrix[first:end], axis=0, out=own)
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """What each queue shows in a round by itself, matrices queues x rounds; the names are those of `Rounds`.

    `is_valid`: its offsets make sense. `effective`: the first offset that can still be read, `waiting` what is behind
    it, whether its group reads it or not.
    """

    exists: BoolArray
    is_read: BoolArray
    is_valid: BoolArray
    is_counted: BoolArray
    is_aged: BoolArray
    is_bound: BoolArray
    effective: Int64Array
    waiting: Int64Array
    lag: Int64Array
    age_ms: Int64Array
    in_flight: Int64Array | None


def standing_of(grid: Grid) -> Standing:
    """Return what holds in each round: all that a chart of lag draws."""
    status, flags = grid.status, _flags_of(grid)
    exists = status != ABSENT
    is_read = exists & (status != UNKNOWN_CODE)
    is_valid = is_read & (status != INVALID_CODE)
    is_never = status == NEVER_COMMITTED_CODE
    is_own = is_valid & ~is_never
    effective = np.maximum(grid.committed, grid.min_offset)
    waiting = np.maximum(grid.max_offset - effective, 0)
    lag = where(is_own, waiting)
    is_aged = is_valid & ((grid.time_lag_ms >= 0) | is_never)
    return Standing(
        exists=exists,
        is_read=is_read,
        is_valid=is_valid,
        is_counted=is_valid if flags is None else is_valid & (flags & SampleFlag.LAG_BOUND == 0),
        is_aged=is_aged,
        is_bound=_none(exists) if flags is None else is_aged & (flags & SampleFlag.TIME_LAG_BOUND != 0),
        effective=effective,
        waiting=waiting,
        lag=lag,
        age_ms=where(is_own, np.maximum(grid.time_lag_ms, 0)),
        in_flight=_in_flight(grid, effective, lag, is_valid),
    )


def _flags_of(grid: Grid) -> ByteArray | None:
    """Return the flags; None: there are none, as mostly."""
    return grid.flags if grid.flags.any() else None


def rounds_of(grid: Grid, slo_ms: Int64Array | None = None) -> Rounds:
    """Return what the rounds show of each queue; `slo_ms` of each: how long its messages may wait."""
    own = standing_of(grid)
    moves = _Moves.of(grid, own.effective, own.is_valid, _flags_of(grid))
    is_still = np.zeros_like(own.exists)
    is_still[:, 1:] = (
        (own.waiting[:, 1:] > 0)
        & (own.waiting[:, :-1] > 0)
        & (grid.committed[:, 1:] == grid.committed[:, :-1])
    )
    is_still &= grid.is_linked & ~moves.moved & (grid.committed >= 0)
    return Rounds(
        t_ms=grid.t_ms,
        interval_ms=grid.interval_ms,
        exists=own.exists.astype(np.int32),
        rank=_translated(grid.status, RANK_OF_CODE),
        states=_translated(grid.status, BITS_OF_CODE),
        is_read=own.is_read,
        is_counted=own.is_counted,
        is_aged=own.is_aged,
        is_bound=own.is_bound,
        lag=own.lag,
        age_ms=own.age_ms,
        produced=where(grid.is_linked, _rises(grid.max_offset)),
        consumed=moves.consumed,
        skipped=moves.skipped,
        lost=moves.lost,
        rewound=moves.rewound,
        moved=moves.moved,
        is_still=is_still,
        in_flight=own.in_flight,
        late_lag=_late_lag(own.lag, own.age_ms, slo_ms),
    )


MATRICES = tuple(one.name for one in fields(Rounds) if one.name not in ("t_ms", "interval_ms"))
WITHOUT = {"in_flight": -1, "late_lag": 0}  # what is in a matrix that is None


@dataclass(frozen=True, slots=True)
class _Moves:
    """What became of committed offsets since the round before."""

    consumed: Int64Array
    skipped: Int64Array
    lost: Int64Array
    rewound: BoolArray
    moved: BoolArray

    @classmethod
    def of(cls, grid: Grid, effective: Int64Array, is_valid: BoolArray, flags: ByteArray | None) -> _Moves:
        """Return the moves. What retention removed, a reset jumped over or lies beyond max was not consumed."""
        committed = grid.committed
        counts = grid.is_linked.copy()
        counts[:, 1:] &= (committed[:, 1:] >= 0) & (committed[:, :-1] >= 0)
        moved = _none(counts) if flags is None else counts & (flags & SampleFlag.MOVED != 0)
        rewound = np.zeros_like(counts)
        # one beyond the end was no place to come back from
        was_place = grid.status[:, :-1] != INVALID_CODE
        rewound[:, 1:] = counts[:, 1:] & was_place & (committed[:, 1:] < committed[:, :-1])
        gained = np.zeros_like(committed)
        np.subtract(committed[:, 1:], effective[:, :-1], out=gained[:, 1:])
        np.maximum(gained, 0, out=gained)
        is_consumed = counts & ~moved & is_valid
        is_consumed[:, 1:] &= is_valid[:, :-1] | (grid.status[:, :-1] == UNKNOWN_CODE)
        lost = np.zeros_like(committed)
        if (committed < grid.min_offset).any():
            read_to = np.maximum(effective[:, :-1], committed[:, 1:])
            lost[:, 1:] = np.maximum(grid.min_offset[:, 1:] - read_to, 0)
            lost = where(counts, lost)
        skipped = where(moved, gained) if moved.any() else np.zeros_like(gained)
        return cls(where(is_consumed, gained), skipped, lost, rewound, moved)


def _translated(status: ByteArray, table: ByteArray) -> ByteArray:
    """Return what a table has for each status; most rows are OK all the time."""
    found = np.full(status.shape, table[OK_CODE])
    rows = np.flatnonzero((status != OK_CODE).any(axis=1))
    found[rows] = table.take(status[rows])
    return found


def _rises(matrix: Int64Array) -> Int64Array:
    """Return how much each number is above the one before it."""
    found = np.zeros_like(matrix)
    np.subtract(matrix[:, 1:], matrix[:, :-1], out=found[:, 1:])
    return np.maximum(found, 0, out=found)


def _late_lag(lag: Int64Array, age_ms: Int64Array, slo_ms: Int64Array | None) -> Int64Array | None:
    if slo_ms is None:
        return None
    is_late = age_ms > slo_ms[:, None]
    return lag * is_late if is_late.any() else None


def _in_flight(grid: Grid, effective: Int64Array, lag: Int64Array, is_valid: BoolArray) -> Int64Array | None:
    is_pulled = (grid.pulled >= 0) & is_valid
    if not is_pulled.any():
        return None
    return np.where(is_pulled, np.clip(grid.pulled - effective, 0, lag), -1)


def where(mask: BoolArray, values: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the values where the mask is true, else 0.

    Mostly it is true everywhere; else a product is ten times as fast as `np.where`.
    """
    return values if mask.all() else values * mask


def _none(like: BoolArray) -> BoolArray:
    return np.zeros_like(like)


def whole(count: int) -> Int64Array:
    """Return the starts that add all of some rows up to one."""
    return np.array([0, count], dtype=np.int64)
