"""Hold columns of rows as arrays, with values for unknown, and sum over runs of rows that belong together."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spark.lag.snapshot import BoolArray, Int64Array

# An unknown whole number; no offset, count or time is this small.
NULL = int(np.iinfo(np.int64).min)
LARGEST = int(np.iinfo(np.int64).max)
FloatArray = npt.NDArray[np.float64]


def numbers(values: Iterable[int | None]) -> Int64Array:
    """Return whole numbers of rows as an array."""
    return np.array([NULL if value is None else value for value in values], dtype=np.int64)


def fractions(values: Iterable[float | None]) -> FloatArray:
    """Return fractions of rows as an array, NaN where unknown."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def rounded(values: FloatArray) -> FloatArray:
    """Return fractions to three digits, as Python rounds: NumPy's way differs in the last one."""
    return np.array([round(value, 3) for value in values.tolist()], dtype=np.float64)


def values_of(column: npt.NDArray[Any]) -> list[Any]:
    """Return a column as rows hold it: plain Python values, None where unknown."""
    found: list[Any] = column.tolist()
    if column.dtype == np.int64:
        return [None if value == NULL else value for value in found]
    if column.dtype == np.float64:
        return [None if value != value else value for value in found]
    return found


def texts(values: Sequence[str]) -> npt.NDArray[np.object_]:
    """Return texts as an array of references."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def each(values: FloatArray, change: Callable[[float], float]) -> list[float | None]:
    """Return numbers as rows hold them, each changed by a function; NaN is None."""
    return [None if one != one else change(one) for one in values.tolist()]


class Runs:
    """Combine runs of neighbouring rows, such as the queues of each group. No run is empty."""

    def __init__(self, names: Sequence[object]) -> None:
        """Take the name of each row's run; equal names are neighbours."""
        count = len(names)
        begins = [0] if count else []
        begins += [at for at in range(1, count) if names[at] != names[at - 1]]
        self.starts = np.array(begins, dtype=np.int64)
        self.counts = np.diff(np.append(self.starts, count))
        self.ids = np.repeat(np.arange(len(begins), dtype=np.int64), self.counts)
        self._rows = np.arange(count, dtype=np.int64)

    def count(self, holds: BoolArray) -> Int64Array:
        """Return how many rows of each run are marked."""
        return np.bincount(self.ids[holds], minlength=len(self.starts))

    def any(self, holds: BoolArray) -> BoolArray:
        """Return whether a row of each run is marked."""
        return self.count(holds) > 0

    def sum(self, values: Int64Array) -> Int64Array:
        """Return sums of what is known, `NULL` where nothing is."""
        known = values != NULL
        sums = np.add.reduceat(np.where(known, values, 0), self.starts) if len(values) else values
        return np.where(self.any(known), sums, NULL)

    def total(self, values: FloatArray) -> FloatArray:
        """Return sums of what is known to three digits, NaN where nothing is."""
        known = ~np.isnan(values)
        sums = np.bincount(self.ids[known], weights=values[known], minlength=len(self.starts)).astype(
            np.float64
        )
        return np.where(self.any(known), rounded(sums), np.nan)

    def largest(self, values: Int64Array) -> Int64Array:
        """Return maxima of what is known, `NULL` where nothing is."""
        return np.maximum.reduceat(values, self.starts) if len(values) else values

    def smallest(self, values: Int64Array) -> Int64Array:
        """Return minima of what is known, `NULL` where nothing is."""
        if not len(values):
            return values
        found = np.minimum.reduceat(np.where(values == NULL, LARGEST, values), self.starts)
        return np.where(found == LARGEST, NULL, found)

    def first(self, holds: BoolArray) -> Int64Array:
        """Return the first marked row of each run, -1 where there is none."""
        if not len(holds):
            return self.starts
        found = np.minimum.reduceat(np.where(holds, self._rows, LARGEST), self.starts)
        return np.where(found == LARGEST, -1, found)

    def first_largest(self, values: Int64Array) -> Int64Array:
        """Return the row with the largest known value, the first of equals; -1 where nothing is known."""
        return self.first((values == self.largest(values)[self.ids]) & (values != NULL))

    def first_smallest(self, values: Int64Array) -> Int64Array:
        """Return the row with the smallest known value, the first of equals; -1 where nothing is known."""
        return self.first((values == self.smallest(values)[self.ids]) & (values != NULL))

    def last_largest(self, values: Int64Array) -> Int64Array:
        """Return the row with the largest known value, the last of equals; -1 where nothing is known."""
        if not len(values):
            return values
        holds = (values == self.largest(values)[self.ids]) & (values != NULL)
        return np.maximum.reduceat(np.where(holds, self._rows, -1), self.starts)


def runs_by(names: Sequence[str]) -> tuple[list[str], Int64Array, Runs]:
    """Bring rows of the same name together: return the names, the rows in that order, and a run for each name."""
    known: dict[str, int] = {}
    found = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)
    order = np.argsort(found, kind="stable")
    return list(known), order, Runs(found[order].tolist())
