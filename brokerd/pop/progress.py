"""Offsets that follow from records in the log, handed to the table of offsets once those are on the disk.

A committed offset passes messages that only a checkpoint in the log still knows: saved without it, a power cut would
lose them. The same holds for the revive log's own offset and the messages that were put again.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from brokerd.pop.checkpoint import GroupQueue
from brokerd.tables.consumer_offset import ConsumerOffsetManager


class Found(NamedTuple):
    log_end: int  # of the commit log, when the offset was found
    queue: GroupQueue
    offset: int


class PopProgress:
    """How far groups have popped, at once, and what of it is handed over. Single-threaded: the broker's event loop."""

    def __init__(self, offsets: ConsumerOffsetManager) -> None:
        self._offsets = offsets
        self._next: dict[GroupQueue, int] = {}
        self._found: deque[Found] = deque()

    def next_offset(self, queue: GroupQueue) -> int | None:
        """Return where the next pop of a queue goes on; None for a group that has not begun."""
        committed = self._offsets.committed(queue.group, queue.topic, queue.queue_id)
        popped = self._next.get(queue)
        if popped is None or committed is None:
            return committed
        return max(popped, committed)

    def popped(self, queue: GroupQueue, next_offset: int, log_end: int) -> None:
        self._next[queue] = next_offset
        self._found.append(Found(log_end, queue, next_offset))

    def move_to(self, queue: GroupQueue, offset: int, now_ms: int) -> None:
        """Follow a reset: what was popped before counts no more."""
        self._next.pop(queue, None)
        if any(found.queue == queue for found in self._found):
            self._found = deque(found for found in self._found if found.queue != queue)
        self._offsets.commit(queue.group, queue.topic, queue.queue_id, offset, now_ms)

    def revived(self, queue: GroupQueue, offset: int, log_end: int) -> None:
        """Note how far a queue of the revive log is done with."""
        self._found.append(Found(log_end, queue, offset))

    def hand_over(self, flushed_offset: int, now_ms: int) -> bool:
        """Commit what relies on nothing after `flushed_offset`; return whether something waits for the next flush."""
        found = self._found
        while found and found[0].log_end <= flushed_offset:
            _, queue, offset = found.popleft()
            if self._offsets.pending_reset(queue.group, queue.topic, queue.queue_id) is None:
                self._offsets.commit(queue.group, queue.topic, queue.queue_id, offset, now_ms)
            if self._next.get(queue) == offset:
                del self._next[queue]
        return bool(found)

    def drop(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Drop what was found of a deleted topic or group."""

        def is_kept(queue: GroupQueue) -> bool:
            return queue.topic != topic and queue.group != group

        self._next = {queue: offset for queue, offset in self._next.items() if is_kept(queue)}
        self._found = deque(found for found in self._found if is_kept(found.queue))
