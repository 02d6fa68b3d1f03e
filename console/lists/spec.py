"""Declare a list once: its columns serve the table head, order, REST, live rows, files and saved choices.

To add a column: one `Column` here, in the list's own app, and its cell in the list's template.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import OrderBy
from django.utils.functional import Promise

from console.text import Text
from console.web.spreadsheet import csv_line

M = TypeVar("M", bound=Model)
Row = TypeVar("Row")
LATEST_MS = 253_402_300_799_000  # the last second of the year 9999
Label = str | Promise
# Units of the columns of more than one list.
MSGS, PER_S = Text("msgs"), Text("/s")
# Columns of the model, most significant first, or the value of a row that is sorted in memory; () does not sort.
Order = tuple[str, ...] | Callable[[Any], Any]

# Every list whose columns a person may choose, by name.
LISTS: dict[str, ListSpec] = {}


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``name`` identifies it in URLs, REST, files and saved choices.

    ``ascending``: its first order begins with the smallest (for names, not for figures). ``fields``: attributes
    of a row that a file holds for it, dotted for those of a part, () for none. ``live``: the field of a live row and
    how it is shown (`templatetags.cells.CELLS`), for cells that hold nothing else. ``is_bare``: its head is for screen
    readers only, as above buttons.
    """

    name: str
    label: Label
    unit: Label = ""
    css: str = "num"
    order: Order = ()
    ascending: bool = False
    fields: tuple[str, ...] = ()
    tip: Label = ""
    live: tuple[str, str] | None = None
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a filter; ``condition`` is None where more than the row decides it."""

    value: str
    label: Label
    condition: Q | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A parameter of page and REST that narrows a list; one value at a time."""

    name: str
    choices: tuple[Choice, ...]

    @property
    def values(self) -> list[str]:
        return [choice.value for choice in self.choices]


@dataclass(frozen=True, slots=True)
class ListSpec:
    """Columns, orders and filters of one list.

    ``default`` is the order without a choice, as REST writes it (``-lag``: largest first); ``key`` ends every order, so
    that pages do not overlap. ``orders`` have no column of their own; a list that is ordered by REST only has no
    columns. ``file_fields`` follow the columns in a file: how old a row is, and why a figure is missing. ``moment``:
    the column of the model that a range of time narrows. ``searched``: the attributes of rows in memory that may
    contain the search words.
    """

    name: str
    columns: tuple[Column, ...]
    default: str
    key: str
    orders: Mapping[str, Order] = field(default_factory=dict)
    filters: tuple[Filter, ...] = ()
    file_fields: tuple[str, ...] = ()
    moment: str = ""
    searched: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.columns:
            LISTS[self.name] = self

    @property
    def sorts(self) -> list[str]:
        """Return the names that a person may sort by."""
        return [*self.orders, *(column.name for column in self.columns if column.order)]

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    def ordering(self, sort: str, descending: bool | None = None) -> tuple[str, bool]:
        """Return (name, is descending); defaults replace an unknown name or a missing direction."""
        usual = self.default.removeprefix("-")
        if sort not in self.sorts:
            sort = usual
        if descending is not None:
            return sort, descending
        if sort == usual:
            return sort, self.default.startswith("-")
        return sort, not any(column.ascending for column in self.columns if column.name == sort)

    def order_by(self, sort: str, descending: bool | None = None) -> list[OrderBy]:
        """Return the ORDER BY of a query; unknown (null) comes last in both directions."""
        sort, descending = self.ordering(sort, descending)
        columns = self._order(sort)
        assert isinstance(columns, tuple), f"{self.name}.{sort} is sorted in memory"
        keys = [
            F(one).desc(nulls_last=True) if descending else F(one).asc(nulls_last=True) for one in columns
        ]
        unique = self.key.removeprefix("-")
        if columns == (unique,):
            return keys
        last = F(unique)
        return [*keys, last.desc() if self.key.startswith("-") else last.asc()]

    def in_order(self, rows: Iterable[Any], sort: str, descending: bool | None = None) -> list[Any]:
        """Sort rows that are in the order of their key; unknown (None) comes last in both directions."""
        sort, descending = self.ordering(sort, descending)
        value = self._order(sort)
        assert callable(value), f"{self.name}.{sort} is sorted by the database"
        by_key = [(value(row), row) for row in rows]
        known = sorted((one for one in by_key if one[0] is not None), key=itemgetter(0), reverse=descending)
        return [*(row for _, row in known), *(row for key, row in by_key if key is None)]

    def matching(self, rows: Iterable[Row], words: str) -> list[Row]:
        """Return the rows in memory with a searched attribute that contains the words, in any case."""
        wanted = words.casefold()
        readers = [attrgetter(name) for name in self.searched]
        return [row for row in rows if any(wanted in str(read(row) or "").casefold() for read in readers)]

    def between(self, rows: QuerySet[M], from_ms: int | None, to_ms: int | None) -> QuerySet[M]:
        """Return the rows of [from_ms, to_ms); None is without that bound."""
        bounds = {f"{self.moment}__gte": from_ms, f"{self.moment}__lt": to_ms}
        moments = {name: _moment(ms) for name, ms in bounds.items() if ms is not None}
        return rows.filter(**moments)

    @property
    def ordered_fields(self) -> list[str]:
        """Return the attributes of rows in memory by which columns are ordered."""
        return [name for column in self.columns if column.order for name in column.fields]

    def live(self, name: str) -> tuple[str, str]:
        """Return the field of a live row that a column shows, and how."""
        found = next(column.live for column in self.columns if column.name == name)
        assert found is not None, f"{self.name}.{name} has no live figure"
        return found

    def live_field(self, sort: str) -> str:
        """Return the live row's field that shows whether rows have moved; "" when none does."""
        columns = self._order(sort)
        return columns[0] if isinstance(columns, tuple) and columns != (self.key,) else ""

    def _order(self, sort: str) -> Order:
        if sort in self.orders:
            return self.orders[sort]
        return next(column.order for column in self.columns if column.name == sort)

    @property
    def fields(self) -> list[str]:
        """Return the attributes that a file holds."""
        return [*(name for column in self.columns for name in column.fields), *self.file_fields]

    def csv(self, rows: Iterable[Any]) -> Iterator[str]:
        """Yield the lines of a file: every field as REST names it, unknown is empty."""
        yield csv_line(name.rpartition(".")[2] for name in self.fields)
        readers = [attrgetter(name) for name in self.fields]
        for row in rows:
            yield csv_line(_plain(read(row)) for read in readers)


def _moment(at_ms: int) -> datetime.datetime:
    """Return a moment of the years that a database knows."""
    return datetime.datetime.fromtimestamp(max(0, min(at_ms, LATEST_MS)) / 1000, datetime.UTC)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value
