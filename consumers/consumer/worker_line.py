"""A line of work and the tasks that take from it: how concurrent handlers are run, for pulls and for pops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

Work = TypeVar("Work")


class WorkerLine(Generic[Work]):
    """`workers` tasks, each with one piece of work at a time. Flow control of the pulls bounds the line."""

    def __init__(self, workers: int, work: Callable[[Work], Awaitable[None]]) -> None:
        self._count = workers
        self._do = work
        self._waiting: deque[Work] = deque()
        self._free: deque[asyncio.Future[None]] = deque()  # workers that wait for work
        self._is_waking = False  # one of them has been woken and has not run yet
        self._workers: list[asyncio.Task[None]] = []
        self._running = 0
        self._idle = asyncio.Event()
        self.is_closing = False

    def start(self) -> None:
        """Begin, unless it has begun."""
        loop = asyncio.get_running_loop()
        if not self._workers:
            self._workers = [loop.create_task(self._run()) for _ in range(self._count)]

    def put(self, work: Work) -> None:
        """Caller: a pull loop. Affects: the line."""
        self._waiting.append(work)
        if not self._is_waking:
            self._wake()

    async def close(self, wait_ms: int) -> list[Work]:
        """Let running work end within `wait_ms`, then cancel it; return what was not begun."""
        self.is_closing = True
        if self._running:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._idle.wait()
        await cancel_all(self._workers)
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def _wake(self) -> None:
        """Have a free worker look at the line; it wakes the next one if there is more.

        So handlers that wait for nothing need one worker, and the others sleep on.
        """
        while self._free and not self._is_waking:
            worker = self._free.popleft()
            if not worker.done():
                self._is_waking = True
                worker.set_result(None)

    async def _run(self) -> None:
        """Root of a task: whatever one piece of work does, the next is taken."""
        while not self.is_closing:
            # Hot path: an asyncio.Queue would cost a tenth of what a message costs.
            if not self._waiting:
                self._free.append(asyncio.get_running_loop().create_future())
                await self._free[-1]
                self._is_waking = False
                continue
            work = self._waiting.popleft()
            if self._waiting and not self._is_waking:
                self._wake()
            self._running += 1
            try:
                await self._do(work)
            except Exception:
                logger.exception("consuming failed %s", work)
            finally:
                self._running -= 1
                if self.is_closing and not self._running:
                    self._idle.set()


async def cancel_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their ends."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
