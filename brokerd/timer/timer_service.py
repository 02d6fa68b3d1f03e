"""Messages for an arbitrary time wait in a wheel of slots, one for each second, and are put to their topic when due.

    send ──► rmq_sys_wheel_timer ──enqueue──► unit in the timer log, slot of the wheel
                     ▲                                │ the slot's second is over
                     └── further than the wheel ──────┴── due ──► real topic

Source: `TimerMessageStore.java`, docs/reference/timer.md. Files are Java's, so that either broker continues with what
the other has left. A slot is read when every message stored before its end is in the wheel: a recall that was accepted
counts however far the enqueuing is behind.

Single-threaded: the broker's event loop; only saving is in a thread. Times are the wall clock's.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from brokerd.clock import steady_ms, wall_ms
from brokerd.cold_reads import ColdReads
from brokerd.queue_files import QueueFiles
from brokerd.remoting.message.names import TIMER_TOPIC, TimerProperty
from brokerd.store.cold_pages import NotInMemory
from brokerd.store.errors import FlushFailed, MessageIllegal, PropertiesSizeExceeded, PutRefused
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue_table import QueueMissing
from brokerd.timer.timer_checkpoint import TimerProgress
from brokerd.timer.timer_files import NewUnit, TimerFiles
from brokerd.timer.timer_log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerUnit
from brokerd.timer.timer_message import QUEUE_ID
from brokerd.timer.timer_metrics import TimerMetrics
from brokerd.timer.timer_store import (
    Copy,
    TimerMessage,
    Waiting,
    copy_of,
    is_delivered,
    message_of,
    put,
    waiting_of,
)
from brokerd.timer.timer_wheel import SLOTS, Slot

logger = logging.getLogger(__name__)

# The event loop serves others after so long; 5 ms of work and then a turn of it keep a burst from delaying sends.
SLICE_NS = 5_000_000
NO_LIMIT = 2**31 - 1  # of messages in a slot (timerCongestNumEachSlot)
IDLE_S = 0.1
RETRY_S = 1.0  # after a message that could not be put: a full disk
UNITS_AT_ONCE = 32
BLANK_SLOTS = 60
SAVE_IDLE_MS = 60_000  # a start reads the slots since then
DELETE_FILES_MS = 30_000
COUNTED_MS = 1_000  # messages a second are those of the last whole one


class TimerMessageService:
    """The timer of this broker."""

    def __init__(self, root: Path, log_file_bytes: int, precision_ms: int, roll_window_slots: int) -> None:
        self.precision_ms = precision_ms
        self.files = TimerFiles(root, log_file_bytes, precision_ms)
        self.metrics = TimerMetrics(root / "config" / "timermetrics")
        self._window_ms = window_slots(roll_window_slots) * precision_ms
        self.queue_offset = 0  # messages of the timer topic before it are in the wheel
        self.read_ms = 0  # slots before it are done with
        self.write_ms = 0  # what was stored before it is in the wheel: slots before it may be read
        self.is_running = False  # unless timerWheelEnable is false
        self._is_open = False
        self._slice_end_ns = 0
        self._has_put = False
        self._saved_ms = self._next_delete_ms = 0
        self.rates = TimerRates()

    def start(
        self,
        store: MessageStore,
        after_put: Callable[[int], None],
        cold_reads: ColdReads,
        queue_files: QueueFiles,
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        """Recover what waits; what cannot be read now is tried again by `run`."""
        self._store, self._after_put, self._clock = store, after_put, clock
        self._cold_reads, self._queue_files = cold_reads, queue_files
        self.is_running = True
        try:
            self._reopen()
        except OSError as error:
            logger.error("timer messages wait: %s; trying again", error)  # noqa: TRY400

    def _reopen(self) -> None:
        """Find out from the files what is in the wheel and what was delivered. Raises OSError."""
        store, files = self._store, self.files
        self._is_open = False
        files.close()
        saved = files.open(store.commit_log_max_offset)
        floor_ms = self._floor(self._clock())
        self.read_ms = self.write_ms = min(saved.read_ms or floor_ms, floor_ms) if saved else floor_ms
        low, high = store.min_offset(TIMER_TOPIC, QUEUE_ID), store.max_offset(TIMER_TOPIC, QUEUE_ID)
        last = files.last_unit()
        newest = message_of(store, last, waits=True) if last is not None else None
        enqueued = max(saved.queue_offset if saved else 0, newest.record.queue_offset + 1 if newest else 0)
        self.queue_offset = min(max(enqueued, low), high)
        if not files.waiting_count:
            self.metrics.clear()
        self._is_open = True
        if high:
            logger.info(
                "timer continues waiting=%d offset=%d of %d read_ms=%d",
                files.waiting_count, self.queue_offset, high, self.read_ms,
            )  # fmt: skip

    def _floor(self, time_ms: int) -> int:
        return time_ms - time_ms % self.precision_ms

    async def run(self) -> None:
        """Work for ever."""
        while True:
            await asyncio.sleep(IDLE_S)
            try:
                if not self._is_open:
                    self._reopen()
                await self.work()
                self._delete_expired_files()
            except (PutRefused, OSError) as error:
                logger.error("timer messages wait: %s; trying again", error)  # noqa: TRY400
                self._is_open = False
                self._make_visible()
                await asyncio.sleep(RETRY_S)
            self.rates.count(steady_ms())

    async def work(self) -> None:
        """Enqueue what came, and deliver what is due.

        Raises PutRefused, OSError: then the files are to be opened anew.
        """
        self._slice_end_ns = time.monotonic_ns() + SLICE_NS
        floor_ms = self._floor(self._clock())
        if floor_ms < self.write_ms:
            self._turn_back(floor_ms)
        has_more = True
        while has_more:
            has_more = await self._enqueue(floor_ms)
            await self._read_slots()
        self._make_visible()

    def _turn_back(self, floor_ms: int) -> None:
        """The clock was set back: slots are read again when their time comes again. What was delivered is marked."""
        if self.write_ms - floor_ms > self.precision_ms:
            logger.warning("the clock was set back by %d ms: the timer goes back", self.write_ms - floor_ms)
        self.write_ms = floor_ms
        self.read_ms = min(self.read_ms, floor_ms)
        self.files.count_waiting(self.read_ms)

    def is_congested(self, slot_ms: int) -> bool:
        """Whether a slot has more than `timerCongestNumEachSlot`: one more is refused, the surer the more there are.

        Java is most likely to refuse just above the limit (TimerMessageStore.isReject).
        """
        limit = self._store.config.timer_congest_num_each_slot
        over = self.files.wheel.slot(slot_ms).waiting_count - limit if limit < NO_LIMIT else 0
        return over > 0 and over > random.random() * limit

    async def _breathe(self) -> None:
        """Let the event loop serve others when this has worked for long enough."""
        if time.monotonic_ns() >= self._slice_end_ns:
            self._make_visible()
            await asyncio.sleep(0)
            self._slice_end_ns = time.monotonic_ns() + SLICE_NS

    def _make_visible(self) -> None:
        if self._has_put:
            self._has_put = False
            self._after_put(steady_ms())

    # Into the wheel

    async def _enqueue(self, floor_ms: int) -> bool:
        """Bring the next messages of the timer topic into the wheel; True when there are more."""
        await self._breathe()
        store, start = self._store, self.queue_offset
        if (
            store.config.timer_stop_enqueue
        ):  # slots behind write_ms wait too: what they are to hold is not there yet
            return False
        low, high = store.min_offset(TIMER_TOPIC, QUEUE_ID), self._end_offset()
        if start < low:
            logger.error("timer offset moved from=%d to=%d: messages expired", start, low)
            start = self.queue_offset = low
        if start >= high:
            self.write_ms = floor_ms
            return False
        while cold := store.cold_pages(TIMER_TOPIC, QUEUE_ID, start, UNITS_AT_ONCE):
            await self._cold_reads.read(cold)
        news = []
        for offset, size_bytes, _ in store.units(
            TIMER_TOPIC, QUEUE_ID, start, min(high - start, UNITS_AT_ONCE)
        ):
            self.queue_offset += 1
            waiting = waiting_of(store.look_message(offset, size_bytes), offset)
            if waiting is not None and (unit := self._new_unit(waiting, offset, size_bytes)) is not None:
                news.append(unit)
                stored_ms = waiting.store_timestamp_ms
        if news:
            is_first = not self.files.wheel.is_open
            self.files.append(news)
            if is_first:  # Java's start would enqueue everything again without it
                self.files.checkpoint.save(self.progress())
            self.rates.enqueued += len(news)
            self.files.checkpoint.note_enqueued(self.queue_offset)
            self.write_ms = max(self.write_ms, min(self._floor(stored_ms), floor_ms))
        return True

    def _end_offset(self) -> int:
        """Messages of the timer topic before it may come into the wheel."""
        return self._store.max_offset(TIMER_TOPIC, QUEUE_ID)

    def _new_unit(self, waiting: Waiting, offset: int, size_bytes: int) -> NewUnit | None:
        """Count it, and choose its slot: one that is late comes into the next to be read."""
        magic, slot_ms = self._slot_of(waiting, self.write_ms)
        self.metrics.add(waiting.topic, -1 if waiting.is_delete else 1, waiting.store_timestamp_ms)
        slot_ms = max(slot_ms, self.read_ms)
        return NewUnit(magic, self.write_ms, slot_ms, offset, size_bytes, waiting.topic_hash)

    def _slot_of(self, waiting: Waiting, enqueue_ms: int) -> tuple[int, int]:
        """Return magic and slot: one too far for the wheel comes again in time."""
        magic, due_ms = MAGIC_DEFAULT, waiting.deliver_ms
        window_ms, over_ms = self._window_ms, due_ms - enqueue_ms - self._window_ms
        if over_ms >= 0:
            magic |= MAGIC_ROLL
            due_ms = enqueue_ms + (window_ms // 2 if over_ms < window_ms // 3 else window_ms)
        if waiting.is_delete:
            magic |= MAGIC_DELETE
        return magic, self._floor(due_ms)

    # Out of the wheel

    async def _read_slots(self) -> None:
        """Deliver every slot whose time is over."""
        if self._store.config.timer_stop_dequeue:
            return
        end_ms = min(self.write_ms, self.read_ms + SLOTS * self.precision_ms)
        while (slot := self.files.wheel.first_slot(self.read_ms, end_ms)) is not None:
            self.read_ms = slot.time * self.precision_ms
            await self._deliver_slot(slot)
            self.files.is_written = True
            self.read_ms += self.precision_ms
            await self._breathe()
        self.read_ms = self.write_ms

    async def _deliver_slot(self, slot: Slot) -> None:
        """Deliver its messages in the order they came, but for those that were recalled."""
        positions, recalls = array("q"), []
        for position, unit in self.files.log.chain(slot.last):
            if unit.is_delete:
                recalls.append(unit)
            else:
                positions.append(position)
            await self._breathe()
        recalled: dict[str, str] = {}  # key → topic
        for unit in recalls:
            message = await self._message(unit)
            if message is not None:
                properties = message.record.properties
                recalled[properties.get(TimerProperty.DELETE_UNIQUE_KEY, "")] = message.real_topic
        found: set[str] = set()
        for position in reversed(positions):
            key = await self._deliver(position, recalled)
            if key is not None:
                found.add(key)
            await self._breathe()
        for key, topic in recalled.items():
            if key not in found:  # it was counted as one message less
                self.metrics.add(topic, 1, self._clock())
        self.files.waiting_count -= slot.waiting_count

    async def _message(self, unit: TimerUnit) -> TimerMessage | None:
        while True:
            try:
                return message_of(self._store, unit)
            except NotInMemory as missing:
                await self._cold_reads.read(missing.ranges)

    async def _deliver(self, position: int, recalled: Mapping[str, str]) -> str | None:
        """Deliver a unit's message unless it was; returns its key when it was recalled."""
        unit = self.files.log.unit(position)
        message = await self._message(unit) if unit is not None else None
        if unit is None or message is None:
            return None
        if recalled and not unit.is_rolled and message.delete_key in recalled:
            return message.delete_key
        if await self._is_delivered(unit, message):
            return None
        copy = copy_of(unit, message, self._clock())
        while copy is not None:
            try:
                self._put(position, copy)
            except QueueMissing as missing:
                await self._queue_files.make(missing.topic, missing.queue_id)
            except (MessageIllegal, PropertiesSizeExceeded) as error:
                logger.error(  # noqa: TRY400
                    "timer message dropped offset=%d topic=%s: %s", unit.commit_log_offset, copy.topic, error
                )
                break
            else:
                break
        return None

    async def _is_delivered(self, unit: TimerUnit, message: TimerMessage) -> bool:
        while True:
            try:
                return is_delivered(self._store, unit, message)
            except NotInMemory as missing:
                await self._cold_reads.read(missing.ranges)

    def _put(self, position: int, copy: Copy) -> None:
        """Note where the copy goes, then put it there: after a kill the log shows whether it came there."""
        store, now_ms = self._store, self._clock()
        store.make_room(copy.size_bytes_max)
        self.files.log.mark_delivered(position, store.commit_log_max_offset)
        put(store, copy, now_ms)
        self._has_put = True
        self.rates.delivered += 1
        self.metrics.add(copy.message.real_topic, -1, now_ms)

    # Saving

    def progress(self) -> TimerProgress:
        """Return how far it has come, and how much of that is on the disk."""
        saved = self.files.checkpoint.saved
        return TimerProgress(
            self.read_ms,
            saved.log_flushed,
            self.queue_offset,
            self.queue_offset,
            0,
            self._clock(),
            saved.counter,
        )

    @property
    def _has_state(self) -> bool:
        """Whether there is something to save: without a message that ever waited there are no files."""
        return self._is_open and self.files.wheel.is_open

    async def save(self) -> None:
        """Save what changed. Raises OSError, FlushFailed."""
        if not self._has_state:
            return
        now_ms = steady_ms()
        if not self.files.is_written and now_ms - self._saved_ms < SAVE_IDLE_MS:
            return
        self.files.is_written = False
        try:
            await asyncio.to_thread(self._write, self._next_progress(), self.metrics.document())
        except (OSError, FlushFailed):
            self.files.is_written = True
            raise
        self._saved_ms = now_ms

    def save_last(self) -> None:
        """At the broker's stop, before the store closes: what cannot be saved is found again by the next start."""
        if self._has_state:
            try:
                self._write(self._next_progress(), self.metrics.document())
            except (OSError, FlushFailed) as error:
                logger.error("timer not saved at the stop: %s", error)  # noqa: TRY400
        self.files.close()

    def _next_progress(self) -> TimerProgress:
        return replace(
            self.progress(), log_flushed=self.files.log.end, counter=self.files.checkpoint.saved.counter + 1
        )

    def _write(self, progress: TimerProgress, metrics: bytes) -> None:
        """The commit log first: what the timer log names, and what was delivered, must not be lost behind it."""
        self._store.flush()
        self.files.save(progress)
        self.metrics.write(metrics)

    def _delete_expired_files(self) -> None:
        now_ms = steady_ms()
        if now_ms >= self._next_delete_ms:
            self._next_delete_ms = now_ms + DELETE_FILES_MS
            self.files.log.delete_expired(self._store.commit_log_min_offset)

    # Figures

    @property
    def behind_messages(self) -> int:
        """Messages of the timer topic that are not in the wheel yet."""
        if not self.is_running:
            return 0
        return max(0, self._store.max_offset(TIMER_TOPIC, QUEUE_ID) - self.queue_offset)

    @property
    def behind_ms(self) -> int:
        """How late the slot to be read next is."""
        return max(0, self._clock() - self.read_ms) if self.is_running else 0


class TimerRates:
    """Messages a second, of the last whole second."""

    def __init__(self) -> None:
        self.enqueued = self.delivered = 0  # since it was counted
        self.enqueue_tps = self.dequeue_tps = 0.0
        self._counted_ms = 0

    def count(self, elapsed_ms: int) -> None:
        duration_ms = elapsed_ms - self._counted_ms
        if duration_ms >= COUNTED_MS:
            self.enqueue_tps = self.enqueued * 1000 / duration_ms
            self.dequeue_tps = self.delivered * 1000 / duration_ms
            self.enqueued = self.delivered = 0
            self._counted_ms = elapsed_ms


def window_slots(configured: int) -> int:
    """Return the slots that a message may wait at once; Java's limits."""
    most = SLOTS // 2 - BLANK_SLOTS
    return configured if 2 <= configured <= most else most
