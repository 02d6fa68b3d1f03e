"""The live socket of a browser, in memory and over a real server."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import uvicorn
import websockets.asyncio.client
from asgiref.testing import ApplicationCommunicator
from django.db import OperationalError

from console.live import hub as live
from console.live import reader
from console.live.hub import publish
from console.live.socket import LiveSocket
from console.live.update import View
from console.text import Text
from tests.support.redis_process import RedisProcess

# Channels looks after database connections with every message of a socket.
pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database(
        "frames and connections; what subjects ask of the database is asked in test_routing"
    ),
]

NOW_MS = 1_790_000_000_000
PATIENCE_S = 60.0


class OpenViewer:
    """Everybody may see everything, but of "c/narrow/…" only rows that begin with "a", and of "c/closed/…"
    nothing.
    """

    def __init__(self) -> None:
        self.session_ended = False

    def of_socket(self, scope: Mapping[str, Any]) -> "OpenViewer":
        return self

    async def signed_in(self) -> bool:
        return not self.session_ended

    async def view(self, subject: str) -> View | None:
        if subject.startswith("c/closed/"):
            return None
        if subject.startswith("c/narrow/"):
            return View(lambda key, row: key.startswith("a"))
        return View()


# --- Sockets in memory ---


class WebsocketCommunicator(ApplicationCommunicator):
    """One socket without a server (channels' own class of this name imports daphne)."""

    def __init__(self, application: Any, path: str) -> None:
        scope = {"type": "websocket", "path": path, "headers": [], "query_string": b"", "subprotocols": []}
        super().__init__(application, scope)

    async def connect(self) -> bool:
        """Whether it was accepted."""
        await self.send_input({"type": "websocket.connect"})
        return bool((await self.receive_output(PATIENCE_S))["type"] == "websocket.accept")

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_json_to(self, message: Any) -> None:
        await self.send_text(json.dumps(message))

    async def receive_json_from(self, timeout: float) -> Any:
        return json.loads((await self.receive_output(timeout))["text"])

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(PATIENCE_S)


@contextlib.asynccontextmanager
async def connected(viewer: OpenViewer | None = None) -> AsyncIterator[WebsocketCommunicator]:
    socket = WebsocketCommunicator(
        LiveSocket.as_asgi(viewer_of=(viewer or OpenViewer()).of_socket), "/ws/live"
    )
    assert await socket.connect()
    yield socket
    await socket.disconnect()


async def subscribe(socket: WebsocketCommunicator, *subjects: str, **rows: Any) -> None:
    wanted = [{"subject": subject, **rows} for subject in subjects]
    await socket.send_json_to({"subscribe": wanted})


async def received(socket: WebsocketCommunicator) -> Any:
    return await socket.receive_json_from(timeout=PATIENCE_S)


async def test_it_sends_the_last_value_and_then_changes(redis_url: str) -> None:
    publish("c/t/groups", {"billing": {"lag": 1}}, now_ms=NOW_MS)
    async with connected() as socket:
        await subscribe(socket, "c/t/groups")
        assert await received(socket) == {
            "subject": "c/t/groups",
            "seq": NOW_MS + 1,
            "at_ms": NOW_MS,
            "full": True,
            "rows": {"billing": {"lag": 1}},
        }
        publish("c/t/groups", {"billing": {"lag": 2}, "old": None}, now_ms=NOW_MS + 9)
        assert await received(socket) == {
            "subject": "c/t/groups",
            "seq": NOW_MS + 2,
            "at_ms": NOW_MS + 9,
            "full": False,
            "rows": {"billing": {"lag": 2}, "old": None},
        }


async def test_it_begins_with_no_rows_where_nothing_was_published(redis_url: str) -> None:
    async with connected() as socket:
        await subscribe(socket, "c/t/topics")
        assert await received(socket) == {
            "subject": "c/t/topics",
            "seq": 0,
            "at_ms": 0,
            "full": True,
            "rows": {},
        }


async def test_it_sends_only_the_rows_asked_for(redis_url: str) -> None:
    async with connected() as socket:
        await subscribe(socket, "s", keys=["a"])
        await received(socket)
        publish("s", {"b": {"n": 1}}, now_ms=NOW_MS)
        publish("s", {"a": {"n": 2}, "b": {"n": 2}}, now_ms=NOW_MS)
        assert (await received(socket))["rows"] == {"a": {"n": 2}}


async def test_it_begins_with_the_rows_asked_for(redis_url: str) -> None:
    publish("s", {"a": {"n": 1}, "b": {"n": 1}}, now_ms=NOW_MS)
    async with connected() as socket:
        await subscribe(socket, "s", keys=["a", "unheard of"])
        assert (await received(socket))["rows"] == {"a": {"n": 1}}
        await subscribe(socket, "s", keys=["b"])  # another page of the list
        assert (await received(socket))["rows"] == {"b": {"n": 1}}
        publish("s", {"a": {"n": 2}, "b": {"n": 2}}, now_ms=NOW_MS)
        assert (await received(socket))["rows"] == {"b": {"n": 2}}
        await subscribe(socket, "s")
        assert (await received(socket))["rows"] == {"a": {"n": 2}, "b": {"n": 2}}


async def test_it_sends_rows_that_the_page_has_with_their_next_change(redis_url: str) -> None:
    seq = publish("s", {"a": {"n": 1}, "b": {"n": 1}, "c": {"n": 1}}, now_ms=NOW_MS)
    async with connected() as other, connected() as socket:
        await subscribe(other, "s")
        await received(other)
        await subscribe(socket, "s", keys=["a", "b"], seq=seq)
        assert await socket.receive_nothing(timeout=0.2)
        publish("s", {"c": {"n": 2}}, now_ms=NOW_MS)
        assert await socket.receive_nothing(timeout=0.2)
        publish("s", {"a": {"n": 3}}, now_ms=NOW_MS)
        frame = await received(socket)
        assert (frame["full"], frame["rows"]) == (True, {"a": {"n": 3}, "b": {"n": 1}})
        publish("s", {"b": {"n": 4}}, now_ms=NOW_MS)
        frame = await received(socket)
        assert (frame["full"], frame["rows"]) == (False, {"b": {"n": 4}})
        await subscribe(socket, "s", keys=["a", "b"], seq=frame["seq"] - 1)  # a change came meanwhile
        assert (await received(socket))["rows"] == {"a": {"n": 3}, "b": {"n": 4}}
        # a reader that had all rows gets changes only
        assert [(await received(other))["rows"] for _ in "123"] == [
            {"c": {"n": 2}},
            {"a": {"n": 3}},
            {"b": {"n": 4}},
        ]


async def test_it_sends_only_the_rows_the_person_may_see(redis_url: str) -> None:
    async with connected() as socket:
        await subscribe(socket, "c/narrow/groups")
        await received(socket)
        publish("c/narrow/groups", {"billing": {"n": 1}}, now_ms=NOW_MS)
        publish("c/narrow/groups", {"analytics": {"n": 1}, "billing": {"n": 2}}, now_ms=NOW_MS)
        assert (await received(socket))["rows"] == {"analytics": {"n": 1}}


async def test_it_refuses_a_subject_the_person_may_not_see(redis_url: str) -> None:
    async with connected() as socket:
        await subscribe(socket, "c/closed/groups")
        assert await received(socket) == {"subject": "c/closed/groups", "error": "forbidden"}


async def test_it_refuses_more_subjects_than_a_page_needs(redis_url: str) -> None:
    async with connected() as socket:
        await subscribe(socket, *[f"s{number}" for number in range(51)])
        answers = [await received(socket) for _ in range(51)]
        assert [answer for answer in answers if "error" in answer] == [
            {"subject": "s50", "error": "too many subjects"}
        ]


async def test_it_answers_nonsense_and_goes_on(redis_url: str) -> None:
    async with connected() as socket:
        await socket.send_text("hello")
        assert (await received(socket))["error"].startswith("The request is not valid: ")
        await subscribe(socket, "s")
        assert (await received(socket))["subject"] == "s"


async def test_it_stops_sending_what_was_left(redis_url: str) -> None:
    async with connected() as socket:
        await subscribe(socket, "s", "t")
        assert {(await received(socket))["subject"], (await received(socket))["subject"]} == {"s", "t"}
        await socket.send_json_to({"unsubscribe": ["s"]})
        await subscribe(socket, "t")  # its answer proves that the one before was worked on
        await received(socket)
        publish("s", {"a": {}}, now_ms=NOW_MS)
        publish("t", {"a": {}}, now_ms=NOW_MS)
        assert (await received(socket))["subject"] == "t"


async def test_it_refuses_strangers_before_accepting(redis_url: str) -> None:
    viewer = OpenViewer()
    viewer.session_ended = True
    socket = WebsocketCommunicator(LiveSocket.as_asgi(viewer_of=viewer.of_socket), "/ws/live")
    assert not await socket.connect()


async def test_it_closes_the_socket_of_a_session_that_ended(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.05)
    viewer = OpenViewer()
    async with connected(viewer) as socket:
        viewer.session_ended = True
        closed = await socket.receive_output(timeout=PATIENCE_S)
        assert (closed["type"], closed["code"]) == ("websocket.close", 4401)


async def test_it_closes_the_socket_whose_rights_can_not_be_checked_any_more(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is away once must not leave a socket that is never checked again."""
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.05)
    viewer = OpenViewer()
    async with connected(viewer) as socket:

        async def away() -> bool:
            raise OperationalError("the database is away")

        monkeypatch.setattr(viewer, "signed_in", away)
        closed = await socket.receive_output(timeout=PATIENCE_S)
        assert (closed["type"], closed["code"]) == ("websocket.close", 1011)


async def test_it_pings(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PING_EVERY_S", 0.05)
    async with connected() as socket:
        assert list(await received(socket)) == ["ping"]


async def test_it_counts_clients_and_ends_its_subscription_with_the_last(redis_url: str) -> None:
    async with connected() as one, connected() as other:
        await subscribe(one, "s", "t")
        await subscribe(other, "s")
        for socket in (one, one, other):
            await received(socket)
        assert live.client_count() == 2
        assert repr(live.hub()) == "<Hub 2 subjects, 2 clients>"
    assert repr(live.hub()) == "<Hub 0 subjects, 0 clients>"


# --- Sockets over a real server ---


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[str]:
    """LiveSocket in a real uvicorn with the product's socket settings; yields ws://…"""
    config = uvicorn.Config(
        LiveSocket.as_asgi(viewer_of=OpenViewer().of_socket),
        port=0,
        lifespan="off",
        log_level="warning",
        ws_per_message_deflate=False,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"ws://127.0.0.1:{port}/ws/live"
    server.should_exit = True
    await task


async def next_message(socket: websockets.asyncio.client.ClientConnection) -> Any:
    return json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))


async def test_each_socket_gets_texts_in_its_readers_language(redis_url: str) -> None:
    why = Text("%(number)s queue(s) {stays|stay} unchanged", number=3)
    said = Text("%(error)s; trying again in %(number)s s", error=Text("it closed the connection"), number=5)
    chinese = {"Accept-Language": "zh-CN,en;q=0.5"}
    publish("s", {"a": {"reason": why, "status": "OK"}}, now_ms=NOW_MS)
    async with (
        served() as url,
        websockets.asyncio.client.connect(url) as english_socket,
        websockets.asyncio.client.connect(url, additional_headers=chinese) as chinese_socket,
    ):
        for socket in (english_socket, chinese_socket):
            await socket.send('{"subscribe": [{"subject": "s"}]}')
        first = [(await next_message(socket))["rows"] for socket in (english_socket, chinese_socket)]
        assert first == [
            {"a": {"reason": "3 queues stay unchanged", "status": "OK"}},
            {"a": {"reason": "3 个队列保持不变", "status": "OK"}},
        ]
        publish("s", {"b": {"events": [{"text": said}], "half": "\ud83d"}}, now_ms=NOW_MS)
        then = [(await next_message(socket))["rows"]["b"] for socket in (english_socket, chinese_socket)]
        assert [row["events"][0]["text"] for row in then] == [
            "it closed the connection; trying again in 5 s",
            "它关闭了连接；5 秒后重试",
        ]


async def test_it_keeps_an_idle_socket_open(redis_url: str) -> None:
    async with served() as url, websockets.asyncio.client.connect(url) as socket:
        await socket.send('{"subscribe": [{"subject": "s"}]}')
        await next_message(socket)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 7)
        publish("s", {"a": {"n": 1}}, now_ms=NOW_MS)
        assert (await next_message(socket))["rows"] == {"a": {"n": 1}}


async def test_it_goes_on_after_redis_was_away(redis_process: RedisProcess, redis_url: str) -> None:
    async with served() as url, websockets.asyncio.client.connect(url) as socket:
        await socket.send('{"subscribe": [{"subject": "s"}]}')
        await next_message(socket)
        publish("s", {"a": {"n": 1}}, now_ms=NOW_MS)
        assert (await next_message(socket))["rows"] == {"a": {"n": 1}}
        redis_process.kill()
        assert await next_message(socket) == {"redis": "away"}
        async with websockets.asyncio.client.connect(url) as newcomer:
            await newcomer.send('{"subscribe": [{"subject": "s"}]}')
            assert await next_message(newcomer) == {"redis": "away"}
        redis_process.start()  # empty: nothing was kept
        sequence = publish("s", {"b": {"n": 2}}, now_ms=NOW_MS + 60_000)
        assert await next_message(socket) == {"redis": "back"}
        again = await next_message(socket)
        while again["seq"] == 0:  # the hub may have come back before the publisher
            again = await next_message(socket)
        assert (again["seq"], again["rows"]) == (sequence, {"b": {"n": 2}})


async def test_it_is_not_stalled_by_a_browser_that_does_not_read(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STALL_LIMIT_S", 1.0)
    row = {"text": "x" * 200_000}
    async with served() as url:
        stalled = await websockets.asyncio.client.connect(url, max_queue=1)
        stalled.transport.pause_reading()
        await stalled.send('{"subscribe": [{"subject": "s"}]}')
        async with websockets.asyncio.client.connect(url, max_size=None) as busy:
            await busy.send('{"subscribe": [{"subject": "s"}]}')
            await next_message(busy)
            for number in range(100):
                publish("s", {"a": {**row, "n": number}}, now_ms=NOW_MS)
                assert (await next_message(busy))["rows"]["a"]["n"] == number
            while live.client_count() > 1:  # 20 MB on, nothing read for 1 s: cut off
                await asyncio.sleep(0.05)
            publish("s", {"a": {"n": 100}}, now_ms=NOW_MS)
            assert (await next_message(busy))["rows"]["a"] == {"n": 100}
        stalled.transport.abort()
