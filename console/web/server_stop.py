"""Whether the ASGI server of this process stops: a response without an end must end then.

ASGI has no event for it: the server waits for open responses first, and cuts them off after its patience.
Its signals are what there is, so this module listens to them in front of the server's own handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

_waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
_listened: dict[int, Callable[[int, FrameType | None], Any]] = {}


@contextlib.contextmanager
def waiting() -> Iterator[asyncio.Event]:
    """Give the block an event that is set when the server begins to stop."""
    _listen()
    waiter = (asyncio.get_running_loop(), asyncio.Event())
    _waiting.add(waiter)
    try:
        yield waiter[1]
    finally:
        _waiting.discard(waiter)


def _listen() -> None:
    """Put this module in front of the server's handlers, once for each handler."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may; its server has no signals either
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler) and handler is not _listened.get(number):
            _listened[number] = partial(_stop, handler)
            signal.signal(number, _listened[number])


def _stop(server: Callable[[int, FrameType | None], Any], number: int, frame: FrameType | None) -> None:
    for loop, event in list(_waiting):
        loop.call_soon_threadsafe(event.set)
    server(number, frame)
