from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from brokerd.background import StoreUpkeep
from brokerd.store.errors import ServiceNotAvailable
from brokerd.store.file_cleaner import used_ratio
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.message_store import MessageStore
from tests.brokerd.store.stores import bodies, open_store, put, put_all

HOUR_MS = 3_600_000
# 04:30 and 05:30 local time: deleteWhen is in the broker's own time zone.
AT_FOUR_MS = int(time.mktime((2027, 1, 15, 4, 30, 0, 0, 0, -1))) * 1000
AT_FIVE_MS = AT_FOUR_MS + HOUR_MS
RATIOS = {
    "disk_max_used_space_ratio": 75,
    "disk_space_clean_forcibly_ratio": 85,
    "disk_space_warning_level_ratio": 90,
}


def aged(tmp_path: Path, old_files: int) -> MessageStore:
    """Five log files, of which the first `old_files` were last written 73 hours ago."""
    store = open_store(tmp_path, **RATIOS)
    store.cleaner.set_disk_mark(0.5)
    store._set_refusal()
    put_all(store, [b"m%d" % number + bytes(1200) for number in range(14)], properties=b"KEYS\x01k\x02")
    for mapped_file in store._log.files.files:
        age_h = 73 if mapped_file.start_offset < old_files * 4096 else 1
        stamp_s = AT_FOUR_MS / 1000 - age_h * 3600
        os.utime(mapped_file.path, (stamp_s, stamp_s))
    assert len(store._log.files.files) == 5
    return store


def files(store: MessageStore) -> list[int]:
    return [each.start_offset // 4096 for each in store._log.files.files]


def test_it_deletes_expired_files_at_the_hour_only(tmp_path: Path) -> None:
    store = aged(tmp_path, 2)
    assert store.cleaner.delete_expired(AT_FIVE_MS, 0.5) == 0
    assert store.cleaner.delete_expired(AT_FOUR_MS, 0.5) == 2
    assert files(store) == [2, 3, 4]
    assert store.commit_log_min_offset == 2 * 4096
    store.close(AT_FOUR_MS)


def test_it_stops_at_the_first_young_file_and_never_deletes_the_last(tmp_path: Path) -> None:
    store = aged(tmp_path, 5)
    stamp_s = AT_FOUR_MS / 1000
    os.utime(store._log.files.files[1].path, (stamp_s, stamp_s))
    assert store.cleaner.delete_expired(AT_FOUR_MS, 0.5) == 1
    assert store.cleaner.delete_expired(AT_FOUR_MS + 100 * HOUR_MS, 0.86) == 3
    assert files(store) == [4]
    assert store.cleaner.delete_expired(AT_FOUR_MS + 999 * HOUR_MS, 0.99) == 0
    store.close(AT_FOUR_MS)


def test_it_deletes_expired_files_at_any_hour_when_the_disk_fills(tmp_path: Path) -> None:
    store = aged(tmp_path, 2)
    assert store.cleaner.delete_expired(AT_FIVE_MS, 0.75) == 0
    assert store.cleaner.delete_expired(AT_FIVE_MS, 0.76) == 2
    store.close(AT_FOUR_MS)


def test_it_deletes_young_files_when_the_disk_is_nearly_full(tmp_path: Path) -> None:
    store = aged(tmp_path, 0)
    assert store.cleaner.delete_expired(AT_FIVE_MS, 0.85) == 0
    assert store.cleaner.delete_expired(AT_FIVE_MS, 0.86) == 4
    store.close(AT_FOUR_MS)


def test_it_moves_the_start_of_queues_and_the_index_with_the_log(tmp_path: Path) -> None:
    store = aged(tmp_path, 2)
    store.cleaner.delete_expired(AT_FOUR_MS, 0.5)
    assert store.min_offset("TopicTest", 0) == 6  # three records fit a file
    assert [body[:3].rstrip(b"\0") for body in bodies(store)] == [b"m%d" % number for number in range(6, 14)]
    assert store.get_message("TopicTest", 0, 5, 32).status == "OFFSET_TOO_SMALL"
    found = store.query_by_key("TopicTest", "k", 64, 0, 2**62).commit_log_offsets
    assert [offset for offset in found if store.look_message(offset) is not None] == found[6:]
    store.close(AT_FOUR_MS)
    again = open_store(tmp_path, **RATIOS)
    assert (again.min_offset("TopicTest", 0), again.max_offset("TopicTest", 0)) == (6, 14)
    assert len(bodies(again)) == 8
    again.close(AT_FOUR_MS)


def test_it_refuses_puts_above_the_warning_level_until_well_below(tmp_path: Path) -> None:
    store = aged(tmp_path, 0)
    store.note_disk_use(0.90)
    put(store)
    store.note_disk_use(0.91)
    with pytest.raises(ServiceNotAvailable, match="the disk is fuller than 90 %") as caught:
        put(store)
    assert caught.value.status == "SERVICE_NOT_AVAILABLE"
    assert "90 %" in store.refusal
    store.note_disk_use(0.86)
    with pytest.raises(ServiceNotAvailable):
        put(store)
    store.note_disk_use(0.85)
    put(store)
    store.close(AT_FOUR_MS)


def test_it_measures_the_file_system_of_a_folder_that_may_not_exist_yet(tmp_path: Path) -> None:
    ratio = used_ratio(tmp_path / "not" / "yet")
    assert 0 < ratio <= 1
    assert round(ratio * 100) == pytest.approx(ratio * 100)


@pytest.mark.parametrize(
    ("blocks", "free", "usable", "expected"),
    [
        # 252 GiB of which 161 GiB are reserved: 33.8 used and 57.3 usable are what counts.
        (66_053_021, 57_197_755, 15_020_123, 0.38),
        (100, 40, 40, 0.60),
        (1_000, 399, 399, 0.61),
        (100, 10, 0, 1.0),
    ],
)
def test_reserved_space_is_neither_used_nor_usable(
    blocks: int, free: int, usable: int, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """used / (used + usable) in whole percents, rounded up: UtilAll.getDiskPartitionSpaceUsedPercent."""
    measured = os.statvfs_result((4_096, 4_096, blocks, free, usable, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: measured)
    assert used_ratio(tmp_path) == expected


async def test_files_are_deleted_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 1 GiB takes the kernel long; the event loop must not wait for ten."""
    store = aged(tmp_path, 5)
    threads: set[str] = set()
    unlink = MappedFile.unlink

    def noted(mapped_file: MappedFile) -> int | None:
        threads.add(threading.current_thread().name)
        return unlink(mapped_file)

    monkeypatch.setattr(MappedFile, "unlink", noted)
    monkeypatch.setattr(store.cleaner, "disk_used_ratio", lambda: 0.88)
    upkeep = StoreUpkeep(store, None, None, None, None, None)  # type: ignore[arg-type]
    await upkeep.delete_expired_files()
    assert files(store) == [4]
    assert threads and threading.current_thread().name not in threads
    store.close(AT_FOUR_MS)


def test_a_reader_finds_its_file_while_another_is_deleted(tmp_path: Path) -> None:
    store = aged(tmp_path, 0)
    queue = store._log.files
    stale = list(queue.files)
    queue.files = Shrinking(stale)  # type: ignore[assignment]
    assert queue.find(3 * 4096) is stale[3]
    queue.files = stale
    store.close(AT_FOUR_MS)


class Shrinking(list[MappedFile]):
    """Loses its first file between the look at it and the next look, as by another thread."""

    def __len__(self) -> int:
        count = super().__len__()
        if self[0].start_offset == 0:
            self.pop(0)
        return count
