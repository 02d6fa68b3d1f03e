"""Threads that bring into memory what a read needs, so that the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from brokerd.store.cold_pages import FileRange, NotInMemory, read_ahead
from brokerd.store.errors import MemoryTooShort

THREADS = 4  # a disk serves a few readers at once better than one; more only wait
PASSES_MAX = (
    100  # a search by time halves a queue of 2^31 messages 31 times, and reads a unit and a record each time
)
Result = TypeVar("Result")


class ColdReads:
    """Reading ahead. Single-threaded but for its own threads: the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cold-reads")

    async def read(self, ranges: list[FileRange]) -> None:
        """Wait until the ranges are in memory. Raises OSError."""
        await self.run(partial(read_ahead, ranges))

    async def run(self, read: Callable[[], Result]) -> Result:
        """Return the result of a read that waits for the disk itself."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    async def when_read(self, read: Callable[[], Result]) -> Result:
        """Return the result of a read that may raise NotInMemory: what it lacks is read, and it is tried again.

        Raises OSError, MemoryTooShort, and what else the read raises.
        """
        for _ in range(PASSES_MAX):
            try:
                return read()
            except NotInMemory as missing:
                await self.read(missing.ranges)
        raise MemoryTooShort("what was read from the disk leaves memory before it can be used: add memory")

    def begin(self, ranges: list[FileRange]) -> Future[None]:
        """Return the same without waiting."""
        return self._threads.submit(read_ahead, ranges)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
