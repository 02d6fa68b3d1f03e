"""Delayed delivery by level: messages parked in SCHEDULE_TOPIC_XXXX are put to their real topic when due.

Source: semantics §5 (`ScheduleMessageService.java`). Queue id = level − 1; within a queue messages are due in
order, so only the head of each queue matters. Progress per level is saved in delayOffset.json; after a crash the
messages since the last save are delivered again (at least once).

When the wall clock is set forward, what waits is delivered earlier by as much. Set back, it is delivered later by as
much, but never later than its level's whole delay from then on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from brokerd.remoting.body import fastjson
from brokerd.remoting.errors import CorruptRecord, RemotingError
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.names import HALF_TOPIC, SCHEDULE_TOPIC, MessageProperty
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.cold_pages import FileRange
from brokerd.store.errors import MessageIllegal, PropertiesSizeExceeded, StoreError
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue_table import QueueMissing
from brokerd.tables import config_manager

ReadAhead = Callable[[list[FileRange]], Future[None]]
MakeQueue = Callable[[str, int], asyncio.Future[None]]

logger = logging.getLogger(__name__)

# Messages of one level, and of all, delivered per round of 100 ms: a backlog must not hold up the event loop for more
# than 20 ms of it, nor one level the others.
LEVEL_MAX, ROUND_MAX = 200, 1_000
DELAY_DIGITS_MAX = 9  # levels are two digits; int() refuses numbers of thousands
READ_MAX = 32
RETRY_AFTER_MS = 10_000  # after a message that could not be put
LOOK_AGAIN_MS = 1_000


class ScheduleMessageService:
    """Delivers what is due. Single-threaded: the broker's event loop calls deliver_due every 100 ms."""

    def __init__(self, path: Path, delay_levels_ms: Sequence[int]) -> None:
        self._path = path
        self.delay_levels_ms = tuple(delay_levels_ms)
        self.offsets: dict[int, int] = config_manager.load(path, parse_offsets) or {}
        self._look_again_ms: dict[int, int] = {}  # level → when, by the monotonic clock
        self._next_level = 1
        self.damaged_count = 0  # messages passed over since the start
        self._is_dirty = False
        self._store: MessageStore | None = None
        self._read_ahead: ReadAhead | None = None
        self._make_queue: MakeQueue | None = None
        # Level → what it waits for: messages from the disk, or a queue for the next one.
        self._reading: dict[int, Future[None] | asyncio.Future[None]] = {}

    @property
    def max_level(self) -> int:
        return len(self.delay_levels_ms)

    def start(
        self, store: MessageStore, read_ahead: ReadAhead | None = None, make_queue: MakeQueue | None = None
    ) -> None:
        """Bring saved offsets back into the range of what the store holds."""
        self._store = store
        self._read_ahead, self._make_queue = read_ahead, make_queue
        for level in range(1, self.max_level + 1):
            low, high = (
                store.min_offset(SCHEDULE_TOPIC, level - 1),
                store.max_offset(SCHEDULE_TOPIC, level - 1),
            )
            offset = self.offsets.get(level)
            if offset is not None and not low <= offset <= high:
                logger.warning(
                    "delay offset corrected level=%d from=%d range=%d-%d", level, offset, low, high
                )
                self.offsets[level] = min(max(offset, low), high)

    def follow(self, offsets_body: bytes) -> None:
        """Take over a master's progress (45), on its slave. Raises BodyError."""
        offsets = parse_offsets(offsets_body)
        if offsets != self.offsets:
            self.offsets = offsets
            self._is_dirty = True

    def deliver_due(self, store: MessageStore, now_ms: int, elapsed_ms: int) -> int:
        """Put every due message to its topic, within the limits; returns how many. The caller dispatches.

        Messages are due by the wall clock (`now_ms`), levels wait by the monotonic one (`elapsed_ms`).
        """
        delivered = 0
        for _ in range(self.max_level):
            if delivered >= ROUND_MAX:
                break  # the next round begins with the level this one did not come to
            level = self._next_level
            self._next_level = level % self.max_level + 1
            if elapsed_ms >= self._look_again_ms.get(level, elapsed_ms):
                self._look_again_ms.pop(level, None)
                delivered += self._deliver_level(store, level, now_ms, elapsed_ms)
        return delivered

    def _deliver_level(self, store: MessageStore, level: int, now_ms: int, elapsed_ms: int) -> int:
        """Read as often as it takes: one read gives 32 messages."""
        total = 0
        while total < LEVEL_MAX and level not in self._look_again_ms:
            delivered = self._deliver_read(store, level, now_ms, elapsed_ms, min(READ_MAX, LEVEL_MAX - total))
            if not delivered:
                break
            total += delivered
        return total

    def _deliver_read(
        self, store: MessageStore, level: int, now_ms: int, elapsed_ms: int, count_max: int
    ) -> int:
        """Return how many were delivered or passed over; a level that has to wait is kept in _look_again_ms."""
        queue_id = level - 1
        offset = self.offsets.get(level, 0)
        low = store.min_offset(SCHEDULE_TOPIC, queue_id)
        if offset < low:
            logger.warning("delay offset moved level=%d from=%d to=%d: messages expired", level, offset, low)
            self._advance(level, low)
            offset = low
        if self._waits_for_disk(store, level, offset, count_max, elapsed_ms):
            return 0
        done = 0
        for commit_log_offset, size_bytes, due_ms in store.units(SCHEDULE_TOPIC, queue_id, offset, count_max):
            wait_ms = self._wait_ms(level, due_ms, now_ms)
            if wait_ms > 0:
                # At least once a second, so that a change of the wall clock is detected.
                self._look_again_ms[level] = elapsed_ms + min(wait_ms, LOOK_AGAIN_MS)
                break
            record = self._read(store, level, commit_log_offset, size_bytes)
            try:
                is_delivered = record is None or self._deliver(store, record, now_ms)
            except QueueMissing as missing:
                assert self._make_queue is not None
                self._reading[level] = self._make_queue(missing.topic, missing.queue_id)
                self._look_again_ms[level] = elapsed_ms
                break
            if not is_delivered:
                self._look_again_ms[level] = elapsed_ms + RETRY_AFTER_MS
                break
            done += 1
            self._advance(level, offset + done)
        return done

    def _waits_for_disk(
        self, store: MessageStore, level: int, offset: int, count_max: int, elapsed_ms: int
    ) -> bool:
        """Messages wait for up to hours: they are read ahead in a thread, and the next tick delivers them."""
        if self._read_ahead is None:
            return False
        reading = self._reading.get(level)
        if reading is not None:
            self._look_again_ms[level] = elapsed_ms
            if not reading.done():
                return True
            del self._reading[level]
            if reading.exception() is not None:
                logger.error("delayed messages cannot be delivered level=%d: %s", level, reading.exception())
                self._look_again_ms[level] = elapsed_ms + RETRY_AFTER_MS
                return True
            del self._look_again_ms[level]
        cold = store.cold_pages(SCHEDULE_TOPIC, level - 1, offset, count_max)
        if cold:
            self._reading[level] = self._read_ahead(cold)
            self._look_again_ms[level] = elapsed_ms
        return bool(cold)

    def _wait_ms(self, level: int, due_ms: int, now_ms: int) -> int:
        """Return how long a message of this level is still to wait.

        One that is due later than the level's whole delay from now on was stored before the clock was set back: it
        is due now, as in Java (`correctDeliverTimestamp`).
        """
        wait_ms = due_ms - now_ms
        return wait_ms if wait_ms <= self.delay_levels_ms[level - 1] else 0

    def _read(
        self, store: MessageStore, level: int, commit_log_offset: int, size_bytes: int
    ) -> MessageRecord | None:
        """The waiting message; None, with a log line, for one that is damaged: the level must not wait for it."""
        view = store.look_message(commit_log_offset, size_bytes)
        if view is None:
            logger.warning("delayed message expired level=%d offset=%d", level, commit_log_offset)
            return None
        try:
            record = decode_record(view, check_crc=True)
            if (record.commit_log_offset, record.topic) != (commit_log_offset, SCHEDULE_TOPIC):
                raise CorruptRecord(f"it names offset {record.commit_log_offset} in {record.topic}")
        except RemotingError as error:
            self.damaged_count += 1
            logger.error(  # noqa: TRY400
                "delayed message passed over level=%d offset=%d: it is damaged (%s)",
                level, commit_log_offset, error,
            )  # fmt: skip
            return None
        return record

    def _deliver(self, store: MessageStore, record: MessageRecord, now_ms: int) -> bool:
        """Put one message; False to try again later.

        One that can never be put is dropped with a log line; it stays readable in SCHEDULE_TOPIC_XXXX.
        """
        properties = dict(record.properties)
        topic = properties.get(MessageProperty.REAL_TOPIC)
        queue_text = properties.get(MessageProperty.REAL_QUEUE_ID, "0")
        if not topic or topic == HALF_TOPIC or not queue_text.isdecimal():
            logger.error(
                "delayed message dropped offset=%d: its real topic is %r", record.commit_log_offset, topic
            )
            return True
        try:
            store.put_message(
                topic,
                int(queue_text),
                record.body,
                encode_properties(properties),
                tag_code(record.tags),
                flag=record.flag,
                sys_flag=record.sys_flag,
                born_timestamp_ms=record.born_timestamp_ms,
                born_host=record.born_host,
                store_host=record.store_host,
                reconsume_times=record.reconsume_times,
                now_ms=now_ms,
            )
        except (MessageIllegal, PropertiesSizeExceeded) as error:
            # It will be refused for ever; the level's other messages must not wait for it.
            logger.error(  # noqa: TRY400
                "delayed message dropped offset=%d topic=%s: %s", record.commit_log_offset, topic, error
            )
            return True
        except (StoreError, OSError) as error:
            logger.warning("delayed message not delivered topic=%s: %s; trying again", topic, error)
            return False
        return True

    def _advance(self, level: int, offset: int) -> None:
        self.offsets[level] = offset
        self._is_dirty = True

    def take_document(self) -> bytes | None:
        """Return what is to be saved, or None when nothing changed since the last call."""
        if not self._is_dirty:
            return None
        self._is_dirty = False
        return self.document()

    def document(self) -> bytes:
        return config_manager.encode_document({"offsetTable": self.offsets})

    def write(self, document: bytes) -> None:
        """Save what take_document returned; runs in a thread. Raises OSError or FlushFailed; call mark_dirty then.

        The copies that were delivered reach the disk first: a power cut must not take them and leave the offset.
        """
        assert self._store is not None
        self._store.flush()
        config_manager.write_atomically(self._path, document)

    def mark_dirty(self) -> None:
        self._is_dirty = True


def parse_offsets(content: bytes) -> dict[int, int]:
    table = fastjson.loads(content)["offsetTable"]
    return {int(level): int(offset) for level, offset in table.items()}


def park(properties: dict[str, str], topic: str, queue_id: int, max_level: int) -> tuple[str, int]:
    """Redirect a message with `DELAY` > 0 to the schedule topic; returns (topic, queue id) and notes the real ones."""
    text = properties.get(MessageProperty.DELAY, "")
    level = int(text[:DELAY_DIGITS_MAX]) if text.isdecimal() else 0
    if level <= 0:
        return topic, queue_id
    level = min(level, max_level)
    properties[MessageProperty.DELAY] = str(level)
    properties[MessageProperty.REAL_TOPIC] = topic
    properties[MessageProperty.REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1
