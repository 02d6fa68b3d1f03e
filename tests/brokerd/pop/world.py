"""POP on a small store with a clock of its own, and kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from brokerd.clients.pull_request_hold import PullRequestHoldService
from brokerd.config import BrokerConfig, LiveConfig, NamesrvConfig
from brokerd.pop.checkpoint import Ack, Checkpoint, CheckpointKey, GroupQueue
from brokerd.pop.pop_service import PopService
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.message_store import MessageStore
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.subscription_group import SubscriptionGroupManager
from brokerd.tables.topic_config import TopicConfigManager, topic_config
from tests.brokerd.store.stores import BORN_HOST, NOW_MS, STORE_HOST, kill, small_config

GROUP, TOPIC, RETRY = "g", "T", "%RETRY%g_T"
INVISIBLE_MS, REVIVE_QUEUE = 10_000, 3
QUEUE = GroupQueue(TOPIC, GROUP, 0)


class PopWorld:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_ms = NOW_MS
        self.config = LiveConfig(BrokerConfig(), NamesrvConfig())
        self.offsets = ConsumerOffsetManager(root / "consumerOffset.json", NOW_MS)
        self.topics = TopicConfigManager(root / "topics.json", self.config, 18, NOW_MS)
        self.topics.put(topic_config(TOPIC, 1, 6), NOW_MS)
        self.groups = SubscriptionGroupManager(root / "subscriptionGroup.json", self.config, NOW_MS)
        self.groups.find_or_create(GROUP, NOW_MS)
        self.open()

    def make_store(self) -> MessageStore:
        return MessageStore(small_config(self.root / "store", mapped_file_size_commit_log=65_536))

    def open(self) -> None:
        self.store = self.make_store()
        self.store.open(self.now_ms)
        self.pops = PopService(
            self.config,
            self.root / "consumerOrderInfo.json",
            self.topics,
            self.groups,
            self.offsets,
            PullRequestHoldService(),
        )
        self.pops.start(self.store, STORE_HOST, self.now_ms)

    def kill(self) -> None:
        """Kill the broker, whose offsets were saved when it last had time to, and start it again."""
        kill(self.store)
        self.open()

    def restart(self) -> None:
        self.pops.save_last(self.now_ms)
        self.store.close(self.now_ms)
        self.open()

    def close(self) -> None:
        self.store.close(self.now_ms)

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self.store.put_message(
                TOPIC,
                0,
                body,
                encode_properties({"TAGS": "red", "UNIQ_KEY": body.decode()}),
                born_timestamp_ms=self.now_ms,
                born_host=BORN_HOST,
                store_host=STORE_HOST,
                now_ms=self.now_ms,
            )
        self.store.dispatch_pending()

    def pop(self, *offsets: int, invisible_ms: int = INVISIBLE_MS) -> Checkpoint:
        key = CheckpointKey(TOPIC, GROUP, 0, offsets[0], self.now_ms, "broker-a")
        checkpoint = Checkpoint(key, invisible_ms, offsets)
        self.pops.put_checkpoint(REVIVE_QUEUE, checkpoint, self.now_ms)
        self.pops.popped(QUEUE, offsets[-1] + 1)
        self.store.dispatch_pending()
        return checkpoint

    def ack(self, checkpoint: Checkpoint, *offsets: int) -> None:
        ack = Ack(checkpoint.key, offsets)
        self.pops.acknowledge(REVIVE_QUEUE, ack, checkpoint.revive_ms, self.now_ms)
        self.store.dispatch_pending()

    def wait(self, ms: int = 0) -> None:
        """Let time pass, and the broker's ticks with it."""
        for _ in range(3):
            self.now_ms += ms // 3 + 1
            self.pops.tick(self.now_ms, self.now_ms)
            self.store.dispatch_pending()

    def retried(self) -> list[MessageRecord]:
        units: Sequence[tuple[int, int, int]] = self.store.units(RETRY, 0, 0, 1_000)
        views = [self.store.look_message(offset, size) for offset, size, _ in units]
        return [decode_record(view) for view in views if view is not None]

    @property
    def retried_bodies(self) -> list[bytes]:
        return [record.body for record in self.retried()]
