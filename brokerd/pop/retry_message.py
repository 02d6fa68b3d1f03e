"""Messages that a group did not acknowledge, put to its POP retry topic with one more attempt counted.

Source: `PopReviveService.reviveRetry`. Raises what the store raises: PutRefused, QueueMissing, OSError.
"""

from __future__ import annotations

import logging

from brokerd.config import LiveConfig
from brokerd.pop.checkpoint import Checkpoint, GroupQueue
from brokerd.remoting.errors import RemotingError
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX, MessageProperty, SysFlag, is_light
from brokerd.remoting.message.pop_handle import normal_topic, pop_retry_topic
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.cold_pages import FileRange
from brokerd.store.errors import MessageIllegal, PropertiesSizeExceeded
from brokerd.store.log.record import read_properties
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.light_queues import number_in
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.topic_config import TopicConfigManager

logger = logging.getLogger(__name__)

RETRY_QUEUES = 1  # PopAckConstants.retryQueueNum
QUEUE_ID = 0
KEPT_FLAGS = ~(SysFlag.TRANSACTION_MASK | SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)


def is_at(record: MessageRecord, view: memoryview, topic: str, offset: int) -> bool:
    """Return whether a message is the one at an offset of a topic's queue, or of a light queue that it is in."""
    if record.topic == topic:
        return record.queue_offset == offset
    return is_light(topic) and number_in(topic, read_properties(view)) == offset


class RetryMessages:
    """Reads messages by the offsets of a checkpoint and puts them again. Single-threaded: the broker's event loop."""

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        topics: TopicConfigManager,
        offsets: ConsumerOffsetManager,
        store_host: tuple[str, int],
    ) -> None:
        self._config = config
        self._store = store
        self._topics, self._offsets = topics, offsets
        self._store_host = store_host

    def has_topic(self, queue: GroupQueue) -> bool:
        return self._topics.get(normal_topic(queue.topic, queue.group)) is not None

    def cold_pages(self, checkpoint: Checkpoint) -> list[FileRange]:
        topic, queue_id = checkpoint.key.topic, checkpoint.key.queue_id
        return [
            cold
            for offset in checkpoint.unacked
            for cold in self._store.cold_pages(topic, queue_id, offset, 1)
        ]

    def put(self, checkpoint: Checkpoint, offsets: list[int], now_ms: int) -> None:
        """Put the messages at some of a checkpoint's offsets. One that is not there any more is passed over."""
        key = checkpoint.key
        topic = key.topic
        if not topic.startswith(RETRY_TOPIC_PREFIX):
            is_v2 = self._config.broker.enable_retry_topic_v2
            topic = pop_retry_topic(topic, key.group, is_v2=is_v2)
        self._store.table.find_or_create(topic, QUEUE_ID)  # QueueMissing before anything is put
        if self._topics.get(topic) is None:
            self._topics.create_for_send_back(topic, RETRY_QUEUES, now_ms)
            if self._offsets.committed(key.group, topic, QUEUE_ID) is None:
                self._offsets.commit(key.group, topic, QUEUE_ID, 0, now_ms)
        for offset in offsets:
            record = self._record(key.topic, key.queue_id, offset)
            if record is not None:
                self._put(topic, record, key.pop_time_ms, now_ms)

    def _record(self, topic: str, queue_id: int, offset: int) -> MessageRecord | None:
        units = self._store.units(topic, queue_id, offset, 1)
        view = self._store.look_message(*units[0][:2]) if units else None
        try:
            record = None if view is None else decode_record(view, check_crc=True)
        except RemotingError as error:
            logger.error("popped message is damaged topic=%s offset=%d: %s", topic, offset, error)  # noqa: TRY400
            return None
        if view is None or record is None or not is_at(record, view, topic, offset):
            logger.warning("popped message expired topic=%s queue_id=%d offset=%d", topic, queue_id, offset)
            return None
        return record

    def _put(self, topic: str, record: MessageRecord, pop_time_ms: int, now_ms: int) -> None:
        properties = dict(record.properties)
        if record.reconsume_times == 0 or MessageProperty.FIRST_POP_TIME not in properties:
            properties[MessageProperty.FIRST_POP_TIME] = str(pop_time_ms)
        try:
            self._store.put_message(
                topic,
                QUEUE_ID,
                record.body,
                encode_properties(properties),
                tag_code(record.tags) if record.tags else 0,
                flag=record.flag,
                sys_flag=record.sys_flag & KEPT_FLAGS,
                born_timestamp_ms=record.born_timestamp_ms,
                born_host=self._store_host,
                store_host=self._store_host,
                reconsume_times=record.reconsume_times + 1,
                now_ms=now_ms,
            )
        except (MessageIllegal, PropertiesSizeExceeded) as error:
            # It will be refused for ever; the others must not wait for it.
            logger.error(  # noqa: TRY400
                "popped message dropped topic=%s offset=%d: %s", topic, record.queue_offset, error
            )
