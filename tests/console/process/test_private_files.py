"""Nothing of the data folder is open to other users of the machine, whatever mask the starter had."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.process.private_files import keep_private

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture(autouse=True)
def open_mask() -> Iterator[None]:
    """The mask most shells start with."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_what_a_command_makes_is_read_by_its_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "var"
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    makes_a_database = (
        "import sqlite3; from console import settings;"
        "sqlite3.connect(settings.DATABASES['default']['NAME']).execute('CREATE TABLE t (a)')"
    )
    subprocess.run(
        [sys.executable, "-c", makes_a_database],
        cwd=ROOT,
        env={**environ, "TIDEMARK_DATA": str(data)},
        check=True,
        timeout=120,
    )
    assert {path.name: mode(path) for path in (data, *data.iterdir())} == {
        "var": 0o700,
        "host_id": 0o600,
        "console.sqlite3": 0o600,
        "secret_key": 0o600,
    }


def test_files_of_an_earlier_version_are_closed(tmp_path: Path) -> None:
    data = tmp_path / "var"
    (data / "store" / "commitlog").mkdir(parents=True)
    with sqlite3.connect(data / "console.sqlite3") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE t (a)")
    (data / "secret_key").write_text("k")
    keep_private(data)
    assert (mode(data), mode(data / "store")) == (0o700, 0o700)
    assert {name: mode(data / name) for name in ("console.sqlite3", "secret_key")} == {
        "console.sqlite3": 0o600,
        "secret_key": 0o600,
    }
    (data / "made-later").touch()
    assert mode(data / "made-later") == 0o600


def test_a_folder_that_is_not_ours_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "home" / "letters").mkdir(parents=True)
    (tmp_path / "home").chmod(0o755)
    keep_private(tmp_path / "home")
    assert mode(tmp_path / "home") == 0o755
    (tmp_path / "empty").mkdir(mode=0o755)
    keep_private(tmp_path / "empty")
    assert mode(tmp_path / "empty") == 0o700


def test_a_link_in_the_data_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "store").symlink_to(elsewhere)
    keep_private(tmp_path / "var")
    assert mode(elsewhere) == 0o755
