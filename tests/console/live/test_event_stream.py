"""Server-sent events of a reader; over a real server in `tests/api/test_stream.py`."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from console.live import hub, reader
from console.live.event_stream import EventStream
from console.live.hub import publish
from console.live.reader import Reader
from console.text.locale import Locale
from tests.console.live.test_reader import NOW_MS, Viewer


async def test_it_releases_its_place_when_its_reader_leaves(redis_url: str) -> None:
    released: list[str] = []
    held = ExitStack()
    held.callback(lambda: released.append("place"))
    events = aiter(EventStream(Reader(Viewer(), Locale("en")), ["s"], held))
    assert await anext(events) == b"retry: 3000\n\n"
    assert (await anext(events)).startswith(b'data: {"subject":"s"')
    publish("s", {"a": {"text": "two\nlines"}}, now_ms=NOW_MS)
    event = await anext(events)
    assert event.endswith(b"\n\n") and event.count(b"\n") == 2  # a line break in a value ends no event
    assert hub.client_count() == 1 and not released
    await events.aclose()  # type: ignore[attr-defined]
    assert hub.client_count() == 0 and released == ["place"]


def test_it_releases_the_place_of_a_stream_that_never_began() -> None:
    released: list[str] = []
    held = ExitStack()
    held.callback(lambda: released.append("place"))
    EventStream(Reader(Viewer(), Locale("en")), ["s"], held).close()
    assert released == ["place"]


async def test_it_cuts_off_a_reader_that_takes_nothing(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STALL_LIMIT_S", 0.05)

    async def send() -> None:
        async for _ in EventStream(Reader(Viewer(), Locale("en")), ["s"], ExitStack()):
            await asyncio.sleep(30)  # a connection that takes nothing

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.create_task(send()), 20)
    assert hub.client_count() == 0
