"""Files wherever fsspec reaches: read, written to their final name, moved, removed; every failure is an OSError.

Backends raise errors of classes of their own, some of them no OSError, and most name no address. Here a file that is
not there is a FileNotFoundError and everything else a StorageError with the address, the reason and what to do.

Object storage has no rename and shows an object when it is whole: a file goes to its final name at once, what was
begun and failed is discarded, and a write whose answer was lost may be done again.
"""

import hashlib
import io
import os
import posixpath
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TypeVar, cast

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

BLOCK_BYTES = 4 * 1024 * 1024
# Read ahead of what was requested: columns of a row group lie side by side, and a request takes as long as 1 MB.
READ_AHEAD_BYTES = 1024 * 1024
# s3fs tries five times what is throttled or cut off, each of them through botocore, whose own five tries would make it
# two minutes; these are 15 tries in about 20 s.
S3_OPTIONS = {"config_kwargs": {"retries": {"mode": "standard", "total_max_attempts": 3}}}
REASON_LENGTH_MAX = 300
CHECK = "check its address, credentials and network"
T = TypeVar("T")


class StorageError(OSError):
    """A storage request failed; the message names file and reason, and what to check."""


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return (file system, path in it) of a local path or an fsspec URL. Listings are not kept: others write too."""
    options = S3_OPTIONS if url.startswith(("s3://", "s3a://")) else {}
    with _named("opened", url):
        found: tuple[Any, str] = fsspec.core.url_to_fs(url, use_listings_cache=False, **options)
    return found


def opened(url: str) -> IO[bytes]:
    """Open a file for reading parts of it."""
    filesystem, path = filesystem_of(url)
    if isinstance(filesystem, LocalFileSystem):
        local: IO[bytes] = pa.OSFile(path, "rb")
        return local
    with _named("opened", url):
        return cast(IO[bytes], _Source(filesystem.open(path, "rb", block_size=READ_AHEAD_BYTES), url))


def read(url: str) -> bytes:
    """Return a whole file."""
    filesystem, path = filesystem_of(url)
    with _named("read", url):
        data: bytes = filesystem.cat_file(path)
    return data


def size_of(url: str) -> int:
    """Return a file's size. Raises FileNotFoundError."""
    filesystem, path = filesystem_of(url)
    with _named("looked up", url):
        return int(filesystem.info(path)["size"])


def exists(url: str) -> bool:
    """Return whether a file exists. Raises StorageError when the storage does not answer."""
    try:
        size_of(url)
    except FileNotFoundError:
        return False
    return True


def digest(url: str) -> tuple[int, str]:
    """Return (bytes, SHA-256) of a file."""
    filesystem, path = filesystem_of(url)
    found, size = hashlib.sha256(), 0
    with _named("read", url), filesystem.open(path, "rb", block_size=BLOCK_BYTES) as file:
        while block := file.read(BLOCK_BYTES):
            found.update(block)
            size += len(block)
    return size, found.hexdigest()


def write_new(url: str, write: Callable[[IO[bytes]], T]) -> tuple[T, int, str]:
    """Have `write(sink)` make a file under its final name; return (its result, bytes, SHA-256).

    The file is durable and was read back when this returns. After an error what was written is gone, or lies there
    without being whole: the caller lists a file when this has returned, never before.
    """
    filesystem, path = filesystem_of(url)
    writer = _write_locally if isinstance(filesystem, LocalFileSystem) else _write_remotely
    made, written = writer(filesystem, path, url, write)
    stored = digest(url)
    if stored != written:
        raise StorageError(
            f"{url} has {stored[0]} bytes with another checksum than the {written[0]} that were written; "
            "nothing was listed, the next run writes it again"
        )
    return made, *written


def write_bytes(url: str, data: bytes) -> tuple[int, str]:
    """Write a small file under its final name; return (bytes, SHA-256)."""
    _, size, checksum = write_new(url, lambda sink: sink.write(data))
    return size, checksum


def remove(url: str) -> None:
    """Remove a file, if it exists."""
    filesystem, path = filesystem_of(url)
    with suppress(FileNotFoundError), _named("removed", url):
        filesystem.rm_file(path)


def names_in(url: str) -> list[str]:
    """Return the names of the files and folders in a folder, in order; none of one that does not exist."""
    filesystem, path = filesystem_of(url)
    with suppress(FileNotFoundError), _named("listed", url):
        return sorted(posixpath.basename(one.rstrip("/")) for one in filesystem.ls(path, detail=False))
    return []


def remove_folder(url: str) -> None:
    """Remove a folder and all that is in it, if it exists."""
    filesystem, path = filesystem_of(url)
    with suppress(FileNotFoundError), _named("removed", url):
        filesystem.rm(path, recursive=True)


def move(source: str, target: str) -> None:
    """Give a file another place: a rename on a local disk, a copy and then a removal elsewhere.

    A crash in between leaves both, running it again ends the same. A source that is not there is fine.
    """
    filesystem, path = filesystem_of(source)
    _, place = filesystem_of(target)
    with suppress(FileNotFoundError), _named("moved", source):
        if isinstance(filesystem, LocalFileSystem):
            os.makedirs(posixpath.dirname(place), exist_ok=True)
            shutil.move(path, place)
        else:
            filesystem.cp_file(path, place)
            filesystem.rm_file(path)


def _write_remotely(
    filesystem: Any, path: str, url: str, write: Callable[[IO[bytes]], T]
) -> tuple[T, tuple[int, str]]:
    with _named("written", url):
        file = filesystem.open(path, "wb")
    sink = _Sink(file, url)
    try:
        made = write(cast(IO[bytes], sink))
    except BaseException:
        _discard(file)
        raise
    try:
        with _named("written", url):
            file.close()
    except OSError as error:
        _discard(file)
        # The answer may have been lost after the storage had done it.
        if not _is_stored(url, sink.written):
            reason = (
                error if isinstance(error, StorageError) else f"{url} cannot be written: {error}; {CHECK}"
            )
            raise StorageError(reason) from error
    return made, sink.written


def _is_stored(url: str, written: tuple[int, str]) -> bool:
    with suppress(OSError):
        return digest(url) == written
    return False


def _write_locally(
    filesystem: Any, path: str, url: str, write: Callable[[IO[bytes]], T]
) -> tuple[T, tuple[int, str]]:
    os.makedirs(posixpath.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        sink = _Sink(file, url)
        made = write(cast(IO[bytes], sink))
        file.flush()
        os.fsync(file.fileno())
    descriptor = os.open(posixpath.dirname(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return made, sink.written


def _discard(file: Any) -> None:
    """Give up what was begun: the parts of an upload cost money until they are removed."""
    with suppress(Exception):
        file.discard()
    file.closed = True  # its finalizer would store what was discarded


@contextmanager
def _named(done: str, url: str) -> Iterator[None]:
    """Turn whatever a backend raises into an OSError that names the file."""
    try:
        yield
    except (FileNotFoundError, StorageError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:REASON_LENGTH_MAX].rstrip(". ")
        code = error.errno if isinstance(error, OSError) else None
        text = f"{url} cannot be {done}: {reason}; {CHECK}"
        raise (StorageError(text) if code is None else StorageError(code, text)) from error


class _Source(io.RawIOBase):
    """A file of a backend as a reader of Parquet expects it."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url

    def read(self, size: int = -1) -> bytes:
        with _named("read", self._url):
            data: bytes = self._file.read(size)
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        place: int = self._file.seek(offset, whence)
        return place

    def tell(self) -> int:
        place: int = self._file.tell()
        return place

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Sink(io.RawIOBase):
    """Where a file is written, from its beginning to its end; counts and adds up what passes."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url
        self.size = 0
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with _named("written", self._url):
            self._file.write(view)
        self.digest.update(view)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    @property
    def written(self) -> tuple[int, str]:
        """How many bytes passed, and their SHA-256."""
        return self.size, self.digest.hexdigest()
