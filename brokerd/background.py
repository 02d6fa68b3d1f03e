"""The timed work: flushing, saving, delivering, expiring, sampling. One task per interval.

What touches the tables runs in the event loop; what waits for a disk runs in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from brokerd.clients.consumer_manager import ConsumerManager
from brokerd.clients.producer_manager import ProducerManager
from brokerd.clients.pull_request_hold import PullRequestHoldService
from brokerd.clients.queue_lock import QueueLockManager
from brokerd.clock import steady_ms, wall_ms
from brokerd.config import LiveConfig
from brokerd.pop.pop_service import PopService
from brokerd.schedule_message import ScheduleMessageService
from brokerd.store.errors import FlushFailed
from brokerd.store.message_store import MessageStore
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.transaction.transaction_service import TransactionService

logger = logging.getLogger(__name__)

TICK_MS = 100  # delivery of delayed messages and held pulls are due to that precision
FLUSH_MS = 500  # the store decides what is due
RETRY_DISPATCH_MS = 1_000
SAMPLE_MS = 1_000
SCAN_MS = 10_000
RESTART_MS = 1_000
DELETE_FILES_FIRST_MS, DELETE_FILES_MS = 60_000, 10_000


class Background:
    """Runs named jobs at intervals; a job that fails is logged and run again at its next time."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def every(
        self,
        name: str,
        interval_ms: int,
        job: Callable[[], Awaitable[None] | None],
        first_ms: int | None = None,
    ) -> None:
        task = asyncio.create_task(
            self._loop(name, interval_ms, job, interval_ms if first_ms is None else first_ms), name=name
        )
        self._tasks.append(task)

    @staticmethod
    async def _loop(
        name: str, interval_ms: int, job: Callable[[], Awaitable[None] | None], first_ms: int
    ) -> None:
        await asyncio.sleep(first_ms / 1000)
        while True:
            try:
                pending = job()
                if pending is not None:
                    await pending
            except (OSError, FlushFailed) as error:  # A full or failed disk: the traceback adds nothing.
                logger.error("%s failed: %s; again in %d ms", name, error, interval_ms)  # noqa: TRY400
            except (Exception, asyncio.CancelledError):
                raise_if_stopped()
                logger.exception("%s failed; again in %d ms", name, interval_ms)
            await asyncio.sleep(interval_ms / 1000)

    def keep_running(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run what has a loop of its own, and again when it fails or ends."""
        self._tasks.append(asyncio.create_task(self._again(name, work), name=name))

    @staticmethod
    async def _again(name: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                logger.error("%s ended; started again in %d ms", name, RESTART_MS)
            except (Exception, asyncio.CancelledError):
                raise_if_stopped()
                logger.exception("%s failed; started again in %d ms", name, RESTART_MS)
            await asyncio.sleep(RESTART_MS / 1000)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


def raise_if_stopped() -> None:
    """Let a task end that was cancelled itself; what it waited for may have been cancelled instead."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class StoreUpkeep:
    """Delivers delayed messages, checks transactions, wakes held pulls, flushes and deletes files."""

    def __init__(
        self,
        store: MessageStore,
        schedule: ScheduleMessageService,
        transactions: TransactionService,
        pops: PopService,
        hold: PullRequestHoldService,
        after_put: Callable[[int], None],
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._transactions = transactions
        self._pops = pops
        self._hold = hold
        self._after_put = after_put
        self._retry_dispatch_at_ms = 0
        self._is_slave = store.config.is_slave

    def tick(self) -> None:
        began_ms = steady_ms()
        self._store.index_pending()
        self._hold.take_due(began_ms)
        self._hold.run_ready(began_ms)
        if self._is_slave:  # what is due is delivered, checked and revived by the master
            if self._is_dispatch_to_retry():
                self._after_put(began_ms)
            return
        delivered = self._schedule.deliver_due(self._store, wall_ms(), began_ms)
        checked = self._transactions.tick(wall_ms(), began_ms)
        revived = self._pops.tick(wall_ms(), began_ms)
        if self._hold.has_ready:
            self._hold.run_ready(began_ms)
        if delivered or checked or revived or self._is_dispatch_to_retry():
            self._after_put(began_ms)

    def _is_dispatch_to_retry(self) -> bool:
        """Without this a broker whose disk was full would wait for a put, which it refuses."""
        if not self._store.is_dispatch_failing or steady_ms() < self._retry_dispatch_at_ms:
            return False
        self._retry_dispatch_at_ms = steady_ms() + RETRY_DISPATCH_MS
        return True

    async def flush_log(self) -> None:
        await asyncio.to_thread(self._store.flush_log_if_due, steady_ms())

    async def flush_queues(self) -> None:
        await asyncio.to_thread(self._store.flush_queues_if_due, steady_ms())

    async def delete_expired_files(self) -> None:
        ratio = await asyncio.to_thread(self._store.cleaner.disk_used_ratio)
        deleted = await asyncio.to_thread(self._store.cleaner.delete_expired, wall_ms(), ratio)
        self._store.note_disk_use(ratio)
        if deleted:
            logger.info("expired files deleted count=%d disk_used=%.2f", deleted, ratio)


class OffsetSaver:
    """Saves the offsets of groups and of delay levels when they changed."""

    def __init__(self, offsets: ConsumerOffsetManager, schedule: ScheduleMessageService) -> None:
        self._offsets = offsets
        self._schedule = schedule

    async def save(self) -> None:
        self._offsets.save()
        document = self._schedule.take_document()
        if document is not None:
            await asyncio.to_thread(self._write, document)

    def _write(self, document: bytes) -> None:
        try:
            self._schedule.write(document)
        except (OSError, FlushFailed):
            self._schedule.mark_dirty()
            raise

    def save_now(self) -> None:
        """At the broker's stop, before the tables are written: what cannot be saved keeps nothing else from its end."""
        self._offsets.save()
        document = self._schedule.take_document()
        if document is not None:
            try:
                self._write(document)
            except (OSError, FlushFailed) as error:
                logger.error("delay offsets not saved at the stop: %s; the next start reads the last", error)  # noqa: TRY400


class ClientScan:
    """Closes clients without heartbeats and connections without requests; drops expired locks."""

    def __init__(
        self,
        config: LiveConfig,
        consumers: ConsumerManager,
        producers: ProducerManager,
        locks: QueueLockManager,
        close_idle: Callable[[int], None],
    ) -> None:
        self._config = config
        self._consumers = consumers
        self._producers = producers
        self._locks = locks
        self._close_idle = close_idle

    def scan(self) -> None:
        now_ms = steady_ms()
        timeout_ms = self._config.broker.channel_expired_timeout
        for group, member in self._consumers.expired(now_ms, timeout_ms):
            logger.warning("member expired group=%s client_id=%s", group, member.client_id)
            self._consumers.unregister(group, member.channel)
            member.channel.close(f"no heartbeat for {timeout_ms // 1000} s")
        for producer in self._producers.expired(now_ms, timeout_ms):
            self._producers.channel_closed(producer.channel)
            producer.channel.close(f"no heartbeat for {timeout_ms // 1000} s")
        self._locks.drop_expired(now_ms)
        self._close_idle(now_ms)
