"""Rows in the database follow the rows of the round, with as few writes as that takes."""

from __future__ import annotations

from typing import Any

import pytest

from console.lag.database_router import MetricsRouter
from console.lag.models import GroupRow, HistoryFile, QueueRow, TopicQueueRow
from console.lag.round_series import TopicQueueKey
from console.lag.round_view import RowDict
from console.lag.row_store import RowStore

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def store() -> RowStore[TopicQueueKey]:
    return RowStore(TopicQueueRow, "local", TopicQueueKey._fields, TopicQueueKey)


def row(high: int, read_at_ms: int) -> RowDict:
    return {
        "min_offset": 0,
        "max_offset": high,
        "last_write_ms": None,
        "in_rate": None,
        "read_at_ms": read_at_ms,
    }


def key(queue_id: int, broker_name: str = "a") -> TopicQueueKey:
    return TopicQueueKey("orders", broker_name, queue_id)


def stored() -> dict[tuple[str, int], tuple[int, int]]:
    rows = TopicQueueRow.objects.filter(cluster="local")
    return {(one.broker_name, one.queue_id): (one.max_offset, one.read_at_ms) for one in rows}


def test_it_writes_new_rows_changes_old_ones_and_deletes_the_rest(django_assert_num_queries: Any) -> None:
    TopicQueueRow.objects.create(
        cluster="other", topic="orders", broker_name="a", queue_id=0, min_offset=0, max_offset=5
    )
    rows = store()
    first = rows.replace({key(0): row(1, 10), key(1): row(1, 10), key(0, "b"): row(1, 10)})
    assert (len(first.changed), first.removed) == (3, frozenset())
    with django_assert_num_queries(3, using="metrics"):  # age of broker a, the changed row, the deleted one
        second = rows.replace({key(0): row(1, 20), key(1): row(2, 20)})
    assert (set(second.changed), second.removed) == ({key(1)}, {key(0, "b")})
    assert stored() == {("a", 0): (1, 20), ("a", 1): (2, 20)}
    assert TopicQueueRow.objects.filter(cluster="other").count() == 1


def test_it_does_not_make_rows_of_a_silent_broker_younger() -> None:
    rows = store()
    rows.replace({key(0, "a"): row(1, 10), key(0, "b"): row(1, 10)})
    rows.replace({key(0, "a"): row(1, 20), key(0, "b"): row(1, 10)})
    assert stored() == {("a", 0): (1, 20), ("b", 0): (1, 10)}


def test_it_takes_over_what_is_stored() -> None:
    store().replace({key(0): row(1, 10)})
    again = store()
    again.load()
    changes = again.replace({key(0): row(1, 20)})
    assert (dict(changes.changed), changes.removed) == ({}, frozenset())
    assert stored() == {("a", 0): (1, 20)}


def test_it_deletes_many_rows(django_assert_max_num_queries: Any) -> None:
    rows = store()
    rows.replace({key(number): row(1, 1) for number in range(450)})
    with django_assert_max_num_queries(3, using="metrics"):
        rows.replace({})
    assert stored() == {}


def test_it_keeps_rounds_out_of_the_consoles_database() -> None:
    router = MetricsRouter()
    assert (router.db_for_write(GroupRow), router.db_for_read(QueueRow)) == ("metrics", "metrics")
    assert router.db_for_read(HistoryFile) is None
    assert router.allow_migrate("metrics", "lag", "grouprow")
    assert not router.allow_migrate("default", "lag", "grouprow")
    assert router.allow_migrate("default", "lag", "historyfile")
    assert not router.allow_migrate("metrics", "auth", "user")
    assert not router.allow_migrate("metrics", "lag")


def test_it_leaves_rows_their_age_that_were_not_read_with_the_others() -> None:
    rows = store()
    rows.replace({key(number): row(1, 10) for number in range(5)})
    younger = {key(number): row(1, 20) for number in (0, 1, 2)}
    rows.replace({**younger, key(3): row(1, 10), key(4): row(2, 20)})
    assert stored() == {
        ("a", 0): (1, 20),
        ("a", 1): (1, 20),
        ("a", 2): (1, 20),
        ("a", 3): (1, 10),
        ("a", 4): (2, 20),
    }
