"""Orderly consumption: one batch of a queue at a time, in offset order, while the broker's lock is ours.

Semantics reference 9.8 (ConsumeMessageOrderlyService.java). A failed batch keeps its queue waiting and comes
again;
after the last repetition its messages go to the retry topic, where the broker makes dead letters of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from msgspec.structs import replace

from brokerd.remoting.message.record import MessageRecord
from consumers.clock import Clock
from consumers.config import MessageModel, PushConsumerConfig
from consumers.consumer.consume_message import ConsumeContext, MessageHandler
from consumers.consumer.offset_store import OffsetStore
from consumers.consumer.process_queue import ProcessQueue
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

SUSPEND_MIN_MS, SUSPEND_MAX_MS = 10, 30_000
LOCK_AGAIN_DELAY_MS = 100  # tryLockLaterAndReconsume
NOT_LOCKED_DELAY_MS = 3_000

Lock = Callable[[ProcessQueue], Awaitable[bool]]
# To the retry topic; raises MQClientError or MQBrokerError.
GiveUp = Callable[[MessageRecord], Awaitable[None]]


class AfterFailure(StrEnum):
    CONSUME_AGAIN = "consume_again"
    GIVE_UP = "give_up"


def after_failure(message: MessageRecord, max_reconsume_times: int) -> AfterFailure:
    """checkReconsumeTimes, for one message."""
    if message.reconsume_times >= max_reconsume_times:
        return AfterFailure.GIVE_UP
    return AfterFailure.CONSUME_AGAIN


def suspend_time_ms(requested_ms: int | None, default_ms: int) -> int:
    return min(max(default_ms if requested_ms is None else requested_ms, SUSPEND_MIN_MS), SUSPEND_MAX_MS)


class OrderlyConsumeService:
    """One task per queue that has messages; at most `consume_concurrency` handlers run."""

    def __init__(
        self,
        handler: MessageHandler,
        config: PushConsumerConfig,
        offset_store: OffsetStore,
        lock: Lock,
        give_up: GiveUp,
        clock: Clock,
    ) -> None:
        self._handler = handler
        self._config = config
        self._offset_store = offset_store
        self._lock = lock
        self._give_up = give_up
        self._clock = clock
        self._slots = asyncio.Semaphore(config.consume_concurrency)
        self._tasks: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._is_closing = False

    def start(self) -> None:
        """Tasks begin with the first messages of their queue."""

    def submit(self, queue: ProcessQueue, messages: list[MessageRecord]) -> None:
        """Caller: pull loop. A running task finds the new messages by itself."""
        task = self._tasks.get(queue)
        if (task is None or task.done()) and not self._is_closing:
            self._tasks[queue] = asyncio.get_running_loop().create_task(self._drain(queue))

    async def wait_idle(self, queue: ProcessQueue, wait_ms: int) -> bool:
        """Return whether the queue's running batch ended in time.

        Caller: rebalancer, before it gives the lock away.
        """
        task = self._tasks.get(queue)
        if task is None or task.done():
            return True
        done, _ = await asyncio.wait({task}, timeout=wait_ms / 1000)
        return bool(done)

    async def close(self, wait_ms: int) -> None:
        self._is_closing = True
        tasks = [task for task in self._tasks.values() if not task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=wait_ms / 1000)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    async def _drain(self, queue: ProcessQueue) -> None:
        """Root of the task: consume until the queue is empty or not ours."""
        try:
            while not (queue.is_dropped or self._is_closing):
                try:
                    if not await self._step(queue):
                        return
                except Exception:
                    logger.exception("orderly consuming failed %r", queue)
                    queue.put_back(queue.taken_messages())
                    await asyncio.sleep(self._config.suspend_current_queue_time_ms / 1000)
        finally:
            if self._tasks.get(queue) is asyncio.current_task():
                del self._tasks[queue]

    async def _step(self, queue: ProcessQueue) -> bool:
        """Lock, take, consume once; False when there is nothing to take."""
        if not await self._own(queue) or queue.is_dropped:
            return True
        if not self._handler.rate.is_free:
            await self._handler.rate.wait()
            return True  # the lock may have gone in the meantime
        messages = queue.take_messages(self._config.consume_message_batch_max_size, self._clock())
        if not messages:
            return False
        self._handler.rate.count(len(messages))
        pause_ms = await self._consume(queue, messages)
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)
        return True

    async def _own(self, queue: ProcessQueue) -> bool:
        """Return whether the lock is ours now; request it, and wait before the next try, if it is not."""
        if self._config.message_model is MessageModel.BROADCASTING or queue.is_locked(self._clock()):
            return True
        await asyncio.sleep(LOCK_AGAIN_DELAY_MS / 1000)
        if await self._lock(queue):
            return True
        await asyncio.sleep(NOT_LOCKED_DELAY_MS / 1000)
        return False

    async def _consume(self, queue: ProcessQueue, messages: list[MessageRecord]) -> int:
        """Run the handler once, with what follows; return how long the queue must wait, in ms."""
        context = ConsumeContext(group=self._handler.group, message_queue=queue.message_queue)
        async with self._slots:
            outcome = await self._handler.call(messages, context, self._clock())
        if queue.is_dropped:
            return 0
        if outcome.is_success or not await self._fail(queue, messages):
            self._commit(queue)
            return 0
        return suspend_time_ms(
            context.suspend_current_queue_time_ms, self._config.suspend_current_queue_time_ms
        )

    async def _fail(self, queue: ProcessQueue, messages: Sequence[MessageRecord]) -> bool:
        """Put back what comes again; True if anything does. Otherwise every message has been given up."""
        limit = self._config.max_reconsume_times_for(orderly=True)
        again = []
        for message in messages:
            if after_failure(message, limit) is AfterFailure.GIVE_UP and await self._try_give_up(message):
                continue
            again.append(replace(message, reconsume_times=message.reconsume_times + 1))
        queue.put_back(again)
        return bool(again)

    async def _try_give_up(self, message: MessageRecord) -> bool:
        where = f"topic={message.topic} queue_id={message.queue_id} offset={message.queue_offset}"
        try:
            await self._give_up(message)
        except (MQClientError, MQBrokerError) as error:
            logger.warning("not given up, consumed again %s: %s", where, error)
            return False
        logger.warning("given up after %d repetitions %s", message.reconsume_times, where)
        return True

    def _commit(self, queue: ProcessQueue) -> None:
        offset = queue.commit_taken()
        if offset is not None:
            self._offset_store.update_offset(queue.message_queue, offset, increase_only=False)
