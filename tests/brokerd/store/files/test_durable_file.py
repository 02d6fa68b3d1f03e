from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.files.durable_file import replace_durably


def test_it_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "manifest"
    replace_durably(path, b"a long first content")
    replace_durably(path, b"second")
    assert path.read_bytes() == b"second"
    assert [each.name for each in tmp_path.iterdir()] == ["manifest"]


def test_a_full_disk_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "manifest"
    replace_durably(path, b"first")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("brokerd.store.files.durable_file.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_durably(path, b"second")
    assert path.read_bytes() == b"first"
