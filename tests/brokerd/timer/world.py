"""A timer on a small store with a clock of its own, kills and power cuts."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from brokerd.cold_reads import ColdReads
from brokerd.config import BrokerConfig, LiveConfig, NamesrvConfig
from brokerd.queue_files import QueueFiles
from brokerd.remoting.message.names import MessageProperty, TimerProperty
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.message_store import MessageStore
from brokerd.store.results import PutResult
from brokerd.timer.timer_message import Parking, delete_key
from brokerd.timer.timer_service import TimerMessageService
from tests.brokerd.store.stores import BORN_HOST, NOW_MS, STORE_HOST, kill, small_config

TOPIC = "Later"
TIMER_LOG_BYTES = 52 * 100 + 16
PRECISION_MS = 1_000


class TimerWorld:
    def __init__(
        self, root: Path, *, roll_window_slots: int = 172_800, now_ms: int = NOW_MS, **store_settings: Any
    ) -> None:
        self.root = root
        self.now_ms = now_ms
        self.config = LiveConfig(BrokerConfig(), NamesrvConfig())
        self._roll_window_slots = roll_window_slots
        self._store_settings = {"mapped_file_size_commit_log": 65_536} | store_settings
        self.open()

    def open(self) -> None:
        self.store = MessageStore(small_config(self.root, **self._store_settings))
        self.store.open(self.now_ms)
        self.timer = TimerMessageService(self.root, TIMER_LOG_BYTES, PRECISION_MS, self._roll_window_slots)
        self.timer.start(
            self.store, self._after_put, ColdReads(), QueueFiles(self.store), lambda: self.now_ms
        )

    def _after_put(self, began_ms: int) -> None:
        self.store.dispatch_pending()

    def kill(self) -> None:
        """Kill the broker, at the moment of the last call, and start it again."""
        kill(self.store)
        self.timer.files.close()
        self.open()

    def restart(self) -> None:
        self.stop()
        self.open()

    def stop(self) -> None:
        self.timer.save_last()
        self.store.close(self.now_ms)

    def snapshot(self, to: Path) -> None:
        """What the disk has, if power goes at this moment."""
        shutil.copytree(self.root, to, ignore=shutil.ignore_patterns("lock"))

    def send(self, key: str, topic: str = TOPIC, **properties: str) -> PutResult:
        """As a producer does: with one of the three properties for a time."""
        return self._put(
            topic,
            {MessageProperty.UNIQ_KEY: key, MessageProperty.TAGS: "red", **properties},
            f"body of {key}",
        )

    def send_in(self, delay_ms: int, key: str = "k") -> PutResult:
        return self.send(key, TIMER_DELIVER_MS=str(self.now_ms + delay_ms))

    def recall(self, key: str, deliver_ms: int, topic: str = TOPIC) -> None:
        """As RECALL_MESSAGE does for a message that is due with `deliver_ms`."""
        self._put(
            topic,
            {
                TimerProperty.DELETE_UNIQUE_KEY: delete_key(topic, key),
                MessageProperty.UNIQ_KEY: key,
                MessageProperty.TIMER_DELIVER_MS: str(deliver_ms),
            },
            "0",
        )

    def _put(self, topic: str, properties: dict[str, str], body: str) -> PutResult:
        parking = Parking(self.config, 18, PRECISION_MS)
        stored_topic, queue_id = parking.park(properties, topic, 0, self.now_ms)
        result = self.store.put_message(
            stored_topic,
            queue_id,
            body.encode(),
            encode_properties(properties),
            born_timestamp_ms=self.now_ms,
            born_host=BORN_HOST,
            store_host=STORE_HOST,
            now_ms=self.now_ms,
        )
        self.store.dispatch_pending()
        return result

    def work(self) -> None:
        asyncio.run(self.timer.work())

    def save(self) -> None:
        asyncio.run(self.timer.save())

    def wait(self, duration_ms: int, step_ms: int = 1_000) -> None:
        """Let time pass."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + step_ms, end_ms)
            self.work()

    def records(self, topic: str = TOPIC, queue_id: int = 0, start: int = 0) -> list[MessageRecord]:
        units: list[tuple[int, int, int]] = []
        while part := self.store.units(topic, queue_id, start + len(units), 1_000):  # of one file at a time
            units += part
        views = [self.store.look_message(offset, size) for offset, size, _ in units]
        return [decode_record(view, check_crc=True) for view in views if view is not None]

    def delivered(self, topic: str = TOPIC) -> list[str]:
        return [record.message_id for record in self.records(topic)]

    def waiting(self) -> int:
        return self.timer.files.waiting_count
