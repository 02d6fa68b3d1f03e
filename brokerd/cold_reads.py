"""Threads that bring into memory what a read needs, so that the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

from brokerd.store.cold_pages import FileRange, read_ahead

THREADS = 4  # a disk serves a few readers at once better than one; more only wait


class ColdReads:
    """Reading ahead. Single-threaded but for its own threads: the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cold-reads")

    async def read(self, ranges: list[FileRange]) -> None:
        """Wait until the ranges are in memory. Raises OSError."""
        await asyncio.get_running_loop().run_in_executor(self._threads, read_ahead, ranges)

    def begin(self, ranges: list[FileRange]) -> Future[None]:
        """The same without waiting."""
        return self._threads.submit(read_ahead, ranges)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
