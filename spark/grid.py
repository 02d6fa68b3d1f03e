"""The ordinary hour of some groups as narrow matrices: every queue was read in every round, and most did nothing odd.

`spark.rounds.Matrix` holds any samples, 64 bits wide and with a dozen matrices. Here only series that did anything have
a row, numbers are 32 bits wide and lie in the processor's cache, and what a figure needs of the rules is decided per
series: rises that never fall need no running maximum, offsets above what retention removed need no minimum. Series
that went back, jumped ahead or lost messages (`odd`: few of thousands) are worked out by the plain rules and put into
their rows. The results are the same to the last bit (tests/spark/test_grid.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark.lag import chunk, rollup
from spark.lag.chunk_rows import LISTS
from spark.lag.rollup import GAP_INTERVALS
from spark.lag.snapshot import BoolArray, Int64Array
from spark.lag.status import SKIP_MESSAGES, forward_jumps
from spark.lookback import Ages
from spark.rounds import FloatArray, Matrix

Int32Array = npt.NDArray[np.int32]
BASE = (
    "max0", "min0", "max_last", "min_last", "lag_base", "t0_ms", "prev_t_ms", "prev_max", "prev_min", "prev_committed",
)  # fmt: skip
KEYS = ["group", "topic", "broker_name", "queue_id", "incarnation"]
QUEUE_KEYS = KEYS[:4]
SLAB_ROWS = 256  # what stays in the nearest cache while it is worked on: a third of the time
# A wider number of messages goes the plain way: sums and differences of two stay inside 32 bits.
WIDEST = 1 << 30
# (rows of a chunk, their lags) → the time lags of their samples by the history before the hour; None: no more is known
Past = Callable[[Int64Array, Int32Array], Ages | None]


@dataclass(frozen=True, slots=True)
class Odd:
    """Series worked out by the plain rules: row i of `matrix` is row `places[i]` of the grid."""

    places: Int64Array
    matrix: Matrix


@dataclass(frozen=True, slots=True)
class Grid:
    """Series of whole groups in key order; matrices have a row for each series in `active` (numbers of `names` rows)
    and a column per round. A series without one has no lag and no traffic.

    `gap_ms` is the time since the round before, of the first since the sample before the hour, -1 without one. `age_ms`
    is the time lag; `censored` rows, named by `old`, know it as a lower bound only. `in_flight` has rows for `pulled`,
    -1 where it was not read.
    """

    names: pa.Table  # KEYS
    topic_starts: Int64Array  # of names rows, and their end
    times: Int64Array
    gap_ms: Int64Array
    interval_ms: int
    active: Int64Array
    lag: Int32Array
    age_ms: Int32Array
    produced: Int32Array
    consumed: Int32Array
    low_first: Int64Array
    low_last: Int64Array
    committed_last: Int64Array
    old: Int64Array
    censored: BoolArray
    pulled: Int64Array
    in_flight: Int32Array
    odd: Odd | None

    @property
    def gap_limit_ms(self) -> int:
        """A longer silence is unknown, not good or bad."""
        return GAP_INTERVALS * self.interval_ms

    @property
    def watched_ms(self) -> Int64Array:
        """The gap before each round, 0 where there is no round before."""
        watched: Int64Array = np.maximum(self.gap_ms, 0)
        return watched


def lay_out(
    table: pa.Table, from_ms: int, to_ms: int, interval_ms: int, past: Past
) -> tuple[Grid | None, BoolArray]:
    """The grid of chunk rows in key order, one file's, all of whole groups; and which rows are not in it and go the
    plain way: of groups with holes, several rows of a queue, a committed offset beyond max or numbers too wide.
    """
    rest = _uneven(table, from_ms, to_ms)
    while True:
        kept = table if not rest.any() else table.filter(pa.array(~rest))
        if kept.num_rows == 0:
            return None, rest
        cells = _Cells.of(kept.combine_chunks(), interval_ms)
        unfit = cells.unfit()
        if not unfit.any():
            return cells.grid(past if not rest.any() else _of_rows(past, np.flatnonzero(~rest))), rest
        rest[np.flatnonzero(~rest)[unfit]] = True
        rest = _whole_groups(table, rest)


def without_earlier(table: pa.Table, from_ms: int) -> pa.Table | None:
    """The rows that begin at `from_ms` or later, when the others end before it (a day's file has the hours of a series
    side by side); else None.
    """
    begins = _numbers(table, "t0_ms")
    earlier = np.flatnonzero(begins < from_ms)
    if not len(earlier):
        return table
    coded = table["dt_ms"].take(earlier).combine_chunks()
    lasts = np.array([np.frombuffer(one, dtype="<i4")[-1] for one in coded.dictionary.to_pylist()])
    if (begins[earlier] + lasts[coded.indices.to_numpy()] >= from_ms).any():
        return None
    return table.filter(pa.array(begins >= from_ms))


def series_numbers(table: pa.Table) -> Int64Array:
    """Which series each row is of, counted from 0; rows are in key order."""
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    numbers[1:] = np.cumsum(~_same_as_before(table, KEYS))
    return numbers


def series_of(table: pa.Table) -> pa.Table:
    """KEYS of the series of rows in key order."""
    names = table.select(KEYS)
    numbers = series_numbers(table)
    if not len(numbers) or numbers[-1] == len(numbers) - 1:
        return names
    return names.filter(pa.array(np.append(True, np.diff(numbers) > 0)))


def _of_rows(past: Past, rows: Int64Array) -> Past:
    return lambda asked, lag: past(rows[asked], lag)


def _uneven(table: pa.Table, from_ms: int, to_ms: int) -> BoolArray:
    """The rows of groups whose queues were not all read in the same rounds, all of them in [from_ms, to_ms)."""
    numbers = [_numbers(table, name) for name in ("t0_ms", "n", "prev_t_ms")]
    coded = table["dt_ms"].combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    columns = np.column_stack([*numbers, _first_alike(coded)[coded.indices.to_numpy()]])
    usual = columns[0]
    if not (columns == usual).all():
        found, counts = np.unique(columns, axis=0, return_counts=True)
        usual = found[np.argmax(counts)]
    uneven: BoolArray = (columns != usual).any(axis=1)
    times = usual[0] + _offsets(coded.dictionary[int(usual[3])])
    in_order = len(times) == usual[1] and bool((np.diff(times) > 0).all())
    if not in_order or times[0] < from_ms or times[-1] >= to_ms or usual[2] >= times[0]:
        uneven[:] = True
    uneven[1:] |= _same_as_before(table, QUEUE_KEYS)
    return _whole_groups(table, uneven)


def _first_alike(coded: pa.DictionaryArray) -> Int64Array:
    """For each entry the first equal one: row groups that are read together bring an entry each."""
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(one, i) for i, one in enumerate(coded.dictionary.to_pylist())])


def _offsets(entry: pa.Scalar) -> Int64Array:
    return np.frombuffer(entry.as_py(), dtype="<i4").astype(np.int64)


def _same_as_before(table: pa.Table, names: Sequence[str]) -> BoolArray:
    """Of each row but the first: whether it has the names of the row before."""
    same = np.ones(max(table.num_rows - 1, 0), dtype=np.bool_)
    for name in names:
        column = table[name].combine_chunks()
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return same


def _whole_groups(table: pa.Table, rows: BoolArray) -> BoolArray:
    if not rows.any():
        return rows
    group = np.zeros(len(rows), dtype=np.int64)
    group[1:] = np.cumsum(~_same_as_before(table, KEYS[:1]))
    named = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    named[group[rows]] = True
    whole: BoolArray = named[group]
    return whole


def _numbers(table: pa.Table, name: str) -> Int64Array:
    column = table[name]
    filled = column.fill_null(-1) if column.null_count else column
    numbers: Int64Array = filled.to_numpy().astype(np.int64)
    return numbers


@dataclass(frozen=True, slots=True)
class _Cells:
    """Chunk rows as matrices: `rise` of the max offset since the round before and `gain` of the committed one, in the
    first column since the sample before the hour (0 without one); `lag` between them, signed.
    """

    table: pa.Table
    interval_ms: int
    times: Int64Array
    gap_ms: Int64Array
    active: Int64Array
    lag: Int32Array
    rise: Int32Array
    gain: Int32Array
    is_wide: BoolArray
    base: dict[str, Int64Array]  # columns of the active rows

    @classmethod
    def of(cls, table: pa.Table, interval_ms: int) -> _Cells:
        base = {name: _numbers(table, name) for name in BASE}
        times = base["t0_ms"][0] + _offsets(table["dt_ms"][0])
        before_ms = int(base["prev_t_ms"][0])
        gap_ms = np.concatenate([[times[0] - before_ms if before_ms >= 0 else -1], np.diff(times)])
        width = len(times)
        active = _active(table, base, before_ms >= 0)
        base = {name: values[active] for name, values in base.items()}
        place = np.full(table.num_rows, -1)
        place[active] = np.arange(len(active))
        lag = _spread_out(table, "lag", place, (len(active), width))
        rise = _spread_out(table, "dmax", place, (len(active), width))
        is_wide = np.zeros(len(active), dtype=np.bool_)
        steady = np.flatnonzero(base["lag_base"])
        wide_lag = lag[steady] + base["lag_base"][steady, None]
        is_wide[steady] = (np.abs(wide_lag) >= WIDEST).any(axis=1)
        lag[steady] = wide_lag
        gain = rise.copy()
        gain[:, 1:] -= np.diff(lag, axis=1)
        gain[:, 0] = 0
        if before_ms >= 0:
            firsts = base["max0"] - base["prev_max"], base["max0"] - lag[:, 0] - base["prev_committed"]
            for matrix, first in ((rise, firsts[0]), (gain, firsts[1])):
                is_wide |= np.abs(first) >= WIDEST
                matrix[:, 0] = first
        for matrix in (lag, rise, gain):
            is_wide |= matrix.max(axis=1, initial=0) >= WIDEST
        return cls(table, interval_ms, times, gap_ms, active, lag, rise, gain, is_wide, base)

    def unfit(self) -> BoolArray:
        """Which rows of the table no grid can hold."""
        unfit = np.zeros(self.table.num_rows, dtype=np.bool_)
        unfit[self.active] = self.is_wide | (self.lag.min(axis=1, initial=0) < 0)
        return unfit

    def grid(self, past: Past) -> Grid:
        odd = self.odd()
        age_ms, old, censored = _ages(self, odd)
        base = self.base
        grid = Grid(
            names=self.table.select(KEYS),
            topic_starts=np.append(_topic_firsts(self.table), self.table.num_rows).astype(np.int64),
            times=self.times,
            gap_ms=self.gap_ms,
            interval_ms=self.interval_ms,
            active=self.active,
            lag=self.lag,
            age_ms=age_ms,
            produced=self._counted(self.rise),
            consumed=self._counted(self.gain),
            low_first=base["min0"],
            low_last=base["min_last"],
            committed_last=base["max_last"] - self.lag[:, -1],
            old=old,
            censored=censored,
            pulled=np.empty(0, dtype=np.int64),
            in_flight=np.empty((0, len(self.times)), dtype=np.int32),
            odd=None,
        )
        return _with_past(_with_pulled(_with_odd(grid, self.table, odd), self.table), past)

    @property
    def counts(self) -> BoolArray:
        """The rounds whose interval counts."""
        limit_ms = GAP_INTERVALS * self.interval_ms
        return (self.gap_ms > 0) & (self.gap_ms <= limit_ms)

    def _counted(self, moves: Int32Array) -> Int32Array:
        counts = self.counts
        if counts[1:].all() and (counts[0] or self.gap_ms[0] < 0):
            return moves
        return np.where(counts, moves, np.int32(0))

    def odd(self) -> Int64Array:
        """Rows in which an offset fell or jumped, or retention came near: only the plain rules tell what it means."""
        base, has_before = self.base, self.gap_ms[0] >= 0
        rows = (self.rise.min(axis=1, initial=0) < 0) | (self.gain.min(axis=1, initial=0) < 0)
        first = base["prev_committed"] if has_before else base["max0"] - self.lag[:, 0]
        rows |= first < base["min_last"]
        if has_before:
            rows |= base["prev_min"] > base["min0"]
        moved_low, items = _list(self.table, "dmin", len(self.times))
        if len(moved_low):
            fell = moved_low[items.min(axis=1) < 0]
            rows |= np.isin(self.active, fell)
        uncounted = ~self.counts
        for row in np.flatnonzero(self.gain.max(axis=1, initial=0) >= SKIP_MESSAGES).tolist():
            gain = self.gain[row]
            jumps = forward_jumps(self.times, np.cumsum(gain, dtype=np.int64))
            rows[row] |= len(jumps) > 0 or bool((gain[uncounted] >= SKIP_MESSAGES).any())
        return np.flatnonzero(rows)


def _active(table: pa.Table, base: dict[str, Int64Array], has_before: bool) -> Int64Array:
    """Rows that anything can be said of but that nothing happened."""
    found = (base["lag_base"] != 0) | (base["min_last"] > base["max0"])
    if has_before:
        found |= (base["prev_max"] != base["max0"]) | (base["prev_committed"] != base["max0"])
    for name in LISTS:
        if table[name].null_count < table.num_rows:
            found |= table[name].is_valid().to_numpy()
    return np.flatnonzero(found)


def _list(table: pa.Table, name: str, width: int) -> tuple[Int64Array, Int32Array]:
    """The rows whose list is not null, and their items."""
    column = table[name]
    if column.null_count == len(column):
        return np.empty(0, dtype=np.int64), np.empty((0, width), dtype=np.int32)
    rows = np.flatnonzero(column.is_valid().to_numpy())
    flat = [piece.flatten().to_numpy() for piece in column.chunks if len(piece)]
    items = flat[0] if len(flat) == 1 else np.concatenate(flat)
    return rows, items.reshape(-1, width)


def _spread_out(table: pa.Table, name: str, place: Int64Array, shape: tuple[int, int]) -> Int32Array:
    rows, items = _list(table, name, shape[1])
    if len(rows) == shape[0]:
        return items.copy()
    matrix = np.zeros(shape, dtype=np.int32)
    matrix[place[rows]] = items
    return matrix


def _topic_firsts(table: pa.Table) -> Int64Array:
    return np.append(0, np.flatnonzero(~_same_as_before(table, KEYS[:2])) + 1)


def _ages(cells: _Cells, odd: Int64Array) -> tuple[Int32Array, Int64Array, BoolArray]:
    """The time lags but of odd rows, the rows with lower bounds, and where those are (see `inversion.store_times`).

    Most messages that wait came in the round's own interval: no search is needed for their place.
    """
    lag = cells.lag
    age_ms, waits = np.empty_like(lag), np.empty(lag.shape, dtype=np.bool_)
    gap_ms = cells.gap_ms.astype(np.float64)
    for first in range(0, len(lag), SLAB_ROWS):
        own = slice(first, first + SLAB_ROWS)
        waits[own] = _fresh_ages(cells.rise[own], lag[own], gap_ms, age_ms[own])
    waits[odd] = False
    series, column = np.divmod(np.flatnonzero(waits), lag.shape[1])  # few: four times as fast as nonzero
    if not len(series):
        return age_ms, np.empty(0, dtype=np.int64), np.empty((0, lag.shape[1]), dtype=np.bool_)
    stored, is_censored = _stored_before(cells, series, column)
    age_ms[series, column] = cells.times[column] - stored
    old = np.flatnonzero(np.bincount(series[is_censored], minlength=1))
    censored = np.zeros((len(old), lag.shape[1]), dtype=np.bool_)
    censored[np.searchsorted(old, series[is_censored]), column[is_censored]] = True
    return age_ms, old, censored


def _fresh_ages(rise: Int32Array, lag: Int32Array, gap_ms: FloatArray, age_ms: Int32Array) -> BoolArray:
    """Put the time lags of messages of the round's own interval into `age_ms`, 0 elsewhere; return where others wait.

    One type all along: NumPy is four times as fast without casts.
    """
    ahead = rise - lag  # messages of the interval in front of the first that waits; below 0: it is older
    share = ahead.astype(np.float64)
    share += 0.5
    share /= np.maximum(rise, 1).astype(np.float64)
    share *= gap_ms
    np.rint(share, out=share)
    np.subtract(gap_ms, share, out=share)
    waits = lag > 0
    is_fresh = ahead >= 0
    is_fresh &= waits
    with np.errstate(invalid="ignore"):
        age_ms[...] = share
    age_ms *= is_fresh.view(np.int8)
    waits ^= is_fresh
    return waits


def _stored_before(cells: _Cells, series: Int64Array, column: Int64Array) -> tuple[Int64Array, BoolArray]:
    """When the first waiting messages of some cells came, in rounds before theirs, and which are lower bounds."""
    has_cells = np.bincount(series, minlength=len(cells.rise)) > 0
    row = (np.cumsum(has_cells) - 1)[series]
    width = len(cells.times) + 1
    heads = np.zeros((int(has_cells.sum()), width), dtype=np.int64)
    np.cumsum(cells.rise[has_cells], axis=1, out=heads[:, 1:])
    times = np.append(cells.times[0] - max(int(cells.gap_ms[0]), 0), cells.times)
    spans = heads[:, -1] + 2  # one ascending array for all series, a range of numbers for each
    bases = np.cumsum(spans) - spans
    keys = (heads + bases[:, None]).reshape(-1)
    begins = row * width
    asked = keys[begins + column + 1] - cells.lag[series, column]
    at = np.searchsorted(keys, np.maximum(asked, bases[row] - 1), side="right") - 1
    is_censored = at < begins
    at = np.maximum(at, begins)
    reached, place = keys[at], at - begins
    after = times[place]
    until = times[np.minimum(place + 1, width - 1)]
    gained = keys[np.minimum(at + 1, len(keys) - 1)] - reached
    passed = (asked + 0.5 - reached) / np.maximum(gained, 1)
    estimate = after + np.rint(passed * (until - after)).astype(np.int64)
    return np.where(is_censored, after, estimate), is_censored


def _with_odd(grid: Grid, table: pa.Table, places: Int64Array) -> Grid:
    """The odd rows by the plain rules."""
    if not len(places):
        return grid
    samples = chunk.decode_table(table.take(grid.active[places]))
    figures = rollup.figures(samples, interval_ms=grid.interval_ms)
    first_ms, last_ms = int(grid.times[0]), int(grid.times[-1])
    matrix = Matrix.of(samples, figures, first_ms, last_ms + 1, grid.interval_ms)
    grid.lag[places], grid.age_ms[places] = matrix.lag, matrix.time_lag_ms
    grid.produced[places], grid.consumed[places] = matrix.produced, matrix.consumed
    is_old = matrix.censored.any(axis=1)
    old = np.concatenate([grid.old, places[is_old]])
    order = np.argsort(old)
    censored = np.concatenate([grid.censored, matrix.censored[is_old]])
    return replace(grid, old=old[order], censored=censored[order], odd=Odd(places, matrix))


def _with_pulled(grid: Grid, table: pa.Table) -> Grid:
    rows, items = _list(table, "in_flight", len(grid.times))
    if not len(rows):
        return grid
    places = np.searchsorted(grid.active, rows)
    in_flight = np.minimum(items, grid.lag[places])
    if grid.odd is not None:
        odd, matrix = grid.odd.places, grid.odd.matrix
        pulled = np.maximum(matrix.pulled - np.maximum(matrix.committed, matrix.min_offset), 0)
        ours = np.where(matrix.pulled >= 0, np.minimum(matrix.lag, pulled), -1)
        is_both = np.isin(odd, places)
        in_flight[np.searchsorted(places, odd[is_both])] = ours[is_both]
    return replace(grid, pulled=places, in_flight=in_flight)


def _with_past(grid: Grid, past: Past) -> Grid:
    """The time lags of messages that are older than the hour, where the history before it knows them."""
    found = past(grid.active[grid.old], grid.lag[grid.old]) if len(grid.old) else None
    if found is None:
        return grid
    ages, censored = found.ms, found.is_bound
    grid.age_ms[grid.old] = ages
    if grid.odd is None:
        return replace(grid, censored=censored)
    odd = grid.odd
    row = np.searchsorted(odd.places, grid.old)
    is_odd = np.isin(grid.old, odd.places)
    time_lag_ms, is_bound = odd.matrix.time_lag_ms.copy(), odd.matrix.censored.copy()
    time_lag_ms[row[is_odd]], is_bound[row[is_odd]] = ages[is_odd], censored[is_odd]
    matrix = replace(odd.matrix, time_lag_ms=time_lag_ms, censored=is_bound)
    return replace(grid, censored=censored, odd=Odd(odd.places, matrix))
