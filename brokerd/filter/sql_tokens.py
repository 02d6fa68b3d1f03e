"""Tokens of a SQL92 filter, each with its position in the text.

Source: semantics §3.3 (`SelectorParser.jj`). Keywords in any case, names as Java identifiers without letters beyond
ASCII; a number with `l` behind it, comments `-- … end of line` and `/* … */`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS")
    + ("CONTAINS", "STARTSWITH", "ENDSWITH")  # since 5.x
)
# A line comment needs its line end; without one `--` is two minus signs.
TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)
    |(?P<double>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<decimal>0|[1-9][0-9]*[lL]?)
    |(?P<string>'(?:''|[^'])*')
    |(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<sign><>|>=|<=|[=<>(),+-])""",
    re.VERBOSE,
)


class ExpressionError(ValueError):
    """A filter that cannot be used; the text names line and column (from 1) and what is valid there."""


class Token(NamedTuple):
    """`kind`: double, decimal, string, word (a property's name), end, or the keyword or sign itself."""

    kind: str
    text: str
    position: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def place(text: str, position: int) -> str:
    """`line 1, column 5` of a position in a text."""
    line_start = text.rfind("\n", 0, position) + 1
    return f"line {text.count(chr(10), 0, position) + 1}, column {position - line_start + 1}"


def tokens_of(text: str) -> list[Token]:
    """Return all tokens, the end as the last one. Raises ExpressionError for any other text."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(f"{place(text, position)}: {_why_no_token(text[position:])}")
        kind, part = str(match.lastgroup), match.group()
        if kind == "word" and part.upper() in KEYWORDS:
            kind = part.upper()
        elif kind == "sign":
            kind = part
        if kind != "space":
            found.append(Token(kind, part, position))
        position = match.end()
    found.append(Token("end", "", len(text)))
    return found


def _why_no_token(rest: str) -> str:
    if rest[0] == "'":
        return "the text in single quotes has no end"
    if rest[0] == '"':
        return "text stands in single quotes, not in double ones"
    if rest.startswith("/*"):
        return "the comment has no */"
    if rest.startswith(("!=", "==")):
        return f"{rest[:2]!r} is not a comparison; write = or <>"
    return f"{rest[0]!r} is not allowed here; use = <> > >= < <= ( ) , + - names, numbers and 'text'"
