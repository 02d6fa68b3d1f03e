"""Folds as tables, so that they can be stored: a row for every queue and for every group-topic.

A column for every field of a level's parts, named after both, lists where a row has any number of values; and what
`follows` depends on:

    before_ms   the round before the window, from which every difference counts; NONE: not all of the rows had one
    last_ms     the last round of the window
    lives       the queue exists in that round
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark.lag.codes import ABSENT
from spark.lag.folds.level import HISTOGRAMS, NONE, Counts, Ends, Level, Minutes, Stretch, Sums
from spark.lag.folds.rounds import RANKS
from spark.lag.folds.window import Fold
from spark.lag.grid import Grid
from spark.lag.history.chunk_rows import name_table
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array

PARTS: dict[str, type[Any]] = {"sums": Sums, "counted": Ends, "aged": Ends, "still": Stretch}
RAGGED: dict[str, type[Any]] = {"minutes": Minutes, **dict.fromkeys(HISTOGRAMS, Counts)}


@dataclass(frozen=True, slots=True)
class Edges:
    """Where the rounds of some queues begin and end."""

    keys: Sequence[SeriesKey]
    before_ms: Int64Array
    last_ms: Int64Array
    lives: BoolArray

    @classmethod
    def of(cls, grid: Grid, from_ms: int, *, is_regular: bool) -> Edges:
        """Return the edges of a window's grid; `is_regular`: all queues were in every round and in the one before."""
        count = len(grid.keys)
        before_ms = int(grid.t_ms[0]) if is_regular and grid.t_ms[0] < from_ms else NONE
        lives = grid.status[:, -1] != ABSENT
        return cls(
            grid.keys,
            np.full(count, before_ms, dtype=np.int64),
            np.full(count, grid.t_ms[-1], dtype=np.int64),
            lives if grid.source is None else lives[grid.source],
        )

    def follows(self, before: Edges) -> bool:
        """Return whether `spark.lag.grid.carried` would add nothing of the window before.

        Every queue that lives at its end is here, and counts from there.
        """
        lives = np.flatnonzero(before.lives)
        if self.keys == before.keys:
            own = lives
        else:
            place = {key: row for row, key in enumerate(self.keys)}
            found = [place.get(before.keys[row], -1) for row in lives.tolist()]
            own = np.array(found, dtype=np.int64)
        return bool((own >= 0).all() and (self.before_ms[own] == before.last_ms[lives]).all())


def tables_of(fold: Fold, edges: Edges) -> tuple[pa.Table, pa.Table]:
    """Return the rows of the queues of a fold, and of its group-topics."""
    nothing = np.full(len(fold.topics), NONE, dtype=np.int64)
    return (
        _with_edges(_table_of(fold.queues), edges.before_ms, edges.last_ms, edges.lives),
        _with_edges(_table_of(fold.topics), nothing, nothing, np.zeros(len(fold.topics), dtype=np.bool_)),
    )


def fold_of(
    queues: pa.Table,
    topics: pa.Table,
    keys: tuple[Sequence[SeriesKey], Sequence[SeriesKey]],
    from_ms: int,
    to_ms: int,
) -> tuple[Fold, Edges]:
    """Return the fold of whole groups from the rows of both levels, and from the keys of those rows."""
    levels = [_level_of(table, own) for table, own in zip((queues, topics), keys, strict=True)]
    edges = Edges(keys[0], *(_values(queues[name]) for name in ("before_ms", "last_ms", "lives")))
    return Fold(from_ms, to_ms, *levels), edges


def _with_edges(table: pa.Table, before_ms: Int64Array, last_ms: Int64Array, lives: BoolArray) -> pa.Table:
    for name, values in (("before_ms", before_ms), ("last_ms", last_ms), ("lives", lives)):
        table = table.append_column(name, pa.array(values))
    return table


def _table_of(level: Level) -> pa.Table:
    names = name_table(level.keys).drop_columns("kind")
    columns = dict(zip(names.column_names, names.columns, strict=True))
    for part, kind in PARTS.items():
        own = getattr(level, part)
        columns |= {f"{part}_{one.name}": _column(getattr(own, one.name)) for one in fields(kind)}
    for part, kind in RAGGED.items():
        own = level.minutes if part == "minutes" else level.histograms[part]
        starts = pa.array(np.searchsorted(own.rows, np.arange(len(level) + 1)).astype(np.int32))
        for one in fields(kind)[1:]:
            values = pa.array(_as_stored(getattr(own, one.name)))
            columns[f"{part}_{one.name}"] = pa.ListArray.from_arrays(starts, values)
    return pa.table(columns)


def _level_of(table: pa.Table, keys: Sequence[SeriesKey]) -> Level:
    parts = {
        part: kind(*(_values(table[f"{part}_{one.name}"]) for one in fields(kind)))
        for part, kind in PARTS.items()
    }
    ragged = {
        part: _ragged(kind, [table[f"{part}_{one.name}"] for one in fields(kind)[1:]])
        for part, kind in RAGGED.items()
    }
    return Level(keys, **parts, minutes=ragged.pop("minutes"), histograms=ragged)


def _as_stored(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers in the one width that files have: a fold keeps them as narrow as its own numbers allow."""
    return values.astype(np.int64) if np.issubdtype(values.dtype, np.integer) else values


def _column(values: npt.NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), RANKS)


def _values(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    own = column.combine_chunks()
    is_matrix = pa.types.is_fixed_size_list(own.type)
    found: npt.NDArray[Any] = (own.flatten() if is_matrix else own).to_numpy(zero_copy_only=False)
    return found.reshape(-1, RANKS) if is_matrix else found


def _ragged(kind: type[Any], columns: Sequence[pa.ChunkedArray]) -> Any:
    own = [column.combine_chunks() for column in columns]
    lengths = np.diff(own[0].offsets.to_numpy())
    return kind(np.repeat(np.arange(len(lengths)), lengths), *(one.flatten().to_numpy() for one in own))
