"""How large a file is going to be, before it is made: its rows, and its bytes by the rows at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.lists.page import FILE_ROWS_MAX, Page
from console.lists.spec import ListSpec
from console.text import Text
from console.text.figures import count, size

# Rows whose lines are written to judge the others by.
SAMPLE_ROWS_MAX = 50


@dataclass(frozen=True, slots=True)
class ExportSize:
    """``bytes`` is estimated, None without a row to judge by; more than ``rows_max`` rows are refused.

    ``rows``: None if not known. ``is_most``: a filter is yet to be applied, the figures are upper bounds.
    ``scope``: which rows these are.
    """

    rows: int | None
    bytes: int | None
    rows_max: int | None = None
    is_most: bool = False
    scope: Text | None = None

    @property
    def is_refused(self) -> bool:
        return self.rows is not None and self.rows_max is not None and self.rows > self.rows_max

    @property
    def short(self) -> str:
        """Return the size as a button has it: ``about 4.2 MB``; "" without rows."""
        if self.is_refused:
            return _("too many rows")
        if self.rows == 0:
            return ""
        if self.bytes is None:
            return _("size unknown")
        return (_("at most %(size)s") if self.is_most else _("about %(size)s")) % {"size": size(self.bytes)}

    @property
    def words(self) -> str:
        """Return scope, rows and size in words, in the reader's language."""
        if self.is_refused:
            places = {"total": count(self.rows or 0), "most": count(self.rows_max or 0)}
            return _("%(total)s rows match, and a file holds %(most)s. Narrow the filter.") % places
        figures = _(", ").join(filter(None, (self._rows, self.short)))
        return self.scope.local() + _(": ") + figures if self.scope else figures

    @property
    def _rows(self) -> str:
        if self.rows is None:
            return ""
        if self.is_most:
            words = ngettext("at most %(rows)s row", "at most %(rows)s rows", self.rows)
        else:
            words = ngettext("%(rows)s row", "%(rows)s rows", self.rows)
        return words % {"rows": count(self.rows)}


def of_list(page: Page[Any], spec: ListSpec, newest: int = 0) -> ExportSize:
    """Return the size of a list's CSV file, by the rows of its page; ``newest``: it has so many at most."""
    rows, rows_max = (min(page.total, newest), newest) if newest else (page.total, FILE_ROWS_MAX)
    sample = list(page.rows[:SAMPLE_ROWS_MAX])
    head, *lines = spec.csv(sample)
    return ExportSize(rows, estimated(rows, lines, head), rows_max)


def estimated(rows: int | None, sample: Sequence[str], head: str = "") -> int | None:
    """Return the bytes of a head and ``rows`` lines like those of the sample; None if not known."""
    if rows is None or not sample:
        return None
    return _bytes(head) + round(sum(map(_bytes, sample)) / len(sample) * rows)


def _bytes(line: str) -> int:
    return len(line.encode("utf-8", "backslashreplace"))
