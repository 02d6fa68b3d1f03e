"""Transactions on a small store with a clock of its own, one producer, and kills."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from brokerd.clients.producer_manager import ProducerChannelInfo, ProducerManager
from brokerd.config import BrokerConfig, LiveConfig, NamesrvConfig
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.header.headers import EndTransactionRequestHeader
from brokerd.remoting.message.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, MessageProperty, SysFlag
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.message_store import MessageStore
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.topic_config import TopicConfigManager
from brokerd.timer.timer_message import Parking
from brokerd.transaction.half_message import half_of_send
from brokerd.transaction.transaction_service import TransactionService
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.store.stores import BORN_HOST, NOW_MS, STORE_HOST, kill, small_config

GROUP, TOPIC = "shop", "Paid"
TIME_OUT_MS, INTERVAL_MS, CHECK_MAX = 6_000, 30_000, 3
RETENTION_MS = 72 * 3_600_000
COMMIT, ROLLBACK = int(SysFlag.TRANSACTION_COMMIT), int(SysFlag.TRANSACTION_ROLLBACK)


class Place(NamedTuple):
    """Where a copy of a half message is, as clients name it."""

    queue_offset: int
    commit_log_offset: int


class TransactionWorld:
    def __init__(self, root: Path, *, has_producer: bool = True) -> None:
        self.root = root
        self.now_ms = NOW_MS
        self.producers = ProducerManager()
        self.channel = MemoryChannel()
        if has_producer:
            self.producers.register(GROUP, ProducerChannelInfo(self.channel, "c1", "JAVA", 479, 0))
        self.config = LiveConfig(
            BrokerConfig(
                transaction_time_out=TIME_OUT_MS,
                transaction_check_interval=INTERVAL_MS,
                transaction_check_max=CHECK_MAX,
            ),
            NamesrvConfig(),
        )
        self.offsets = ConsumerOffsetManager(root / "consumerOffset.json", NOW_MS)
        self.open()

    def open(self) -> None:
        self.store = MessageStore(small_config(self.root / "store", mapped_file_size_commit_log=16_384))
        self.store.open(self.now_ms)
        topics = TopicConfigManager(self.root / "topics.json", self.config, 18, self.now_ms)
        self.service = TransactionService(
            self.config, lambda: RETENTION_MS, topics, self.offsets, self.producers
        )
        parking = Parking(self.config, 18, 1_000)
        self.service.start(self.store, STORE_HOST, parking, self.now_ms, self.now_ms)

    def kill(self) -> None:
        """Kill the broker, whose offsets were saved when it last had time to, and start it again."""
        kill(self.store)
        self.open()

    def restart(self) -> None:
        self.service.save_last(self.now_ms)
        self.store.close(self.now_ms)
        self.open()

    def close(self) -> None:
        self.store.close(self.now_ms)

    def send(self, key: str = "k", **properties: str) -> Place:
        half = half_of_send(
            TOPIC,
            0,
            f"body of {key}".encode(),
            {
                MessageProperty.UNIQ_KEY: key,
                MessageProperty.TAGS: "red",
                MessageProperty.PRODUCER_GROUP: GROUP,
                MessageProperty.TRANSACTION_PREPARED: "true",
                **properties,
            },
            flag=7,
            sys_flag=SysFlag.TRANSACTION_PREPARED,
            born_timestamp_ms=self.now_ms,
            born_host=BORN_HOST,
            store_host=STORE_HOST,
            reconsume_times=0,
        )
        result = self.service.put_half(half, self.now_ms)
        self.store.dispatch_pending()
        return Place(result.queue_offset, result.commit_log_offset)

    def end(self, place: Place, decision: int, *, group: str = GROUP, from_check: bool = False) -> int:
        """The response code of END_TRANSACTION."""
        header = EndTransactionRequestHeader(
            group, place.queue_offset, place.commit_log_offset, decision, from_transaction_check=from_check
        )
        try:
            self.service.end(header, self.now_ms)
        except MQBrokerError as error:
            return error.code
        finally:
            self.store.dispatch_pending()
        return 0

    def resume(self, place: Place) -> int:
        """The response code of RESUME_CHECK_HALF_MESSAGE."""
        try:
            self.service.resume(place.commit_log_offset, self.now_ms)
        except MQBrokerError as error:
            return error.code
        finally:
            self.store.dispatch_pending()
        return 0

    def wait(self, duration_ms: int = INTERVAL_MS) -> list[RemotingCommand]:
        """Let time pass, a tick a second; returns the checks that the producer got."""
        self.channel.written.clear()
        for _ in range(duration_ms // 1_000):
            self.now_ms += 1_000
            self.service.tick(self.now_ms, self.now_ms)
            self.store.dispatch_pending()
            self.store.flush()
        return self.channel.sent

    def check_of(self, key: str) -> RemotingCommand:
        """The last check of a transaction."""
        return next(check for check in reversed(self.channel.sent) if check.ext_fields["msgId"] == key)

    def records(self, topic: str) -> list[MessageRecord]:
        units: list[tuple[int, int, int]] = []
        while part := self.store.units(topic, 0, len(units), 1_000):  # of one file at a time
            units += part
        views = [self.store.look_message(offset, size) for offset, size, _ in units]
        return [decode_record(view, check_crc=True) for view in views if view is not None]

    def visible(self) -> list[str]:
        """Unique keys of what consumers see."""
        return [record.message_id for record in self.records(TOPIC)]

    def given_up(self) -> list[MessageRecord]:
        return self.records(CHECK_MAX_TIME_TOPIC)

    def newest(self) -> Place:
        record = self.records(HALF_TOPIC)[-1]
        return Place(record.queue_offset, record.commit_log_offset)


def place_of(check: RemotingCommand) -> Place:
    fields = check.ext_fields
    return Place(int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"]))
