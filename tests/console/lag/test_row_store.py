"""Rows in the database follow the rows of the round, with as few writes as that takes."""

from __future__ import annotations

from typing import Any

import pytest

from console.lag.database_router import MetricsRouter
from console.lag.models import GroupMembers, GroupRow, HistoryFile, QueueSheet
from console.lag.round_view import RowDict
from console.lag.row_store import RowStore

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def store() -> RowStore[str]:
    return RowStore(GroupMembers, "local", ("group",), str)


def row(clients: int, read_at_ms: int) -> RowDict:
    return {
        "clients": clients,
        "model": "",
        "consume_mode": "",
        "topics": ["orders"],
        "offline_since_ms": None,
        "read_at_ms": read_at_ms,
    }


def stored() -> dict[str, tuple[int | None, int]]:
    rows = GroupMembers.objects.filter(cluster="local")
    assert all(one.topics == ["orders"] for one in rows)
    return {one.group: (one.clients, one.read_at_ms) for one in rows}


def test_it_writes_new_rows_changes_old_ones_and_deletes_the_rest(django_assert_num_queries: Any) -> None:
    GroupMembers.objects.create(cluster="other", group="a")
    rows = store()
    first = rows.replace({"a": row(1, 10), "b": row(1, 10), "c": row(1, 10)})
    assert (len(first.changed), first.removed) == (3, frozenset())
    with django_assert_num_queries(3, using="metrics"):  # the others' age, the changed row, the deleted one
        second = rows.replace({"a": row(1, 20), "b": row(2, 20)})
    assert (set(second.changed), second.removed) == ({"b"}, {"c"})
    assert stored() == {"a": (1, 20), "b": (2, 20)}
    assert GroupMembers.objects.filter(cluster="other").count() == 1


def test_it_takes_over_what_is_stored() -> None:
    store().replace({"a": row(1, 10)})
    again = store()
    again.load()
    changes = again.replace({"a": row(1, 20)})
    assert (dict(changes.changed), changes.removed) == ({}, frozenset())
    assert stored() == {"a": (1, 20)}


def test_it_deletes_many_rows(django_assert_max_num_queries: Any) -> None:
    rows = store()
    rows.replace({f"group-{number}": row(1, 1) for number in range(450)})
    with django_assert_max_num_queries(3, using="metrics"):
        rows.replace({})
    assert stored() == {}


def test_it_keeps_rounds_out_of_the_consoles_database() -> None:
    router = MetricsRouter()
    assert (router.db_for_write(GroupRow), router.db_for_read(QueueSheet)) == ("metrics", "metrics")
    assert router.db_for_read(HistoryFile) is None
    assert router.allow_migrate("metrics", "lag", "grouprow")
    assert not router.allow_migrate("default", "lag", "grouprow")
    assert not router.allow_migrate("default", "lag", "queuerow"), "former tables are dropped where they are"
    assert router.allow_migrate("default", "lag", "historyfile")
    assert not router.allow_migrate("metrics", "auth", "user")
    assert not router.allow_migrate("metrics", "lag")


def test_it_leaves_rows_their_age_that_were_not_read_with_the_others() -> None:
    rows = store()
    rows.replace({name: row(1, 10) for name in "abcde"})
    younger = {name: row(1, 20) for name in "abc"}
    rows.replace({**younger, "d": row(1, 10), "e": row(2, 20)})
    assert stored() == {"a": (1, 20), "b": (1, 20), "c": (1, 20), "d": (1, 10), "e": (2, 20)}
