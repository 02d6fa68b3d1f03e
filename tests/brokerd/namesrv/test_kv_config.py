from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from brokerd.namesrv import kv_config
from brokerd.namesrv.kv_config import KvConfigManager


def test_it_sets_and_deletes_values(tmp_path: Path) -> None:
    table = KvConfigManager(tmp_path / "kvConfig.json")
    table.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    assert (table.get("ORDER_TOPIC_CONFIG", "T"), table.get("ORDER_TOPIC_CONFIG", "U")) == (
        "broker-a:4",
        None,
    )
    assert table.namespace("ORDER_TOPIC_CONFIG") == {"T": "broker-a:4"}
    table.delete("ORDER_TOPIC_CONFIG", "T")
    assert table.namespace("ORDER_TOPIC_CONFIG") is None


def test_it_takes_over_a_saved_table(tmp_path: Path) -> None:
    table = KvConfigManager(tmp_path / "kvConfig.json")
    table.load(b'{"configTable":{"n":{"k":"v"}}}')
    assert table.get("n", "k") == "v"
    with pytest.raises(msgspec.DecodeError):
        table.load(b"{")


def test_it_holds_a_limited_number_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 1)
    table = KvConfigManager(tmp_path / "kvConfig.json")
    table.put("n", "k", "1")
    table.put("n", "k", "2")
    with pytest.raises(OverflowError, match="1 entries are stored already"):
        table.put("n", "other", "3")
    assert table.namespace("n") == {"k": "2"}
