"""Flushing: the commit log and what is built from it, each under its own lock, and what follows when a disk fails.

Source: reference store-format §14 (`FlushRealTimeService.java`, `FlushConsumeQueueService.java`). A sender that waits
for SYNC_FLUSH waits for the log only, never for thousands of consume queues.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

from brokerd.store.checkpoint import StoreCheckpoint
from brokerd.store.commit_log import CommitLog
from brokerd.store.consume_queue_table import ConsumeQueueTable
from brokerd.store.errors import FlushFailed
from brokerd.store.key_index import KeyIndex
from brokerd.store.store_config import MessageStoreConfig

logger = logging.getLogger(__name__)

PAGE_BYTES = 4096
NEVER_MS = -sys.maxsize


class Flusher:
    """Flushes one store. Caller: any thread; times are of a monotonic clock.

    A flush that failed is final: the kernel reports lost pages once and counts them as clean from then on, so that the
    next flush would succeed without them. `failure` says what happened; every later flush raises it again.
    """

    def __init__(
        self,
        config: MessageStoreConfig,
        log: CommitLog,
        table: ConsumeQueueTable,
        key_index: KeyIndex,
        dispatched_timestamp_ms: Callable[[], int],
        on_failure: Callable[[], None],
    ) -> None:
        """`dispatched_timestamp_ms()`: the store time up to which consume queues are built."""
        self.checkpoint: StoreCheckpoint | None = None  # while the store is open
        self.failure = ""
        self._config = config
        self._log = log
        self._table = table
        self._key_index = key_index
        self._dispatched_timestamp_ms = dispatched_timestamp_ms
        self._on_failure = on_failure
        self._log_lock = threading.Lock()
        self._queues_lock = threading.Lock()
        self._log_flushed_ms = self._log_flushed_thoroughly_ms = NEVER_MS
        self._queues_flushed_ms = self._queues_flushed_thoroughly_ms = NEVER_MS

    # The commit log

    def flush_log(self) -> int:
        """Make everything put so far durable; return flushed_offset. Raises FlushFailed."""
        with self._log_lock:
            self._refuse_after_failure()
            try:
                flushed_offset, timestamp_ms = self._log.flush()
            except OSError as error:
                raise self._failed("the commit log", error) from error
            if self.checkpoint is not None:
                self.checkpoint.physic_msg_timestamp_ms = timestamp_ms
            return flushed_offset

    def flush_log_if_due(self, elapsed_ms: int) -> None:
        """Flush by interval and dirty pages. Raises FlushFailed once."""
        config = self._config
        if self.failure or elapsed_ms - self._log_flushed_ms < config.flush_interval_commit_log_ms:
            return
        self._log_flushed_ms = elapsed_ms
        thorough_ms = config.flush_commit_log_thorough_interval_ms
        thorough = elapsed_ms - self._log_flushed_thoroughly_ms >= thorough_ms
        if thorough:
            self._log_flushed_thoroughly_ms = elapsed_ms
        least_bytes = 1 if thorough else config.flush_commit_log_least_pages * PAGE_BYTES
        if self._log.dirty_bytes >= least_bytes:
            self.flush_log()

    # What is built from it

    def flush_queues(self, least_bytes: int = 1) -> None:
        """Flush queues with enough dirty bytes, full index files and the checkpoint.

        Its logics time only moves when all queues were flushed. Raises FlushFailed, and OSError for the checkpoint,
        which is written anew next time.
        """
        with self._queues_lock:
            self._refuse_after_failure()
            timestamp_ms = self._dispatched_timestamp_ms()
            try:
                self._flush_dirty(least_bytes)
                self._key_index.flush_full_files()
            except OSError as error:
                raise self._failed("the consume queues or the key index", error) from error
            if self.checkpoint is not None:
                if least_bytes == 1:
                    self.checkpoint.logics_msg_timestamp_ms = timestamp_ms
                self.checkpoint.index_msg_timestamp_ms = self._key_index.safe_timestamp_ms
                self.checkpoint.flush()

    def _flush_dirty(self, least_bytes: int) -> None:
        for queue in self._table:
            if queue.dirty_bytes >= least_bytes:
                try:
                    queue.flush()
                except FileNotFoundError:
                    if self._table.queues.get((queue.topic, queue.queue_id)) is queue:  # not a deleted topic
                        raise

    def flush_queues_if_due(self, elapsed_ms: int) -> None:
        """Flush by interval and dirty pages. Raises as flush_queues, FlushFailed once."""
        config = self._config
        if self.failure or elapsed_ms - self._queues_flushed_ms < config.flush_interval_consume_queue_ms:
            return
        self._queues_flushed_ms = elapsed_ms
        thorough_ms = config.flush_consume_queue_thorough_interval_ms
        thorough = elapsed_ms - self._queues_flushed_thoroughly_ms >= thorough_ms
        if thorough:
            self._queues_flushed_thoroughly_ms = elapsed_ms
        self.flush_queues(1 if thorough else config.flush_consume_queue_least_pages * PAGE_BYTES)

    def flush_all(self) -> None:
        """Everything, for a clean stop. Caller: MessageStore.close. Raises FlushFailed or OSError."""
        self.flush_log()
        self.flush_queues()
        try:
            self._key_index.flush_all()
        except OSError as error:
            raise self._failed("the key index", error) from error
        if self.checkpoint is not None:
            self.checkpoint.index_msg_timestamp_ms = self._key_index.safe_timestamp_ms
            self.checkpoint.flush()

    # Failure

    def _refuse_after_failure(self) -> None:
        if self.failure:
            raise FlushFailed(self.failure)

    def _failed(self, files: str, error: OSError) -> FlushFailed:
        if not self.failure:
            self.failure = (
                f"{files} could not be flushed ({error}): messages stored since offset {self._log.flushed_offset}"
                " may not be on the disk. Check the disk, then restart the broker; until then it takes no messages"
            )
            logger.error("flush failed: %s", self.failure)
            self._on_failure()
        return FlushFailed(self.failure)
