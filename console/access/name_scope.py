"""The names of a cluster that a person may view, as a condition the database can filter a list by.

`rules.may` judges one name; a list of 10,000 rows is filtered where it is counted, sorted and cut.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from django.db.models import F, Model, Q, QuerySet, Value
from django.db.models.functions import Substr
from django.db.models.lookups import Exact

from console.access import rules
from console.access.rules import TokenPrincipal

Row = TypeVar("Row", bound=Model)
NOTHING = Q(pk__in=())
GLOB_LETTERS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class NameScope:
    """Names of topics and groups that a person may VIEW: those that match any of some glob patterns."""

    patterns: tuple[str, ...]

    @property
    def is_everything(self) -> bool:
        """Whether every name is in the scope, so that no filter is needed."""
        return any(rules.is_wildcard(pattern) for pattern in self.patterns)

    def covers(self, name: str) -> bool:
        """Whether the scope includes a name."""
        return self.is_everything or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def condition(self, column: str, prefix: str = "") -> Q:
        """Return the condition that ``column`` holds a name of the scope.

        ``prefix`` stands before the name in the column (``%DLQ%`` where a dead-letter topic stands for its
        group). Case counts, as in `rules.may`: Django's own ``startswith`` would let SQLite ignore it.
        """
        if self.is_everything:
            return Q()
        found = NOTHING
        for pattern in self.patterns:
            found |= _matches(column, prefix, pattern)
        return found

    def filter(self, rows: "QuerySet[Row]", column: str, prefix: str = "") -> "QuerySet[Row]":
        """Return the rows of a query that the scope includes."""
        return rows if self.is_everything else rows.filter(self.condition(column, prefix))


EVERYTHING = NameScope((rules.WILDCARD,))


def view_scope(principal: Any, cluster: str) -> NameScope:
    """Return the names of a cluster that a person or token may VIEW; at most one query, as `rules.may`."""
    if isinstance(principal, TokenPrincipal):
        sees = bool(principal.token.scopes) and fnmatchcase(cluster, principal.token.cluster_pattern)
        return view_scope(principal.owner, cluster) if sees else NameScope(())
    if principal is None or not principal.is_authenticated or not principal.is_active:
        return NameScope(())
    if principal.is_superuser:
        return EVERYTHING
    held = [
        allowance.name_pattern
        for allowance in rules.allowances_of(principal)
        if allowance.verbs and fnmatchcase(cluster, allowance.cluster_pattern)
    ]
    return NameScope(tuple(dict.fromkeys(held)))


def _matches(column: str, prefix: str, pattern: str) -> Q:
    """Match one pattern; plain names and "orders-*", nearly every grant, without a regular expression.

    On SQLite a regular expression is a call into Python for each row.
    """
    literal = prefix + pattern.rstrip("*")
    if not GLOB_LETTERS & set(pattern):
        return Q(**{column: literal})
    if pattern.endswith("*") and not GLOB_LETTERS & set(pattern.rstrip("*")):
        return Q(Exact(Substr(F(column), 1, len(literal)), Value(literal)))
    expression = f"^{re.escape(prefix)}{''.join(_expressions(pattern))}$"
    try:
        re.compile(expression)
    # "[z-a]": fnmatch matches nothing with it.
    except re.error:
        return NOTHING
    return Q(**{f"{column}__regex": expression})


def _expressions(pattern: str) -> Iterator[str]:
    """Translate a glob into regular expressions that Python and PostgreSQL read alike."""
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        end = _set_end(pattern, place) if letter == "[" else -1
        if letter in "*?":
            yield ".*" if letter == "*" else "."
        elif end > 0:
            inside = pattern[place + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            negated = inside.startswith("!")
            inside = inside.removeprefix("!")
            yield f"[{'^' if negated else ''}{inside.replace('^', chr(92) + '^').replace(']', chr(92) + ']')}]"
            place = end
        else:
            yield re.escape(letter)
        place += 1


def _set_end(pattern: str, start: int) -> int:
    """Return where the set [abc] that begins at ``start`` ends; -1 when the bracket stands for itself."""
    place = start + 1
    if pattern[place : place + 1] == "!":
        place += 1
    if pattern[place : place + 1] == "]":
        place += 1
    return pattern.find("]", place)
