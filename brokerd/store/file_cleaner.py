"""Delete expired files and keep the disk-full mark.

Source: `DefaultMessageStore.CleanCommitLogService`, reference store-format §16. Consumption progress does not
matter; a file's age is its modification time.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from pathlib import Path

from brokerd.store.index.key_index import KeyIndex
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.queue.consume_queue_table import ConsumeQueueTable
from brokerd.store.store_config import MessageStoreConfig, parse_delete_when

logger = logging.getLogger(__name__)

HOUR_MS = 3_600_000


def used_ratio(path: Path) -> float:
    """Used share of the file system of `path`, rounded up to a whole percent as UtilAll does."""
    while not path.exists():
        path = path.parent
    stat = os.statvfs(path)
    used = stat.f_blocks - stat.f_bfree
    total = used + stat.f_bavail
    return math.ceil(100 * used / total) / 100 if total else 0.0


class FileCleaner:
    """Decides by time and disk ratio what to delete. `is_disk_full` refuses puts."""

    def __init__(
        self, config: MessageStoreConfig, log: CommitLog, table: ConsumeQueueTable, key_index: KeyIndex
    ) -> None:
        self.is_disk_full = False
        self.config = config
        self._log = log
        self._table = table
        self._key_index = key_index
        self._deleting = threading.Lock()  # the timed round, and one by request

    def disk_used_ratio(self) -> float:
        return max(used_ratio(self.config.commit_log_dir), used_ratio(self.config.consume_queue_dir))

    def set_disk_mark(self, ratio: float) -> None:
        """Full above the warning level; writable again only at or below the clean-forcibly level."""
        config = self.config
        if ratio * 100 > config.disk_space_warning_level_ratio:
            if not self.is_disk_full:
                logger.error(
                    "disk is %.0f %% full (limit %d %%): puts are refused",
                    ratio * 100,
                    config.disk_space_warning_level_ratio,
                )
            self.is_disk_full = True
        elif ratio * 100 <= config.disk_space_clean_forcibly_ratio:
            if self.is_disk_full:
                logger.info("disk is %.0f %% full: puts are accepted again", ratio * 100)
            self.is_disk_full = False

    def delete_expired(self, now_ms: int, ratio: float, *, by_hand: bool = False) -> int:
        """Run one round, `by_hand` as many as there are, at any hour; return how many commit log files were deleted.

        The last file always stays. Caller: any thread; the writer continues meanwhile.
        """
        with self._deleting:
            deleted = self._delete_round(now_ms, ratio, by_hand)
            total = deleted
            while by_hand and deleted:
                deleted = self._delete_round(now_ms, ratio, by_hand)
                total += deleted
            if total:
                self._delete_expired_of_queues()
        return total

    def delete_expired_of_queues(self) -> int:
        """Delete files of queues and index that point below the log's start; return how many. Caller: any thread."""
        with self._deleting:
            return self._delete_expired_of_queues()

    def _delete_expired_of_queues(self) -> int:
        log_start = self._log.min_offset
        return sum(queue.delete_expired(log_start) for queue in self._table) + self._key_index.delete_expired(
            log_start
        )

    def _delete_round(self, now_ms: int, ratio: float, by_hand: bool) -> int:
        config, log = self.config, self._log
        clean_at_once = (
            ratio * 100 > config.disk_space_clean_forcibly_ratio and config.clean_file_forcibly_enable
        )
        is_time = by_hand or time.localtime(now_ms // 1000).tm_hour in parse_delete_when(config.delete_when)
        if not (is_time or clean_at_once or ratio * 100 > config.disk_max_used_space_ratio):
            return 0
        deleted = 0
        while len(log.files.files) > 1 and deleted < config.delete_file_batch_max:
            first = log.files.files[0]
            if first.start_offset <= log.max_offset < first.end_offset:
                break  # still written to
            expires_ms = first.last_modified_ms() + config.file_reserved_time_h * HOUR_MS
            if not clean_at_once and expires_ms > now_ms:
                break
            name = first.path.name
            del first  # the last use of its map is to be in delete_first
            log.files.delete_first()
            deleted += 1
            logger.info("deleted commit log file %s", name)
        return deleted
