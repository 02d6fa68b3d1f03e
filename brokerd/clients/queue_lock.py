"""Locks of orderly consumption: one owner per (group, queue), for 60 s after its last renewal.

Source: semantics §7.1, protocol §3.10 (`RebalanceLockManager.java`). Memory only: after a restart members lock anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from brokerd.remoting.message.queue import MessageQueue

logger = logging.getLogger(__name__)

LOCK_MAX_LIVE_MS = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime; clients renew every 20 s


@dataclass(slots=True)
class QueueLock:
    client_id: str
    last_update_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return now_ms - self.last_update_ms > LOCK_MAX_LIVE_MS


class QueueLockManager:
    """Locks per group and queue. Single-threaded: the broker's event loop."""

    def __init__(self) -> None:
        self._locks: dict[str, dict[MessageQueue, QueueLock]] = {}

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> list[MessageQueue]:
        """Lock what is free, expired or its own already; returns the queues the client now holds."""
        table = self._locks.setdefault(group, {})
        held = []
        for queue in queues:
            lock = table.get(queue)
            if lock is not None and lock.client_id != client_id and not lock.is_expired(now_ms):
                continue
            if lock is None or lock.client_id != client_id:
                logger.info(
                    "queue locked group=%s topic=%s queue_id=%d client_id=%s",
                    group,
                    queue.topic,
                    queue.queue_id,
                    client_id,
                )
            table[queue] = QueueLock(client_id, now_ms)
            held.append(queue)
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give up queues; locks of other clients stay."""
        table = self._locks.get(group, {})
        for queue in queues:
            lock = table.get(queue)
            if lock is not None and lock.client_id == client_id:
                del table[queue]
        if not table:
            self._locks.pop(group, None)

    def is_group_locked(self, group: str, now_ms: int) -> bool:
        """Return whether any member holds an unexpired lock: such a group consumes orderly (§1.5)."""
        return any(not lock.is_expired(now_ms) for lock in self._locks.get(group, {}).values())

    def drop_expired(self, now_ms: int) -> None:
        for group in list(self._locks):
            table = self._locks[group]
            for queue in [queue for queue, lock in table.items() if lock.is_expired(now_ms)]:
                del table[queue]
            if not table:
                del self._locks[group]
