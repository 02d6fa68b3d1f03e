"""Rows in the database follow the rows of the round, with as few writes as that takes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from console.lag.database_router import MetricsRouter
from console.lag.models import GroupMembers, GroupRow, HistoryFile, QueueSheet
from console.lag.round.view import RowDict
from console.lag.rows.row_store import AGED_AT_ONCE_MAX, RowStore

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
        "popped_since_ms": None,
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


def test_it_writes_only_columns_that_changed() -> None:
    rows = store()
    rows.replace({"a": row(1, 10), "b": row(1, 10)})
    with CaptureQueriesContext(connections["metrics"]) as asked:
        rows.replace({"a": row(2, 20), "b": row(1, 20)})
    written = " ".join(one["sql"] for one in asked.captured_queries)
    assert "clients" in written and "read_at_ms" in written
    assert "topics" not in written and "model" not in written
    assert stored() == {"a": (2, 20), "b": (1, 20)}


def test_a_row_keeps_its_age_that_changed_otherwise_while_the_rest_grew_younger() -> None:
    rows = store()
    rows.replace({name: row(1, 10) for name in "abc"})
    rows.replace({"a": row(1, 20), "b": row(1, 20), "c": row(2, 10)})
    assert stored() == {"a": (1, 20), "b": (1, 20), "c": (2, 10)}


def test_rows_that_differ_in_two_ages_are_no_news() -> None:
    rows = RowStore(GroupMembers, "local", ("group",), str, ("read_at_ms", "offline_since_ms"))
    rows.replace({"a": row(1, 10), "b": row(1, 10) | {"offline_since_ms": 7}, "c": row(1, 10)})
    young = row(1, 20) | {"offline_since_ms": 20}
    changes = rows.replace({"a": young, "b": young, "c": row(1, 10)})
    assert (dict(changes.changed), changes.removed) == ({}, frozenset())
    found = GroupMembers.objects.order_by("group").values_list("group", "read_at_ms", "offline_since_ms")
    assert list(found) == [("a", 20, 20), ("b", 20, 20), ("c", 10, None)]


def test_many_ages_take_few_statements(django_assert_max_num_queries: Any) -> None:
    rows = store()
    rows.replace({f"group-{number}": row(1, number) for number in range(60)})
    with django_assert_max_num_queries(AGED_AT_ONCE_MAX + 1, using="metrics"):
        changes = rows.replace({f"group-{number}": row(1, 100 + number) for number in range(60)})
    assert not changes.changed
    assert stored() == {f"group-{number}": (1, 100 + number) for number in range(60)}


def test_it_writes_columns_of_an_index_too() -> None:
    rows: RowStore[str] = RowStore(GroupRow, "local", ("group",), str)
    for name in ("calm", "urgent"):
        GroupRow.objects.create(cluster="local", group=name, status="OK", trend=[1, None])
    rows.load()
    one, other = rows.rows["calm"], rows.rows["urgent"]
    rows.replace(
        {"calm": one | {"lag": 4, "trend": [1, None, 4]}, "urgent": other | {"attention": 50, "lag": 9}}
    )
    found = GroupRow.objects.order_by("group").values_list("group", "lag", "attention", "trend")
    assert list(found) == [("calm", 4, 0, [1, None, 4]), ("urgent", 9, 50, [1, None])]
