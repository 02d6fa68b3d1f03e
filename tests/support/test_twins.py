"""The list of tests that run on SQLite only names tests that exist, and each statement stays in another test."""

from __future__ import annotations

import re

from tests.support import twins
from tests.support.migrated import ROOT
from tests.support.twins import Statement, chosen, shape_of


def test_every_listed_test_exists() -> None:
    assert len(twins.twins()) > 100
    missing = []
    for name in twins.twins():
        file, _, function = name.partition("::")
        path, last = ROOT / file, function.rpartition("::")[2]
        if not path.exists() or not re.search(rf"def {last}\(", path.read_text()):
            missing.append(name)
    assert missing == [], "remove them from the list, or make it again"


def plain(name: str) -> Statement:
    return Statement(f"SELECT {name}", "", "", in_thread=False)


UPSERT = Statement("INSERT ... ON CONFLICT DO NOTHING", "", "", in_thread=False)


def test_each_statement_stays_in_a_test() -> None:
    asked = {"dear": {plain("a"), plain("b")}, "cheap": {plain("a")}, "own": {plain("b"), plain("c")}}
    took_s = {"dear": 3.0, "cheap": 1.0, "own": 2.0}
    assert chosen(asked, took_s, ()) == {"dear"}
    assert chosen(asked, took_s, ("dear",)) == {"cheap"}
    assert chosen(asked, dict.fromkeys(asked, 0.01), ()) == set()


def test_what_databases_do_differently_stays_in_three() -> None:
    asked = {str(number): {UPSERT} for number in range(5)}
    assert len(chosen(asked, dict.fromkeys(asked, 1.0), ())) == 2


def test_shapes_have_no_values() -> None:
    one = shape_of('SELECT "a" FROM "t" WHERE "b" = 7 AND "c" IN (%s, %s) LIMIT 21')
    assert one == shape_of('SELECT "a" FROM "t" WHERE "b" = 9 AND "c" IN (%s, %s, %s, %s) LIMIT 5')
    assert one != shape_of('SELECT "a" FROM "t" WHERE "b" = 7 AND "c" = %s LIMIT 21')
    several = shape_of("INSERT INTO t VALUES (%s, %s), (%s, %s)")
    assert several == shape_of("INSERT INTO t VALUES (%s, %s), (%s, %s), (%s, %s)")
    assert several != shape_of("INSERT INTO t VALUES (%s, %s)")
