"""Hold rows of one kind as columns with a key each: how a round compares queues with the one before. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from console.lag.round.columns import NULL, fractions, numbers, texts, values_of
from console.lag.round.series import QueueKey, TopicQueueKey
from console.text import Text
from spark.lag.snapshot import BoolArray, Int64Array

Key = TypeVar("Key", bound=QueueKey | TopicQueueKey)
Row = TypeVar("Row")
Column = npt.NDArray[Any]
# The unknown value of each type, as columns hold it.
UNKNOWNS = {int: NULL, float: np.nan, bool: False, str: "", Text: Text()}


@dataclass(eq=False)
class KeyedColumns(Generic[Key]):
    """`columns` are parallel to `keys`, which are distinct; whole numbers have `NULL` for unknown, fractions NaN.

    Neither is changed once this is made. Without any key there may be no columns either.
    """

    keys: list[Key]
    columns: Mapping[str, Column]

    @classmethod
    def nothing(cls) -> Self:
        """Return no rows at all: the state before the first round."""
        return cls([], {})

    @classmethod
    def of_rows(cls, kinds: Mapping[str, type], rows: Mapping[Key, object]) -> Self:
        """Return rows as columns of these kinds (see `queue_row.kinds_of`)."""
        values = list(rows.values())
        return cls(
            [*rows],
            {name: column(kind, (getattr(row, name) for row in values)) for name, kind in kinds.items()},
        )

    def places_of(self, keys: Sequence[Key]) -> Int64Array:
        """Return the index of each of `keys`, -1 where absent; rounds mostly have the same keys."""
        if self._has_exactly(keys):
            return np.arange(len(self.keys), dtype=np.int64)
        places = self._places
        return np.array([places.get(key, -1) for key in keys], dtype=np.int64)

    def keys_without(self, keys: Collection[Key]) -> list[Key]:
        """Return its keys that are not among `keys`, in its order."""
        if self._has_exactly(keys):
            return []
        others = set(keys)
        return [key for key in self.keys if key not in others]

    def taken(self, name: str, places: Int64Array, missing: object) -> Column:
        """Return a column's values at these indexes, `missing` where an index is -1."""
        if not self.keys:
            return np.full(len(places), missing, dtype=object if isinstance(missing, str) else np.int64)
        found = self.columns[name][places]
        found[places < 0] = missing
        return found

    def rows(self, row: Callable[..., Row], places: Int64Array | None = None) -> dict[Key, Row]:
        """Return a row for each key, or for some indexes; `row` takes the key's fields and the columns."""
        keys = self.keys if places is None else [self.keys[at] for at in places.tolist()]
        lists = [values_of(column if places is None else column[places]) for column in self.columns.values()]
        return {
            key: row(**key._asdict(), **dict(zip(self.columns, values, strict=True)))
            for key, values in zip(keys, zip(*lists, strict=True), strict=True)
        }

    def changed(self, before: "KeyedColumns[Key]", places: Int64Array, but: str) -> Int64Array:
        """Return those of `places` whose row is new, or differs from the one before in more than column `but`."""
        was = before.places_of([self.keys[at] for at in places.tolist()])
        found: BoolArray = was < 0
        if before.keys:
            for name, column in self.columns.items():
                if name != but:
                    found |= _differs(column[places], before.columns[name][was])
        return places[found]

    def _has_exactly(self, keys: Collection[Key]) -> bool:
        return keys is self.keys or (isinstance(keys, list) and keys == self.keys)

    @cached_property
    def _places(self) -> dict[Key, int]:
        return {key: at for at, key in enumerate(self.keys)}


def _differs(now: Column, before: Column) -> BoolArray:
    found: BoolArray = now != before
    if now.dtype == np.float64:
        found &= ~(np.isnan(now) & np.isnan(before))
    return found


def column(kind: type, values: Iterable[Any]) -> Column:
    """Return values of rows, null where unknown, as a column: of whole numbers, fractions, flags or texts."""
    if issubclass(kind, str):
        return texts(list(values))
    if kind is bool:
        return np.array(list(values), dtype=np.bool_)
    return fractions(values) if kind is float else numbers(values)
