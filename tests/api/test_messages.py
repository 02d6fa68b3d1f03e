"""Messages over REST on a real brokerd: pages both ways, filters, streams, files, sends."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access import services as access_services
from console.brokers.mqadmin import close_admins
from console.message.search.quota import PER_PERSON_MAX, quota
from tests.api.conftest import problem
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("messages of a broker"),
]

URL = "/api/v1/clusters/test/topics/orders/messages"
BODIES = [b'{"n": %d}' % number for number in range(20)]


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    cluster = LiveCluster(brokerd).register()
    cluster.create_topic("orders", queues=2)
    for number, body in enumerate(BODIES):
        time.sleep(0.002)  # the same store time would leave the order to the queue's name
        cluster.send(
            "orders", number % 2, [body], TAGS="even" if number % 4 == 0 else "odd", amount=str(number)
        )
    yield cluster
    close_admins()


@pytest.fixture
def client(live: LiveCluster, client_of: Callable[..., APIClient]) -> APIClient:
    access_services.ensure_first_person()
    person = User.objects.create_user("erin")
    access_services.grant(role="operator", user=person)
    return client_of(person)


def read(answer: Any) -> bytes:
    """A streamed answer to its end, as an ASGI server would send it."""
    pieces: AsyncIterator[bytes] = answer.streaming_content

    async def joined() -> bytes:
        return b"".join([piece async for piece in pieces])

    return asyncio.run(joined())


def lines(answer: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(answer).splitlines()]


def test_it_pages_on_and_back(client: APIClient) -> None:
    first = client.get(URL, {"limit": 6}).json()
    second = client.get(URL, {"limit": 6, "cursor": first["cursor"]}).json()
    back = client.get(URL, {"limit": 6, "cursor": second["previous"]}).json()
    assert first["previous"] is None
    assert [row["queue_offset"] for row in back["results"]] == [
        row["queue_offset"] for row in first["results"]
    ]
    assert len({(row["queue_id"], row["queue_offset"]) for row in first["results"] + second["results"]}) == 12


FILTERS: list[tuple[dict[str, Any], int]] = [
    ({"tag": "even"}, 5),
    ({"tag": "even || odd"}, 20),
    ({"find": '"n": 1'}, 11),
    ({"find_in": "json", "find": "$.n >= 15"}, 5),
    ({"find_in": "property", "find": "amount == 3"}, 1),
    ({"queue": "broker-a:1"}, 10),
    ({"queue": ["broker-a:1", "broker-a:0"]}, 20),
    ({"from_offset": "8", "order": "oldest"}, 4),
    ({"to_ms": "1"}, 0),
]


def test_it_filters(client: APIClient) -> None:
    for query, expected in FILTERS:
        assert len(client.get(URL, query).json()["results"]) == expected, query


FAULTS: list[tuple[dict[str, str], str]] = [
    ({"tag": "||"}, "tag"),
    ({"find_in": "json", "find": "x"}, "find"),
    ({"find_in": "regex", "find": "x"}, "find"),
    ({"queue": "broker-a"}, "queue"),
    ({"from_offset": "-1"}, "from_offset"),
]


def test_it_names_the_field_at_fault(client: APIClient) -> None:
    for query, field in FAULTS:
        for where in ("", "/stream", "/tail", "/export"):
            if where == "/tail" and field == "from_offset":
                continue
            body = problem(client.get(URL + where, query), 400, "invalid")
            assert body["errors"][0]["field"] == field


def test_it_refuses_what_one_may_not_see(live: LiveCluster, client_of: Callable[..., APIClient]) -> None:
    person = User.objects.create_user("carol")
    access_services.ensure_first_person()
    access_services.grant(role="viewer", user=person, name_pattern="clicks")
    for where in ("", "/stream", "/tail", "/export", "/0A"):
        problem(client_of(person).get(URL + where), 404, "not_found")
    problem(
        client_of(person).post(
            "/api/v1/clusters/test/send-plans", {"topic": "clicks", "body": "x"}, format="json"
        ),
        403,
        "not_permitted",
    )


def test_it_streams_a_search(client: APIClient) -> None:
    answer = client.get(
        f"{URL}/stream", {"order": "oldest", "tag": "odd"}, headers={"accept": "application/x-ndjson"}
    )
    assert answer["Content-Type"] == "application/x-ndjson"
    found = lines(answer)
    assert [json.loads(each["message"]["body_text"])["n"] for each in found[:-1]] == [
        n for n in range(20) if n % 4
    ]
    end = found[-1]["end"]
    assert (end["messages"], end["complete"], end["cursor"], end["silent"]) == (15, True, None, {})
    cut = lines(client.get(f"{URL}/stream", {"limit": 3}))[-1]["end"]
    assert (cut["messages"], cut["complete"]) == (3, False) and cut["cursor"]
    more = lines(client.get(f"{URL}/stream", {"limit": 3, "cursor": cut["cursor"]}))
    assert [json.loads(each["message"]["body_text"])["n"] for each in more[:-1]] == [16, 15, 14]


def test_it_follows_what_arrives(client: APIClient, live: LiveCluster) -> None:
    answer = client.get(f"{URL}/tail", {"seconds": 30, "limit": 2, "tag": "even"})
    pieces: AsyncIterator[bytes] = answer.streaming_content

    async def follow() -> list[dict[str, Any]]:
        found = []
        async for piece in pieces:
            for line in piece.splitlines():
                found.append(json.loads(line))
                if len(found) == 1:  # it follows now
                    await asyncio.to_thread(live.send, "orders", 0, [b"a"], TAGS="odd")
                    await asyncio.to_thread(live.send, "orders", 1, [b"b", b"c", b"d"], TAGS="even")
        return found

    found = asyncio.run(follow())
    assert [each["message"]["body_text"] for each in found if "message" in each] == ["b", "c"]
    assert found[-1]["end"]["messages"] == 2


def test_it_exports_in_every_format(client: APIClient, live: LiveCluster) -> None:
    live.send("orders", 0, [b"\x00\xff"], KEYS="=1+1", TAGS="raw")
    query = {"order": "oldest", "tag": "raw || even"}
    ndjson = lines(client.get(f"{URL}/export", {**query, "format": "ndjson"}))
    assert [each["body"] for each in ndjson[:-1]] == [f'{{"n": {n}}}' for n in range(0, 20, 4)] + ["AP8="]
    assert ndjson[-1]["end"]["complete"] is True
    answer = client.get(f"{URL}/export", {**query, "format": "csv"})
    assert answer["Content-Disposition"] == 'attachment; filename="orders.csv"'
    table = list(csv.DictReader(io.StringIO(read(answer).decode())))
    assert (table[-1]["keys"], table[-1]["body"], table[-1]["body_encoding"]) == ("'=1+1", "AP8=", "base64")
    assert len(table) == 6
    parquet = pq.ParquetFile(io.BytesIO(read(client.get(f"{URL}/export", {**query, "format": "parquet"}))))
    rows = parquet.read().to_pylist()
    assert [row["body"] for row in rows] == [BODIES[n] for n in range(0, 20, 4)] + [b"\x00\xff"]
    assert dict(rows[0]["properties"])["amount"] == "0"
    assert json.loads(parquet.metadata.metadata[b"tidemark.end"])["messages"] == 6
    accepted = client.get(f"{URL}/export", query, headers={"Accept": "text/csv"})
    assert accepted["Content-Type"].startswith("text/csv") and read(accepted)
    refusal = problem(client.get(f"{URL}/export", {**query, "format": "xml"}), 406, "not_acceptable")
    assert "text/csv (format csv)" in refusal["detail"]


def test_leaving_a_stream_ends_the_search_and_frees_its_place(client: APIClient, live: LiveCluster) -> None:
    for _ in range(PER_PERSON_MAX):
        answer = client.get(f"{URL}/tail", {"seconds": 60})
        assert quota.running("erin") == 1
        pieces: AsyncIterator[bytes] = answer.streaming_content

        async def leave(answer: Any = answer, pieces: AsyncIterator[bytes] = pieces) -> None:
            await anext(pieces)
            answer.close()  # as Django does when the connection ends
            while quota.running("erin"):
                await asyncio.sleep(0.05)

        asyncio.run(leave())
        assert quota.running("erin") == 0
    held = [client.get(f"{URL}/tail") for _ in range(PER_PERSON_MAX)]
    problem(client.get(f"{URL}/stream"), 429, "too_many_searches")
    for answer in held:
        answer.close()
    assert quota.running("erin") == 0, "also when nobody ever read a byte"


def test_it_plans_a_send(client: APIClient, live: LiveCluster) -> None:
    newest = client.get(URL, {"limit": 1}).json()["results"][0]
    place = {name: newest[name] for name in ("topic", "broker_name", "queue_id", "queue_offset")}
    wanted = {
        "topic": "orders",
        "copy_of": place,
        "body": "edited",
        "tags": "fixed",
        "properties": {"amount": "0"},
    }
    made = client.post("/api/v1/clusters/test/send-plans", wanted, format="json")
    assert made.status_code == 201, made.json()
    plan = made.json()
    assert (plan["kind"], plan["messages"], plan["blocked"]) == ("message_send", 1, "")
    rows = {row["field"]: (row["before"], row["after"]) for row in plan["diff"]}
    assert rows["Tag"] == ("odd", "fixed") and rows["amount"] == ("19", "0")
    assert rows["Body"] == ('{\n  "n": 19\n}', "edited")
    for body, field in (
        ({"topic": "orders"}, "body"),
        ({"topic": "orders", "body": "x", "properties": {"UNIQ_KEY": "x"}}, "properties"),
        ({"topic": "%RETRY%g", "body": "x"}, "topic"),
        ({"topic": "orders", "body": "x", "queue": {"broker_name": "broker-a", "queue_id": 9}}, "queue"),
        ({"topic": "orders", "keep_body": True, "copy_of": {**place, "queue_offset": 999}}, "source"),
        ({"topic": "orders", "body_base64": "?"}, "body"),
    ):
        answer = problem(
            client.post("/api/v1/clusters/test/send-plans", body, format="json"), 422, "plan_rejected"
        )
        assert answer["field"] == field, answer
