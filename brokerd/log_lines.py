"""Log lines that nothing in them can forge: names that clients choose stay within their line."""

from __future__ import annotations

import logging

CHARACTERS_MAX = 4_000  # of one message: names of clients may have megabytes


class OneLineFormatter(logging.Formatter):
    """Escapes what is not printable (line ends, colours of terminals, marks of direction), and indents tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n    ".join(map(printable, lines))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name of the base class
        record.message = printable(clipped(record.message))
        return super().formatMessage(record)


def clipped(text: str) -> str:
    if len(text) <= CHARACTERS_MAX:
        return text
    return f"{text[:CHARACTERS_MAX]}… ({len(text)} characters)"


def printable(text: str) -> str:
    """Return the same with escapes for what is not printable."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )
