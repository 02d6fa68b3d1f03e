"""Rows held as columns: each is made when it is looked at. A page of 10,000 queues makes the rows that it shows."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar, overload

from console.lag.round.columns import values_of
from console.lag.round.keyed_columns import Column, column
from console.lag.rows.queue_row import QueueRow, TopicQueueRow, kinds_of
from spark.lag.snapshot import BoolArray

Row = TypeVar("Row", bound=QueueRow | TopicQueueRow)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnRows(Sequence[Row], Generic[Row]):
    """`columns` has every field of `row`, in its order; unknown is as in `round.columns`. Nothing of it is changed."""

    row: type[Row]
    columns: Mapping[str, Column]
    _lists: dict[str, list[Any]] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, row: type[Row], rows: Iterable[Row]) -> ColumnRows[Row]:
        """Return rows that are at hand."""
        every = list(rows)
        kinds = kinds_of(row)
        return cls(
            row, {name: column(kind, (getattr(one, name) for one in every)) for name, kind in kinds.items()}
        )

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> ColumnRows[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | ColumnRows[Row]:
        return self.part(at) if isinstance(at, slice) else next(iter(self.part([at])))

    def __iter__(self) -> Iterator[Row]:
        return map(self.row, *(self.values(name) for name in self.columns))

    def values(self, name: str) -> list[Any]:
        """Return a field of each row, None where unknown."""
        if name not in self._lists:
            self._lists[name] = values_of(self.columns[name])
        return self._lists[name]

    def part(self, chosen: slice | Sequence[int] | BoolArray) -> ColumnRows[Row]:
        """Return some of the rows, or all in another order: by indexes, or by a mark for each."""
        return ColumnRows(self.row, {name: one[chosen] for name, one in self.columns.items()})

    def records(self, *names: str) -> list[Any]:
        """Return some fields of each row under their names, and its index `at`: what orders and sums look at."""
        return list(map(_record(names), *(self.values(name) for name in names), range(len(self))))


@cache
def _record(names: Sequence[str]) -> type[Any]:
    return namedtuple("record", [*names, "at"])
