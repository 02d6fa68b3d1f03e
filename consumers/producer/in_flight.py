"""Room for sends that wait for their answers (DefaultMQProducerImpl: backpressure of asynchronous sends)."""

from __future__ import annotations

import asyncio
from collections import deque


class InFlight:
    """Messages and body bytes under way, both limited; who waits for room gets it in order.

    A message larger than all the room is let in when nothing else is under way. One event loop.
    """

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages = 0
        self.size_bytes = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._empty: asyncio.Event | None = None  # made by the first caller that waits

    def enter_at_once(self, size_bytes: int) -> bool:
        """Take room if there is some and none waits for it."""
        if self._waiting or not self._has_room(size_bytes):
            return False
        self.messages += 1
        self.size_bytes += size_bytes
        return True

    async def enter(self, size_bytes: int) -> None:
        """Wait for room and take it. Cancelling it takes none."""
        if self.enter_at_once(size_bytes):
            return
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, room))
        try:
            await room
        except asyncio.CancelledError:
            if room.done() and not room.cancelled():
                self.leave(size_bytes)  # it was given in the same moment
            else:
                self._waiting.remove((size_bytes, room))
                self._admit()
            raise

    def leave(self, size_bytes: int) -> None:
        """Give the room to the next."""
        self.messages -= 1
        self.size_bytes -= size_bytes
        if self._waiting:
            self._admit()
        if self._empty is not None and not self.messages:
            self._empty.set()
            self._empty = None

    async def wait_empty(self) -> None:
        """Return when nothing is under way, and none waits for room."""
        while self.messages:
            self._empty = self._empty or asyncio.Event()
            await self._empty.wait()

    def _admit(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size_bytes, room = self._waiting.popleft()
            self.messages += 1
            self.size_bytes += size_bytes
            room.set_result(None)

    def _has_room(self, size_bytes: int) -> bool:
        fits = self.size_bytes + size_bytes <= self._bytes_max and self.messages < self._messages_max
        return fits or not self.messages
