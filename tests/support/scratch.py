"""One temporary folder for a run: killed brokers, JVMs and browsers do not remove what they have there."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX, LOCK = "tm-run-", "lock"
RUN, COMMON = "TIDEMARK_TEST_RUN", "TIDEMARK_TEST_COMMON"


def begin() -> None:
    """Give this process and all it starts a temporary folder that ends with it; a child already has its parent's."""
    if RUN in os.environ:
        return
    common = tempfile.gettempdir()
    for ended in Path(common).glob(f"{PREFIX}*"):
        _remove_if_ended(ended)
    folder, owner = tempfile.mkdtemp(prefix=PREFIX), os.getpid()
    _lock(Path(folder))

    @atexit.register
    def remove() -> None:
        if os.getpid() == owner:  # a process forked from this one ends earlier
            shutil.rmtree(folder, ignore_errors=True)

    os.environ |= {RUN: folder, COMMON: common, "TMPDIR": folder}
    # pytest keeps the folders of failed tests.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", common)
    add_java_options(f"-Djava.io.tmpdir={folder}")
    tempfile.tempdir = None  # read from the environment again


def _lock(folder: Path) -> None:
    """Hold a lock while this process lives: it may be killed, and mypy ends without its exit functions."""
    lock = os.open(folder / "draft", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / "draft").rename(folder / LOCK)


def _remove_if_ended(folder: Path) -> None:
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    shutil.rmtree(folder, ignore_errors=True)


def common_folder() -> Path:
    """Return the folder of what several runs share: locks, and what is made once."""
    return Path(os.environ.get(COMMON) or tempfile.gettempdir())


def add_java_options(options: str) -> None:
    """Add options to those of every JVM that this process and its children start."""
    given = os.environ.get("JDK_JAVA_OPTIONS", "")
    if options not in given:
        os.environ["JDK_JAVA_OPTIONS"] = f"{given} {options}".strip()
