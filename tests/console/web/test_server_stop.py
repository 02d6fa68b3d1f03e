"""Responses without an end hear of the server's signals first; its own handler still runs."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType

from console.web import server_stop


async def test_it_sets_the_event_and_calls_the_server() -> None:
    called: list[int] = []

    def server(number: int, frame: FrameType | None) -> None:
        called.append(number)

    before = signal.signal(signal.SIGTERM, server)
    try:
        with server_stop.waiting() as stopping, server_stop.waiting() as other:
            assert not stopping.is_set()
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(asyncio.gather(stopping.wait(), other.wait()), 5)
        assert called == [signal.SIGTERM]
        with server_stop.waiting() as stopping:
            assert not stopping.is_set()
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(stopping.wait(), 5)
        assert called == [signal.SIGTERM, signal.SIGTERM]  # once each: it does not listen twice
    finally:
        signal.signal(signal.SIGTERM, before)


def test_outside_of_the_main_thread_it_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[bool] = []

    async def wait() -> None:
        with server_stop.waiting() as stopping:
            found.append(stopping.is_set())

    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    thread.join(10)
    assert found == [False] and signal.getsignal(signal.SIGTERM) is before
