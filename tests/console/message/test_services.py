"""Finding messages on a real brokerd."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import pytest

from console.brokers.mqadmin import Message, TopicConfig
from console.lag.models import BrokerRow, TopicRow
from console.message import services
from console.message.search.body_match import read_match
from console.message.search.message_search import source_of
from console.message.search.query import Query, QueryRefused
from console.message.search.tail import Tail
from console.text import Text
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.support import browsed
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("messages of a broker"),
]


@pytest.fixture
def orders(live: LiveCluster) -> LiveCluster:
    """Topic ``orders`` with two queues; ``a0 b0 a1 b1 …`` a to queue 0 and b to queue 1, ten each, at different ms."""
    live.create_topic("orders", queues=2)
    for number in range(10):
        live.send(
            "orders", 0, [b"a%d" % number], TAGS="even" if number % 2 == 0 else "odd", KEYS=f"a{number} all"
        )
        time.sleep(0.002)
        live.send("orders", 1, [b"b%d" % number], KEYS=f"b{number} all")
        time.sleep(0.002)
    return live


def bodies(page: services.MessagePage) -> list[str]:
    return [message.body_text for message in page.rows]


NEWEST = [f"{letter}{number}" for number in range(9, -1, -1) for letter in ("b", "a")]


def test_it_lists_newest_first_over_all_queues(orders: LiveCluster) -> None:
    page = browsed.browse("test", "orders", limit=50)
    assert bodies(page) == NEWEST
    assert (page.cursor, page.scanned, page.queues, page.silent, page.cut) == (None, 20, 2, {}, False)


def test_it_goes_on_with_a_cursor_that_new_messages_do_not_shift(orders: LiveCluster) -> None:
    first = browsed.browse("test", "orders", limit=7)
    assert bodies(first) == NEWEST[:7]
    orders.send("orders", 0, [b"late"] * 50)
    second = browsed.browse("test", "orders", limit=7, cursor=first.cursor)
    assert bodies(second) == NEWEST[7:14]
    third = browsed.browse("test", "orders", limit=7, cursor=second.cursor)
    assert (bodies(third), third.cursor) == (NEWEST[14:], None)


def test_it_lists_oldest_first_from_a_time(orders: LiveCluster) -> None:
    everything = browsed.browse("test", "orders", newest=False, from_ms=0)
    assert bodies(everything) == NEWEST[::-1]
    at_ms = everything.rows[6].store_timestamp_ms
    page = browsed.browse("test", "orders", newest=False, from_ms=at_ms, limit=3)
    assert bodies(page) == NEWEST[::-1][6:9]
    assert (
        bodies(browsed.browse("test", "orders", newest=False, from_ms=at_ms, limit=3, cursor=page.cursor))
        == (NEWEST[::-1][9:12])
    )


def test_it_finds_one_tag_far_back(orders: LiveCluster) -> None:
    orders.send("orders", 0, [b"noise"] * 3_000)
    page = browsed.browse("test", "orders", tag="odd", limit=3)
    assert bodies(page) == ["a9", "a7", "a5"]
    assert page.scanned > 3_000


def test_it_restricts_to_one_queue(orders: LiveCluster) -> None:
    page = browsed.browse("test", "orders", queue=(orders.broker_name, 1), limit=2)
    assert bodies(page) == ["b9", "b8"] and page.queues == 1


@pytest.mark.parametrize("cursor", ["x", "e30", "bm9wZQ", "WzFd", "eyJuZXdlc3QiOmZhbHNlLCJhdCI6e319"])
def test_it_refuses_a_foreign_cursor(orders: LiveCluster, cursor: str) -> None:
    with pytest.raises(services.BadCursor):
        browsed.browse("test", "orders", cursor=cursor)


def test_it_does_not_know_the_topic(live: LiveCluster) -> None:
    with pytest.raises(services.TopicNotFound):
        browsed.browse("test", "nowhere")


def test_it_finds_by_unique_key_by_offset_id_by_key_and_by_place(orders: LiveCluster) -> None:
    newest = browsed.browse("test", "orders", limit=1).rows[0]
    assert newest.body_text == "b9" and newest.keys == "b9 all" and newest.queue_offset == 9
    for found in (
        browsed.message_by_id("test", newest.message_id, "orders"),
        browsed.message_by_id("test", newest.offset_message_id, "orders"),
        browsed.message_by_id("test", newest.offset_message_id),
        services.message_at("test", "orders", newest.broker_name, 1, 9),
    ):
        assert found is not None and found.offset_message_id == newest.offset_message_id
    assert [message.body_text for message in services.by_key("test", "orders", "a3")] == ["a3"]
    assert [message.body_text for message in services.by_key("test", "orders", "all", limit=3)] == [
        "b9",
        "a9",
        "b8",
    ]


@pytest.mark.parametrize("message_id", ["nonsense", "", "0" * 32, "C0000201" + "0" * 24, "z" * 32])
def test_it_answers_none_for_an_id_nobody_has(orders: LiveCluster, message_id: str) -> None:
    assert browsed.message_by_id("test", message_id, "orders") is None
    assert browsed.message_by_id("test", message_id) is None


def test_it_never_asks_an_address_out_of_an_id(orders: LiveCluster) -> None:
    """An offset id names host and port; this one is none of the cluster's brokers."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        assert browsed.message_by_id("test", f"7F000001{port:08X}" + "0" * 16) is None
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody came
            stranger.accept()


def test_it_does_not_know_the_broker_of_a_place(orders: LiveCluster) -> None:
    assert services.message_at("test", "orders", "no-such-broker", 0, 0) is None


def test_it_shows_the_rest_and_says_which_broker_is_silent(orders: LiveCluster, tmp_path: Path) -> None:
    other = BrokerProcess(tmp_path / "b", namesrvAddr=orders.broker.namesrv, brokerName="broker-z").start()
    orders.admin.create_topic(
        other.address, TopicConfig("orders", read_queue_nums=1, write_queue_nums=1, perm=6)
    )
    wait_for(lambda: len(orders.admin.topic_route("orders").queue_datas) == 2)
    orders.admin.send(other.address, Message("orders", b"z0", {}), queue_id=0)
    assert bodies(browsed.browse("test", "orders", limit=1)) == ["z0"]
    assert other.process is not None
    other.process.send_signal(signal.SIGSTOP)
    page = browsed.browse("test", "orders", limit=1)
    assert bodies(page) == ["b9"]
    assert list(page.silent) == ["broker-z"] and "did not answer" in page.silent["broker-z"]
    other.kill()
    wait_for(lambda: len(orders.admin.topic_route("orders").queue_datas) == 1)
    assert browsed.browse("test", "orders", limit=1).silent == {}, "nobody knows of it any more"
    TopicRow.objects.create(cluster="test", topic="orders", kind="NORMAL", brokers=["broker-a", "broker-z"])
    BrokerRow.objects.create(
        cluster="test", broker_name="broker-z", addr=other.address, reason=Text("silent since 12:02")
    )
    assert browsed.browse("test", "orders", limit=1).silent == {"broker-z": "silent since 12:02"}


def test_a_tail_shows_what_arrives_and_counts_what_it_skips(orders: LiveCluster) -> None:
    tail = Tail(source_of("test", "orders"), Query("orders"))
    assert tail.step().hits == []
    orders.send("orders", 1, [b"new"], TAGS="x")
    assert [hit.record.body for hit in tail.step().hits] == [b"new"]
    orders.send("orders", 0, [b"flood"] * 120)
    flood = tail.step()
    assert (len(flood.hits), flood.skipped, flood.scanned) == (50, 70, 120)
    assert flood.hits[-1].record.queue_offset == 129, "the newest are shown"
    orders.send("orders", 0, [b"flood"] * 2_500)
    assert (len((more := tail.step()).hits), more.skipped) == (50, 2_450)
    assert (tail.shown, tail.skipped, tail.step().hits) == (101, 2_520, [])


def test_a_tail_filters_at_the_broker_and_here(orders: LiveCluster) -> None:
    match = read_match("body", "needle")
    tail = Tail(source_of("test", "orders"), Query("orders", tags=("x",), match=match))
    orders.send("orders", 0, [b"a needle", b"hay"], TAGS="x")
    orders.send("orders", 1, [b"a needle"], TAGS="y")
    found = tail.step()
    assert [(hit.record.queue_id, hit.record.body) for hit in found.hits] == [(0, b"a needle")]
    assert found.skipped == 0


def test_the_broker_filters_by_sql_where_it_may(orders: LiveCluster) -> None:
    orders.send("orders", 0, [b"cheap"], amount="5", channel="wallet")
    orders.send("orders", 1, [b"dear", b"dearer"], amount="6000", channel="wallet")
    orders.send("orders", 1, [b"card"], amount="9000", channel="card")
    query = Query("orders", sql="amount > 5000 AND channel = 'wallet'")
    with pytest.raises(
        QueryRefused, match="broker-a does not filter by SQL92.*enablePropertyFilter=true"
    ) as it:
        services.find("test", query)
    assert it.value.field == "sql"
    orders.admin.update_broker_config(orders.broker.address, {"enablePropertyFilter": "true"})
    found = services.find("test", query)
    assert sorted(bodies(found)) == ["dear", "dearer"]
    with pytest.raises(
        QueryRefused, match="broker-a cannot read this expression: line 1, column 9: expected"
    ) as it:
        services.find("test", Query("orders", sql="TAGS IS BETWEEN"))
    assert it.value.field == "sql"
