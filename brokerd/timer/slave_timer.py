"""The timer of a slave: messages come into its own wheel as far as its master has come; the master delivers them.

Source: `TimerMessageStore.java` of a slave, `SlaveSynchronize.syncTimerCheckPoint`. The master's checkpoint (60) is a
pair: messages of the timer topic before its offset are in its wheel, slots before its time are delivered. So a message
before the offset whose slot lies before the time is done with, any other one waits here too. A slave that is started
as a master goes on from there: it repeats what was delivered since the last checkpoint, and loses nothing.
"""

from __future__ import annotations

import time

from brokerd.timer.timer_checkpoint import TimerProgress
from brokerd.timer.timer_files import NewUnit
from brokerd.timer.timer_service import SLICE_NS, TimerMessageService
from brokerd.timer.timer_store import Waiting
from brokerd.timer.timer_wheel import SLOTS


class SlaveTimer(TimerMessageService):
    """As the master's timer, but that nothing is delivered."""

    _master: TimerProgress | None = None

    def follow(self, progress: TimerProgress) -> None:
        """Take over how far the master has come (60)."""
        self._master = progress

    async def work(self) -> None:
        """Enqueue what the master has enqueued. Raises OSError."""
        if self._master is None:
            return
        self._slice_end_ns = time.monotonic_ns() + SLICE_NS
        read_ms, start = self._floor(self._master.read_ms), self.queue_offset
        self._pass_slots(read_ms)
        while await self._enqueue(read_ms):
            pass
        if self.queue_offset != start:
            self.files.is_written = True

    def _pass_slots(self, end_ms: int) -> None:
        """Slots before `end_ms` are done with; the master's clock may also have been set back."""
        files, length_ms = self.files, SLOTS * self.precision_ms
        if not 0 <= end_ms - self.read_ms <= length_ms:
            self.read_ms = end_ms
            files.count_waiting(end_ms)
        while (slot := files.wheel.first_slot(self.read_ms, end_ms)) is not None:
            self.read_ms = (slot.time + 1) * self.precision_ms
            files.waiting_count -= slot.waiting_count
            files.is_written = True
        self.read_ms = end_ms

    def _end_offset(self) -> int:
        return min(super()._end_offset(), self._master.master_queue_offset if self._master else 0)

    def _new_unit(self, waiting: Waiting, offset: int, size_bytes: int) -> NewUnit | None:
        """None for what the master has delivered. Its counts come from the master (61)."""
        # The master chose the slot at this time or earlier, so its slot is not the later one.
        stored_ms = self._floor(waiting.store_timestamp_ms)
        magic, slot_ms = self._slot_of(waiting, stored_ms)
        if max(slot_ms, stored_ms) < self.read_ms:
            return None
        return NewUnit(magic, stored_ms, max(slot_ms, self.read_ms), offset, size_bytes, waiting.topic_hash)

    @property
    def _has_state(self) -> bool:
        return self._is_open and self.queue_offset > 0
