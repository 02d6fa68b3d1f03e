"""The frames of a reader as server-sent events, for scripts: `curl -N`, EventSource.

A stream has state, not a log: each connection begins with all rows of its subjects, so nothing is lost when one
breaks, and ``Last-Event-ID`` means nothing here (events have no id).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import ExitStack

from console.live import reader as live
from console.live.reader import Reader
from console.web import server_stop

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/event-stream"
# How long a client waits before it connects again.
RETRY_MS = 3_000
OPENED = f"retry: {RETRY_MS}\n\n".encode()
# A comment: clients ignore it, proxies see traffic.
HEARTBEAT = b": alive\n\n"
SIGNED_OUT = b'data: {"error":"signed out"}\n\n'


class EventStream:
    """Events for StreamingHttpResponse. ``held`` is released when the stream ends or never begins."""

    def __init__(self, reader: Reader, subjects: Sequence[str], held: ExitStack) -> None:
        self._reader, self._subjects, self._held = reader, subjects, held

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield events until the reader leaves, is signed out, may see nothing more, or the server stops."""
        sender = asyncio.current_task()
        assert sender is not None
        loop = asyncio.get_running_loop()
        with contextlib.closing(self._reader), self._held, server_stop.waiting() as stopping:
            async with contextlib.aclosing(self._events(stopping)) as events:
                async for event in events:
                    # The next event is requested when the connection has taken this one.
                    cut_off = loop.call_later(live.STALL_LIMIT_S, self._cut_off, sender)
                    try:
                        yield event
                    finally:
                        cut_off.cancel()

    async def _events(self, stopping: asyncio.Event) -> AsyncGenerator[bytes]:
        yield OPENED
        for subject in self._subjects:
            await self._reader.join(subject)
        rights = asyncio.ensure_future(self._reader.watch_rights())
        stop = asyncio.ensure_future(stopping.wait())
        frame = asyncio.ensure_future(self._reader.next_frame())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {rights, stop, frame}, timeout=live.PING_EVERY_S, return_when=asyncio.FIRST_COMPLETED
                )
                if stop in done:
                    return
                if rights in done:
                    rights.result()  # a check that failed ends the stream
                    yield SIGNED_OUT
                    return
                if frame not in done:
                    yield HEARTBEAT
                    continue
                yield f"data: {frame.result()}\n\n".encode()
                if not self._reader.has_subjects:
                    return
                frame = asyncio.ensure_future(self._reader.next_frame())
        finally:
            for task in (rights, stop, frame):
                task.cancel()

    def _cut_off(self, sender: asyncio.Task[object]) -> None:
        logger.warning("script does not read its stream, closing %r", self._reader)
        self._reader.close()
        sender.cancel()

    def close(self) -> None:
        """Release the place of a stream that never began. Django calls this, in any thread."""
        self._held.close()
