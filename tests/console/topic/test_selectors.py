"""Lists of topics: kinds, order, groups, and how many queries they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from console.lag.models import GroupRow, TopicRow
from console.lag.rows.queue_row import QueueRow, TopicQueueRow
from console.lists.query import ListQuery
from console.topic import selectors
from console.topic.topic_list import TOPICS
from tests.support import sample_queues

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def topics() -> None:
    for name, kind, rate in (
        ("orders", "NORMAL", 20.0),
        ("clicks", "NORMAL", 90.0),
        ("idle", "NORMAL", None),
        ("%RETRY%billing", "RETRY", 0.0),
        ("%DLQ%billing", "DLQ", 0.0),
        ("TBW102", "SYSTEM", None),
    ):
        readers = {"orders": 2, "idle": None}.get(name, 0)  # nobody knows of idle
        TopicRow.objects.create(
            cluster="local", topic=name, kind=kind, in_rate=rate, brokers=["a"], readers=readers
        )
    TopicRow.objects.create(cluster="other", topic="elsewhere", kind="NORMAL")


def names(kinds: Sequence[str] = ("NORMAL",), only_unread: bool = False, **asked: Any) -> list[str]:
    page = selectors.topic_page("local", ListQuery(**asked), kinds=kinds, only_unread=only_unread)
    return [row.topic for row in page.rows]


@pytest.mark.usefixtures("topics")
def test_it_hides_other_kinds_and_counts_them() -> None:
    page = selectors.topic_page("local")
    assert [row.topic for row in page.rows] == ["clicks", "idle", "orders"]
    assert (page.total, page.all_total, page.hidden_system) == (3, 6, 3)
    assert page.counts_by_status == {"NORMAL": 3, "RETRY": 1, "DLQ": 1, "SYSTEM": 1, "NO_READER": 1}
    assert names(only_unread=True) == ["clicks"]
    assert names(kinds=("DLQ", "RETRY")) == ["%DLQ%billing", "%RETRY%billing"]


@pytest.mark.usefixtures("topics")
def test_it_sorts_unknown_last_both_ways() -> None:
    assert names(sort="in_rate", descending=True) == ["clicks", "orders", "idle"]
    assert names(sort="in_rate", descending=False) == ["orders", "clicks", "idle"]


@pytest.mark.usefixtures("topics")
def test_it_finds_by_name(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(3, using="metrics"):
        assert names(query="ORD") == ["orders"]
    assert selectors.topic_names("local", query="billing") == ["%DLQ%billing", "%RETRY%billing"]
    assert selectors.topic("local", "nothing") is None


def test_it_names_the_groups_of_a_topic_worst_first(django_assert_num_queries: Any) -> None:
    for group, lags in (("slow", [5, 90]), ("fast", [0, 0]), ("dark", [7, None])):
        GroupRow.objects.create(cluster="local", group=group, status="OK", clients=2)
        for queue_id, lag in enumerate(lags):
            row = QueueRow(
                group=group,
                topic="orders",
                broker_name="a",
                queue_id=queue_id,
                lag=lag,
                time_lag_ms=lag,
                status="UNKNOWN" if lag is None else "OK",
            )
            sample_queues.save("local", row)
    with django_assert_num_queries(2, using="metrics"):
        found = selectors.topic_groups("local", "orders")
    assert [(one.group, one.lag, one.lag_lower_bound, one.time_lag_ms, one.queues) for one in found] == [
        ("slow", 95, False, 90, 2),
        ("dark", 7, True, 7, 2),
        ("fast", 0, False, 0, 2),
    ]


def test_it_lists_queues_in_order() -> None:
    for broker_name, queue_id in (("b", 0), ("a", 1), ("a", 0)):
        row = TopicQueueRow(
            topic="orders", broker_name=broker_name, queue_id=queue_id, min_offset=0, max_offset=1
        )
        sample_queues.save("local", row)
    found = selectors.topic_queues("local", "orders")
    assert [(row.broker_name, row.queue_id) for row in found] == [("a", 0), ("a", 1), ("b", 0)]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("sort", TOPICS.sorts)
def test_it_sorts_by_every_column_both_ways_over_all_rows(sort: str) -> None:
    TopicRow.objects.filter(topic="orders").update(
        read_queues=9,
        out_rate=9.0,
        messages=9,
        worst_time_lag_ms=9,
        retained_ms=9,
        last_write_ms=9,
        worst_group="z",
        perm=6,
        brokers=["z"],
    )
    assert (
        sorted(names(sort=sort, descending=False))
        == sorted(names(sort=sort, descending=True))
        == ["clicks", "idle", "orders"]
    )
    if sort not in ("topic", "kind", "in_rate"):
        assert names(sort=sort, descending=True)[0] == "orders"
