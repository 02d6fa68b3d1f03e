"""A group's topic, or one of its queues, over any time: what each round shows of it, as arrays side by side.

Episodes, capacity and the replay of forecasts are read off this line. Rounds of several grids, hour after hour, are
put behind each other: only the requested rows stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from spark.lag.folds.rounds import GAP_INTERVALS, rounds_of
from spark.lag.folds.window import BEHIND_MS
from spark.lag.grid import QUEUE_WIDTH, TOPIC_WIDTH, Grid
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array


class LineKey(NamedTuple):
    """Whose line it is; of a group's topic without a queue."""

    group: str
    topic: str
    broker_name: str = ""
    queue_id: int = -1


@dataclass(frozen=True, slots=True)
class Line:
    """The columns of `spark.lag.folds.rounds.Rounds` for one row."""

    interval_ms: int
    incarnation: int
    t_ms: Int64Array
    exists: Int64Array
    states: Int64Array
    is_read: BoolArray
    is_counted: BoolArray
    is_aged: BoolArray
    is_bound: BoolArray
    moved: BoolArray
    lag: Int64Array
    age_ms: Int64Array
    produced: Int64Array
    consumed: Int64Array
    lost: Int64Array

    @property
    def limit_ms(self) -> int:
        """Return how long a round holds."""
        return GAP_INTERVALS * self.interval_ms

    @property
    def gap_ms(self) -> Int64Array:
        """Return the time since the round before, 0 where there is none or it was too long ago."""
        gaps = np.diff(self.t_ms, prepend=self.t_ms[:1])
        found: Int64Array = np.where(gaps <= self.limit_ms, gaps, 0).astype(np.int64)
        return found

    def held_ms(self, from_ms: int, to_ms: int) -> Int64Array:
        """Return for how much of a window each round holds."""
        ends = np.minimum(np.append(self.t_ms, to_ms)[1:], self.t_ms + self.limit_ms)
        held: Int64Array = np.minimum(ends, to_ms) - np.maximum(self.t_ms, from_ms)
        return np.maximum(held, 0)

    def since(self, from_ms: int) -> Line:
        """Return the rounds from `from_ms` on and the one before them."""
        first = max(int(np.searchsorted(self.t_ms, from_ms)) - 1, 0)
        own = {name: getattr(self, name)[first:] for name in COLUMNS}
        return Line(self.interval_ms, self.incarnation, **own)


COLUMNS = tuple(one.name for one in fields(Line))[2:]


def topic_lines(grids: Iterable[Grid]) -> dict[LineKey, Line]:
    """Return the line of every group-topic of the grids of consecutive windows."""
    parts: dict[LineKey, list[Line]] = {}
    for grid in grids:
        _read_off(grid, TOPIC_WIDTH, np.arange(len(grid.keys)), parts)
    return {key: joined(found) for key, found in parts.items()}


def late_queue_lines(grids: Iterable[Grid]) -> dict[LineKey, Line]:
    """Return the line of every queue in which a message ever waited longer than a commit takes: few of very many."""
    late: set[tuple[str | int, ...]] = set()
    parts: dict[LineKey, list[Line]] = {}
    before: Grid | None = None
    for grid in grids:
        rows = np.flatnonzero((grid.time_lag_ms > BEHIND_MS).any(axis=1)).tolist()
        fresh = {grid.keys[row][:QUEUE_WIDTH] for row in rows} - late
        if before is not None:  # what was normal before a backlog is in the window before it
            _read_off(before, QUEUE_WIDTH, _rows_of(before, fresh), parts)
        late |= fresh
        _read_off(grid, QUEUE_WIDTH, _rows_of(grid, late), parts)
        before = grid
    return {key: joined(found) for key, found in parts.items()}


def _rows_of(grid: Grid, queues: set[tuple[str | int, ...]]) -> Int64Array:
    return np.array([row for row, key in enumerate(grid.keys) if key[:QUEUE_WIDTH] in queues], dtype=np.int64)


def _read_off(grid: Grid, width: int, rows: Int64Array, parts: dict[LineKey, list[Line]]) -> None:
    if len(rows) and len(grid.t_ms):
        own = grid if len(rows) == len(grid.keys) else grid.take(rows)
        for key, line in _of_grid(own, width):
            parts.setdefault(_line_key(key, width), []).append(line)


def _line_key(key: SeriesKey, width: int) -> LineKey:
    if width == TOPIC_WIDTH:
        return LineKey(key.group, key.topic)
    return LineKey(key.group, key.topic, key.broker_name, key.queue_id)


def _of_grid(grid: Grid, width: int) -> Iterable[tuple[SeriesKey, Line]]:
    starts = grid.starts(width)
    rounds = rounds_of(grid)
    rows = rounds.together(starts)
    for number, (first, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        incarnation = max(key.incarnation for key in grid.keys[first:end])
        columns = {name: getattr(rows, name)[number] for name in COLUMNS[1:]}
        yield grid.keys[first], Line(grid.interval_ms, incarnation, grid.t_ms, **columns)


def joined(parts: Sequence[Line]) -> Line:
    """Return parts of which each follows the one before; its rounds before that are left out."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}
    upto = -1
    for part in parts:
        kept = part.t_ms > upto
        for name in COLUMNS:
            columns[name].append(getattr(part, name)[kept])
        upto = max(upto, int(part.t_ms[-1]))
    return Line(
        parts[-1].interval_ms,
        max(part.incarnation for part in parts),
        **{name: np.concatenate(values) for name, values in columns.items()},
    )
