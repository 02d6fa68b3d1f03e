"""Stores that Apache 5.3.3 left, stopped and killed: what waits is found and delivered once, and files stay Java's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokerd.remoting.message.names import TIMER_TOPIC
from tests.brokerd.store.stores import GOLDEN, unpack_golden
from tests.brokerd.timer.world import TimerWorld

LOG_BYTES = 1_040_000
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 65536,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 1000,
    "max_index_num": 200,
    "max_message_size": 32768,
}


class GoldenWorld(TimerWorld):
    """A captured store, opened a second after its last message was stored."""

    def open(self) -> None:
        stored = json.loads((self.root.parent / "expected.json").read_text())["messages"]
        self.now_ms = max(message["storeTimestamp"] for message in stored) + 1_000
        super().open()


@pytest.mark.parametrize("version", ["5.3.3", "5.3.3-unclean"])
def test_what_waits_in_javas_store_is_delivered_once(tmp_path: Path, version: str) -> None:
    expected = (GOLDEN / version / "expected.json").read_text()
    (tmp_path / "expected.json").write_text(expected)
    *_, waiting = (m for m in json.loads(expected)["messages"] if m["topic"] == TIMER_TOPIC)
    real = waiting["properties"]
    world = GoldenWorld(unpack_golden(version, tmp_path / "store"), **SETTINGS)
    assert (world.timer.queue_offset, world.waiting()) == (2, 1)
    topic, queue_id = real["REAL_TOPIC"], int(real["REAL_QID"])
    count = world.store.max_offset(topic, queue_id)
    world.restart()
    world.kill()
    assert world.waiting() == 1
    world.now_ms = int(real["TIMER_OUT_MS"]) + 999
    world.work()
    assert world.store.max_offset(topic, queue_id) == count
    world.wait(5_001)
    assert (world.store.max_offset(topic, queue_id), world.waiting()) == (count + 1, 0)
    (copy,) = world.records(topic, queue_id, count)
    assert copy.properties.items() > real.items()
    world.stop()
