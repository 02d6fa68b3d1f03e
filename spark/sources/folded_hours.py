"""The folds of a work item's hours: stored ones where they may be used, else made from samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark.lag.folds.stored import Edges, tables_of
from spark.lag.folds.window import Fold, fold
from spark.lag.grid import Grid
from spark.lag.local_time import HOUR_MS
from spark.notes import Note
from spark.sources import stored_folds
from spark.sources.stored_folds import StoredFolds, StoredHour
from spark.sources.work import HistoryReader, WorkItem


@dataclass(frozen=True, slots=True)
class FoldedHour:
    """Whole groups of an item in one hour, or in what of it has passed."""

    fold: Fold
    dead_letters: dict[str, int]


class FoldedHours(HistoryReader):
    """Read the hours of one work item as folds, groups by groups."""

    def __init__(self, item: WorkItem, *, stores: bool = False) -> None:
        """`stores`: what was folded from samples is stored, if it is all of the item's one hour."""
        super().__init__(item, is_compact=True)
        whole = {
            hour.hour_ms: hour.fold
            for hour in item.hours
            if hour.fold and item.from_ms <= hour.hour_ms and hour.hour_ms + HOUR_MS <= item.to_ms
        }
        self._stored = StoredFolds(whole, item.after, item.upto, item.split)
        self._stores = stores and len(whole) == len(item.hours) == 1
        self._new: list[tuple[pa.Table, pa.Table]] = []

    def folds(self) -> Iterator[Iterator[FoldedHour]]:
        """Yield, for range after range of groups, their hours one after the other."""
        ends = self._stored.group_ends()
        for after, upto in self.cut(ends, rows_each=1) if ends else self.ranges():
            yield self._folds_of(after, upto)
            self.release()
        self._store()

    def _folds_of(self, after: str, upto: str) -> Iterator[FoldedHour]:
        edges: Edges | None = None  # of the hour before
        grid: Grid | None = None
        for hour_ms in self.hours():
            stored = self._usable(hour_ms, after, upto, edges)
            if stored is not None:
                edges, grid = stored.edges, None
                yield FoldedHour(stored.fold, stored.dead_letters)
                continue
            if grid is None and edges is not None:
                # the hour before came from its stored fold, and this one goes on from its samples
                before = self.window(hour_ms - HOUR_MS, None, after, upto)
                grid = before.grid if before is not None else None
            window = self.window(hour_ms, grid, after, upto)
            if window is None:
                continue
            grid = window.grid
            edges = Edges.of(grid, window.from_ms, is_regular=window.is_regular)
            found = fold(grid, window.from_ms, window.to_ms, self.slo_at(window.from_ms))
            if self._stores:
                self._new.append(tables_of(found, edges))
            yield FoldedHour(found, window.dead_letters)

    def _usable(self, hour_ms: int, after: str, upto: str, before: Edges | None) -> StoredHour | None:
        stored = self._stored.read(hour_ms, after, upto)
        if stored is None or (before is not None and not stored.edges.follows(before)):
            return None
        return stored

    def _store(self) -> None:
        """Store the folds of an hour of which everything could be read."""
        if self._new and not self.notes:
            (hour,) = self.item.hours
            url = f"{hour.fold}/{self.item.split}.parquet"
            try:
                stored_folds.store(url, self._new, self._dead_letters(hour))
            except (OSError, ValueError) as error:
                self.notes.append(Note(f"The fold of an hour could not be stored: {error}"))

    def close(self) -> None:
        """Close the files."""
        super().close()
        self._stored.close()
