"""The thorough flush: queues and index on the disk, and a note of how far they reach.

Order matters, as the writer continues meanwhile: `take_note`, then `sync`, then `save`. A note only covers what was
there before the sync began.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.store.dispatcher import Dispatcher
from brokerd.store.files.checkpoint import StoreCheckpoint
from brokerd.store.index.key_index import KeyIndex
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.queue.consume_queue_table import ConsumeQueueTable, Manifest


@dataclass(frozen=True, slots=True)
class Note:
    """What a sync that follows makes durable."""

    dispatched_offset: int  # queues and index hold everything of the records before it
    dispatched_ms: int  # the store time of the last of them
    manifest: Manifest
    index_file: int  # the newest index file and the number of its next entry
    index_count: int


class DerivedFlush:
    """Syncs what is built from the log. Caller: any one thread at a time."""

    def __init__(
        self, log: CommitLog, table: ConsumeQueueTable, key_index: KeyIndex, dispatcher: Dispatcher
    ) -> None:
        self._log = log
        self._table = table
        self._key_index = key_index
        self._dispatcher = dispatcher

    def take_note(self) -> Note:
        """How far dispatch is, then lengths and entries, which reach further, then the log's end, further still."""
        offset, timestamp_ms = self._dispatcher.dispatched
        lengths = self._table.lengths()
        index_file, index_count = self._key_index.newest_file_and_count()
        manifest = Manifest(offset, self._log.max_offset, lengths)
        return Note(offset, timestamp_ms, manifest, index_file, index_count)

    def sync(self, least_bytes: int = 1) -> None:
        """Sync queues with enough dirty bytes and full index files; the newest too with `least_bytes` 1.

        Raises OSError: then what was written may be lost.
        """
        for queue in self._table:
            if queue.dirty_bytes >= least_bytes:
                try:
                    queue.flush()
                except FileNotFoundError:
                    if self._table.queues.get((queue.topic, queue.queue_id)) is queue:  # not a deleted topic
                        raise
        if least_bytes == 1:
            self._key_index.flush_all()
        else:
            self._key_index.flush_full_files()

    def save(self, note: Note, checkpoint: StoreCheckpoint) -> None:
        """Write down what `sync` made durable. Raises OSError: then less is written down than is true."""
        self._table.write_manifest(note.manifest)
        checkpoint.logics_msg_timestamp_ms = note.dispatched_ms
        checkpoint.index_msg_timestamp_ms = self._key_index.safe_timestamp_ms
        checkpoint.derived_flushed(note.dispatched_offset, note.index_file, note.index_count)
        checkpoint.flush()
