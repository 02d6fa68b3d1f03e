"""The queues of `rmq_sys_REVIVE_LOG_<cluster>` in the message store: checkpoints and acknowledgements as messages.

Raises what the store raises: PutRefused, QueueMissing, OSError. Single-threaded: the broker's event loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokerd.pop.checkpoint import (
    CHECKPOINT_TAG,
    Ack,
    Checkpoint,
    ack_body,
    ack_tag,
    checkpoint_body,
    unique_key_of_ack,
    unique_key_of_checkpoint,
)
from brokerd.remoting.errors import RemotingError
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.names import MessageProperty, revive_topic
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.cold_pages import FileRange
from brokerd.store.message_store import MessageStore

CHECKPOINT_EARLY_MS = 1_000  # PopAckConstants.ackTimeInterval
READ_AT_ONCE = 500


class ReviveLog:
    """Puts and reads. The property TIMER_DELIVER_MS is what Apache's broker reads its progress in time from."""

    def __init__(self, store: MessageStore, cluster: str, store_host: tuple[str, int]) -> None:
        self._store = store
        self.topic = revive_topic(cluster)
        self._store_host = store_host

    def need_queue(self, queue_id: int) -> None:
        """Raise QueueMissing before anything is stored: what follows may not happen twice."""
        self._store.table.find_or_create(self.topic, queue_id)

    def put_checkpoint(self, queue_id: int, checkpoint: Checkpoint, now_ms: int) -> int:
        """Return the offset in its queue."""
        deliver_ms = checkpoint.revive_ms - CHECKPOINT_EARLY_MS
        unique_key = unique_key_of_checkpoint(checkpoint.key)
        return self._put(
            queue_id, CHECKPOINT_TAG, unique_key, deliver_ms, checkpoint_body(checkpoint), now_ms
        )

    def put_ack(self, queue_id: int, ack: Ack, revive_ms: int, now_ms: int) -> int:
        """Return the offset in its queue; `revive_ms` is the checkpoint's."""
        return self._put(queue_id, ack_tag(ack), unique_key_of_ack(ack), revive_ms, ack_body(ack), now_ms)

    def _put(
        self, queue_id: int, tag: str, unique_key: str, deliver_ms: int, body: bytes, now_ms: int
    ) -> int:
        properties = {
            MessageProperty.TAGS: tag,
            MessageProperty.UNIQ_KEY: unique_key,
            MessageProperty.TIMER_DELIVER_MS: str(deliver_ms),
        }
        return self._store.put_message(
            self.topic,
            queue_id,
            body,
            encode_properties(properties),
            tag_code(tag),
            born_timestamp_ms=now_ms,
            born_host=self._store_host,
            store_host=self._store_host,
            now_ms=now_ms,
        ).queue_offset

    def offsets(self, queue_id: int) -> tuple[int, int]:
        """Return the first offset that is there, and the one after the last that can be read."""
        return self._store.min_offset(self.topic, queue_id), self._store.max_offset(self.topic, queue_id)

    def cold_pages(self, queue_id: int, offset: int) -> list[FileRange]:
        return self._store.cold_pages(self.topic, queue_id, offset, READ_AT_ONCE)

    def read(self, queue_id: int, offset: int) -> Iterator[MessageRecord | None]:
        """Read records from an offset on; None for one that is damaged or has expired. Waits for the disk."""
        for number, (commit_log_offset, size_bytes, _) in enumerate(
            self._store.units(self.topic, queue_id, offset, READ_AT_ONCE), offset
        ):
            view = self._store.look_message(commit_log_offset, size_bytes)
            try:
                record = None if view is None else decode_record(view, check_crc=True)
            except RemotingError:
                record = None
            is_of_queue = record is not None and (record.topic, record.queue_offset) == (self.topic, number)
            yield record if is_of_queue else None
