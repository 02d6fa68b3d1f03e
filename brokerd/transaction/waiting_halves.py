"""The half messages whose transactions go on, in memory: which copy is the newest, and when to check each."""

from __future__ import annotations

import heapq
from itertools import takewhile

# Times of transactions that have ended stay in the heap until they are due; beyond this many they are sorted out.
ENDED_TIMES_MAX = 1_000
# A start reads all that lies behind the first one that waits: so many, with their op messages, in a second.
BEHIND_MAX = 100_000
# Copies of all that wait must not be what the next copies are made for.
BEHIND_FOR_EACH = 4


class WaitingHalves:
    """Newest copies by queue offset, in ascending order. Single-threaded: the broker's event loop."""

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}  # newest copy → first copy
        self._newest_offsets: dict[int, int] = {}  # first copy → newest copy, of transactions with several
        self._due: list[tuple[int, int]] = []  # heap of (when to check in ms, copy)

    def __len__(self) -> int:
        return len(self._first_offsets)

    def __contains__(self, queue_offset: int) -> bool:
        return queue_offset in self._first_offsets

    @property
    def lowest_offset(self) -> int | None:
        """The queue offset before which every half message is done with; None when none waits."""
        return next(iter(self._first_offsets), None)

    def far_behind(self, end: int) -> list[int]:
        """Return the copies too far from the end of the half topic for a start that is to be quick."""
        limit = end - BEHIND_MAX - BEHIND_FOR_EACH * len(self)
        return list(takewhile(lambda queue_offset: queue_offset < limit, self._first_offsets))

    def add(self, queue_offset: int, first_offset: int, due_ms: int) -> None:
        """Take in a copy, which has the highest offset of all: it replaces the transaction's copy before it."""
        before = self.newest(first_offset)
        if before is not None:
            del self._first_offsets[before]
        self._first_offsets[queue_offset] = first_offset
        if queue_offset != first_offset:
            self._newest_offsets[first_offset] = queue_offset
        if len(self._due) > 2 * len(self._first_offsets) + ENDED_TIMES_MAX:
            self._due = [entry for entry in self._due if entry[1] in self._first_offsets]
            heapq.heapify(self._due)
        heapq.heappush(self._due, (due_ms, queue_offset))

    def newest(self, first_offset: int) -> int | None:
        """Return the newest copy of a transaction that goes on; None when it has ended."""
        newest = self._newest_offsets.get(first_offset, first_offset)
        return newest if newest in self._first_offsets else None

    def remove(self, queue_offset: int) -> None:
        """Take out a newest copy: its transaction has ended."""
        self._newest_offsets.pop(self._first_offsets.pop(queue_offset), None)

    def take_due(self, now_ms: int) -> list[int]:
        """Return the copies to check, lowest first. Each comes once: its check adds the next copy."""
        due = []
        while self._due and self._due[0][0] <= now_ms:
            _, queue_offset = heapq.heappop(self._due)
            if queue_offset in self._first_offsets:
                due.append(queue_offset)
        return sorted(due)

    def check_again(self, queue_offset: int, due_ms: int) -> None:
        """Give a copy that was due another time."""
        heapq.heappush(self._due, (due_ms, queue_offset))
