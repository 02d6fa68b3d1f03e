"""What one queue of the revive log means: checkpoints that wait, what of them is acknowledged, when each is due.

    checkpoint ─► WAITING ── every offset acknowledged ──────────────► gone
                     └────── due ─► DUE ─ its messages are put again ─► gone
    ack without a checkpoint ─► ORPHAN ─ its checkpoint comes: owed, put again behind it │ too late: gone

The whole table is docs/reference/pop.md. Pure: records are applied in the order of the log, time is an argument. A
restart applies the log from `progress` on, and has the same state.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from brokerd.pop.checkpoint import Ack, Checkpoint, CheckpointKey, GroupQueue

GRACE_MS = (
    2_000  # acknowledgements that are late by so much count, as in Java (PopReviveService.mergeAndRevive)
)
ORPHAN_MS = 180_000  # reviveAckWaitMs: how long one waits for a checkpoint that Apache's timer still holds
ORPHANS_MAX = 100_000  # only a store that Apache's broker has written has any
# A start reads all behind the first that waits: so many records, and a few for each that waits.
BEHIND_MAX, BEHIND_FOR_EACH = 10_000, 4


@dataclass(slots=True)
class Waiting:
    """A checkpoint, and the offset of its newest record in the revive log."""

    checkpoint: Checkpoint
    revive_offset: int
    due_ms: int


@dataclass(slots=True)
class Orphan:
    """Acknowledgements whose checkpoint has not come; `revive_offset` is the first one's."""

    offsets: frozenset[int]
    revive_offset: int
    expires_ms: int


class ReviveState:
    """Single-threaded: the broker's event loop. `in_flight` is shared by the states of all revive queues."""

    def __init__(self, next_offset: int, in_flight: Counter[GroupQueue]) -> None:
        self.next_offset = next_offset  # of the record to apply next
        self._in_flight = in_flight
        # Both in the order of revive offsets: the first is the lowest.
        self._waiting: dict[CheckpointKey, Waiting] = {}
        self._orphans: dict[CheckpointKey, Orphan] = {}
        self._due: list[tuple[int, int, CheckpointKey]] = []
        self._owed: list[CheckpointKey] = []  # orphans whose checkpoint has come

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def orphan_count(self) -> int:
        return len(self._orphans)

    @property
    def progress(self) -> int:
        """The offset of the last record that no restart needs; -1 when all are needed, or none was there."""
        lowest = self.next_offset
        for waiting in self._waiting.values():
            lowest = waiting.revive_offset
            break
        for orphan in self._orphans.values():
            lowest = min(lowest, orphan.revive_offset)
            break
        return lowest - 1

    def pass_over(self) -> None:
        """Apply a record that means nothing."""
        self.next_offset += 1

    def apply_checkpoint(self, checkpoint: Checkpoint, seen_ms: int = 0) -> None:
        """Apply the record at next_offset. `seen_ms`: when it was read; acknowledgements may be right behind it.

        A second record of the same checkpoint replaces the first.
        """
        offset, key = self.next_offset, checkpoint.key
        self.next_offset += 1
        before = self._waiting.pop(key, None)
        if before is not None:
            self._in_flight[checkpoint.queue] -= before.checkpoint.unacked_count
        if key in self._orphans:
            self._owed.append(key)
        due_ms = max(checkpoint.revive_ms, seen_ms) + GRACE_MS
        if before is not None:
            due_ms = before.due_ms
        self._in_flight[checkpoint.queue] += checkpoint.unacked_count
        self._waiting[key] = Waiting(checkpoint, offset, due_ms)
        if not checkpoint.unacked_count:
            self._remove(key)
        elif before is None:
            self._wait_until(due_ms, offset, key)

    def apply_ack(self, ack: Ack, expires_ms: int) -> int:
        """Apply the record at next_offset; return how many messages it acknowledged that were not.

        `expires_ms`: when its checkpoint cannot come any more.
        """
        offset, key = self.next_offset, ack.key
        self.next_offset += 1
        waiting = self._waiting.get(key)
        if waiting is None:
            self._keep_orphan(ack, offset, expires_ms)
            return 0
        orphan = self._orphans.get(key)
        if orphan is not None and orphan.offsets <= set(ack.offsets):
            del self._orphans[key]
        return self._acknowledge(key, waiting, ack.offsets)

    def _acknowledge(self, key: CheckpointKey, waiting: Waiting, offsets: tuple[int, ...]) -> int:
        before = waiting.checkpoint
        after = before.with_acked(offsets)
        count = before.unacked_count - after.unacked_count
        waiting.checkpoint = after
        self._in_flight[after.queue] -= count
        if not after.unacked_count:
            self._remove(key)
        return count

    def _keep_orphan(self, ack: Ack, offset: int, expires_ms: int) -> None:
        known = self._orphans.get(ack.key)
        if known is not None:
            known.offsets |= frozenset(ack.offsets)
        elif len(self._orphans) < ORPHANS_MAX:
            self._orphans[ack.key] = Orphan(frozenset(ack.offsets), offset, expires_ms)
            self._wait_until(expires_ms, offset, ack.key)

    def owed_acks(self) -> list[tuple[Ack, int]]:
        """Return acknowledgements to put again, each with its checkpoint's time: a replay must find them behind it."""
        owed = [
            (Ack(key, tuple(sorted(self._orphans[key].offsets))), self._waiting[key].checkpoint.revive_ms)
            for key in self._owed
            if key in self._orphans and key in self._waiting
        ]
        if not owed:
            self._owed.clear()
        return owed

    def _wait_until(self, due_ms: int, offset: int, key: CheckpointKey) -> None:
        if len(self._due) > 2 * (len(self._waiting) + len(self._orphans)) + 1_000:
            kept = (entry for entry in self._due if entry[2] in self._waiting or entry[2] in self._orphans)
            self._due = list(kept)
            heapq.heapify(self._due)
        heapq.heappush(self._due, (due_ms, offset, key))

    def take_due(self, now_ms: int, count_max: int) -> list[Checkpoint]:
        """Return the checkpoints whose messages are visible again, soonest first. Each needs `done` or `try_again`."""
        due: list[Checkpoint] = []
        while self._due and self._due[0][0] <= now_ms and len(due) < count_max:
            due_ms, _, key = heapq.heappop(self._due)
            waiting = self._waiting.get(key)
            if waiting is not None:
                if waiting.due_ms == due_ms:
                    due.append(waiting.checkpoint)
            elif key in self._orphans and self._orphans[key].expires_ms <= now_ms:
                del self._orphans[key]
        return due

    def try_again(self, key: CheckpointKey, due_ms: int) -> None:
        """Give a checkpoint that was due another time."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.due_ms = due_ms
            self._wait_until(due_ms, waiting.revive_offset, key)

    def done(self, key: CheckpointKey) -> None:
        """Take out a checkpoint whose messages were put again, or are not there any more."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._in_flight[waiting.checkpoint.queue] -= waiting.checkpoint.unacked_count
            self._remove(key)

    def _remove(self, key: CheckpointKey) -> None:
        queue = self._waiting.pop(key).checkpoint.queue
        self._orphans.pop(key, None)
        if self._in_flight[queue] <= 0:
            del self._in_flight[queue]

    def far_behind(self) -> list[Checkpoint]:
        """Return the checkpoints too far from the end for a start that is to be quick: put again, they move there."""
        limit = self.next_offset - BEHIND_MAX - BEHIND_FOR_EACH * len(self._waiting)
        behind: Iterable[Waiting] = takewhile(lambda each: each.revive_offset < limit, self._waiting.values())
        return [each.checkpoint for each in behind]

    def unacked_of(self, key: CheckpointKey) -> list[int]:
        """Return the offsets of a waiting checkpoint that are not acknowledged; none for any other."""
        waiting = self._waiting.get(key)
        return [] if waiting is None else waiting.checkpoint.unacked

    def drop(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Take out what waits of a deleted topic or group."""
        for key in [each for each in self._waiting if each.topic == topic or each.group == group]:
            self.done(key)
