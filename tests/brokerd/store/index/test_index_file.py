from __future__ import annotations

from pathlib import Path

from brokerd.store.index.index_file import IndexFile, index_file_bytes, slot_hash

BEGIN_MS = 1_800_000_000_000
EVER = (0, 2**62)


def new_file(directory: Path, entries: int = 10, slots: int = 4) -> IndexFile:
    return IndexFile(directory / "20270115080000000", slots, entries)


def test_it_has_java_sizes() -> None:
    assert index_file_bytes(5_000_000, 20_000_000) == 420_000_040
    assert index_file_bytes(1000, 200) == 8040


def test_it_takes_the_absolute_hash_and_zero_for_the_smallest_int() -> None:
    assert slot_hash(5) == 5
    assert slot_hash(0x7FFFFFFF) == 0x7FFFFFFF
    assert slot_hash(2**32 - 5) == 5
    assert slot_hash(0x80000000) == 0


def test_it_writes_header_slot_and_entry_of_the_layout(tmp_path: Path) -> None:
    index = new_file(tmp_path)
    index.put([(6, 500, BEGIN_MS)])
    index.put([(2, 900, BEGIN_MS + 3999)])  # the same slot, 2 of 4
    index.write_header()
    data = index.mapped_file.path.read_bytes()
    assert len(data) == 40 + 4 * 4 + 10 * 20
    assert data[:40].hex() == (
        "000001a3185c5000000001a3185c5f9f00000000000001f400000000000003840000000100000003"
    )
    assert data[40:56].hex() == "00000000" + "00000000" + "00000002" + "00000000"
    assert data[56:76] == bytes(20)  # entry 0 is never used
    assert data[76:96].hex() == "00000006" + "00000000000001f4" + "00000000" + "00000000"
    assert data[96:116].hex() == "00000002" + "0000000000000384" + "00000003" + "00000001"


def test_it_finds_newest_first_and_follows_the_chain_past_other_hashes(tmp_path: Path) -> None:
    index = new_file(tmp_path)
    for offset, hashed in enumerate([6, 2, 6, 3, 6]):
        index.put([(hashed, offset * 100, BEGIN_MS + offset * 1000)])
    assert list(index.find(6, *EVER)) == [400, 200, 0]
    assert list(index.find(2, *EVER)) == [100]
    assert list(index.find(10, *EVER)) == []  # slot 2 as well
    assert list(index.find(6, BEGIN_MS + 2000, BEGIN_MS + 3000)) == [200]
    assert list(index.find(6, BEGIN_MS + 1000, BEGIN_MS + 9000)) == [400, 200]


def test_it_is_full_one_entry_early_as_java(tmp_path: Path) -> None:
    index = new_file(tmp_path, entries=3)
    index.put([(1, 0, BEGIN_MS)])
    assert not index.is_full
    index.put([(1, 1, BEGIN_MS)])
    assert index.is_full


def test_it_goes_on_after_reopening(tmp_path: Path) -> None:
    index = new_file(tmp_path)
    index.put([(6, 100, BEGIN_MS)])
    index.write_header()
    again = new_file(tmp_path)
    again.put([(6, 200, BEGIN_MS + 5000)])
    assert list(again.find(6, *EVER)) == [200, 100]
    assert (again.begin_timestamp_ms, again.end_timestamp_ms) == (BEGIN_MS, BEGIN_MS + 5000)
    assert (again.begin_offset, again.end_offset, again.slots_used) == (100, 200, 1)


def test_it_never_loops_on_a_damaged_chain(tmp_path: Path) -> None:
    index = new_file(tmp_path)
    index.put([(6, 100, BEGIN_MS)])
    index.put([(6, 200, BEGIN_MS)])
    position = 56 + 20
    index.mapped_file.map[position + 16 : position + 20] = (2).to_bytes(4)  # entry 1 points up to entry 2
    assert list(index.find(6, *EVER)) == [200, 100]
    index.mapped_file.map[position + 16 : position + 20] = (1).to_bytes(4)  # to itself
    assert list(index.find(6, *EVER)) == [200, 100]


def test_it_ignores_entries_of_a_process_that_died_before_the_header(tmp_path: Path) -> None:
    index = new_file(tmp_path)
    index.put([(6, 100, BEGIN_MS)])
    index.write_header()
    index.put([(6, 200, BEGIN_MS)])
    again = new_file(tmp_path)
    assert list(again.find(6, *EVER)) == []  # the slot points to entry 2, which does not count
    again.put([(6, 300, BEGIN_MS)])
    assert list(again.find(6, *EVER)) == [300]
