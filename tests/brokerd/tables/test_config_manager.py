from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from brokerd.remoting.body import fastjson
from brokerd.tables import config_manager


def test_it_replaces_a_file_and_keeps_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    config_manager.write_atomically(path, b"one")
    config_manager.write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert (tmp_path / "config" / "topics.json.bak").read_bytes() == b"one"
    assert sorted(p.name for p in path.parent.iterdir()) == ["topics.json", "topics.json.bak"]


def test_it_loads_the_backup_of_a_file_it_cannot_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "offsets.json"
    path.write_bytes(b'{"a":')
    path.with_name("offsets.json.bak").write_bytes(b'{"a":1}')
    with caplog.at_level(logging.ERROR):
        assert config_manager.load(path, fastjson.loads) == {"a": 1}
    assert "cannot be read" in caplog.text
    assert path.read_bytes() == b'{"a":', "reading changes nothing"
    config_manager.write_atomically(path, b'{"a":2}')
    assert path.with_name("offsets.json.unreadable").read_bytes() == b'{"a":'
    assert path.with_name("offsets.json.bak").read_bytes() == b'{"a":1}', "the good one, not the damaged one"


def test_it_loads_the_backup_when_a_crash_came_between_the_renames(tmp_path: Path) -> None:
    (tmp_path / "offsets.json.bak").write_bytes(b'{"a":2}')
    assert config_manager.load(tmp_path / "offsets.json", fastjson.loads) == {"a": 2}


def test_it_starts_empty_without_any_file(tmp_path: Path) -> None:
    assert config_manager.load(tmp_path / "offsets.json", fastjson.loads) is None


@pytest.mark.parametrize("files", [["t.json", "t.json.bak"], ["t.json"], ["t.json.bak"]])
def test_a_lost_table_is_refused_and_nothing_is_changed(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(config_manager.TableUnreadable) as raised:
            config_manager.load(tmp_path / "t.json", fastjson.loads)
        assert str(tmp_path / files[0]) in str(raised.value)
        assert "from a backup, or move them away to start without what they held" in str(raised.value)
        assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_a_table_that_is_made_anew_may_start_empty(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(b"{")
    assert config_manager.load_or_empty(tmp_path / "t.json", fastjson.loads) is None
    config_manager.write_atomically(tmp_path / "t.json", b"{}")
    assert (tmp_path / "t.json.unreadable").read_bytes() == b"{"


def test_it_writes_integer_keys_as_strings_and_sorts() -> None:
    assert config_manager.encode_document({"b": {1: 2}, "a": []}) == (
        b'{\n  "a": [],\n  "b": {\n    "1": 2\n  }\n}\n'
    )


def test_a_file_with_secrets_is_its_owners_and_keeps_what_an_operator_allowed(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    umask_before = os.umask(0o022)
    try:
        config_manager.write_pieces(path, [b"one"], is_private=True)
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        config_manager.write_pieces(path, [b"two"], is_private=True)
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(umask_before)
