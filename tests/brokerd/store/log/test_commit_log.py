from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.errors import ServiceNotAvailable
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.log.record import BLANK, BLANK_MAGIC

FILE_BYTES = 16 * 4096


def new_log(directory: Path, prefault_bytes: int = 4096) -> CommitLog:
    log = CommitLog(directory, FILE_BYTES, prefault_bytes)
    log.start_at(0)
    return log


def append(log: CommitLog, record: bytes) -> int:
    offset = log.reserve(len(record))
    log.append(record, 1000 + offset)
    return offset


def test_it_appends_one_record_after_the_other(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert [append(log, b"a" * 100), append(log, b"b" * 50), append(log, b"c" * 25)] == [0, 100, 150]
    assert log.max_offset == 175
    view = log.view(100, 50)
    assert view is not None and bytes(view) == b"b" * 50
    assert log.last_store_timestamp_ms == 1150
    log.close()


def test_it_closes_a_file_with_a_blank_record_when_record_and_blank_do_not_fit(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, b"a" * (FILE_BYTES - 108))
    assert append(log, b"b" * 100) == FILE_BYTES - 108  # leaves exactly the 8 bytes of the blank
    assert append(log, b"c" * 10) == FILE_BYTES
    blank = log.files.bytes_at(FILE_BYTES - 8, 8)
    assert blank == BLANK.pack(8, BLANK_MAGIC)
    log.close()


def test_it_rolls_when_one_byte_is_missing_for_the_blank(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, b"a" * (FILE_BYTES - 107))
    assert append(log, b"b" * 100) == FILE_BYTES
    assert log.files.bytes_at(FILE_BYTES - 107, 8) == BLANK.pack(107, BLANK_MAGIC)
    log.close()


@pytest.mark.parametrize("prefault_bytes", [4096, 3 * 4096, FILE_BYTES])
def test_it_keeps_every_record_while_it_readies_pages_and_files_ahead(
    tmp_path: Path, prefault_bytes: int
) -> None:
    log = new_log(tmp_path, prefault_bytes)
    written = {append(log, bytes((number % 251,)) * (700 + number)): number for number in range(300)}
    for offset, number in written.items():
        view = log.view(offset, 700 + number)
        assert view is not None and bytes(view) == bytes((number % 251,)) * (700 + number)
    starts = [each.start_offset for each in log.files.files]
    assert starts == [number * FILE_BYTES for number in range(len(starts))]
    log.close()


def test_it_removes_the_readied_file_nothing_was_written_to_at_close(tmp_path: Path) -> None:
    log = new_log(tmp_path, FILE_BYTES)
    append(log, b"x" * 10)
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000000"]


def test_it_hands_out_nothing_unwritten_deleted_or_across_files(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, b"a" * (FILE_BYTES - 100))
    append(log, b"b" * 1000)
    assert log.view(FILE_BYTES - 100, 200) is None
    assert log.view(FILE_BYTES + 990, 11) is None
    assert log.view(-1, 1) is None
    log.files.delete_first()
    assert log.view(0, 10) is None
    assert log.view(FILE_BYTES, 1000) is not None
    log.close()


def test_it_refuses_a_record_when_the_disk_is_full_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(tmp_path)
    append(log, b"a" * 3000)

    def no_space(self: MappedFile, position: int, length_bytes: int) -> None:
        raise OSError(28, "No space left on device")

    # On a disk that is really full: tests/hard/disk_full.py.
    monkeypatch.setattr("brokerd.store.log.commit_log.TRY_AGAIN_S", 0)
    log.close()
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "allocate", no_space)
        with pytest.raises(ServiceNotAvailable, match="No space left"):
            append(log, b"b" * 3000)
        with pytest.raises(ServiceNotAvailable, match="No space left"):
            append(log, b"b" * 3000)
    assert log.max_offset == 3000
    assert append(log, b"c" * 3000) == 3000
    log.close()


def test_it_flushes_to_the_end_and_names_the_time_of_the_last_record(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, b"a" * 100)
    assert (log.flushed_offset, log.dirty_bytes) == (0, 100)
    assert log.flush() == (100, 1000)
    assert (log.flushed_offset, log.dirty_bytes) == (100, 0)
    log.close()
