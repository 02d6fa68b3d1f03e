"""The socket of a message list, on a real brokerd: rows while it scans, stop, tail, refusals."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.urls import path

from console.access.models import MaskRule
from console.live.update import View
from console.message import sockets
from console.message.search.message_search import Search
from console.message.search.quota import quota
from console.message.sockets import MessageSocket
from tests.console.operation.live_cluster import LiveCluster
from tests.support.shown import as_shown

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"], transaction=True),
    pytest.mark.one_database("messages of a broker"),
]

PATIENCE_S = 30


class Visitor:
    """Somebody signed in who may look at these topics."""

    def __init__(self, *topics: str) -> None:
        self.subjects = {f"c/test/topic/{topic}" for topic in topics}

    async def signed_in(self) -> bool:
        return bool(self.subjects)

    async def view(self, subject: str) -> View | None:
        return View() if subject in self.subjects else None


class Browser:
    """The socket as a browser has it, without a server between."""

    def __init__(self, visitor: Visitor, **query: str) -> None:
        application: Any = URLRouter(
            [path("ws/c/<str:cluster>/messages", MessageSocket.as_asgi(viewer_of=lambda scope: visitor))]  # type: ignore[list-item]
        )
        scope = {
            "type": "websocket",
            "path": "/ws/c/test/messages",
            "query_string": urlencode(query).encode(),
            "headers": [],
            "user": "alice",
        }
        self.connection = ApplicationCommunicator(application, scope)

    async def connect(self) -> str:
        """The server's answer: websocket.accept or websocket.close."""
        await self.connection.send_input({"type": "websocket.connect"})
        answer = await self.connection.receive_output(PATIENCE_S)
        return str(answer["type"])

    async def send(self, text: str) -> None:
        await self.connection.send_input({"type": "websocket.receive", "text": text})

    async def receive(self) -> dict[str, Any]:
        output = await self.connection.receive_output(PATIENCE_S)
        assert output["type"] == "websocket.send", output
        frame: dict[str, Any] = json.loads(output["text"])
        return frame

    async def leave(self) -> None:
        await self.connection.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.connection.wait(PATIENCE_S)


@asynccontextmanager
async def opened(visitor: Visitor, **query: str) -> AsyncIterator[Browser]:
    browser = Browser(visitor, **query)
    assert await browser.connect() == "websocket.accept"
    yield browser
    await browser.leave()


async def frames(socket: Browser) -> AsyncIterator[dict[str, Any]]:
    while True:
        yield await socket.receive()


async def test_it_streams_the_rows_of_a_page(live: LiveCluster) -> None:
    def fill() -> None:
        live.create_topic("orders", queues=3)
        for queue_id in range(3):
            live.send("orders", queue_id, [b"<b>%d" % number for number in range(700)], TAGS="x")
            live.send("orders", queue_id, [b"needle"], TAGS="x")
            live.send("orders", queue_id, [b"hay"] * 300, TAGS="x")

    await asyncio.to_thread(fill)
    rows: dict[str, str] = {}
    async with opened(Visitor("orders"), topic="orders", find="needle") as socket:
        async for frame in frames(socket):
            rows |= {row["key"]: row["html"] for row in frame.get("rows", [])}
            if frame.get("done"):
                break
    assert sorted(json.loads(key)[2:] for key in rows) == [[0, 700], [1, 700], [2, 700]]
    assert frame["keep"] == sorted(rows, key=lambda key: json.loads(key), reverse=True)
    assert "<b>3,003</b> in <b>3</b> queues" in frame["scan"] and "<b>3</b> hits" in frame["scan"]
    assert "<mark>needle</mark>" in as_shown(next(iter(rows.values())))
    assert "Continue the search" not in frame["foot"], "all of it was read"
    assert quota.running("alice") == 0


async def test_it_escapes_and_goes_on_with_a_cursor(live: LiveCluster) -> None:
    await asyncio.to_thread(live.create_topic, "orders", 1)
    await asyncio.to_thread(live.send, "orders", 0, [b"<b>%d" % number for number in range(60)])
    async with opened(Visitor("orders"), topic="orders") as socket:
        found = [frame async for frame in until_done(socket)]
    html = "".join(row["html"] for frame in found for row in frame.get("rows", []))
    assert "&lt;b&gt;59" in html and "<b>59" not in html
    assert len(found[-1]["keep"]) == 50 and "cursor=" in found[-1]["foot"]
    cursor = found[-1]["foot"].split("cursor=")[1].split('"')[0]
    async with opened(Visitor("orders"), topic="orders", cursor=cursor) as socket:
        more = [frame async for frame in until_done(socket)]
    assert [json.loads(key)[3] for key in more[-1]["keep"]] == list(range(9, -1, -1))
    assert "Back" in more[-1]["foot"]


async def until_done(socket: Browser) -> AsyncIterator[dict[str, Any]]:
    async for frame in frames(socket):
        yield frame
        if frame.get("done") or frame.get("refused"):
            return


async def test_it_stops_when_asked_before_the_search_has_begun(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(live.create_topic, "orders", 1)
    await asyncio.to_thread(live.send, "orders", 0, [b"x"] * 100)
    told, open_search = threading.Event(), sockets.open_search

    def slow_brokers(*args: Any, **kwargs: Any) -> Search:
        assert told.wait(PATIENCE_S)
        return open_search(*args, **kwargs)

    monkeypatch.setattr(sockets, "open_search", slow_brokers)
    async with opened(Visitor("orders"), topic="orders", find="nothing") as socket:
        await socket.send('{"stop": true}')
        await socket.send("not understood")
        assert "refused" in await socket.receive()  # so the stop before it was taken
        told.set()
        found = [frame async for frame in until_done(socket)]
    assert "you stopped it" in found[-1]["scan"]


async def test_it_stops_when_asked(live: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.to_thread(live.create_topic, "orders", 1)
    await asyncio.to_thread(live.send, "orders", 0, [b"x"] * 2_000)
    # Many rounds, so that there is time to stop.
    monkeypatch.setattr("console.message.search.lanes.PULL_MAX", 8)
    monkeypatch.setattr("console.message.sockets.FRAME_EVERY_S", 0.0)
    async with opened(Visitor("orders"), topic="orders", find="nothing") as socket:
        await socket.receive()
        await socket.send('{"stop": true}')
        found = [frame async for frame in until_done(socket)]
    assert "you stopped it" in found[-1]["scan"] and "Continue the search" in found[-1]["foot"]
    assert quota.running("alice") == 0


async def test_it_follows_and_pauses(live: LiveCluster) -> None:
    await asyncio.to_thread(live.create_topic, "orders", 2)
    await asyncio.to_thread(live.send, "orders", 0, [b"before"])
    async with opened(Visitor("orders"), topic="orders", read="tail", tag="x") as socket:
        assert "Following" in (await anext(frames(socket)))["tail"]
        await asyncio.to_thread(live.send, "orders", 0, [b"other"], TAGS="y")
        await asyncio.to_thread(live.send, "orders", 1, [b"mine"], TAGS="x")
        seen = ""
        async for frame in frames(socket):
            seen += "".join(row["html"] for row in frame["rows"])
            if "mine" in seen:
                break
        assert "other" not in seen and "before" not in seen
        await socket.send('{"pause": true}')
        await socket.send('{"pause": false}')
        await socket.send('{"stop": true}')
        last = [frame async for frame in until_done(socket)][-1]
    assert "The tail has ended" in last["tail"]
    assert quota.running("alice") == 0


@pytest.mark.parametrize("query", [{}, {"read": "tail"}, {"find": "visa"}])
async def test_its_rows_have_no_masked_value(live: LiveCluster, query: dict[str, str]) -> None:
    await asyncio.to_thread(live.create_topic, "orders", 1)
    await asyncio.to_thread(mask_cards)
    found: list[dict[str, Any]] = []
    async with opened(Visitor("orders"), topic="orders", **query) as socket:
        if "read" in query:
            found.append(await anext(frames(socket)))
        await asyncio.to_thread(live.send, "orders", 0, [PAID], pin="SECRET-77")
        async for frame in frames(socket) if "read" in query else until_done(socket):
            found.append(frame)
            if any(frame.get("rows", [])) or frame.get("done"):
                break
    text = json.dumps(found, ensure_ascii=False)
    assert "SECRET" not in text
    if "read" in query:
        assert "•••" in text


@pytest.mark.parametrize(
    "query",
    [{"find": "SECRET"}, {"find_in": "property", "find": "pin == SECRET-77"}, {"sql": "pin = 'SECRET-77'"}],
)
async def test_it_finds_nothing_by_a_masked_value(live: LiveCluster, query: dict[str, str]) -> None:
    await asyncio.to_thread(live.create_topic, "orders", 1)
    await asyncio.to_thread(live.send, "orders", 0, [PAID], pin="SECRET-77")
    await asyncio.to_thread(mask_cards)
    async with opened(Visitor("orders"), topic="orders", **query) as socket:
        found = [frame async for frame in until_done(socket)]
    assert not any(frame.get("rows") for frame in found)
    assert ("is masked" in found[-1].get("refused", "")) == ("sql" in query)


PAID = b'{"card": {"number": "4111-SECRET-1111", "kind": "visa"}}'


def mask_cards() -> None:
    MaskRule.objects.create(topic_pattern="orders", where="body", name="$..card.number")
    MaskRule.objects.create(topic_pattern="orders", where="property", name="pin")


async def test_leaving_ends_the_work(live: LiveCluster) -> None:
    await asyncio.to_thread(live.create_topic, "orders", 1)
    async with opened(Visitor("orders"), topic="orders", read="tail") as socket:
        await socket.receive()
        assert quota.running("alice") == 1
    async with asyncio.timeout(PATIENCE_S):
        while quota.running("alice"):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"topic": "secret"}, "test has no topic secret, or you may not view it."),
        ({"topic": "orders"}, "test has no topic orders."),
        ({"topic": "orders", "read": "offset"}, "Enter an offset: this search needs it."),
        ({"topic": "orders", "read": "key", "key": "k"}, "A lookup needs no socket"),
        ({"topic": "orders", "cursor": "x"}, "This is not a cursor of a message search"),
        ({"topic": "orders", "find_in": "json", "find": "x"}, "Enter it like $.shippingTo"),
    ],
)
async def test_it_refuses_in_words(live: LiveCluster, query: dict[str, str], words: str) -> None:
    async with opened(Visitor("orders"), **query) as socket:
        frame = await anext(frames(socket))
    assert words in frame["refused"]


async def test_it_lets_no_stranger_in() -> None:
    assert await Browser(Visitor(), topic="orders").connect() == "websocket.close"
