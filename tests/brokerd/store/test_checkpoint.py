from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.checkpoint import StoreCheckpoint


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
