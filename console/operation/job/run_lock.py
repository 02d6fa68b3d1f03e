"""Prove that a run of a job is over: a file that the worker keeps locked for as long as the run lasts.

A lease that has ended proves nothing: its worker may be dead, or frozen and about to continue. The kernel releases a
file lock when the process dies, however it dies, and never before. Without that proof (another machine, a frozen
worker) a run counts as alive: what it may be sending is reported as unknown and is not sent by another run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

# A file without its lock is removed after this; the job it belongs to has ended or moved on.
LEFT_S = 24 * 3_600


def new_run(owner: str) -> str:
    """Return a unique run name: ``owner`` with eight hex digits."""
    return f"{owner}.{secrets.token_hex(4)}"


@contextlib.contextmanager
def locked(run: str) -> Iterator[None]:
    """Hold the lock of ``run``; its file stays, so that others can see that the run is over."""
    path = _path(run)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_over(run: str) -> bool:
    """Return whether the run has certainly ended; False if that is unknown."""
    try:
        with _path(run).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        return False


def remove(run: str) -> None:
    """Remove the file of a run that the database no longer names."""
    _path(run).unlink(missing_ok=True)


def remove_left_files() -> None:
    """Remove the files of runs that were killed or lost their lease long ago."""
    for path in _folder().glob("*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFT_S and is_over(path.name):
                path.unlink()


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "runs"


def _path(run: str) -> Path:
    return _folder() / run.replace(os.sep, "_")
