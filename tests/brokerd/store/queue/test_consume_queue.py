from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.files.mapped_file import drop_cached_pages
from brokerd.store.queue.consume_queue import CQ_UNIT, ConsumeQueue


def new_queue(directory: Path, units: int = 0, first: int = 0) -> ConsumeQueue:
    """10 units per file; unit n: record of 100 bytes at 100·n, tags code n."""
    queue = ConsumeQueue("T", 0, directory, 200)
    for number in range(first, first + units):
        assert queue.append(number, number * 100, 100, number)
    return queue


def reopened(directory: Path) -> ConsumeQueue:
    queue = ConsumeQueue("T", 0, directory, 200)
    queue.load()
    return queue


def test_it_writes_units_of_20_bytes(tmp_path: Path) -> None:
    queue = new_queue(tmp_path)
    queue.append(0, 0x0102030405060708, 0x11121314, -2)
    data = (tmp_path / "00000000000000000000").read_bytes()
    assert data == bytes.fromhex("0102030405060708 11121314 fffffffffffffffe") + bytes(180)


def test_it_continues_in_the_next_file(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 25)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "00000000000000000000",
        "00000000000000000200",
        "00000000000000000400",
    ]
    assert queue.max_offset == 25
    assert queue.unit(24) == (2400, 100, 24)
    with pytest.raises(IndexError):
        queue.unit(25)


def test_it_skips_units_that_are_there_already(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 5)
    assert not queue.append(3, 300, 100, 3)
    assert not queue.append(4, 400, 100, 4)
    assert queue.append(5, 500, 100, 5)
    assert queue.max_offset == 6


def units_of(*numbers: int) -> bytes:
    return b"".join(CQ_UNIT.pack(number * 100, 100, number) for number in numbers)


@pytest.mark.parametrize("first", [0, 1, 5, 9, 10])
@pytest.mark.parametrize("count", [1, 5, 10, 23])
def test_units_of_a_batch_are_as_those_of_single_messages(tmp_path: Path, first: int, count: int) -> None:
    single, queue = new_queue(tmp_path / "single", first + count), new_queue(tmp_path / "batch", first)
    numbers = range(first, first + count)
    assert queue.append_units(first, units_of(*numbers), (first + count) * 100)
    assert not queue.append_units(first, units_of(*numbers), (first + count) * 100)
    folders = (tmp_path / "single", tmp_path / "batch")
    one, other = ([path.read_bytes() for path in sorted(folder.iterdir())] for folder in folders)
    assert one == other
    for name in ("max_offset", "next_offset", "max_physic_offset", "min_offset"):
        assert getattr(queue, name) == getattr(single, name)


def test_a_batch_whose_second_file_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    queue, units = new_queue(tmp_path, 8), units_of(8, 9, 10, 11)
    in_the_way = tmp_path / "00000000000000000200"
    in_the_way.mkdir()
    with pytest.raises(IsADirectoryError):
        queue.append_units(8, units, 1200)
    assert (queue.max_offset, queue.max_physic_offset) == (10, 1000)
    in_the_way.rmdir()
    assert queue.append_units(8, units, 1200)
    assert [queue.unit(number) for number in range(8, 12)] == [(n * 100, 100, n) for n in range(8, 12)]
    assert queue.max_physic_offset == 1200


def test_it_starts_in_the_middle_with_blank_units(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 2, first=13)
    assert (queue.min_offset, queue.max_offset) == (13, 15)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000200"]
    data = (tmp_path / "00000000000000000200").read_bytes()
    assert data[:20].hex() == "0000000000000000" + "7fffffff" + "0000000000000000"
    again = reopened(tmp_path)
    again.correct_min_offset(0)
    assert (again.min_offset, again.max_offset) == (13, 15)


def test_it_fills_a_gap_so_that_offsets_stay_what_records_say(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 3)
    assert queue.append(25, 2500, 100, 25)
    assert queue.unit(25) == (2500, 100, 25)
    assert queue.unit(24) == (2500, 0x7FFFFFFF, 0)
    queue.correct_min_offset(100)
    assert queue.min_offset == 1


@pytest.mark.parametrize("units", [0, 1, 9, 10, 11, 20, 29, 30, 45])
def test_it_finds_its_end_again(tmp_path: Path, units: int) -> None:
    new_queue(tmp_path, units)
    queue = reopened(tmp_path)
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (0, units, units)
    assert queue.max_physic_offset == (units * 100 if units else -1)
    assert queue.last_commit_log_offset == (units - 1) * 100 if units else -1
    assert queue.append(units, units * 100, 100, 7)
    assert queue.unit(units) == (units * 100, 100, 7)


@pytest.mark.parametrize("units", [0, 9, 10, 13, 20, 24])
def test_it_goes_on_anywhere_and_clears_what_lies_behind(tmp_path: Path, units: int) -> None:
    new_queue(tmp_path, 25)
    queue = reopened(tmp_path)
    queue.go_on_at(units)
    assert (queue.max_offset, queue.next_offset) == (units, units)
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert data[units * 20 :] == bytes(len(data) - units * 20)
    assert queue.append(units, 7000, 100, 7)
    assert reopened(tmp_path).unit(units) == (7000, 100, 7)


@pytest.mark.parametrize(
    ("log_end", "units"), [(2500, 25), (2450, 25), (2400, 24), (1000, 10), (999, 10), (1, 1), (0, 0)]
)
def test_it_finds_the_units_before_an_offset_of_the_log(tmp_path: Path, log_end: int, units: int) -> None:
    new_queue(tmp_path, 25)
    assert reopened(tmp_path).units_before(log_end) == units


@pytest.mark.parametrize("units", range(31))
def test_it_finds_its_end_in_each_place_of_a_file(tmp_path: Path, units: int) -> None:
    queue = new_queue(tmp_path, units)
    assert [queue.units_before(number * 100) for number in range(units + 1)] == list(range(units + 1))


def test_it_reads_little_of_a_large_file_that_holds_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ConsumeQueue("T", 0, tmp_path, 300_000 * 20).append(0, 0, 100, 7)
    read: list[int] = []
    peek = ConsumeQueue.peek
    monkeypatch.setattr(
        ConsumeQueue, "peek", lambda self, offset: (read.append(offset), peek(self, offset))[1]
    )
    queue = ConsumeQueue("T", 0, tmp_path, 300_000 * 20)
    queue.load()
    assert queue.max_offset == 1
    assert max(read) * 20 < 4096, "its first page"


def test_it_brings_no_more_of_a_file_into_memory_than_it_reads(tmp_path: Path) -> None:
    made = ConsumeQueue("T", 0, tmp_path, 300_000 * 20)
    made.append(0, 0, 100, 7)
    made.flush()
    (path,) = (each.path for each in made.files.files)
    del made
    drop_cached_pages(path)
    queue = ConsumeQueue("T", 0, tmp_path, 300_000 * 20)
    queue.load()
    (mapped_file,) = queue.files.files
    assert mapped_file.is_resident(0, 4096)
    assert not mapped_file.is_resident(64 * 1024, 4096)


@pytest.mark.parametrize(
    ("log_min", "offset"),
    [(0, 0), (1, 1), (100, 1), (950, 10), (1000, 10), (2400, 24), (2401, 25), (9999, 25)],
)
def test_it_starts_at_the_first_record_still_in_the_log(tmp_path: Path, log_min: int, offset: int) -> None:
    queue = new_queue(tmp_path, 25)
    queue.correct_min_offset(log_min)
    assert queue.min_offset == offset


def test_it_deletes_files_whose_last_record_is_gone_but_never_the_last(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 25)
    assert queue.delete_expired(900) == 0
    assert queue.min_offset == 9
    assert queue.delete_expired(901) == 1
    assert queue.delete_expired(99999) == 1
    assert (queue.min_offset, queue.max_offset) == (25, 25)
    assert [each.start_offset for each in queue.files.files] == [400]
    again = reopened(tmp_path)
    again.correct_min_offset(99999)
    assert (again.min_offset, again.max_offset) == (25, 25)


def test_it_reads_units_of_one_file_at_a_time(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 25)
    units = queue.units(7, 800)
    assert units is not None
    assert [unit[2] for unit in CQ_UNIT.iter_unpack(units)] == [7, 8, 9]
    units = queue.units(20, 3)
    assert units is not None
    assert [unit[2] for unit in CQ_UNIT.iter_unpack(units)] == [20, 21, 22]
    units = queue.units(23, 800)
    assert units is not None
    assert [unit[2] for unit in CQ_UNIT.iter_unpack(units)] == [23, 24]
    assert queue.units(25, 1) is None
    assert queue.next_file_offset(7) == 10
