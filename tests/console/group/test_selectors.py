"""Lists of groups: order, filters, counts, and how many queries they cost."""

from __future__ import annotations

from typing import Any

import pytest

from console.group import selectors
from console.lag.models import ClientRow, GroupRow
from console.lag.rows.queue_row import QueueRow
from console.lists.query import ListQuery
from tests.support import sample_queues

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def make(name: str, status: str = "OK", **values: Any) -> None:
    GroupRow.objects.create(cluster="local", group=name, status=status, **values)


@pytest.fixture
def groups() -> None:
    make("calm", lag=0, time_lag_ms=0, attention=0)
    make("lost", "LOST", lag=9, time_lag_ms=9_000, attention=7)
    make("stuck", "STALLED", lag=50, time_lag_ms=90_000, attention=6, partial=True)
    make("busy", lag=500, time_lag_ms=8_000, attention=0, drain_ms=7_000)
    make("dark", "UNKNOWN", lag=None, time_lag_ms=None, attention=4, partial=True)
    make("never", "NEVER_COMMITTED", lag=None, attention=0, drain_never=True)
    make("TOOLS_CONSUMER", "NEVER_COMMITTED", is_system=True)
    GroupRow.objects.create(cluster="other", group="elsewhere", status="OK")


def names(status: str | None = None, include_system: bool = False, **source: Any) -> list[str]:
    page = selectors.group_page("local", ListQuery(**source), status=status, include_system=include_system)
    return [row.group for row in page.rows]


@pytest.mark.usefixtures("groups")
def test_it_puts_first_what_needs_attention() -> None:
    assert names() == ["lost", "stuck", "dark", "busy", "calm", "never"]


@pytest.mark.usefixtures("groups")
def test_it_sorts_unknown_last_both_ways() -> None:
    assert names(sort="lag") == ["busy", "stuck", "lost", "calm", "dark", "never"]
    assert names(sort="lag", descending=False) == ["calm", "lost", "stuck", "busy", "dark", "never"]
    assert names(sort="drain")[:2] == ["never", "busy"]
    assert names(sort="nonsense") == names()


@pytest.mark.usefixtures("groups")
def test_it_counts_chips_over_all_that_match() -> None:
    page = selectors.group_page("local", ListQuery(per_page=2, page=2))
    assert [row.group for row in page.rows] == ["dark", "busy"]
    assert (page.total, page.pages, page.page, page.all_total, page.hidden_system) == (6, 3, 2, 6, 1)
    assert page.counts_by_status == {
        "OK": 2,
        "LOST": 1,
        "STALLED": 1,
        "UNKNOWN": 1,
        "NEVER_COMMITTED": 1,
        "PARTIAL": 2,
    }


@pytest.mark.usefixtures("groups")
def test_it_filters_by_status_and_name() -> None:
    assert names(status="UNKNOWN") == ["dark"]
    assert names(status=selectors.PARTIAL) == ["stuck", "dark"]
    assert names(query="S") == ["lost", "stuck", "busy"]
    page = selectors.group_page("local", ListQuery(query="nothing"))
    assert (page.rows, page.total, page.all_total, page.pages) == ([], 0, 6, 1)
    assert "TOOLS_CONSUMER" in names(include_system=True)
    assert selectors.group_page("local", include_system=True).hidden_system == 0


@pytest.mark.usefixtures("groups")
def test_it_stays_inside_its_pages() -> None:
    assert selectors.group_page("local", ListQuery(page=99)).page == 1
    assert selectors.group_page("local", ListQuery(page=-1, per_page=100_000)).per_page == 200


@pytest.mark.usefixtures("groups")
def test_it_asks_the_database_three_times(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(3, using="metrics"):
        selectors.group_page("local", ListQuery(query="s"), status="OK")
    with django_assert_num_queries(1, using="metrics"):
        assert selectors.group("local", "nobody") is None


def test_it_lists_the_parts_of_a_group(django_assert_num_queries: Any) -> None:
    make("billing", topics=[{"topic": "orders", "lag": 3}])
    for queue_id in (1, 0):
        row = QueueRow(group="billing", topic="orders", broker_name="a", queue_id=queue_id, status="OK")
        sample_queues.save("local", row)
    ClientRow.objects.create(cluster="local", group="billing", client_id="x")
    with django_assert_num_queries(3, using="metrics"):
        assert [row.queue_id for row in selectors.group_queues("local", "billing")] == [0, 1]
        assert list(selectors.group_queues("local", "billing", topic="clicks")) == []
        assert [row.client_id for row in selectors.group_clients("local", "billing")] == ["x"]
    assert selectors.group_names("local", query="BILL") == ["billing"]


def test_it_turns_a_row_into_json() -> None:
    make("billing", lag=3)
    row = GroupRow.objects.get().as_row()
    assert (row["group"], row["lag"], row["drain_ms"]) == ("billing", 3, None)
    assert "id" not in row


def test_it_filters_by_members_model_and_dead_letters() -> None:
    make("a", clients=2, model="CLUSTERING", consume_mode="ORDERLY", dlq_count=3, dlq_in_rate=0.5)
    make("b", clients=0, model="CLUSTERING", dlq_count=3, dlq_in_rate=0.0)
    make("c", "LOST", clients=1, model="BROADCASTING", consume_mode="POP", dlq_in_rate=None)
    make("d", clients=None)
    assert names(filters={"members": "online"}, sort="group", descending=False) == ["a", "c"]
    assert names(filters={"members": "offline"}) == ["b"]
    assert names(filters={"model": "clustering", "dead_letters": "some"}, sort="group", descending=False) == [
        "a",
        "b",
    ]
    assert names(filters={"dead_letters": "growing"}) == ["a"]
    page = selectors.group_page(
        "local", ListQuery(filters={"members": "online", "model": "pop"}), status="LOST"
    )
    assert ([row.group for row in page.rows], page.total, page.all_total) == (["c"], 1, 4)
    assert page.counts_by_status == {"LOST": 1}
    assert page.counts_by_filter == {
        "members": {"online": 2, "offline": 1},
        "model": {"clustering": 2, "broadcasting": 1, "orderly": 1, "pop": 1},
        "dead_letters": {"growing": 1, "some": 2},
        "reading": {"paused": 0},
    }
    assert selectors.group_page("local", ListQuery(filters={"members": "offline"}), status="LOST").rows == []


def test_it_sorts_by_every_figure_of_the_list() -> None:
    make(
        "first",
        filtered_lag=9,
        time_to_loss_ms=1,
        retry_lag=7,
        dlq_count=5,
        in_rate=2.0,
        out_rate=2.0,
        clients=4,
    )
    make(
        "second",
        filtered_lag=3,
        time_to_loss_ms=9,
        retry_lag=1,
        dlq_count=2,
        in_rate=1.0,
        out_rate=1.0,
        clients=1,
    )
    make("unknown")
    for sort in ("filtered", "retry", "dlq", "in_rate", "out_rate", "clients"):
        assert names(sort=sort) == ["first", "second", "unknown"], sort
    assert names(sort="loss", descending=False) == ["first", "second", "unknown"]
