from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokerd.store.store_config import MessageStoreConfig, parse_delete_when

ROOT = Path("store")


def test_it_has_rocketmq_defaults_and_folders() -> None:
    config = MessageStoreConfig(ROOT)
    assert config.mapped_file_size_commit_log == 1073741824
    assert config.mapped_file_size_consume_queue == 6000000
    assert config.commit_log_dir == ROOT / "commitlog"
    assert config.consume_queue_dir == ROOT / "consumequeue"
    assert config.index_dir == ROOT / "index"
    assert not config.is_sync_flush
    assert len(config.delay_levels_ms) == 18
    assert config.delay_levels_ms[:5] == (1000, 5000, 10000, 30000, 60000)
    assert config.delay_levels_ms[-1] == 7_200_000


def test_it_knows_the_java_key_of_a_setting() -> None:
    keys = MessageStoreConfig.keys()
    assert keys["flushDiskType"] == "flush_disk_type"
    assert keys["maxMessageSize"] == "max_message_size"
    assert "prefaultBytes" not in keys


def test_it_takes_a_commit_log_elsewhere() -> None:
    assert MessageStoreConfig(ROOT, Path("fast/log")).commit_log_dir == Path("fast/log")


@pytest.mark.parametrize(
    "changes",
    [
        {"flush_disk_type": "SOMETIMES"},
        {"mapped_file_size_commit_log": 100},
        {"mapped_file_size_consume_queue": 30},
        {"max_index_num": 1},
        {"max_hash_slot_num": 0},
        {"prefault_bytes": 1},
        {"message_delay_level": "1s 5x"},
        {"message_delay_level": ""},
        {"delete_when": "24"},
        {"delete_when": "four"},
    ],
)
def test_it_refuses_settings_it_cannot_work_with(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        MessageStoreConfig(ROOT, **changes)


def test_it_reads_the_hours_of_deletion() -> None:
    assert parse_delete_when("04;16") == {4, 16}
