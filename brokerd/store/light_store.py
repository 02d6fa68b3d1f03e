"""A store with light queues: `enableLmq` and `enableMultiDispatch` are both true.

A message's light queues get their units with its own, from notes that follow its note. The store without them is
unchanged: its puts look for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokerd.remoting.message.names import LIGHT_QUEUE_ID, is_light
from brokerd.store.dispatcher import gets_unit
from brokerd.store.errors import LightQueuesExceeded
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue import ConsumeQueue
from brokerd.store.queue.light_queues import (
    DISPATCH,
    checked_names,
    light_names,
    takes_light,
    with_offsets,
    without_offsets,
)
from brokerd.store.results import BatchMessage, BatchResult, PutResult

NUMBERS_BYTES = 1_024  # of fifty light queues, which a put adds to a message's properties


class LightMessageStore(MessageStore):
    """As MessageStore; single messages whose INNER_MULTI_DISPATCH names light queues go there too."""

    # Of a message that names no light queue: what is below costs it 2 µs.
    put_ordinary = MessageStore.put_message

    def check_light(self, topic: str, names: str) -> None:
        """Check what a producer names, before a message waits too. Raises MessageIllegal, LightQueuesExceeded."""
        new = [name for name in checked_names(topic, names) if (name, LIGHT_QUEUE_ID) not in self._queues]
        if not new:
            return
        present, most = (
            sum(is_light(topic) for topic, _ in self._queues),
            self.config.max_lmq_consume_queue_num,
        )
        if present + len(new) > most:
            raise LightQueuesExceeded(
                f"[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]{', '.join(new)}: there are {present} light queues already,"
                f" maxLmqConsumeQueueNum={most}"
            )

    def put_message(
        self,
        topic: str,
        queue_id: int,
        body: bytes | memoryview,
        properties: bytes,
        tags_code: int | None = None,
        **fields: Any,
    ) -> PutResult:
        """Raise what `MessageStore.put_message` does; nothing is stored then."""
        queues: list[ConsumeQueue] = []
        if DISPATCH in properties:
            if takes_light(topic) and gets_unit(fields.get("sys_flag", 0)):
                names = light_names(topic, properties)
                queues = [self.table.find_or_create(name, LIGHT_QUEUE_ID) for name in names]
            if queues:
                properties = with_offsets(properties, [queue.next_offset for queue in queues])
            else:
                properties = without_offsets(properties)
        result = super().put_message(topic, queue_id, body, properties, tags_code, **fields)
        if queues:
            _, _, offset, size_bytes, units, stored_ms, _ = self._pending[-1]
            for queue in queues:
                # No keys: the message is in the index under its own topic.
                self._pending.append((queue, queue.next_offset, offset, size_bytes, units, stored_ms, ()))
                queue.next_offset += 1
        return result

    def put_messages(
        self, topic: str, queue_id: int, batch: Sequence[BatchMessage], **fields: Any
    ) -> BatchResult:
        """As in Apache, messages of a batch are in their own queue only."""
        kept = [(body, without_offsets(properties), flag) for body, properties, flag in batch]
        return super().put_messages(topic, queue_id, kept, **fields)

    def make_room(self, size_bytes: int) -> None:
        super().make_room(size_bytes + NUMBERS_BYTES)
