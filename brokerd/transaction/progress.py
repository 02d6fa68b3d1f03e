"""How far transactions are done with, as offsets of CID_RMQ_SYS_TRANS: where a start, of either broker, begins to read.

Every half message before its offset is done with; every op message before its offset is about such a one. An offset is
handed to the table of offsets only when the log is on the disk as far as it was when the offset was found: the file of
offsets must not outlive, in a power cut, the op message that it relies on.
"""

from __future__ import annotations

from typing import NamedTuple

from brokerd.remoting.message.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from brokerd.store.message_store import MessageStore
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.transaction.half_store import QUEUE_ID
from brokerd.transaction.waiting_halves import WaitingHalves


class Progress(NamedTuple):
    half_offset: int
    op_offset: int


class TransactionProgress:
    """Single-threaded: the broker's event loop."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsetManager, waiting: WaitingHalves) -> None:
        self._store = store
        self._offsets = offsets
        self._waiting = waiting
        self._saved = self.start()
        # Op messages before `op_offset` are about half messages before `half_offset`.
        self._mark = self.ends()
        self._op_offset = self._saved.op_offset
        self._found: tuple[int, Progress] | None = None  # end of the log, progress

    def start(self) -> Progress:
        """Return where to begin to read; what was never saved begins with the first message there is."""
        return Progress(self._start_of(HALF_TOPIC), self._start_of(OP_HALF_TOPIC))

    def _start_of(self, topic: str) -> int:
        low, high = self._store.min_offset(topic, QUEUE_ID), self._store.max_offset(topic, QUEUE_ID)
        return min(max(self._offsets.committed(TRANSACTION_GROUP, topic, QUEUE_ID) or 0, low), high)

    def ends(self) -> Progress:
        """Return the offsets after the last messages."""
        return Progress(
            self._store.max_offset(HALF_TOPIC, QUEUE_ID), self._store.max_offset(OP_HALF_TOPIC, QUEUE_ID)
        )

    def save(self, now_ms: int) -> None:
        """Hand over what was found when it is safe, and find out how far it is now."""
        if self._found is not None:
            log_end, progress = self._found
            if self._store.flushed_offset < log_end:
                return
            self._hand_over(progress, now_ms)
        self._found = (self._store.commit_log_max_offset, self._find())

    def save_last(self, now_ms: int) -> None:
        """The same at the broker's stop, when everything is flushed."""
        self._hand_over(self._find(), now_ms)

    def _find(self) -> Progress:
        ends = self.ends()
        lowest = self._waiting.lowest_offset
        half_offset = ends.half_offset if lowest is None else min(lowest, ends.half_offset)
        if half_offset >= self._mark.half_offset:
            self._op_offset = self._mark.op_offset
            self._mark = ends
            if half_offset >= ends.half_offset:
                self._op_offset = ends.op_offset
        return Progress(half_offset, self._op_offset)

    def _hand_over(self, progress: Progress, now_ms: int) -> None:
        if progress == self._saved:
            return
        for topic, offset in zip((HALF_TOPIC, OP_HALF_TOPIC), progress, strict=True):
            self._offsets.commit(TRANSACTION_GROUP, topic, QUEUE_ID, offset, now_ms)
        self._saved = progress
