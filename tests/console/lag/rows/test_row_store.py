"""Rows in the database follow the rows of the round, with as few writes as that takes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from msgspec import Struct, structs

from console.lag.database_router import MetricsRouter
from console.lag.models import GroupMembers, GroupRow, HistoryFile, QueueSheet
from console.lag.round.figures import ClientFigures, GroupFigures, GroupTopic
from console.lag.rows.row_store import AGED_AT_ONCE_MAX, RowStore
from console.text import Text

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


class Seen(Struct, frozen=True):
    """The columns of `GroupMembers`."""

    group: str
    clients: int | None
    read_at_ms: int
    offline_since_ms: int | None = None
    model: str = ""
    consume_mode: str = ""
    topics: tuple[str, ...] = ("orders",)
    popped_since_ms: int | None = None


def store(*ages: str) -> RowStore[str, Seen]:
    return RowStore(GroupMembers, Seen, "local", ("group",), str, ages or ("read_at_ms",))


def rows_of(*rows: Seen) -> dict[str, Seen]:
    return {row.group: row for row in rows}


def stored() -> dict[str, tuple[int | None, int]]:
    rows = GroupMembers.objects.filter(cluster="local")
    assert all(one.topics == ["orders"] for one in rows)
    return {one.group: (one.clients, one.read_at_ms) for one in rows}


def test_it_writes_new_rows_changes_old_ones_and_deletes_the_rest(django_assert_num_queries: Any) -> None:
    GroupMembers.objects.create(cluster="other", group="a")
    rows = store()
    first = rows.replace({"a": Seen("a", 1, 10), "b": Seen("b", 1, 10), "c": Seen("c", 1, 10)})
    assert (len(first.changed), first.removed) == (3, frozenset())
    with django_assert_num_queries(3, using="metrics"):  # the others' age, the changed row, the deleted one
        second = rows.replace({"a": Seen("a", 1, 20), "b": Seen("b", 2, 20)})
    assert (set(second.changed), second.removed) == ({"b"}, {"c"})
    assert stored() == {"a": (1, 20), "b": (2, 20)}
    assert GroupMembers.objects.filter(cluster="other").count() == 1


def test_it_takes_over_what_is_stored() -> None:
    store().replace({"a": Seen("a", 1, 10)})
    again = store()
    again.load()
    changes = again.replace({"a": Seen("a", 1, 20)})
    assert (dict(changes.changed), changes.removed) == ({}, frozenset())
    assert stored() == {"a": (1, 20)}


def test_it_deletes_many_rows(django_assert_max_num_queries: Any) -> None:
    rows = store()
    rows.replace(rows_of(*(Seen(f"group-{number}", 1, 1) for number in range(450))))
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
    rows.replace(rows_of(*(Seen(name, 1, 10) for name in "abcde")))
    younger = rows_of(*(Seen(name, 1, 20) for name in "abc"))
    rows.replace({**younger, "d": Seen("d", 1, 10), "e": Seen("e", 2, 20)})
    assert stored() == {"a": (1, 20), "b": (1, 20), "c": (1, 20), "d": (1, 10), "e": (2, 20)}


def test_it_writes_only_columns_that_changed() -> None:
    rows = store()
    rows.replace({"a": Seen("a", 1, 10), "b": Seen("b", 1, 10)})
    with CaptureQueriesContext(connections["metrics"]) as asked:
        rows.replace({"a": Seen("a", 2, 20), "b": Seen("b", 1, 20)})
    written = " ".join(one["sql"] for one in asked.captured_queries)
    assert "clients" in written and "read_at_ms" in written
    assert "topics" not in written and "model" not in written
    assert stored() == {"a": (2, 20), "b": (1, 20)}


def test_a_row_keeps_its_age_that_changed_otherwise_while_the_rest_grew_younger() -> None:
    rows = store()
    rows.replace(rows_of(*(Seen(name, 1, 10) for name in "abc")))
    rows.replace({"a": Seen("a", 1, 20), "b": Seen("b", 1, 20), "c": Seen("c", 2, 10)})
    assert stored() == {"a": (1, 20), "b": (1, 20), "c": (2, 10)}


def test_rows_that_differ_in_two_ages_are_no_news() -> None:
    rows = store("read_at_ms", "offline_since_ms")
    rows.replace(rows_of(Seen("a", 1, 10), Seen("b", 1, 10, 7), Seen("c", 1, 10)))
    changes = rows.replace(rows_of(Seen("a", 1, 20, 20), Seen("b", 1, 20, 20), Seen("c", 1, 10)))
    assert (dict(changes.changed), changes.removed) == ({}, frozenset())
    found = GroupMembers.objects.order_by("group").values_list("group", "read_at_ms", "offline_since_ms")
    assert list(found) == [("a", 20, 20), ("b", 20, 20), ("c", 10, None)]


def test_many_ages_take_few_statements(django_assert_max_num_queries: Any) -> None:
    rows = store()
    rows.replace(rows_of(*(Seen(f"group-{number}", 1, number) for number in range(60))))
    with django_assert_max_num_queries(AGED_AT_ONCE_MAX + 1, using="metrics"):
        changes = rows.replace(rows_of(*(Seen(f"group-{number}", 1, 100 + number) for number in range(60))))
    assert not changes.changed
    assert stored() == {f"group-{number}": (1, 100 + number) for number in range(60)}


def test_it_writes_columns_of_an_index_too() -> None:
    rows = RowStore(GroupRow, GroupFigures, "local", ("group",), str)
    for name in ("calm", "urgent"):
        GroupRow.objects.create(cluster="local", group=name, status="OK", trend=[1, None])
    rows.load()
    one, other = rows.rows["calm"], rows.rows["urgent"]
    rows.replace(
        {
            "calm": structs.replace(one, lag=4, trend=(1, None, 4)),
            "urgent": structs.replace(other, attention=50, lag=9),
        }
    )
    found = GroupRow.objects.order_by("group").values_list("group", "lag", "attention", "trend")
    assert list(found) == [("calm", 4, 0, [1, None, 4]), ("urgent", 9, 50, [1, None])]


def test_texts_and_values_inside_json_survive_the_columns() -> None:
    reason = Text("%(broker)s was not queried", broker="broker-a")
    topic = GroupTopic(topic="orders", queues=2, status="OK", lag=7)
    client = ClientFigures(
        client_id="a",
        status="OK",
        lag=7,
        lag_lower_bound=False,
        time_lag_ms=None,
        time_lag_lower_bound=False,
        since_ms=1,
        reason=reason,
        worst_queue="",
        read_at_ms=2,
    )
    row = GroupFigures(group="a", status="OK", reason=reason, topics=(topic,), client_progress=(client,))
    RowStore(GroupRow, GroupFigures, "local", ("group",), str).replace({"a": row})
    again = RowStore(GroupRow, GroupFigures, "local", ("group",), str)
    again.load()
    assert again.rows == {"a": row}
    (kept,) = again.rows["a"].client_progress
    assert isinstance(kept.reason, Text) and kept.reason.values == {"broker": "broker-a"}
    stored = GroupRow.objects.get()
    assert stored.topics == [structs.asdict(topic)] and stored.client_progress[0]["reason"] == reason
    GroupRow.objects.update(client_progress=[structs.asdict(client) | {"reason": "as it was"}])
    again.load()
    assert again.rows["a"].client_progress[0].reason == Text("as it was")
