"""The topics: which exist, how many queues they have, what is allowed on them; config/topics.json.

Source: semantics §1.3 and §1.9, protocol §3.11 (`TopicConfigManager.java`). A change is in force at once, goes to the
name servers through `on_change` and is written soon after (table_file); answers that promise it wait for that.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from brokerd.config import LiveConfig
from brokerd.remoting.body.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from brokerd.remoting.codes import Permission
from brokerd.remoting.message.names import (
    CHECK_MAX_TIME_TOPIC,
    DLQ_TOPIC_PREFIX,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_TOPIC_PREFIX,
    REVIVE_QUEUES,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_light,
    reply_topic,
    revive_topic,
)
from brokerd.tables import config_manager
from brokerd.tables.table_file import EntryTexts, TableFile
from brokerd.tables.unserved_topics import is_in_batches, read_static_topics, reason_of

logger = logging.getLogger(__name__)

DEFAULT_TOPIC = "TBW102"  # the template of automatically created topics
DEAD_LETTER_QUEUE_NUMS = 1
CLIENT_QUEUE_NUMS = 4  # what a producer requests for a new topic (`DefaultMQProducer.defaultTopicQueueNums`)
READ_WRITE = Permission.READ | Permission.WRITE
QUEUE_NUMS_MAX = 100_000  # one folder and one mapped file each; a mistyped number must not fill the disk
TOPICS_MAX = 50_000  # beyond, sends make no more: each is a folder per queue and a part of topics.json

# Clients may not send to these (semantics §1.9).
NOT_SENDABLE = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        TIMER_TOPIC,  # Java lets clients send there, and its timer stops for ever at a message without a time
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)


class TopicConfigManager:
    """The topic table. Single-threaded: the broker's event loop."""

    def __init__(
        self,
        path: Path,
        config: LiveConfig,
        delay_level_count: int,
        now_ms: int,
        *,
        has_light_queues: bool = False,
    ) -> None:
        self._config = config
        self._has_light_queues = has_light_queues
        self._texts = EntryTexts()
        self.file = TableFile(path, self._document)
        # A message made a topic: its sender is answered when the topic is in the file; the answering code clears this.
        self.is_made_by_message = False
        self.topics: dict[str, TopicConfig] = {}
        self.data_version = DataVersion(timestamp=now_ms, counter=0)
        self.on_change: Callable[[list[TopicConfig]], None] = lambda _: None
        self.on_delete: Callable[[str], None] = lambda _: None
        loaded = config_manager.load(path, TopicConfigSerializeWrapper.from_body)
        if loaded is not None:
            self.topics.update(loaded.topic_config_table)
            self.data_version = loaded.data_version
        self._add_system_topics(delay_level_count)
        self._static_topics = read_static_topics(path.parent)
        self.unserved: dict[str, str] = {}  # topics of an Apache store that are refused, with the reason
        self._find_unserved()
        for name, topic in self.topics.items():
            self._texts.put(name, EntryTexts.encode(name, topic))

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
            (reply_topic(cluster), 1, READ_WRITE),
            (TIMER_TOPIC, 1, READ_WRITE),
            (HALF_TOPIC, 1, READ_WRITE),
            (OP_HALF_TOPIC, 1, READ_WRITE),
            (revive_topic(cluster), REVIVE_QUEUES, READ_WRITE),
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
        """A light queue is a topic of one queue that no table holds."""
        config = self.topics.get(topic)
        if config is None and self._has_light_queues and is_light(topic):
            return topic_config(topic, 1, READ_WRITE)
        return config

    def _find_unserved(self) -> None:
        reasons = {name: reason_of(config, self._static_topics) for name, config in self.topics.items()}
        found = {name: reason for name, reason in reasons.items() if reason}
        for name in found.keys() - self.unserved.keys():
            logger.warning("%s", found[name])
        self.unserved = found

    def is_in_batches(self, topic: str) -> bool:
        """Return whether the topic may have no queues of the ordinary kind."""
        config = self.topics.get(topic)
        return config is not None and is_in_batches(config)

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
        self.is_made_by_message = True
        return self.put(created, now_ms)

    def create_for_send_back(
        self, topic: str, queue_nums: int, now_ms: int, *, order: bool = False
    ) -> TopicConfig:
        """Return the `%RETRY%` or `%DLQ%` topic of a group, made at the first need."""
        existing = self.topics.get(topic)
        if existing is not None and existing.order == order:
            return existing
        if existing is not None:
            return self.put(dataclasses.replace(existing, order=order), now_ms)
        logger.info("topic created topic=%s queues=%d", topic, queue_nums)
        return self.put(dataclasses.replace(topic_config(topic, queue_nums, READ_WRITE), order=order), now_ms)

    def adopt(self, queue_counts: Mapping[str, int], now_ms: int) -> None:
        """Make topics that the store has messages of: their settings could not be saved before the last end.

        Clients may have been given more queues than those with messages: it gets what a send would have given it.
        Light queues have no settings.
        """
        missing = {
            topic: queues
            if topic.startswith((RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX))
            else max(queues, self._queues_of_send())
            for topic, queues in queue_counts.items()
            if topic not in self.topics and not is_light(topic)
        }
        for topic, queues in sorted(missing.items()):
            logger.warning("topic made anew, its messages are here topic=%s queues=%d", topic, queues)
        if missing:
            self.put_all(
                [topic_config(topic, queues, READ_WRITE) for topic, queues in missing.items()], now_ms
            )

    def _queues_of_send(self) -> int:
        template = self.topics.get(DEFAULT_TOPIC)
        return 1 if template is None else min(CLIENT_QUEUE_NUMS, template.write_queue_nums)

    def create_retry_topic_of_send(self, topic: str, now_ms: int) -> TopicConfig | None:
        """Make the missing `%RETRY%` topic of a send with one queue (semantics §1.3)."""
        if not topic.startswith(RETRY_TOPIC_PREFIX):
            return None
        return self.create_of_message(topic, 1, now_ms)

    def create_of_message(self, topic: str, queue_nums: int, now_ms: int) -> TopicConfig:
        """As create_for_send_back, for a message whose sender must not get its answer before the topic is saved."""
        self.is_made_by_message |= topic not in self.topics
        return self.create_for_send_back(topic, queue_nums, now_ms)

    def put(self, config: TopicConfig, now_ms: int) -> TopicConfig:
        self.put_all([config], now_ms)
        return config

    def put_all(self, configs: list[TopicConfig], now_ms: int) -> None:
        """Store new or changed topics and announce them.

        Raises TypeError, and changes nothing, for what JSON cannot hold.
        """
        texts = [(config, EntryTexts.encode(config.topic_name, config)) for config in configs]
        for config, text in texts:
            self.topics[config.topic_name] = config
            self._texts.put(config.topic_name, text)
        self._changed(now_ms)
        self.on_change(configs)

    def delete(self, topic: str, now_ms: int) -> bool:
        """Delete a topic; False when it does not exist."""
        if self.topics.pop(topic, None) is None:
            return False
        self._texts.remove(topic)
        self._changed(now_ms)
        logger.info("topic deleted topic=%s", topic)
        self.on_delete(topic)
        return True

    def follow(self, master: TopicConfigSerializeWrapper) -> list[str]:
        """Take over a master's table, on its slave; return the topics that are gone.

        Those that a broker makes for itself stay.
        Raises TypeError, and changes nothing, for what JSON cannot hold.
        """
        if master.data_version == self.data_version:
            return []
        texts = {name: EntryTexts.encode(name, topic) for name, topic in master.topic_config_table.items()}
        gone = self.topics.keys() - texts.keys() - self.system_topics
        for name in gone:
            del self.topics[name]
            self._texts.remove(name)
        self.topics.update(master.topic_config_table)
        for name, text in texts.items():
            self._texts.put(name, text)
        self.data_version = master.data_version
        self._find_unserved()
        self.file.changed()
        self.on_change(list(master.topic_config_table.values()))
        for name in gone:
            self.on_delete(name)
        return sorted(gone)

    def announce(self, now_ms: int) -> None:
        """Announce every topic as changed: what the broker permits has changed."""
        self._changed(now_ms)
        self.on_change(list(self.topics.values()))

    def registered(self, config: TopicConfig) -> TopicConfig:
        """Return a topic as name servers get it: without what the whole broker does not permit.

        Source: `BrokerController.registerBrokerAll` of 5.3.3.
        """
        permission = self._config.broker.broker_permission
        if permission & READ_WRITE == READ_WRITE:
            return config
        return dataclasses.replace(config, perm=config.perm & permission)

    def registration(self) -> bytes:
        """Return the tables of a registration."""
        if self._config.broker.broker_permission & READ_WRITE == READ_WRITE:
            return self.body()
        topics = {name: self.registered(config) for name, config in self.topics.items()}
        return TopicConfigSerializeWrapper(
            topic_config_table=topics, data_version=self.data_version
        ).to_body()

    def _changed(self, now_ms: int) -> None:
        version = self.data_version
        self.data_version = DataVersion(now_ms, version.counter + 1, version.state_version)
        self.file.changed()

    def body(self) -> bytes:
        """Return the answer of GET_ALL_TOPIC_CONFIG (21)."""
        return b'{"dataVersion":%b,"topicConfigTable":{%b}}' % (
            self.data_version.to_body(),
            self._texts.joined(),
        )

    def _document(self) -> Iterator[bytes]:
        version, entries = self.data_version.to_body(), self._texts.pieces()

        def pieces() -> Iterator[bytes]:
            yield b'{\n"dataVersion":%b,\n"topicConfigTable":{\n' % version
            yield from entries
            yield b"\n}\n}\n"

        return pieces()


def topic_config(name: str, queue_nums: int, perm: int) -> TopicConfig:
    return TopicConfig(
        topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=int(perm)
    )
