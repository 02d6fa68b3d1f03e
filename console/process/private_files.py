"""Keep files readable by their owner only: databases, secrets, store, history, reports.

Imports no Django.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO
# What the product puts into its data folder: a folder that holds one of these belongs to it.
OURS = (
    "*.sqlite3",
    "*.sqlite3-wal",
    "*.sqlite3-shm",
    "history",
    "redis_url",
    "reports",
    "schema-stamp",
    "secret_key",
    "spark",
    "store",
    "up.lock",
)


class FolderUnusable(Exception):
    """A folder cannot be created or written; the text says why and what to do."""


def require_writable(folder: Path) -> None:
    """Create the data folder if it is missing. Raises FolderUnusable where this user cannot write into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileExistsError:
        raise FolderUnusable(f"{folder} is a file. Name a folder.") from None
    except OSError as error:
        raise FolderUnusable(
            f"the folder {folder} cannot be written ({error.strerror}). "
            "Give this user write access (chown), or name another folder."
        ) from None


def keep_private(folder: Path) -> None:
    """Create files as 0600 and folders as 0700 from now on; close what an earlier version left open.

    The mask is inherited by every process that this one starts. A folder that is neither empty nor ours (a home folder
    given as the data folder) keeps its mode.
    """
    os.umask(OTHERS)
    if not folder.is_dir():
        return
    ours = sorted(found for pattern in OURS for found in folder.glob(pattern))
    is_empty = next(folder.iterdir(), None) is None
    for path in (folder, *ours) if ours or is_empty else ():
        _close_to_others(path)


def _close_to_others(path: Path) -> None:
    # Removed meanwhile (a -wal file), or another user's: `doctor` lists files that stay open.
    with contextlib.suppress(OSError):
        found = path.lstat()
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & OTHERS and found.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
