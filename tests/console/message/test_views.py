"""The message browser and the page of one message, against a real broker."""

from __future__ import annotations

import asyncio
import html
import re
from contextlib import ExitStack

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.http import urlencode

from console.lists.export_size import ExportSize
from console.message.search.quota import PER_PERSON_MAX, quota
from tests.console.operation.live_cluster import LiveCluster
from tests.support import browsed, sample_rows
from tests.support.people import signed_in
from tests.support.shown import Browser

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("messages of a broker"),
]


@pytest.fixture
def client(live: LiveCluster, alice: User) -> Client:
    """A browser of Alice beside a topic of three messages."""
    live.create_topic("orders", queues=1)
    live.send("orders", 0, [b'{"order": 1}', b"<script>alert(1)</script>"], TAGS="paid", KEYS="ORD-1")
    live.send("orders", 0, [b"\x00\xff"], TAGS="new", KEYS="ORD-2")
    browser = Browser()
    browser.force_login(alice)
    return browser


def test_it_asks_strangers_to_sign_in() -> None:
    for address in ("/c/test/messages", "/c/test/messages/0A0407151F9063947C6B6E2F24B70911"):
        assert Client().get(address).status_code == 302


def test_it_refuses_topics_one_may_not_see() -> None:
    sample_rows.cluster("test")
    some = signed_in("some", verbs=("VIEW",), names="clicks")
    assert some.get("/c/test/messages?topic=orders").status_code == 403


def test_it_refuses_other_methods() -> None:
    sample_rows.cluster("test")
    assert signed_in().post("/c/test/messages").status_code == 405


def test_it_asks_for_a_topic_first() -> None:
    sample_rows.cluster("test")
    assert "Choose a topic" in signed_in().get("/c/test/messages").content.decode()


def test_it_offers_the_topics_of_a_small_cluster() -> None:
    sample_rows.cluster("test")
    for topic, kind in (("%DLQ%billing", "DLQ"), ("payments", "NORMAL"), ("orders", "NORMAL")):
        sample_rows.topic_row(topic, cluster="test", kind=kind)
    text = signed_in().get("/c/test/messages").content.decode()
    assert re.findall(r'<option value="(.*?)">', text)[:3] == ["orders", "payments", "%DLQ%billing"]
    assert re.findall(r'class="chip"[^>]*>([^<]*)</a>', text) == ["orders", "payments"]


def test_it_shows_the_newest_first_and_escapes_bodies(client: Client) -> None:
    text = client.get("/c/test/messages?topic=orders").content.decode()
    places = [text.index(body) for body in ("00 ff", "&lt;script&gt;alert(1)&lt;/script&gt;", '{ "order": 1')]
    assert places == sorted(places)
    assert "<script>alert" not in text


def test_it_filters_by_tag_key_and_queue(client: Client, live: LiveCluster) -> None:
    def offsets(query: str) -> list[bool]:
        text = client.get(f"/c/test/messages?topic=orders&{query}").content.decode()
        return [f"@ {offset}</a>" in text for offset in range(3)]

    assert offsets("tag=new") == [False, False, True]
    assert offsets("read=key&key=ORD-1") == [True, True, False]
    assert offsets(f"queue={live.broker_name}:0") == [True, True, True]
    assert offsets(f"queue={live.broker_name}:7") == [False, False, False]
    assert offsets("read=time&since=2020-01-01T00:00:00") == [True, True, True]
    assert offsets("read=time&since=2100-01-01T00:00:00") == [False, False, False]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("topic=nothing", 404, "test has no topic nothing."),
        ("topic=orders&queue=broken", 400, "Enter a queue as broker name, colon and number"),
        ("topic=orders&read=time", 400, "Enter a time: this search needs it."),
        ("topic=orders&read=time&since=noon", 400, "Enter a time like"),
        ("topic=orders&cursor=x", 400, "This is not a cursor of a message search"),
    ],
)
def test_it_says_what_is_wrong_with_a_search(client: Client, query: str, status: int, words: str) -> None:
    answer = client.get(f"/c/test/messages?{query}")
    assert answer.status_code == status
    assert words in answer.content.decode()


def test_it_opens_a_message_by_its_link(client: Client) -> None:
    found = browsed.browse("test", "orders").rows[-1]
    place = f"{found.broker_name}:0:{found.queue_offset}"
    address = f"/c/test/messages/{found.offset_message_id}?{urlencode({'topic': 'orders', 'at': place})}"
    text = client.get(address).content.decode()
    assert "&quot;order&quot;: 1" in text
    assert "ORD-1" in text
    assert "No group that you may view reads this queue." in text


def test_it_shows_since_when_a_message_waited_for_its_time(client: Client, live: LiveCluster) -> None:
    live.send("orders", 0, [b"x"], TIMER_OUT_MS="1999", TIMER_ENQUEUE_MS="1000")
    found = max(browsed.browse("test", "orders").rows, key=lambda row: row.queue_offset)
    answer = client.get(f"/c/test/messages/{found.offset_message_id}?topic=orders")
    assert answer.status_code == 200
    assert "waits for its time" in answer.content.decode()


def test_it_leads_from_an_id_to_the_message(client: Client) -> None:
    answer = client.get("/c/test/messages?topic=orders&read=id&id=7F00000100002A9F0000000000000000")
    assert answer["Location"] == "/c/test/messages/7F00000100002A9F0000000000000000?topic=orders"


def test_it_says_that_no_broker_has_a_message(client: Client) -> None:
    answer = client.get("/c/test/messages/7F00000100002A9F00000000FFFFFFFF?topic=orders")
    assert answer.status_code == 404
    assert "No broker stores this message" in answer.content.decode()


def test_it_says_who_has_read_a_message(client: Client) -> None:
    found = browsed.browse("test", "orders").rows[0]
    for group, committed in (("billing", 3), ("analytics", 1), ("fresh", None)):
        sample_rows.queue_row(
            group, 0, cluster="test", broker_name=found.broker_name, committed_offset=committed
        )
    place = f"{found.broker_name}:0:{found.queue_offset}"
    text = client.get(f"/c/test/messages/x?{urlencode({'topic': 'orders', 'at': place})}").content.decode()
    assert "1 message of this queue is ahead of it" in text
    assert "handled, or skipped by a reset" in text
    assert "the group has never committed on this queue" in text


def test_it_says_that_the_brokers_are_away() -> None:
    sample_rows.cluster("test", namesrv_addrs="127.0.0.1:1")
    answer = signed_in().get("/c/test/messages?topic=orders")
    assert answer.status_code == 503
    assert "The search failed." in answer.content.decode()


def test_it_streams_what_takes_longer_than_the_page_may(
    client: Client, live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.message.views.FIRST_PAINT_MS", 0)
    text = client.get("/c/test/messages?topic=orders").content.decode()
    assert 'data-search="search"' in text and "Scanning" in text and "Continue the search" in text
    assert "to the end" not in text  # of no queue yet
    assert re.search(r"data-exports\s+hidden", text)  # messages.js shows them with the first row
    monkeypatch.undo()
    text = client.get("/c/test/messages?topic=orders").content.decode()
    assert 'data-search=""' in text and "<b>3</b> in <b>1</b> queue" in text
    assert "1 queue read to the end" in text


def test_a_search_that_found_nothing_offers_no_export(client: Client) -> None:
    page = client.get("/c/test/messages?topic=orders&tag=unknown").content.decode()
    assert "No message" in page and "/messages/export" not in page
    assert "/messages/export" in client.get("/c/test/messages?topic=orders&tag=paid").content.decode()


def test_it_marks_hits_and_offers_tags(client: Client) -> None:
    text = client.get("/c/test/messages?topic=orders&find=alert").content.decode()
    assert "&lt;script&gt;<mark>alert</mark>(1)" in text
    assert "paid <b>67 %</b>" in text and "new <b>33 %</b>" in text
    assert "<b>1</b> hit" in text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("read=offset", "Enter an offset: this search needs it."),
        ("read=offset&offset=-1", "Enter at least 0."),
        ("read=unique", "Enter a unique key: this search needs it."),
        ("find_in=json&find=x", "Enter it like $.shippingTo"),
        ("find_in=regex&find=x", "Unknown kind of search. Choose one of: body, json, key, property."),
        ("tag=||", "Enter tags like paid || refunded."),
    ],
)
def test_every_field_says_what_is_wrong_with_it(client: Client, query: str, words: str) -> None:
    answer = client.get(f"/c/test/messages?topic=orders&{query}")
    assert answer.status_code == 400 and words in answer.content.decode()


def test_it_says_that_the_broker_does_not_filter(client: Client) -> None:
    answer = client.get("/c/test/messages?topic=orders&sql=a+BETWEEN")
    assert answer.status_code == 400
    assert 'name="sql"' in answer.content.decode() and "broker-a" in answer.content.decode()


def _address(page: str, rel: str) -> str:
    """Where the foot of a list leads."""
    (link,) = (tag for tag in re.findall(r"<a [^>]*>", page) if f'rel="{rel}"' in tag)
    found = re.search(r'href="([^"]*)"', link)
    assert found is not None
    return "/c/test/messages" + html.unescape(found[1])


def test_it_pages_on_and_back(client: Client, live: LiveCluster) -> None:
    live.send("orders", 0, [b"more"] * 60)
    first = client.get("/c/test/messages?topic=orders").content.decode()
    assert first.count("<tr data-key=") == 50 and 'rel="prev"' not in first
    second = client.get(_address(first, "next")).content.decode()
    assert second.count("<tr data-key=") == 13 and 'rel="next"' not in second
    back = client.get(_address(second, "prev"))
    assert back.content.decode().count("<tr data-key=") == 50


def test_a_full_page_is_below_60_kb_before_compression(client: Client, live: LiveCluster) -> None:
    body = b'{"orderId": "A-8396752", "status": "paid", "items": [{"sku": "kettle", "quantity": 2}], "currency": "EUR"}'
    live.send("orders", 0, [body + b" " * 200] * 60, TAGS="paid", KEYS="A-8396752")
    page = client.get("/c/test/messages?topic=orders").content
    assert page.count(b"<tr data-key=") == 50 and b'{ "orderId": "A-8396752", ' in page
    assert len(page) < 60_000


def test_it_shows_every_copy_of_a_unique_key(client: Client, live: LiveCluster) -> None:
    live.send("orders", 0, [b"one", b"two"], UNIQ_KEY="0" * 32)
    text = client.get(f"/c/test/messages?topic=orders&read=unique&id={'0' * 32}").content.decode()
    assert text.count("<tr data-key=") == 2


def test_a_row_opens_its_body_in_any_format(client: Client, live: LiveCluster) -> None:
    place = f"/c/test/messages/x?topic=orders&at={live.broker_name}:0"
    part = client.get(f"{place}:0&part=peek").content.decode()
    assert "<html" not in part and "&quot;order&quot;: 1" in part and "Life line" in part
    assert "7b 22 6f" in client.get(f"{place}:0&as=hex").content.decode()
    wrong = client.get(f"{place}:1&as=json").content.decode()
    assert "not JSON" in wrong and "00000000  3c 73" in wrong


def test_it_exports_a_search_as_a_file(client: Client) -> None:
    answer = client.get("/c/test/messages/export?topic=orders&tag=paid&format=ndjson")
    assert answer["Content-Disposition"].endswith('.ndjson"')
    pieces = answer.streaming_content

    async def read() -> bytes:
        return b"".join([piece async for piece in pieces])

    assert asyncio.run(read()).count(b'"topic"') == 2
    for query, status in (
        ("topic=orders", 400),
        ("topic=orders&format=xlsx", 400),
        ("topic=nowhere&format=csv", 404),
        ("topic=orders&format=csv&cursor=x", 400),
        ("topic=orders&format=csv&read=key&key=k", 400),
    ):
        assert client.get(f"/c/test/messages/export?{query}").status_code == status, query


def test_an_export_too_many_is_refused_on_a_page(client: Client) -> None:
    with ExitStack() as held:
        for _ in range(PER_PERSON_MAX):
            held.enter_context(quota.place("alice"))
        answer = client.get("/c/test/messages/export?topic=orders&format=csv")
    assert answer.status_code == 429
    page = answer.content.decode()
    assert "You are running 4 searches, tails or exports" in page
    assert 'href="/c/test/messages/export?topic=orders&amp;format=csv"' in page and "Try again" in page


def test_it_says_how_large_an_export_is(client: Client) -> None:
    def export_of(query: str, name: str = "csv") -> ExportSize:
        found = client.get(f"/c/test/messages?topic=orders&{query}").context["exports"]
        return next(one.size for one in found if one.name == name)

    assert export_of("").words.startswith("every message of the topic: 3 rows, about ")
    assert export_of("", "parquet").words.startswith("every message of the topic: at most 3 rows, at most ")
    assert export_of("tag=paid").words.startswith("the messages that match the search: 2 rows, about ")


def test_an_export_of_more_than_the_page_goes_by_the_topic(client: Client, live: LiveCluster) -> None:
    live.send("orders", 0, [b"x" * 200] * 100, TAGS="many")
    unknown = client.get("/c/test/messages?topic=orders").context["exports"][0].size
    assert unknown.words == "every message of the topic: size unknown"
    sample_rows.topic_row("orders", cluster="test", messages=103)
    whole = client.get("/c/test/messages?topic=orders").context["exports"][0].size
    real = sum(len(piece) for piece in _pieces(client, "topic=orders&format=ndjson"))
    assert whole.words.startswith("every message of the topic: 103 rows, about ")
    assert whole.bytes is not None and abs(whole.bytes - real) < real * 0.1
    part = client.get("/c/test/messages?topic=orders&tag=many").context["exports"][0].size
    assert part.words.startswith("the messages that match the search: at most 103 rows, at most ")


def _pieces(client: Client, query: str) -> list[bytes]:
    pieces = client.get(f"/c/test/messages/export?{query}").streaming_content

    async def read() -> list[bytes]:
        return [piece async for piece in pieces]

    return asyncio.run(read())


def test_the_list_costs_a_fixed_number_of_queries(client: Client, live: LiveCluster) -> None:
    for number in range(30):
        sample_rows.topic_row(f"topic-{number}", cluster="test")
    with CaptureQueriesContext(connections["metrics"]) as few:
        client.get("/c/test/messages?topic=orders")
    live.send("orders", 0, [b"more"] * 60)
    for number in range(30, 300):
        sample_rows.topic_row(f"topic-{number}", cluster="test")
    with CaptureQueriesContext(connections["metrics"]) as many:
        client.get("/c/test/messages?topic=orders")
    assert len(many) == len(few) <= 12
