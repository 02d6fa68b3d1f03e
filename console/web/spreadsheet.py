"""Write CSV line by line, with no cell that a spreadsheet would run as a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable

FORMULA_STARTS = frozenset("=+-@\t\r\n")


class _Line:
    """The file that csv.writer requires; returns each line instead of storing it."""

    def write(self, line: str) -> str:
        return line


def csv_line(values: Iterable[object]) -> str:
    """Return one line of RFC 4180, including its end; None is an empty cell."""
    line: str = csv.writer(_Line()).writerow([inert(value) for value in values])
    return line


def inert(value: object) -> object:
    """Prefix a text that a spreadsheet would run as a formula with a quote; figures stay figures."""
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA_STARTS else value
