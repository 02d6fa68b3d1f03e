from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerd.store.files.mapped_file import MappedFile, file_name


def test_it_creates_a_file_of_zeros_at_full_size(tmp_path: Path) -> None:
    mapped = MappedFile(tmp_path / file_name(8192), 8192, 8192)
    assert mapped.path.name == "00000000000000008192"
    assert mapped.path.read_bytes() == bytes(8192)
    assert mapped.end_offset == 16384


def test_it_shows_written_bytes_to_readers_of_the_file_and_the_view(tmp_path: Path) -> None:
    mapped = MappedFile(tmp_path / "0", 4096)
    mapped.map[10:15] = b"hello"
    assert bytes(mapped.view[10:15]) == b"hello"
    mapped.flush()
    assert (tmp_path / "0").read_bytes()[8:17] == b"\0\0hello\0\0"


def test_it_refuses_a_file_of_another_size(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(bytes(100))
    with pytest.raises(ValueError, match="100 bytes, not 4096"):
        MappedFile(tmp_path / "0", 4096)


@pytest.mark.parametrize("how", ["allocate", "prefault"])
def test_it_readies_any_range_without_changing_it(tmp_path: Path, how: str) -> None:
    mapped = MappedFile(tmp_path / "0", 64 * 1024)
    mapped.map[5000:5005] = b"hello"
    ready = getattr(mapped, how)
    ready(5000, 20_000)
    ready(60_000, 64 * 1024)
    ready(64 * 1024, 10)
    mapped.flush()
    assert mapped.map[5000:5005] == b"hello"
    assert os.stat(tmp_path / "0").st_blocks * 512 >= 24 * 1024


def test_it_readies_a_page_without_its_neighbours(tmp_path: Path) -> None:
    """A disk that reads ahead would clear the whole file of each new queue, 6 MB."""
    mapped_file = MappedFile(tmp_path / "file", 6_000_000)
    mapped_file.prefault(0, 4096)
    assert mapped_file.is_resident(0, 4096)
    assert not mapped_file.is_resident(64 * 1024, 4096)
    mapped_file.prefault(64 * 1024, 8192)
    assert mapped_file.is_resident(64 * 1024, 8192)


def test_it_clears_the_rest_of_a_file_and_keeps_what_is_before(tmp_path: Path) -> None:
    mapped = MappedFile(tmp_path / "0", 3 * 4096)
    mapped.map[:] = b"x" * (3 * 4096)
    mapped.clear_from(5000)
    assert mapped.map[:] == b"x" * 5000 + bytes(3 * 4096 - 5000)
    mapped.clear_from(4096)
    assert mapped.map[:] == b"x" * 4096 + bytes(2 * 4096)


def test_it_lets_a_reader_finish_after_the_file_is_deleted(tmp_path: Path) -> None:
    mapped = MappedFile(tmp_path / "0", 4096)
    mapped.map[:5] = b"hello"
    view = mapped.view[:5]
    mapped.delete()
    mapped.delete()
    del mapped
    assert not (tmp_path / "0").exists()
    assert bytes(view) == b"hello"


def test_it_holds_one_descriptor_per_file(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    files = [MappedFile(tmp_path / str(number), 4096) for number in range(10)]
    assert len(os.listdir("/proc/self/fd")) == before + len(files)
