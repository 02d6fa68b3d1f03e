"""Files of new queues are made, and those of deleted topics removed, in threads.

One takes milliseconds while the file system writes its journal: made in the event loop, those of a topic with 200
queues held up every producer for 180 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue_table import QueueMissing

Result = TypeVar("Result")


class QueueFiles:
    """Queues on their way. Single-threaded but for its own threads: the event loop."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="queue-files")
        self._remover = ThreadPoolExecutor(1, thread_name_prefix="queue-removal")  # thousands take seconds
        self._under_way: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def when_made(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of what may raise QueueMissing: the queue is made, and it is tried again."""
        while True:
            try:
                return await attempt()
            except QueueMissing as missing:
                await self.make(missing.topic, missing.queue_id)

    async def make(self, topic: str, queue_id: int) -> None:
        """Wait until the queue is there, if need be without a file: dispatch tries again then, and names the error."""
        key = (topic, queue_id)
        if key not in self._under_way:
            self._under_way[key] = asyncio.create_task(self._make(topic, queue_id))
        await asyncio.shield(self._under_way[key])

    def begin(self, topic: str, queue_id: int) -> asyncio.Future[None]:
        """Return the same without waiting."""
        return asyncio.ensure_future(self.make(topic, queue_id))

    async def _make(self, topic: str, queue_id: int) -> None:
        loop, table = asyncio.get_running_loop(), self._store.table
        try:
            made = await loop.run_in_executor(self._maker, table.make_with_file, topic, queue_id)
        except OSError:
            made = table.make(topic, queue_id)
        finally:
            del self._under_way[topic, queue_id]
        table.adopt(made)

    async def remove_dropped(self) -> None:
        """Make deletions of topics durable and remove their files. Raises OSError."""
        await asyncio.get_running_loop().run_in_executor(self._remover, self._store.remove_dropped)

    def close(self) -> None:
        """Wait for what is under way. Caller: the broker's stop."""
        self._maker.shutdown(cancel_futures=True)
        self._remover.shutdown(cancel_futures=True)
