"""Owns the topics: which exist, how many queues they have, what is allowed on them; saved as config/topics.json.

Source: semantics §1.3 and §1.9, protocol §3.11 (`TopicConfigManager.java`). Every change is saved before it is
answered and told to the name servers through `on_change`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

from brokerd import config_manager
from brokerd.config import LiveConfig
from brokerd.remoting.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from brokerd.remoting.codes import Permission
from brokerd.remoting.message import RETRY_TOPIC_PREFIX
from brokerd.remoting.message_names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC

logger = logging.getLogger(__name__)

DEFAULT_TOPIC = "TBW102"  # the template of automatically created topics
DEAD_LETTER_QUEUE_NUMS = 1
READ_WRITE = Permission.READ | Permission.WRITE
QUEUE_NUMS_MAX = 100_000  # one folder and one mapped file each; a mistyped number must not fill the disk
TOPICS_MAX = 50_000  # beyond, sends make no more: each is a folder per queue and a part of topics.json

# Clients may not send to these (semantics §1.9).
NOT_SENDABLE = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)


class TopicConfigManager:
    """The topic table. Single-threaded: the broker's event loop."""

    def __init__(self, path: Path, config: LiveConfig, delay_level_count: int, now_ms: int) -> None:
        self._path = path
        self._config = config
        self.topics: dict[str, TopicConfig] = {}
        self.data_version = DataVersion(timestamp=now_ms, counter=0)
        self.on_change: Callable[[list[TopicConfig]], None] = lambda _: None
        self.on_delete: Callable[[str], None] = lambda _: None
        loaded = config_manager.load(path, TopicConfigSerializeWrapper.from_body)
        if loaded is not None:
            self.topics.update(loaded.topic_config_table)
            self.data_version = loaded.data_version
        self._add_system_topics(delay_level_count)

    def _add_system_topics(self, delay_level_count: int) -> None:
        """The topics a broker makes at start (protocol §3.11); a stored setting of one of them is kept."""
        config = self._config.broker
        cluster, broker = config.broker_cluster_name, config.broker_name
        template = Permission.INHERIT | READ_WRITE
        queue_nums = config.default_topic_queue_nums
        wanted = [
            ("SELF_TEST_TOPIC", 1, READ_WRITE),
            ("BenchmarkTest", 1024, READ_WRITE),
            (cluster, 16, Permission.INHERIT | (READ_WRITE if config.cluster_topic_enable else 0)),
            (broker, 1, Permission.INHERIT | (READ_WRITE if config.broker_topic_enable else 0)),
            ("OFFSET_MOVED_EVENT", 1, READ_WRITE),
            (SCHEDULE_TOPIC, delay_level_count, READ_WRITE),
            (f"{cluster}_REPLY_TOPIC", 1, READ_WRITE),
            (HALF_TOPIC, 1, READ_WRITE),
            (OP_HALF_TOPIC, 1, READ_WRITE),
        ]
        if config.auto_create_topic_enable:
            wanted.append((DEFAULT_TOPIC, queue_nums, template))
        if config.trace_topic_enable:
            wanted.append((config.msg_trace_topic_name, 1, READ_WRITE))
        self.system_topics = {name for name, _, _ in wanted} | {DEFAULT_TOPIC}
        for name, queues, perm in wanted:
            if name not in self.topics:
                self.topics[name] = topic_config(name, queues, perm)

    def get(self, topic: str) -> TopicConfig | None:
        return self.topics.get(topic)

    def create_in_send(
        self, topic: str, default_topic: str, client_queue_nums: int, now_ms: int
    ) -> TopicConfig | None:
        """Make `topic` from the template a producer names; None when the template does not allow it (§1.3)."""
        template = self.topics.get(default_topic)
        if template is None:
            return None
        if len(self.topics) >= TOPICS_MAX:
            logger.warning("topic not created topic=%s: %d topics exist already", topic, TOPICS_MAX)
            return None
        perm = template.perm
        if default_topic == DEFAULT_TOPIC and not self._config.broker.auto_create_topic_enable:
            perm &= ~Permission.INHERIT
        if not perm & Permission.INHERIT:
            logger.warning("topic not created topic=%s: template %s has no inherit bit", topic, default_topic)
            return None
        queue_nums = max(1, min(client_queue_nums, template.write_queue_nums))
        created = topic_config(topic, queue_nums, perm & ~Permission.INHERIT)
        logger.info("topic created by a send topic=%s queues=%d", topic, queue_nums)
        return self.put(created, now_ms)

    def create_for_send_back(
        self, topic: str, queue_nums: int, now_ms: int, *, order: bool = False
    ) -> TopicConfig:
        """The `%RETRY%` or `%DLQ%` topic of a group, made at the first need."""
        existing = self.topics.get(topic)
        if existing is not None and existing.order == order:
            return existing
        if existing is not None:
            return self.put(dataclasses.replace(existing, order=order), now_ms)
        logger.info("topic created topic=%s queues=%d", topic, queue_nums)
        return self.put(dataclasses.replace(topic_config(topic, queue_nums, READ_WRITE), order=order), now_ms)

    def create_retry_topic_of_send(self, topic: str, now_ms: int) -> TopicConfig | None:
        """A send to a missing `%RETRY%` topic makes it with one queue (§1.3)."""
        if not topic.startswith(RETRY_TOPIC_PREFIX):
            return None
        return self.create_for_send_back(topic, 1, now_ms)

    def put(self, config: TopicConfig, now_ms: int) -> TopicConfig:
        self.put_all([config], now_ms)
        return config

    def put_all(self, configs: list[TopicConfig], now_ms: int) -> None:
        """Store new or changed topics, save, tell the name servers. Raises OSError, and changes nothing, when it
        cannot be saved.
        """
        before = dict(self.topics)
        for config in configs:
            self.topics[config.topic_name] = config
        self._save(before, now_ms)
        self.on_change(configs)

    def delete(self, topic: str, now_ms: int) -> bool:
        """False when there is no such topic. Raises OSError as put_all."""
        if topic not in self.topics:
            return False
        before = dict(self.topics)
        del self.topics[topic]
        self._save(before, now_ms)
        logger.info("topic deleted topic=%s", topic)
        self.on_delete(topic)
        return True

    def _save(self, before: dict[str, TopicConfig], now_ms: int) -> None:
        version = self.data_version
        self.data_version = dataclasses.replace(version, timestamp=now_ms, counter=version.counter + 1)
        try:
            self.persist()
        except (OSError, TypeError, ValueError, OverflowError):  # the disk's, or a number JSON cannot hold
            # In place: the send path holds on to this very dict.
            self.topics.clear()
            self.topics.update(before)
            self.data_version = version
            raise

    def wrapper(self) -> TopicConfigSerializeWrapper:
        return TopicConfigSerializeWrapper(
            data_version=self.data_version, topic_config_table=dict(self.topics)
        )

    def persist(self) -> None:
        config_manager.write_atomically(self._path, config_manager.indented(self.wrapper().to_body()))


def topic_config(name: str, queue_nums: int, perm: int) -> TopicConfig:
    return TopicConfig(
        topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=int(perm)
    )
