"""The two marker files: `lock` (one process per store) and `abort` (the last stop was no clean one).

Source: `store/.../DefaultMessageStore.java`, reference store-format §9. The byte-range lock on [0, 1) is the
one a Java broker takes, so neither opens a store the other works on. It does not exclude a second store in
the same process; flock does.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from brokerd.store.errors import StoreLocked
from brokerd.store.files.mapped_file import fsync_directory

FLUSH_FAILED = "flush failed"


class StoreLock:
    """Held from `acquire` to `release` or the end of the process."""

    def __init__(self, root: Path) -> None:
        self._path = root / "lock"
        self._descriptor = -1

    def acquire(self) -> None:
        """Raise StoreLocked when another process (or store) holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(descriptor)
            raise StoreLocked(f"{self._path} is locked: another broker runs on this store") from error
        if os.fstat(descriptor).st_size == 0:
            with suppress(OSError):  # the content is for people; a full disk leaves it empty
                os.pwrite(descriptor, b"lock", 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class AbortFile:
    """Present while a store is open; found at the start, it means the last process died."""

    def __init__(self, root: Path) -> None:
        self._path = root / "abort"

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def create(self) -> None:
        """Raise OSError. Its content is for people: a full disk must not keep a broker from serving what it has."""
        self._path.touch()
        with suppress(OSError):
            self._path.write_text(str(os.getpid()))
        fsync_directory(self._path.parent)

    @property
    def flush_failed(self) -> bool:
        """Whether the last process could not flush: the page cache may hold what the disk does not."""
        return self.exists and FLUSH_FAILED in self._path.read_text(errors="replace")

    def note_failed_flush(self) -> None:
        # Not flushed: it only counts until the machine restarts, and with it the page cache.
        self._path.write_text(f"{os.getpid()} {FLUSH_FAILED}")

    def remove(self) -> None:
        """Raise OSError."""
        self._path.unlink(missing_ok=True)
        fsync_directory(self._path.parent)
