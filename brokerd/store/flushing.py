"""Flushing: the commit log and what is built from it, each under its own lock, and what follows when a disk fails.

Source: reference store-format §14 (`FlushRealTimeService.java`, `FlushConsumeQueueService.java`). A sender that waits
for SYNC_FLUSH waits for the log only, never for thousands of consume queues.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

from brokerd.store.derived_flush import DerivedFlush
from brokerd.store.errors import FlushFailed
from brokerd.store.files.checkpoint import StoreCheckpoint
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.store_config import MessageStoreConfig

logger = logging.getLogger(__name__)

PAGE_BYTES = 4096
NEVER_MS = -sys.maxsize


class Flusher:
    """Flushes one store. Caller: any thread; times are of a monotonic clock.

    A flush that failed is final: the kernel reports lost pages once and counts them as clean from then on, so that the
    next flush would succeed without them. `failure` describes what happened; every later flush raises it again.
    """

    def __init__(
        self,
        config: MessageStoreConfig,
        log: CommitLog,
        derived: DerivedFlush,
        on_failure: Callable[[], None],
    ) -> None:
        self.checkpoint: StoreCheckpoint | None = None  # while the store is open
        self.failure = ""
        self.is_awaited = False  # the next flush that is due takes fewer pages than the least too
        self.config = config
        self._log = log
        self._derived = derived
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
                raise self.fail("the commit log", error) from error
            if self.checkpoint is not None:
                try:
                    self.checkpoint.log_flushed(flushed_offset, timestamp_ms)
                except OSError as error:  # the log is durable all the same; the point lags
                    logger.warning("checkpoint not written: %s", error)
            return flushed_offset

    def flush_log_if_due(self, elapsed_ms: int) -> None:
        """Flush by interval and dirty pages. Raises FlushFailed once."""
        config = self.config
        if self.failure or elapsed_ms - self._log_flushed_ms < config.flush_interval_commit_log_ms:
            return
        self._log_flushed_ms = elapsed_ms
        thorough_ms = config.flush_commit_log_thorough_interval_ms
        thorough = elapsed_ms - self._log_flushed_thoroughly_ms >= thorough_ms
        if thorough:
            self._log_flushed_thoroughly_ms = elapsed_ms
        is_awaited, self.is_awaited = self.is_awaited, False
        least_bytes = 1 if thorough or is_awaited else config.flush_commit_log_least_pages * PAGE_BYTES
        if self._log.dirty_bytes >= least_bytes:
            self.flush_log()

    # What is built from it

    def flush_queues(self, least_bytes: int = 1) -> None:
        """Flush queues with enough dirty bytes, index files and the checkpoint.

        Manifest and checkpoint only advance when all was flushed. Raises FlushFailed, and OSError for those two,
        which are written anew next time.
        """
        with self._queues_lock:
            self._refuse_after_failure()
            note = self._derived.take_note() if least_bytes == 1 else None
            try:
                self._derived.sync(least_bytes)
            except OSError as error:
                raise self.fail("the consume queues or the key index", error) from error
            if self.checkpoint is None:
                return
            if note is not None:
                self._derived.save(note, self.checkpoint)
            else:
                self.checkpoint.flush()

    def flush_queues_if_due(self, elapsed_ms: int) -> None:
        """Flush by interval and dirty pages. Raises as flush_queues, FlushFailed once."""
        config = self.config
        if self.failure or elapsed_ms - self._queues_flushed_ms < config.flush_interval_consume_queue_ms:
            return
        self._queues_flushed_ms = elapsed_ms
        thorough_ms = config.flush_consume_queue_thorough_interval_ms
        thorough = elapsed_ms - self._queues_flushed_thoroughly_ms >= thorough_ms
        if thorough:
            self._queues_flushed_thoroughly_ms = elapsed_ms
        self.flush_queues(1 if thorough else config.flush_consume_queue_least_pages * PAGE_BYTES)

    # Failure

    def _refuse_after_failure(self) -> None:
        if self.failure:
            raise FlushFailed(self.failure)

    def fail(self, files: str, error: OSError) -> FlushFailed:
        """Note that the disk did not take something; the error to raise. Caller: any thread."""
        if not self.failure:
            self.failure = (
                f"{files} could not be flushed ({error}): messages stored since offset {self._log.flushed_offset}"
                " may not be on the disk. Check the disk, then restart the broker; until then it takes no messages"
            )
            logger.error("flush failed: %s", self.failure)
            self._on_failure()
        return FlushFailed(self.failure)
