"""Which tests ask PostgreSQL nothing that others do not ask it too: those of `twins.txt` run on SQLite only.

The list is made from a record of every statement, by a run of all that has a database (it ignores the list):

    deploy/with-postgres.sh .venv/bin/python -m pytest tests/api tests/console -p no:xdist -p tests.support.twins

A statement counts without its values, but with how it ended, from which thread it came, and whether a value is one that
databases treat differently. A test stays where its transactions are real, where the database refused something, where
another thread asked, where such a value is, and where it is about order or search, which have rules of their own there.
Of the others, the most expensive go first, as long as each statement stays in another test; one of the sorts that the
databases write or compute differently, in three.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

LIST = Path(__file__).with_suffix(".txt")
HEAD = "# Made by tests/support/twins.py, which says how. These run on SQLite only.\n"
# Cheaper tests are not worth a line.
LEAST_S = 0.05
# Conflicts, locks, JSON, casts, dates, patterns, sets, windows, groups, order.
DIFFERENT = re.compile(
    r"ON CONFLICT|FOR UPDATE|SAVEPOINT|RETURNING|json|::|DATE_TRUNC|EXTRACT|AT TIME ZONE|INTERVAL|COLLATE|UPPER|LIKE|~"
    r"|DISTINCT ON|WITH |UNION|EXCEPT|EXISTS|OVER \(|CASE WHEN|COALESCE|GROUP BY|VALUES|UNNEST|LATERAL|NULLS"
    r"|AS kept|pg_|ORDER BY",
    re.I,
)
LEAST_OF_DIFFERENT = 3
ABOUT_ORDER = re.compile(
    r"sort|order|page[sd]|cursor|search|filter|unknown_last|unique|at_once|same_moment|race|lock"
)


class Statement(NamedTuple):
    shape: str
    odd: str  # values that databases treat differently
    error: str
    in_thread: bool


@cache
def twins() -> frozenset[str]:
    """Return the listed tests, as node ids without parameters."""
    found, file = set(), ""
    for line in LIST.read_text().splitlines():
        if line.startswith(" "):
            found.add(f"{file}::{line.strip()}")
        elif not line.startswith("#"):
            file = line
    return frozenset(found)


def is_twin(item: pytest.Item) -> bool:
    return function_of(item) in twins() and not item.config.pluginmanager.has_plugin(__name__)


def function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


# A record. -----------------------------------------------------------------------------------------------

current: set[Statement] = set()
asked: dict[str, set[Statement]] = defaultdict(set)
took_s: Counter[str] = Counter()
stays: set[str] = set()


@cache
def shape_of(sql: str) -> str:
    """Return the statement without values, names of savepoints and the number of rows."""
    sql = re.sub(r"'(?:[^']|'')*'", "%s", sql)
    sql = re.sub(r'"?s\d+_x\d+"?|"?_?django_curs_\w+"?', "name", sql)
    sql = re.sub(r"\b\d+\b", "%s", sql)
    for group in (r"\(?%s\)?|ROW\(%s\)", r"\(%s\*\)", r"\([^()]*\)"):
        sql = re.sub(rf"({group})(?:, ?\1)+", r"\1*", sql)
    return sql


def odd_values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value[:2_000]:
            yield from odd_values(each)
        return
    value = str(value.obj) if hasattr(value, "obj") else value  # JSON
    if isinstance(value, str):
        if len(value) > 100_000:
            yield "huge"
        if "\0" in value or "\\u0000" in value:
            yield "NUL"
        if re.search("[\ud800-\udfff]|\\\\ud[89a-f]", value):
            yield "surrogate"


def shapes_of(sql: str) -> Iterable[str]:
    """Yield the shape; of the upsert that names only columns that changed, one for each column."""
    shape = shape_of(sql)
    if match := re.match(r'UPDATE "(\w+)" AS kept SET (.*?) FROM', shape):
        return [f"AS kept {match[1]} {column.strip()}" for column in match[2].split(",")]
    return [shape]


def record(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    error = ""
    try:
        return execute(sql, params, many, context)
    except Exception as caught:
        error = type(caught).__name__
        raise
    finally:
        odd = ",".join(sorted(set(odd_values(params or ()))))
        in_thread = threading.current_thread() is not threading.main_thread()
        current.update(Statement(shape, odd, error, in_thread) for shape in shapes_of(str(sql)))


def record_from(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if record not in connection.execute_wrappers:
        connection.execute_wrappers.append(record)


def pytest_configure() -> None:
    connection_created.connect(record_from)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    current.clear()
    began_s = time.process_time()
    try:
        return (yield)
    finally:
        name = function_of(item)
        took_s[name] += time.process_time() - began_s
        asked[name] |= current
        mark = item.get_closest_marker("django_db")
        is_real = mark is not None and mark.kwargs.get("transaction")
        if is_real or "transactional_db" in getattr(item, "fixturenames", ()) or must_stay(name, current):
            stays.add(name)


def must_stay(name: str, statements: set[Statement]) -> bool:
    by_value = any(one.error or one.in_thread or one.odd for one in statements)
    return by_value or not statements or "/postgresql/" in name or bool(ABOUT_ORDER.search(name))


def pytest_sessionfinish() -> None:
    found = chosen(asked, took_s, stays)
    by_file: dict[str, list[str]] = defaultdict(list)
    for name in sorted(found):
        file, _, function = name.partition("::")
        by_file[file].append(function)
    lines = [f"{file}\n" + "".join(f"  {function}\n" for function in by_file[file]) for file in by_file]
    LIST.write_text(HEAD + "".join(lines))
    print(f"\n{len(found)} of {len(asked)} tests, {sum(took_s[name] for name in found):.0f} s of CPU")


def chosen(
    asked: Mapping[str, set[Statement]], took_s: Mapping[str, float], stays: Collection[str]
) -> set[str]:
    """Return the tests that may go together. Pure."""
    left = Counter(one for statements in asked.values() for one in statements)
    least = {one: min(LEAST_OF_DIFFERENT, left[one]) if DIFFERENT.search(one.shape) else 1 for one in left}
    found = set()
    for name in sorted(asked.keys() - set(stays), key=lambda each: (-took_s[each], each)):
        if took_s[name] >= LEAST_S and all(left[one] > least[one] for one in asked[name]):
            found.add(name)
            left.subtract(asked[name])
    return found
