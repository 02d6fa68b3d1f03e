"""Timer log, wheel and checkpoint as one: messages go in, slots are read, and a start finds what waits.

The log is the truth; the wheel is made from it, and one that does not fit it is made anew. A slot names its newest
unit, so that a unit is put into the wheel once however often recovery comes to it. Java's broker works on the same
files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from brokerd.timer.timer_checkpoint import TimerCheckpoint, TimerProgress
from brokerd.timer.timer_log import MAGIC_DELETE, NONE, UNIT_BYTES, TimerLog, TimerUnit
from brokerd.timer.timer_wheel import Slot, TimerWheel

logger = logging.getLogger(__name__)


class NewUnit(NamedTuple):
    """A message of the timer topic that comes into a slot."""

    magic: int
    enqueue_ms: int
    slot_ms: int
    commit_log_offset: int
    size_bytes: int
    topic_hash: int


class TimerFiles:
    """Single-threaded: the broker's event loop; `save` in a thread. Raises OSError."""

    def __init__(self, root: Path, log_file_bytes: int, precision_ms: int) -> None:
        self.log = TimerLog(root / "timerlog", log_file_bytes)
        self.wheel = TimerWheel(root / "timerwheel", precision_ms)
        self.checkpoint = TimerCheckpoint(root / "config" / "timercheck")
        self.waiting_count = 0  # recalls count -1, as in Java's slots
        self.is_written = False  # since the last save

    def open(self, commit_log_max_offset: int) -> TimerProgress | None:
        """Recover; returns the progress that was saved, None when nothing ever waited."""
        has_checkpoint, has_wheel = self.checkpoint.load(), self.wheel.open()
        self.log.open()
        saved = self.checkpoint.saved
        if not self.log.has_files:
            return saved if has_checkpoint else None
        if not saved.read_ms:  # it was lost: no slot in use is older than the first message
            first = next((unit for _, unit in self.log.scan(self.log.start)), None)
            saved = replace(saved, read_ms=first.enqueue_ms if first is not None else 0)
        if not has_wheel:
            self.wheel.make()
        begin = self.log.start
        if has_wheel and self.checkpoint.is_ours:
            begin = max(begin, saved.log_flushed)
        elif has_wheel and has_checkpoint:  # Java's wheel may be older, and its own start goes back as far
            behind = saved.log_flushed - self.log.file_size_bytes
            begin = max(begin, behind - behind % self.log.file_size_bytes)
        self.log.cut(self._redo(begin, saved.read_ms, commit_log_max_offset))
        if not self.count_waiting(saved.read_ms):
            logger.warning("the timer wheel is made anew: it names messages that the timer log has not")
            self.wheel.make()
            self._redo(self.log.start, saved.read_ms, commit_log_max_offset)
            self.count_waiting(saved.read_ms)
        return saved

    def _redo(self, begin: int, read_ms: int, commit_log_max_offset: int) -> int:
        """Put units from a position on into the wheel unless they are there; return where they end.

        A unit whose message was lost with the end of the commit log, in a power cut, ends them: another message comes
        to its place.
        """
        end = begin
        for position, unit in self.log.scan(begin):
            if unit.commit_log_offset + unit.size_bytes > commit_log_max_offset:
                break
            end = position + UNIT_BYTES
            time = unit.slot_ms // self.wheel.precision_ms
            if unit.slot_ms < read_ms:
                continue
            slot = self.wheel.slot(unit.slot_ms)
            if slot.last < position:
                first = position if slot.first == NONE else slot.first
                self.wheel.put(Slot(time, first, position, slot.waiting_count + weight(unit.magic)))
        return end

    def count_waiting(self, read_ms: int) -> bool:
        """Count what waits; False when a slot names a unit behind the end of the log."""
        self.waiting_count, first_time = 0, read_ms // self.wheel.precision_ms
        for slot in self.wheel.slots():
            if slot.time >= first_time:
                if slot.last >= self.log.end:
                    return False
                self.waiting_count += slot.waiting_count
        return True

    def last_unit(self) -> TimerUnit | None:
        """Return the newest unit of all."""
        end = self.log.end
        if end % self.log.file_size_bytes == 0:
            end -= self.log.file_size_bytes - self.log.units_bytes
        return self.log.unit(end - UNIT_BYTES) if end > self.log.start else None

    def append(self, news: Sequence[NewUnit]) -> None:
        """Put messages into their slots: all units into the log, then the slots."""
        if not self.wheel.is_open:
            self.wheel.make()
        slots: dict[int, Slot] = {}
        units: list[bytes] = []
        position = self.log.end
        for new in news:
            position = self.log.position_for(position)
            time = new.slot_ms // self.wheel.precision_ms
            slot = slots.get(time) or self.wheel.slot(new.slot_ms)
            units.append(TimerUnit(slot.last, *new).encode())
            first = position if slot.first == NONE else slot.first
            slots[time] = Slot(time, first, position, slot.waiting_count + weight(new.magic))
            self.waiting_count += weight(new.magic)
            position += UNIT_BYTES
        self.log.append(units)
        for slot in slots.values():
            self.wheel.put(slot)
        self.is_written = True

    def save(self, progress: TimerProgress) -> None:
        """Bring everything to the disk, the checkpoint last. Caller: a thread, one at a time."""
        self.log.sync()
        self.wheel.sync()
        self.checkpoint.save(progress)

    def close(self) -> None:
        self.log.close()
        self.wheel.close()


def weight(magic: int) -> int:
    """Return what a unit adds to its slot's count."""
    return -1 if magic & MAGIC_DELETE else 1
