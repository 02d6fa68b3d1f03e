"""One memory-mapped file of fixed size, and the kernel calls that Python has no function for.

Source: `store/.../logfile/DefaultMappedFile.java`. Reading and writing go through `map` and `view`, which are
the same pages. Closing is left to the garbage collector: a pull that is still being written to a socket holds
memoryviews of the map, so the pages must outlive the file's deletion.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

PAGE_BYTES = 4096
MADV_WILLNEED, MADV_DONTNEED = 3, 4
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23  # Linux 5.14
MS_SYNC = 4
FALLOC_KEEP_SIZE_AND_PUNCH_HOLE = 0x03
CLEAR_CHUNK_BYTES = 1 << 20
ALONE_BYTES_MAX = 1 << 20  # pages of smaller ranges are readied without their neighbours


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    libc.msync.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return libc


def file_name(start_offset: int) -> str:
    """Segments are named by their start offset, 20 decimal digits."""
    return f"{start_offset:020d}"


def fsync_directory(directory: Path) -> None:
    """Make created, renamed and deleted names durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def drop_cached_pages(path: Path) -> None:
    """Let the next read of a file come from the disk, except where pages wait to be written. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def drop_cached_files(folders: Iterable[Path]) -> None:
    """The same for all files in folders: after a failed flush the kernel counts as written what is in memory only."""
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                drop_cached_pages(path)


def reserve_blocks(descriptor: int, start: int, length_bytes: int) -> None:
    """Set blocks aside where the file system can. Raises OSError (ENOSPC: disk full)."""
    if length_bytes <= 0:
        return
    try:
        os.posix_fallocate(descriptor, start, length_bytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise


def clear_range(descriptor: int, start: int, end: int) -> None:
    """Make a range of a file zero; its size stays, whenever a kill comes. Raises OSError."""
    if (
        start < end
        and _libc().fallocate(descriptor, FALLOC_KEEP_SIZE_AND_PUNCH_HOLE, start, end - start) != 0
    ):
        for position in range(start, end, CLEAR_CHUNK_BYTES):  # a file system without holes
            os.pwrite(descriptor, bytes(min(CLEAR_CHUNK_BYTES, end - position)), position)


def sync_pages(mapped: mmap.mmap, start: int, length_bytes: int) -> None:
    """Wait until a range of a map, from a page's start on, is on the disk. Raises OSError.

    msync through ctypes releases the GIL, mmap.flush does not (hot-path.md rule 10). The map's own descriptor is
    used: one opened again for fsync would not report an error that another process has already received.
    """
    pages = (ctypes.c_char * 1).from_buffer(mapped, start)
    if _libc().msync(ctypes.addressof(pages), length_bytes, MS_SYNC) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class MappedFile:
    """A file of `size_bytes`, created (sparse, zero) when missing, mapped for reading and writing."""

    __slots__ = ("_path", "map", "size_bytes", "start_offset")

    def __init__(
        self, path: Path | str, size_bytes: int, start_offset: int = 0, reserved_bytes: int = 0
    ) -> None:
        """Raise OSError when it cannot be made or mapped, ValueError when it has another size.

        A new file has blocks for its first `reserved_bytes`, or is not made.
        """
        self._path = path  # as it came: a start with 10,000 queues has no time for a Path of each file
        self.size_bytes = size_bytes
        self.start_offset = start_offset
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            present_bytes = os.fstat(descriptor).st_size
            if present_bytes == 0:
                os.ftruncate(descriptor, size_bytes)
                self._reserve_first(descriptor, reserved_bytes)
            elif present_bytes != size_bytes:
                raise ValueError(f"{path} has {present_bytes} bytes, not {size_bytes}")
            self.map = mmap.mmap(descriptor, size_bytes)
        finally:
            # The map keeps its own duplicate. One descriptor per file, not two.
            os.close(descriptor)

    def __repr__(self) -> str:
        return f"<MappedFile {self.path.name} {self.size_bytes} bytes>"

    @property
    def view(self) -> memoryview:
        """A view of the whole file. Made when asked for: kept, it is 300 bytes for each of 10,000 queues."""
        return memoryview(self.map)

    @property
    def path(self) -> Path:
        return Path(self._path)

    @property
    def end_offset(self) -> int:
        return self.start_offset + self.size_bytes

    def flush(self, start: int = 0, end: int | None = None) -> None:
        """Make what was written between two positions durable. Raises OSError; see FlushFailed."""
        start -= start % PAGE_BYTES
        end = self.size_bytes if end is None else end
        if end > start:
            sync_pages(self.map, start, end - start)

    def allocate(self, position: int, length_bytes: int) -> None:
        """Allocate blocks for a range that is not written to yet, and map its pages. Raises OSError (disk full)."""
        self.reserve_blocks(position, length_bytes)
        self.prefault(position, length_bytes)

    def _reserve_first(self, descriptor: int, length_bytes: int) -> None:
        try:
            reserve_blocks(descriptor, 0, length_bytes)
        except OSError:
            self.delete()
            raise

    def reserve_blocks(self, position: int, length_bytes: int) -> None:
        """Reserve blocks of a range in the file system. Raises OSError (ENOSPC: disk full)."""
        start = position - position % PAGE_BYTES
        descriptor = os.open(self.path, os.O_RDWR)
        try:
            reserve_blocks(descriptor, start, min(position + length_bytes, self.size_bytes) - start)
        finally:
            os.close(descriptor)

    def prefault(self, position: int, length_bytes: int) -> None:
        """Map the pages of a range, which others may write to meanwhile. Raises OSError (ENOSPC: disk full).

        A page of a sparse file costs 34 µs when a write meets it, 5 µs here, and a full disk is an error
        instead of a SIGBUS. One madvise call through ctypes, which releases the GIL: mmap.madvise holds it and
        stalls the event loop for 0.5 to 2.3 s per GiB (hot-path.md rule 9).
        """
        start = position - position % PAGE_BYTES
        length_bytes = min(position + length_bytes, self.size_bytes) - start
        if length_bytes <= 0:
            return
        pages = (ctypes.c_char * 1).from_buffer(self.map, start)
        # A disk that reads 8 MiB ahead clears as much around the first page: 4 ms of CPU for each new queue.
        if length_bytes < ALONE_BYTES_MAX:
            self.map.madvise(mmap.MADV_RANDOM)
        is_ready = _libc().madvise(ctypes.addressof(pages), length_bytes, MADV_POPULATE_WRITE) == 0
        if length_bytes < ALONE_BYTES_MAX:
            self.map.madvise(mmap.MADV_NORMAL)
        if not is_ready:
            code = ctypes.get_errno()
            # A kernel before 5.14: pages fault in one by one, with room.
            if code in (errno.EINVAL, errno.ENOSYS):
                self.reserve_blocks(start, length_bytes)
                return
            code = errno.ENOSPC if code == errno.EFAULT else code
            raise OSError(code, os.strerror(code), str(self.path))

    def is_resident(self, position: int, length_bytes: int) -> bool:
        """Return whether all pages of a range are in memory."""
        start = position - position % PAGE_BYTES
        count = (position + length_bytes - start + PAGE_BYTES - 1) // PAGE_BYTES
        flags = ctypes.create_string_buffer(count)
        pages = (ctypes.c_char * 1).from_buffer(self.map, start)
        if _libc().mincore(ctypes.addressof(pages), position + length_bytes - start, flags) != 0:
            return True  # no answer: read as if they were
        return all(flag & 1 for flag in flags.raw)

    def read_ahead(self, position: int, length_bytes: int) -> None:
        """Bring a range into memory, without the GIL. Raises OSError where the disk cannot read it."""
        start = position - position % PAGE_BYTES
        length_bytes = position + length_bytes - start
        pages = (ctypes.c_char * 1).from_buffer(self.map, start)
        if _libc().madvise(ctypes.addressof(pages), length_bytes, MADV_POPULATE_READ) == 0:
            return
        code = ctypes.get_errno()
        # A kernel before 5.14: requested, and with luck there in time.
        if code in (errno.EINVAL, errno.ENOSYS):
            _libc().madvise(ctypes.addressof(pages), length_bytes, MADV_WILLNEED)
            return
        code = errno.EIO if code == errno.EFAULT else code
        raise OSError(code, os.strerror(code), str(self.path))

    def ready_now(self, position: int, length_bytes: int) -> None:
        """Read what is not in memory, here. Caller: any thread but the event loop's. Raises OSError."""
        if not self.is_resident(position, length_bytes):
            self.read_ahead(position, length_bytes)

    def clear_from(self, position: int) -> None:
        """Make every byte from `position` zero, so that nothing old is ever read as new."""
        page = min(position + -position % PAGE_BYTES, self.size_bytes)
        self.map[position:page] = bytes(page - position)
        if page == self.size_bytes:
            return
        descriptor = os.open(self.path, os.O_RDWR)
        try:
            clear_range(descriptor, page, self.size_bytes)
        finally:
            os.close(descriptor)

    def last_modified_ms(self) -> int:
        return self.path.stat().st_mtime_ns // 1_000_000

    def unlink(self) -> int | None:
        """Remove the name and unmap the pages; return a descriptor to be closed after the last use of the map.

        Freeing a GiB takes the kernel long; when a map goes it happens with the GIL held, at os.close without.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        self.path.unlink(missing_ok=True)
        pages = (ctypes.c_char * 1).from_buffer(self.map)
        _libc().madvise(ctypes.addressof(pages), self.size_bytes, MADV_DONTNEED)
        return descriptor

    def delete(self) -> None:
        """Remove the name; the pages stay until the last view of them is gone."""
        self.path.unlink(missing_ok=True)


# Makes sure that reading so many bytes at a position of a file does not wait for a disk.
Ready = Callable[[MappedFile, int, int], None]
