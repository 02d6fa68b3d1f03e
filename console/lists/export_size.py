"""How large a file is going to be, before it is made: its rows, and its bytes by the rows at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from console.lists.page import FILE_ROWS_MAX, Page
from console.lists.spec import ListSpec
from console.text.figures import count, size

# Rows whose lines are written to judge the others by.
SAMPLE_ROWS_MAX = 50


@dataclass(frozen=True, slots=True)
class ExportSize:
    """``bytes`` is estimated, None without a row to judge by; more than ``rows_max`` rows are refused."""

    rows: int
    bytes: int | None
    rows_max: int

    @property
    def is_refused(self) -> bool:
        return self.rows > self.rows_max

    @property
    def short(self) -> str:
        """Return the size as a button has it: ``about 4.2 MB``; "" where it is not known."""
        if self.is_refused:
            return _("too many rows")
        return "" if self.bytes is None else _("about %(size)s") % {"size": size(self.bytes)}

    @property
    def words(self) -> str:
        """Return rows and size in words, in the reader's language."""
        rows = count(self.rows)
        if self.is_refused:
            places = {"total": rows, "most": count(self.rows_max)}
            return _("%(total)s rows match, and a file holds %(most)s. Narrow the filter.") % places
        return ", ".join(filter(None, (_("%(rows)s rows") % {"rows": rows}, self.short)))


def of_list(page: Page[Any], spec: ListSpec, newest: int = 0) -> ExportSize:
    """Return the size of a list's CSV file, by the rows of its page; ``newest``: it has so many at most."""
    rows, rows_max = (min(page.total, newest), newest) if newest else (page.total, FILE_ROWS_MAX)
    sample = list(page.rows[:SAMPLE_ROWS_MAX])
    lines = [len(line.encode("utf-8", "backslashreplace")) for line in spec.csv(sample)]
    # The first line is the head.
    total = lines[0] + round(sum(lines[1:]) / len(sample) * rows) if sample else None
    return ExportSize(rows, total, rows_max)
