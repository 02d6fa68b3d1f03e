from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.files.checkpoint import DurablePoint, StoreCheckpoint


def test_it_writes_five_longs_into_a_page(tmp_path: Path) -> None:
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    checkpoint.physic_msg_timestamp_ms = 1_800_000_000_000
    checkpoint.logics_msg_timestamp_ms = 1_800_000_000_001
    checkpoint.index_msg_timestamp_ms = 5
    checkpoint.flush()
    data = (tmp_path / "checkpoint").read_bytes()
    assert len(data) == 4096
    assert data[:24].hex() == "000001a3185c5000" + "000001a3185c5001" + "0000000000000005"
    assert data[24:] == bytes(4072)


def test_it_reads_them_back_and_keeps_what_it_does_not_use(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"".join(number.to_bytes(8) for number in (1, 2, 3, 4, 5)).ljust(4096, b"\0"))
    checkpoint = StoreCheckpoint(path)
    checkpoint.physic_msg_timestamp_ms = 9
    checkpoint.flush()
    again = StoreCheckpoint(path)
    assert again.physic_msg_timestamp_ms == 9
    assert (again.logics_msg_timestamp_ms, again.index_msg_timestamp_ms) == (2, 3)
    assert (again.master_flushed_offset, again.confirm_offset) == (4, 5)


@pytest.mark.parametrize("data", [None, b"", b"\0" * 7])
def test_it_counts_a_missing_or_short_file_as_zero(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "checkpoint").write_bytes(data)
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    assert checkpoint.physic_msg_timestamp_ms == 0
    assert checkpoint.min_timestamp_ms == 0


def test_it_is_safe_three_seconds_before_the_older_of_two_times(tmp_path: Path) -> None:
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    checkpoint.physic_msg_timestamp_ms = 10_000
    checkpoint.logics_msg_timestamp_ms = 8_000
    assert checkpoint.min_timestamp_ms == 5_000


def test_it_keeps_the_durable_point_behind_the_times(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = StoreCheckpoint(path)
    assert checkpoint.point is None
    checkpoint.log_flushed(0x0102030405, 1_800_000_000_000)
    checkpoint.derived_flushed(77, 20270115080000123, 5)
    checkpoint.flush()
    data = path.read_bytes()
    assert data[:8].hex() == "000001a3185c5000"
    assert data[40:448] == bytes(408)
    assert data[448:460].hex() == "544d4450" + "0000000102030405"
    assert data[460:480].hex() == "000000000000004d" + "0048038ff0e6527b" + "00000005"
    assert data[484:] == bytes(4096 - 484)
    again = StoreCheckpoint(path)
    assert again.point == DurablePoint(0x0102030405, 77, 20270115080000123, 5)


def test_it_writes_a_flush_at_once_and_syncs_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group commit must not wait for a second sync; what the system has survives kill -9."""
    syncs: list[int] = []
    monkeypatch.setattr("os.fdatasync", syncs.append)
    checkpoint = StoreCheckpoint(tmp_path / "checkpoint")
    for number in range(1, 4):
        checkpoint.log_flushed(number * 100, number)
    assert StoreCheckpoint(tmp_path / "checkpoint").point == DurablePoint(300)
    assert syncs == []
    checkpoint.flush()
    checkpoint.flush()
    assert len(syncs) == 1


@pytest.mark.parametrize("position", [0, 7, 20, 39, 448, 455, 470, 479, 483])
def test_it_does_not_believe_a_point_that_is_damaged_or_older_than_the_times(
    tmp_path: Path, position: int
) -> None:
    """A Java broker changes the first 40 bytes only, and knows nothing of what it makes stale."""
    path = tmp_path / "checkpoint"
    checkpoint = StoreCheckpoint(path)
    checkpoint.log_flushed(300, 5)
    checkpoint.flush()
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    assert StoreCheckpoint(path).point is None
