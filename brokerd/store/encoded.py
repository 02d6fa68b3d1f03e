"""Records that were encoded outside the store: where they go, and how they get in."""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.store.dispatcher import NOTE_QUEUE, NOTE_QUEUE_OFFSET, NOTE_UNITS, Dispatcher, Note
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.queue.consume_queue import UNIT_BYTES, ConsumeQueue


class EncodedRecords:
    """Appends what the compiled functions made of sends, as `put_message` would have. Caller: the single writer."""

    def __init__(
        self, log: CommitLog, queues: Mapping[tuple[str, int], ConsumeQueue], dispatcher: Dispatcher
    ) -> None:
        self._log = log
        self._pending = dispatcher.pending
        self.queues = queues

    def place(self, now_ms: int) -> tuple[int, int, int]:
        """(commit log offset, bytes that may be appended there, store time in ms) for what comes next."""
        log = self._log
        stored_ms = now_ms if now_ms >= log.last_store_timestamp_ms else log.store_time(now_ms)
        return log.max_offset, log.room, stored_ms

    def append(self, records: bytes, notes: list[Note], stored_ms: int) -> None:
        """Append records encoded for `place`, all or none, and note them for dispatch."""
        self._log.append(records, stored_ms)
        for note in notes:
            note[NOTE_QUEUE].next_offset = note[NOTE_QUEUE_OFFSET] + len(note[NOTE_UNITS]) // UNIT_BYTES
        self._pending.extend(notes)
