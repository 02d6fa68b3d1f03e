from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.errors import StoreFilesInvalid
from brokerd.store.files.mapped_file_queue import MappedFileQueue
from tests.brokerd.store.stores import failing_disk


def queue_of(directory: Path, *starts: int) -> MappedFileQueue:
    queue = MappedFileQueue(directory, 4096)
    for start in starts:
        queue.append_file(start)
    return queue


def test_it_finds_the_file_of_an_offset(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, 8192, 12288)
    assert queue.min_offset == 8192
    assert queue.end_offset == 16384
    assert queue.find(8191) is None
    assert queue.find(8192) is queue.files[0]
    assert queue.find(12287) is queue.files[0]
    assert queue.find(12288) is queue.files[1]
    assert queue.find(16384) is None
    assert MappedFileQueue(tmp_path / "none", 4096).find(0) is None


def test_it_loads_its_files_in_order_and_ignores_strangers(tmp_path: Path) -> None:
    queue_of(tmp_path, 4096, 0)
    (tmp_path / "notes.txt").write_text("x")
    queue = MappedFileQueue(tmp_path, 4096)
    queue.load()
    assert [each.start_offset for each in queue.files] == [0, 4096]


def test_it_leaves_out_an_empty_last_file(tmp_path: Path) -> None:
    queue_of(tmp_path, 0)
    (tmp_path / "00000000000000004096").touch()
    queue = MappedFileQueue(tmp_path, 4096)
    queue.load()
    assert [each.start_offset for each in queue.files] == [0]
    assert queue.append_file(4096).size_bytes == 4096


@pytest.mark.parametrize("size_bytes", [1, 4095, 8192])
def test_it_refuses_a_file_of_another_size(tmp_path: Path, size_bytes: int) -> None:
    (tmp_path / "00000000000000000000").write_bytes(bytes(size_bytes))
    with pytest.raises(StoreFilesInvalid, match=f"has {size_bytes} bytes, but the settings have 4096"):
        MappedFileQueue(tmp_path, 4096).load()


def test_it_refuses_a_missing_file_in_the_middle(tmp_path: Path) -> None:
    queue_of(tmp_path, 0, 8192)
    with pytest.raises(StoreFilesInvalid, match="00000000000000008192 does not follow 0000"):
        MappedFileQueue(tmp_path, 4096).load()


def test_it_truncates_to_an_offset_inside_or_at_the_start_of_a_file(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, 0, 4096, 8192)
    for each in queue.files:
        each.map[:] = b"x" * 4096
    queue.truncate(5000)
    assert [each.start_offset for each in queue.files] == [0, 4096]
    assert queue.bytes_at(4990, 20) == b"x" * 10 + bytes(10)
    queue.truncate(4096)
    assert [each.start_offset for each in queue.files] == [0, 4096]
    assert queue.bytes_at(4096, 4096) == bytes(4096)


def test_it_flushes_only_forward_and_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "brokerd.store.files.mapped_file.sync_pages", lambda _, start, length: flushed.append((start, length))
    )
    queue = queue_of(tmp_path, 0, 4096)
    assert queue.flush_to(5000) == 5000
    assert queue.flush_to(4000) == 5000
    assert flushed == [(0, 4096), (0, 904)]


def test_a_file_deleted_during_a_flush_is_no_error(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, 0, 4096)
    queue.files[0].delete()
    assert queue.flush_to(6000) == 6000


def test_flushed_offset_stays_behind_a_failed_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(tmp_path, 0, 4096)
    queue.flush_to(100)
    monkeypatch.setattr("brokerd.store.files.mapped_file.sync_pages", failing_disk)
    with pytest.raises(OSError, match="Input/output error"):
        queue.flush_to(5000)
    assert queue.flushed_offset == 100
