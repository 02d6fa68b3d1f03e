"""Dispatch: from records of the commit log to consume-queue units and index entries.

Source: `DefaultMessageStore.ReputMessageService`, reference store-format §5.1, §5.2 and §13. Java reads the
log again in a thread; here the writer notes what dispatch needs, and one call per read of a socket works off
all notes (hot-path.md rule 21). Recovery feeds it from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from brokerd.remoting.message.java_hash import tags_code
from brokerd.remoting.message.names import SCHEDULE_TOPIC
from brokerd.store.index.key_index import KeyedRecord, KeyIndex
from brokerd.store.log.record import (
    DELAY,
    TAGS,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
    find_property,
)
from brokerd.store.queue.consume_queue import CQ_UNIT, UNIT_BYTES, ConsumeQueue


class Arrivals(Protocol):
    """Takes notice of messages that got their place in a queue."""

    @property
    def is_awaited(self) -> bool:
        """Whether a pull or a pop waits for a message. Asked once per read: if not, nothing is noted of each."""

    def notify_arrival(self, topic: str, queue_id: int, new_max_offset: int, tags_code: int) -> None: ...


# (queue, queue offset, commit log offset, size, units, store timestamp ms, what is indexed) of a message, or of a
# batch by its first message; no units for what consumers never see. A plain tuple, as one is made per message.
Note = tuple[ConsumeQueue, int, int, int, bytes, int, Sequence[KeyedRecord]]
# Keys wait for each other, for a query or for the next tenth of a second: together they cost half.
INDEX_AT_ONCE = 256
NOTE_QUEUE: Final = 0
NOTE_QUEUE_OFFSET: Final = 1
NOTE_OFFSET: Final = 2
NOTE_UNITS: Final = 4


def gets_unit(sys_flag: int) -> bool:
    """Only ordinary and committed messages appear in a consume queue."""
    return sys_flag & TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT)


def has_keys(sys_flag: int) -> bool:
    """Whether a record is in the key index: all but rollbacks are."""
    return sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


def dispatch_tags_code(
    topic: str, properties: bytes, store_timestamp_ms: int, delay_levels_ms: tuple[int, ...]
) -> int:
    """Return the tagsCode of a unit: the hash of TAGS; of a waiting delayed message its delivery time in ms."""
    if topic == SCHEDULE_TOPIC:
        level_text = find_property(properties, DELAY)
        if level_text.isdigit() and int(level_text) > 0:
            level = min(int(level_text), len(delay_levels_ms))
            return store_timestamp_ms + delay_levels_ms[level - 1]
    return tags_code(find_property(properties, TAGS))


class Dispatcher:
    """Works off notes in log order: units at once, keys later and many together. Caller: the store's single writer."""

    def __init__(self, key_index: KeyIndex | None, arrivals: Arrivals | None) -> None:
        self.pending: deque[Note] = deque()
        # (commit log offset, store time in ms): every record before it has its unit and its keys. One tuple, because
        # the flush reads it in another thread.
        self.dispatched = (0, 0)
        self._units_reach = (0, 0)  # the same for units alone
        self._unindexed: list[KeyedRecord] = []
        self._key_index = key_index
        self._arrivals = arrivals

    @property
    def first_offset(self) -> int | None:
        """The commit log offset of the first record that waits for its unit; None when none does."""
        return self.pending[0][NOTE_OFFSET] if self.pending else None

    @property
    def is_done(self) -> bool:
        """Whether every noted record has its unit and its keys."""
        return not self.pending and not self._unindexed

    def dispatch_until(self, end_offset: int) -> int:
        """Give noted records that end at or before `end_offset` their units; return how many.

        Their keys follow with `index_pending`, here where INDEX_AT_ONCE wait.
        """
        pending, arrivals = self.pending, self._arrivals
        on_arrival = arrivals.notify_arrival if arrivals is not None and arrivals.is_awaited else None
        unindexed = self._unindexed if self._key_index is not None else None
        reach, count = self._units_reach, 0
        try:
            while pending:
                queue, queue_offset, offset, size_bytes, units, timestamp_ms, keyed = pending[0]
                record_end = offset + size_bytes
                if record_end > end_offset:
                    break
                if units:
                    queue.append_units(queue_offset, units, record_end)
                # Removed only now: when a file cannot be made (OSError) the note stays for the next call.
                pending.popleft()
                if unindexed is not None:
                    unindexed += keyed
                reach = (record_end, timestamp_ms)
                count += len(units) // UNIT_BYTES or 1
                if on_arrival is not None:
                    for number, (_, _, code) in enumerate(CQ_UNIT.iter_unpack(units), queue_offset + 1):
                        on_arrival(queue.topic, queue.queue_id, number, code)
        finally:
            self._units_reach = reach
        if unindexed is None:
            self.dispatched = self._units_reach
        elif len(unindexed) >= INDEX_AT_ONCE:
            self.index_pending()
        return count

    def index_pending(self) -> None:
        """Index the keys of all records that have their units. Raises OSError: they wait for the next call."""
        if self._unindexed and self._key_index is not None:
            self._key_index.put_records(self._unindexed)
            self._unindexed.clear()
        self.dispatched = self._units_reach

    def index_recovered(
        self, queue: ConsumeQueue, offset: int, store_timestamp_ms: int, sys_flag: int, properties: bytes
    ) -> None:
        """Index a record that recovery found; `finish_recovery` must follow. Raises OSError."""
        if self._key_index is not None and has_keys(sys_flag):
            self._unindexed.append((queue, offset, store_timestamp_ms, properties))
            if len(self._unindexed) >= INDEX_AT_ONCE:
                self._key_index.put_records(self._unindexed)
                self._unindexed.clear()

    def drop_topic(self, topic: str, log_max_offset: int) -> None:
        """Drop the notes of a deleted topic; keys of what has its unit stay, as those of its older records."""
        kept = [note for note in self.pending if note[NOTE_QUEUE].topic != topic]
        self.pending.clear()
        self.pending.extend(kept)
        if not kept:
            _, timestamp_ms = self._units_reach
            self._units_reach = (log_max_offset, timestamp_ms)
            if not self._unindexed:
                self.dispatched = self._units_reach

    def finish_recovery(self, log_max_offset: int, store_timestamp_ms: int) -> None:
        """Raises OSError."""
        self._units_reach = (log_max_offset, store_timestamp_ms)
        self.index_pending()
