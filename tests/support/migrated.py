"""The SQLite databases after all migrations, made once: a process that migrates empty ones takes 5 s of CPU for it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections

from tests.support.scratch import common_folder

ROOT = Path(__file__).parent.parent.parent
FILES = {"default": "console.sqlite3", "metrics": "metrics.sqlite3"}


@cache
def folder() -> Path:
    """Return the databases' folder, one for each state of the migrations; one process at a time creates it."""
    state = version("django").encode()
    for path in sorted(ROOT.glob("console/**/migrations/*.py")):
        state += str(path.relative_to(ROOT)).encode() + path.read_bytes()
    made = common_folder() / f"tidemark-test-databases-{os.getuid()}-{zlib.crc32(state):08x}"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            _make(made)
    return made


def _make(made: Path) -> None:
    draft = made.with_suffix(f".{os.getpid()}")
    kept = {name: text for name, text in os.environ.items() if not name.endswith("DATABASE_URL")}
    environ = {
        **kept,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "TIDEMARK_DATA": str(draft),
        "SECRET_KEY": "only-for-tests",
    }
    for alias in FILES:
        command = [sys.executable, "manage.py", "migrate", "--database", alias, "--verbosity", "0"]
        subprocess.run(command, cwd=ROOT, env=environ, check=True, timeout=300)
    for name in FILES.values():
        with closing(sqlite3.connect(draft / name)) as database:
            # One file each: what lies in a log beside it would not be copied, and a database in memory has none.
            database.execute("PRAGMA journal_mode=DELETE")
    draft.rename(made)


def copy_to(data: Path) -> None:
    """Copy the databases into a data folder."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in FILES.values():
        shutil.copy(folder() / name, data / name)


def migrate() -> None:
    """Bring the databases of this process up to date: SQLite's are files that do not exist, or were made by this."""
    for alias, name in FILES.items():
        settings = connections[alias].settings_dict
        if connections[alias].vendor != "sqlite":
            call_command("migrate", database=alias, verbosity=0)
        elif not Path(settings["NAME"]).exists():
            shutil.copy(folder() / name, settings["NAME"])


_filled: set[str] = set()


def fill(connection: Any, **_: Any) -> None:
    """Fill a database in memory on its first connection; receiver of `connection_created`."""
    if connection.vendor == "sqlite" and connection.is_in_memory_db() and connection.alias not in _filled:
        _filled.add(connection.alias)
        with closing(sqlite3.connect(folder() / FILES[connection.alias])) as made:
            made.backup(connection.connection)
