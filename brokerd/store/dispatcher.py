"""Dispatch: from records of the commit log to consume-queue units and index entries.

Source: `DefaultMessageStore.ReputMessageService`, reference store-format §5.1, §5.2 and §13. Java reads the
log again in a thread; here the writer notes what dispatch needs, and one call per read of a socket works off
all notes (hot-path.md rule 21). Recovery feeds it from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from brokerd.remoting.message.java_hash import tags_code
from brokerd.remoting.message.names import SCHEDULE_TOPIC
from brokerd.store.index.key_index import KeyIndex
from brokerd.store.log.record import (
    DELAY,
    TAGS,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    find_property,
)
from brokerd.store.queue.consume_queue import ConsumeQueue

OnArrival = Callable[[str, int, int, int], None]  # topic, queue_id, new max offset, tags_code


# (queue, queue offset, commit log offset, size, tags code, store timestamp ms, sys flag, properties):
# a plain tuple, as one is made per message.
Note = tuple[ConsumeQueue, int, int, int, int, int, int, bytes]
NOTE_QUEUE: Final = 0
NOTE_OFFSET: Final = 2


def gets_unit(sys_flag: int) -> bool:
    """Only ordinary and committed messages appear in a consume queue."""
    return sys_flag & TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT)


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
    """Works off notes in log order. Caller: the store's single writer."""

    def __init__(self, key_index: KeyIndex | None, on_arrival: OnArrival | None) -> None:
        self.pending: deque[Note] = deque()
        # (commit log offset, store time in ms): every record before it was dispatched. One tuple, because the
        # flush reads it in another thread.
        self.dispatched = (0, 0)
        self._key_index = key_index
        self._on_arrival = on_arrival

    @property
    def first_offset(self) -> int | None:
        """The commit log offset of the first record that waits; None when none does."""
        return self.pending[0][NOTE_OFFSET] if self.pending else None

    def dispatch_until(self, end_offset: int) -> int:
        """Dispatch noted records that end at or before `end_offset`; return how many."""
        pending = self.pending
        count = 0
        key_index, on_arrival = self._key_index, self._on_arrival
        while pending:
            queue, queue_offset, offset, size_bytes, code, timestamp_ms, sys_flag, properties = pending[0]
            record_end = offset + size_bytes
            if record_end > end_offset:
                break
            dispatched = (record_end, timestamp_ms)
            has_unit = not sys_flag & TRANSACTION_MASK or gets_unit(sys_flag)
            if has_unit:
                queue.append(queue_offset, offset, size_bytes, code)
            if key_index is not None:
                key_index.put_record(queue, offset, timestamp_ms, sys_flag, properties)
            # Removed only now: when a file cannot be made (OSError) the note stays for the next call.
            pending.popleft()
            count += 1
            if on_arrival is not None and has_unit:
                on_arrival(queue.topic, queue.queue_id, queue_offset + 1, code)
        if count:
            if key_index is not None:
                key_index.finish_batch()
            self.dispatched = dispatched
        return count

    def index_recovered(
        self, queue: ConsumeQueue, offset: int, store_timestamp_ms: int, sys_flag: int, properties: bytes
    ) -> None:
        """Index a record that recovery found; `finish_recovery` must follow."""
        if self._key_index is not None:
            self._key_index.put_record(queue, offset, store_timestamp_ms, sys_flag, properties)

    def drop_topic(self, topic: str, log_max_offset: int) -> None:
        """Drop the notes of a deleted topic."""
        kept = [note for note in self.pending if note[NOTE_QUEUE].topic != topic]
        self.pending.clear()
        self.pending.extend(kept)
        if not kept:
            _, timestamp_ms = self.dispatched
            self.dispatched = (log_max_offset, timestamp_ms)

    def finish_recovery(self, log_max_offset: int, store_timestamp_ms: int) -> None:
        self.dispatched = (log_max_offset, store_timestamp_ms)
        if self._key_index is not None:
            self._key_index.finish_batch()
