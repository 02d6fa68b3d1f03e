"""The list of topics and the page of one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.lag.models import BrokerRow, TopicRow
from console.lag.rows.queue_row import QueueRow, TopicQueueRow
from console.text import Text
from console.topic.topic_config import permission_word
from console.topic.views import traffic
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


@pytest.mark.parametrize("address", ["/c/local/topics", "/c/local/topics/orders"])
def test_it_asks_strangers_to_sign_in(client: Client, address: str) -> None:
    assert client.get(address).status_code == 302


def test_it_refuses_without_the_right_to_look() -> None:
    sample_rows.sample()
    client = signed_in("some", verbs=("VIEW",), names="billing")
    assert client.get("/c/local/topics/orders").status_code == 403


def test_it_lists_what_a_person_may_look_at_and_counts_the_rest() -> None:
    sample_rows.sample()
    text = signed_in("some", verbs=("VIEW",), names="ord*").get("/c/local/topics").content.decode()
    assert ">orders</a>" in text
    assert "1 not shown: you do not have the VIEW permission for them." in text
    assert (
        "orders" not in signed_in("none", verbs=("VIEW",), names="x").get("/c/local/topics").content.decode()
    )


@pytest.mark.parametrize("address", ["/c/local/topics", "/c/local/topics/orders"])
def test_it_refuses_other_methods(admin: Client, address: str) -> None:
    assert admin.post(address).status_code == 405


def test_it_lists_ordinary_topics_and_counts_the_hidden(admin: Client) -> None:
    text = admin.get("/c/local/topics").content.decode()
    assert ">orders</a>" in text
    assert ">%DLQ%notifier</a>" not in text
    assert "1 of 2 topics; 1 of other kinds are hidden" in text


def test_the_worst_time_lag_has_the_status_of_its_group(admin: Client) -> None:
    TopicRow.objects.filter(topic="orders").update(worst_status="FALLING_BEHIND")
    text = admin.get("/c/local/topics").content.decode()
    assert 'badge--warn s-behind" title="Falling behind">1 h 12 m</span>' in text
    assert 'data-as="worst_time_lag"' in text  # live too


def test_queues_of_a_silent_broker_are_not_left_out_of_a_sum(admin: Client) -> None:
    sample_rows.topic_row("torn", read_queues=4, write_queues=4, partial=True)
    assert "≥ 4 / 4" in admin.get("/c/local/topics").content.decode()
    assert ">≥</span>4 queues on" in admin.get("/c/local/messages?topic=torn").content.decode()


def test_it_shows_other_kinds_when_asked(admin: Client) -> None:
    assert ">%DLQ%notifier</a>" in admin.get("/c/local/topics?kind=DLQ").content.decode()


def test_it_counts_and_filters_message_types(admin: Client) -> None:
    sample_rows.topic_row("ledger", message_type="FIFO")
    sample_rows.topic_row("plain", message_type="NORMAL")
    text = admin.get("/c/local/topics").content.decode()
    assert 'href="/c/local/topics?message_type=FIFO"' in text and "FIFO <b>1</b>" in text
    assert "Delay <b>" not in text and "Normal <b>3</b>" in text
    text = admin.get("/c/local/topics?message_type=FIFO").content.decode()
    assert ">ledger</a>" in text and ">plain</a>" not in text
    assert "1 of 4 topics; 1 of other kinds are hidden" in text
    assert 'href="/c/local/topics"' in text.partition("FIFO <b>")[0].rpartition('class="chip"')[2]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["broker-a"], ["broker-a"]),
        (["broker-a", "broker-b"], ["a", "b"]),
        (["broker-a", "broker-b", "eu-1"], []),
        ([f"rmq_{number}" for number in range(9)], []),
    ],
)
def test_it_names_the_brokers_that_have_room(admin: Client, names: list[str], shown: list[str]) -> None:
    BrokerRow.objects.all().delete()
    BrokerRow.objects.bulk_create(BrokerRow(cluster="local", broker_name=name) for name in names)
    sample_rows.topic_row("spread", brokers=names)
    response = admin.get("/c/local/topics?q=spread")
    assert [list(names) for _, _, names in response.context["rows"]] == [shown]
    text = " ".join(response.content.decode().split())
    assert (f'data-tip="{", ".join(names)}"' in text) == (shown != names)


def test_it_says_what_an_empty_list_hides(admin: Client) -> None:
    text = admin.get("/c/local/topics?q=notif").content.decode()
    assert "0 of 2 topics match “notif”" in text
    assert "1 of other kinds match and are hidden" in text


def test_it_shows_a_topic_with_its_groups_and_queues(admin: Client) -> None:
    text = admin.get("/c/local/topics/orders").content.decode()
    assert "broker-a · 0" in text
    assert ">analytics</a>" in text
    assert "read and write" in text
    assert "takes 93 % of the traffic" in text  # 13.2 of 14.2 a second


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("", 0),
        ("?sort=queue&dir=desc", 1),
        ("?sort=in_rate", 0),
        ("?sort=in_rate&dir=asc", 1),
        ("?sort=lag", 0),
    ],
)
def test_its_queues_are_sorted(admin: Client, query: str, first: int) -> None:
    sample_queues.change({"group": "analytics", "queue_id": 0}, lag=70_000)
    response = admin.get(f"/c/local/topics/orders{query}")
    assert response.context["queue_page"].rows[0].row.queue_id == first
    card = response.content.decode().split('id="queues"')[1]
    heads = [head.partition('"')[0] for head in card.split('data-column="')[1:]]
    assert heads == ["queue", "min", "max", "messages", "last_write", "in_rate", "time_lag", "lag"]


def test_figures_of_a_silent_broker_count_in_no_share(admin: Client) -> None:
    """They are as of the last round that read them."""
    sample_rows.topic_row("halved", brokers=["broker-a", "broker-b"])
    for broker_name, rate in (("broker-a", 10.0), ("broker-b", 30.0)):
        key = {"topic": "halved", "broker_name": broker_name, "queue_id": 0}
        row = TopicQueueRow(**key, min_offset=0, max_offset=9, in_rate=rate, read_at_ms=1)
        sample_queues.save("local", row)
    text = admin.get("/c/local/topics/halved").content.decode()
    assert "100 %" in text and "75 %" not in text
    assert text.count("as of <time") == 1


def worst_cells(client: Client) -> list[str]:
    """The cells behind the share of each queue of orders: worst time lag, lag, group."""
    text = " ".join(client.get("/c/local/topics/orders?part=tab").content.decode().split())
    return [row.rpartition(" %</span>")[2].partition("Messages")[0] for row in text.split("<tr")[2:]]


def test_each_queue_names_the_group_that_is_furthest_behind_on_it(admin: Client) -> None:
    sample_queues.change({"group": "analytics", "queue_id": 0}, time_lag_ms=90_000, lag=7, status="STALLED")
    first, second = worst_cells(admin)
    assert "1 m 30 s" in first and ">7<" in first and ">analytics</a>" in first and " s-stalled" in first
    assert "0.6 s" in second and " s-ok" in second and "atleast" not in first + second


def test_a_group_of_unknown_position_makes_the_worst_of_a_queue_a_lower_bound(admin: Client) -> None:
    unknown = {"lag": None, "time_lag_ms": None, "status": "UNKNOWN"}
    sample_queues.change({"group": "billing", "queue_id": 0}, **unknown)
    assert "atleast" in worst_cells(admin)[0] and ">analytics</a>" in worst_cells(admin)[0]
    sample_queues.change({"group": "analytics", "queue_id": 0}, **unknown)
    assert worst_cells(admin)[0].count('class="unknown"') == 2  # never 0


def test_a_group_that_never_committed_on_a_queue_is_no_worst_one(admin: Client) -> None:
    never = {"lag": None, "time_lag_ms": None, "status": "NEVER_COMMITTED"}
    sample_queues.change({"group": "billing", "queue_id": 1}, **never)
    assert "atleast" not in worst_cells(admin)[1] and ">analytics</a>" in worst_cells(admin)[1]
    sample_queues.change({"group": "analytics", "queue_id": 1}, **never)
    assert worst_cells(admin)[1].count("–") == 3


def test_a_queue_names_no_group_that_one_may_not_look_at() -> None:
    sample_rows.sample()
    sample_rows.group_row("orders-mail")
    sample_rows.queue_row("orders-mail", 0, time_lag_ms=1)
    some = signed_in("some", verbs=("VIEW",), names="orders*")
    assert ">orders-mail</a>" in worst_cells(some)[0] and worst_cells(some)[1].count("–") == 3


def test_long_tables_of_a_topic_are_paged_and_made_again_as_they_are(admin: Client) -> None:
    wide = "/c/local/topics/wide"
    sample_rows.topic_row("wide")
    place = {"topic": "wide", "broker_name": "broker-a"}
    queues = [TopicQueueRow(**place, queue_id=number, min_offset=0, max_offset=9) for number in range(120)]
    sample_queues.save("local", *queues)
    pages = [admin.get(f"{wide}?page={page}").content.decode() for page in (1, 2, 3)]
    assert ["broker-a · 119" in shown(page) for page in pages] == [False, False, True]
    assert ["broker-a · 50<" in shown(page) for page in pages] == [False, True, False]
    assert f'data-part="{wide}?page=2&amp;part=tab"' in pages[1]
    again = admin.get(f"{wide}?page=2&part=tab").content.decode()
    assert "broker-a · 50<" in shown(again) and f'href="{wide}?page=3"' in again
    readers = [sample_rows.group_row(f"reader-{number}").group for number in range(70)]
    sample_queues.save("local", *(QueueRow(**place, group=group, queue_id=0) for group in readers))
    groups = [
        admin.get(f"{wide}?tab=groups&page={page}").content.decode().split('id="g-h"')[1] for page in (1, 2)
    ]
    assert [page.count('class="primary"') for page in groups] == [50, 20]
    whole = admin.get(f"{wide}?tab=groups&rows=100").content.decode().split('id="g-h"')[1]
    assert whole.count('class="primary"') == 70


def shown(page: str) -> str:
    """With one space where the template has a line break."""
    return " ".join(page.split())


def test_traffic_begins_with_the_first_known_minute() -> None:
    row = TopicRow(trend=[None, None, 2.0, None, 4.0], trend_minute=100)
    assert traffic(row) == ([98 * 60_000, 99 * 60_000, 100 * 60_000], [2.0, None, 4.0])
    row.read_at_ms = 100 * 60_000 + 7_000  # the last point is the present minute's, as of its last round
    assert traffic(row).times == [98 * 60_000, 99 * 60_000, 100 * 60_000 + 7_000]
    assert traffic(TopicRow(trend=[None], trend_minute=100, read_at_ms=7)) == ([], [])


def test_its_figures_and_tabs_are_made_again_alone(admin: Client) -> None:
    figures = admin.get("/c/local/topics/orders?part=figures").content.decode()
    assert (
        "busiest queue ÷ mean" in figures and "takes 93 % of the traffic" in figures and "<h1" not in figures
    )
    queues = admin.get("/c/local/topics/orders?tab=queues&part=tab").content.decode()
    assert "broker-a · 0" in queues and "busiest queue ÷ mean" not in queues
    assert "<html" in admin.get("/c/local/topics/orders?tab=activity&part=tab").content.decode()


def test_a_backlog_that_is_read_makes_no_readers(admin: Client) -> None:
    TopicRow.objects.filter(topic="orders").update(in_rate=10.0, out_rate=20.0)
    assert "2 groups per message" in admin.get("/c/local/topics/orders").content.decode()
    TopicRow.objects.filter(topic="orders").update(out_rate=120.0)
    assert "readers per message" not in admin.get("/c/local/topics/orders").content.decode()


def test_its_chart_asks_for_the_points_since(admin: Client) -> None:
    TopicRow.objects.filter(topic="orders").update(
        trend=[2.0, 4.0], trend_minute=100, read_at_ms=100 * 60_000
    )
    assert 'data-history="?part=traffic"' in admin.get("/c/local/topics/orders").content.decode()
    assert admin.get("/c/local/topics/orders?part=traffic").json() == [
        [99 * 60_000, 100 * 60_000],
        [2.0, 4.0],
    ]


def test_it_opens_topics_with_percent_signs(admin: Client) -> None:
    assert admin.get("/c/local/topics/%25DLQ%25notifier").status_code == 200


def test_it_says_that_a_topic_is_not_there(admin: Client) -> None:
    answer = admin.get("/c/local/topics/nothing")
    assert answer.status_code == 404
    assert "local has no topic nothing" in answer.content.decode()


@pytest.mark.parametrize(
    ("perm", "word"),
    [
        (6, "read and write"),
        (4, "read only"),
        (2, "write only"),
        (0, "no access"),
        (7, "read and write, inherited"),
    ],
)
def test_it_says_permissions_in_words(perm: int, word: str) -> None:
    assert permission_word(perm) == word


@pytest.mark.parametrize("count", [2, 60])
def test_its_cost_does_not_grow_with_the_rows(
    admin: Client, count: int, django_assert_num_queries: Any
) -> None:
    for number in range(count):
        sample_rows.topic_row(f"extra-{number:03}")
    with (
        django_assert_num_queries(6, using="metrics"),  # the page four, brokers and round of the frame two
    ):
        text = admin.get("/c/local/topics?rows=100").content.decode()
    assert text.count("data-key=") >= count


def test_it_shows_who_may_use_a_topic_and_where_it_is(admin: Client) -> None:
    sample_rows.topic_row("closed", perm=4, brokers=["broker-a", "broker-b"])
    text = admin.get("/c/local/topics?sort=perm&dir=asc").content.decode()
    assert ">R</td>" in text and "broker-a, broker-b" in text
    assert text.index(">closed</a>") < text.index(">orders</a>")


def test_it_says_that_a_broker_of_the_topic_is_silent(admin: Client) -> None:
    sample_rows.topic_row(
        "halved", partial=True, reason=Text("broker-b: connection refused"), brokers=["broker-a", "broker-b"]
    )
    text = admin.get("/c/local/topics/halved").content.decode()
    assert "broker-b has not answered since" in text and "≥" in text


def test_it_says_that_a_topic_is_closed_without_a_quarantine(admin: Client) -> None:
    sample_rows.topic_row("closed", perm=0)
    text = admin.get("/c/local/topics/closed").content.decode()
    assert "No client may read this topic" in text and "In quarantine" not in text


def test_it_offers_to_send_to_those_who_may(admin: Client) -> None:
    assert "/c/local/messages/send?topic=orders" in admin.get("/c/local/topics/orders").content.decode()
    viewer = signed_in("victor", verbs=("VIEW",))
    assert "messages/send" not in viewer.get("/c/local/topics/orders").content.decode()


def test_it_names_no_group_that_a_person_may_not_look_at() -> None:
    sample_rows.sample()
    client = signed_in("owner", verbs=("VIEW", "CONFIGURE"), names="orders")
    for address in ("topics", "topics/orders", "topics/orders?tab=groups", "topics/orders/delete"):
        text = client.get(f"/c/local/{address}").content.decode()
        assert [name for name in ("analytics", "billing") if name in text] == [], address
    text = client.get("/c/local/topics/orders?tab=groups").content.decode()
    assert "2 groups read this topic, largest lag first; 0 of them shown; you may not view the others" in text
    assert "a group you may not view" in text
    row = client.get("/api/v1/clusters/local/topics/orders").json()
    assert (row["worst_group"], row["worst_time_lag_ms"]) == (None, 4_320_000)
    assert client.get("/api/v1/clusters/local/topics").json()["results"][0]["worst_group"] is None
    readers = client.get("/api/v1/clusters/local/topics/orders/groups").json()
    assert (readers["count"], readers["results"], readers["not_shown"]) == (0, [], 2)


def queries(client: Client, address: str) -> tuple[str, int]:
    """The page's text and how often the database of rounds was asked for it."""
    with CaptureQueriesContext(connections["metrics"]) as seen:
        answer = client.get(address)
    assert answer.status_code == 200
    return str(answer.content.decode()), len(seen)


def test_a_row_opens_to_its_groups_with_two_queries(admin: Client) -> None:
    sample_queues.change({"group": "analytics"}, time_lag_ms=4_320_000, lag=7)
    sample_queues.change({"group": "billing", "queue_id": 1}, lag=None, status="UNKNOWN")
    text, asked = queries(admin, "/c/local/topics/orders?part=row")
    assert asked == 2
    assert text.index("analytics") < text.index("billing")
    assert "1 h 12 m" in text and ">14<" in text
    assert '<span class="atleast"' in text  # a queue of billing is unknown
    for number in range(20):
        sample_rows.queue_row(f"more-{number:02}", 0)
    text, asked = queries(admin, "/c/local/topics/orders?part=row")
    assert (asked, text.count("<tr role")) == (2, 11)
    assert "All groups" in text


def test_a_row_opens_to_groups_that_one_may_look_at() -> None:
    sample_rows.sample()
    sample_rows.queue_row("orders-mail", 0)
    text, _ = queries(signed_in("some", verbs=("VIEW",), names="orders*"), "/c/local/topics/orders?part=row")
    assert "orders-mail" in text and "billing" not in text and "analytics" not in text
    assert "Groups you may not view are not listed." in text


def test_topics_that_nobody_reads_are_counted_and_listed(admin: Client) -> None:
    for name in ("lonely", "left-alone"):
        sample_rows.topic_row(name, readers=0, worst_group="", worst_time_lag_ms=None)
    text = admin.get("/c/local/topics").content.decode()
    assert "No reader <b>2</b>" in text
    text = admin.get("/c/local/topics?reader=none").content.decode()
    assert ">lonely</a>" in text and ">left-alone</a>" in text and ">orders</a>" not in text
    assert "1–2 of 2" in text
    text = admin.get("/c/local/topics?reader=none&q=lonely").content.decode()
    assert "1–1 of 1" in text
    assert "0 of 4 topics match" in admin.get("/c/local/topics?reader=none&q=orders").content.decode()
