"""The live socket of a browser.

It requests subjects, without keys every row, and receives the frames of `console.live.reader`. With a seq it has just
loaded these rows as they were then: all rows come again only with the next change.

    {"subscribe": [{"subject": "c/local/groups", "keys": ["billing"], "seq": 17}], "unsubscribe": ["c/local/topics"]}
    {"ping": 1790000020000} every 20 s
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import orjson
from channels.generic.websocket import AsyncWebsocketConsumer

from console.live import reader as live
from console.live.reader import Reader, Viewer
from console.live.request import Request
from console.text.locale import Locale

logger = logging.getLogger(__name__)

# The scope of a socket, as Channels gives it.
SocketScope: TypeAlias = Mapping[str, Any]
# Who is at the other end; `console.routing` answers from sessions and grants.
ViewerOf: TypeAlias = Callable[[SocketScope], Viewer]


class LiveSocket(AsyncWebsocketConsumer):
    """One browser's socket: `LiveSocket.as_asgi(viewer_of=…)`."""

    # No channel layer: the hub distributes the updates.
    channel_layer_alias = ""

    def __init__(self, viewer_of: ViewerOf) -> None:
        super().__init__()
        self.viewer_of = viewer_of
        self.reader: Reader | None = None
        self.tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> None:
        viewer = self.viewer_of(self.scope)
        if not await viewer.signed_in():
            await self.close()  # before accepting: the browser sees HTTP 403
            return
        self.reader = Reader(viewer, Locale.of_headers(self.scope["headers"]))
        await self.accept()
        self.tasks = [
            asyncio.create_task(self._or_end(work))
            for work in (self._send_frames(self.reader), self._ping(), self._watch_rights(self.reader))
        ]

    async def _or_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of the socket; if it fails, close the socket, and the browser connects again.

        A socket without its recheck would show what its person may no longer see; one without its sender would
        look as if nothing happened.
        """
        try:
            await work
        except Exception:
            logger.exception("live socket ended user=%s", self.scope.get("user"))
            # The browser may have left, which is what failed.
            with contextlib.suppress(RuntimeError, OSError):
                await self.close(code=1011)

    async def disconnect(self, code: int) -> None:
        if self.reader is not None:
            self.reader.close()
        for task in self.tasks:
            task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        assert self.reader is not None, "accepted"
        try:
            request = Request.from_text(text_data)
        except ValueError as error:
            await self._send(orjson.dumps({"error": f"The request is not valid: {error}."}).decode())
            return
        for subject in request.leave:
            self.reader.leave(subject)
        for subject, wanted in request.join.items():
            await self.reader.join(subject, wanted.keys, wanted.seq)

    async def _send_frames(self, reader: Reader) -> None:
        while True:
            await self._send(await reader.next_frame())

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(live.PING_EVERY_S)
            await self._send(orjson.dumps({"ping": time.time_ns() // 1_000_000}).decode())

    async def _watch_rights(self, reader: Reader) -> None:
        await reader.watch_rights()
        await self.close(code=4401)

    async def _send(self, frame: str) -> None:
        """Send one frame; disconnect a browser that accepts none for STALL_LIMIT_S."""
        try:
            async with asyncio.timeout(live.STALL_LIMIT_S):
                await self.send(text_data=frame)
        except TimeoutError:
            logger.warning("browser does not read, closing user=%s", self.scope.get("user"))
            await self._cut_off()

    async def _cut_off(self) -> None:
        """Stop the work for a browser that does not read: a close frame could not reach it either.

        The connection itself ends when the ping of the ASGI server goes unanswered.
        """
        await self.disconnect(1008)
