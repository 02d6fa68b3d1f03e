"""A folder of mapped files that together are one long array of bytes with global offsets.

Source: `store/.../MappedFileQueue.java`. File n starts at the offset in its name; offsets never restart.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from brokerd.store.errors import StoreFilesInvalid
from brokerd.store.files.mapped_file import MappedFile, file_name, fsync_directory

NAME_DIGITS = 20


class MappedFileQueue:
    """The files of one folder, oldest first. Single writer; other threads may read `files`."""

    __slots__ = (
        "_directory",
        "_has_new_name",
        "_parents_named",
        "file_size_bytes",
        "files",
        "flushed_offset",
    )

    def __init__(self, directory: Path | str, file_size_bytes: int, parents_named: int = 0) -> None:
        """`parents_named`: so many folders above may be new with a file, and their names are made durable with it."""
        self._parents_named = parents_named
        self._directory = directory
        self.file_size_bytes = file_size_bytes
        self.files: list[MappedFile] = []
        self.flushed_offset = 0
        self._has_new_name = False

    @property
    def directory(self) -> Path:
        return Path(self._directory)

    def load(self) -> None:
        """Map the files that are there; nothing is changed. Raises StoreFilesInvalid for a size or gap unexplained.

        An empty last file is what a crash between creating and sizing it leaves: it is created again when needed.
        """
        try:
            with os.scandir(self._directory) as entries:
                files = sorted(
                    (entry.name, entry.stat().st_size)
                    for entry in entries
                    if len(entry.name) == NAME_DIGITS and entry.name.isdecimal()
                )
        except (FileNotFoundError, NotADirectoryError):
            return
        if files and files[-1][1] == 0:
            files.pop()
        for name, size_bytes in files:
            path = f"{self._directory}/{name}"
            if size_bytes != self.file_size_bytes:
                raise StoreFilesInvalid(
                    f"{path} has {size_bytes} bytes, but the settings have {self.file_size_bytes}: "
                    "set the mapped file size this store was written with"
                )
            start_offset = int(name)
            if self.files and self.files[-1].end_offset != start_offset:
                raise StoreFilesInvalid(
                    f"{path} does not follow {self.files[-1].path.name}: a file is missing,"
                    " or the mapped file size was changed"
                )
            self.files.append(MappedFile(path, size_bytes, start_offset))

    def read_around(self, *, is_wanted: bool) -> None:
        """Let a page that is read bring its neighbours along, as is usual, or come alone."""
        advice = mmap.MADV_NORMAL if is_wanted else mmap.MADV_RANDOM
        for mapped_file in self.files:
            mapped_file.map.madvise(advice)

    @property
    def min_offset(self) -> int:
        return self.files[0].start_offset if self.files else 0

    @property
    def end_offset(self) -> int:
        """The offset after the last file."""
        return self.files[-1].end_offset if self.files else 0

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that holds the byte at `offset`."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start_offset) // self.file_size_bytes
        if not 0 <= index < len(files):
            return None
        try:
            found = files[index]
            if 0 <= offset - found.start_offset < self.file_size_bytes:
                return found
        except IndexError:
            pass
        # Another thread has just deleted the first file: the others moved forward.
        return next((each for each in list(files) if each.start_offset <= offset < each.end_offset), None)

    def bytes_at(self, offset: int, size_bytes: int) -> bytes:
        """Return a copy of up to `size_bytes` from `offset` on, of one file; b"" after the last file."""
        mapped_file = self.find(offset)
        if mapped_file is None:
            return b""
        position = offset - mapped_file.start_offset
        return bytes(mapped_file.view[position : position + size_bytes])

    def append_file(self, start_offset: int) -> MappedFile:
        """Create and map the file that starts at `start_offset`; flush_to makes its name durable. Raises OSError."""
        mapped_file = self._make_file(start_offset)
        self._has_new_name = True
        self.files.append(mapped_file)
        return mapped_file

    def create_file(self, start_offset: int) -> MappedFile:
        """Create the file, durably named, without adding it. Raises OSError. Caller: any thread."""
        mapped_file = self._make_file(start_offset)
        self._sync_names()
        return mapped_file

    def _make_file(self, start_offset: int) -> MappedFile:
        self.directory.mkdir(parents=True, exist_ok=True)
        return MappedFile(self.directory / file_name(start_offset), self.file_size_bytes, start_offset)

    def _sync_names(self) -> None:
        """The file's name, and those of the folders that may be new with it."""
        for folder in (self.directory, *list(self.directory.parents)[: self._parents_named]):
            fsync_directory(folder)

    def flush_to(self, offset: int) -> int:
        """Make all bytes before `offset` durable; return flushed_offset. Releases the GIL while it waits.

        Raises OSError; flushed_offset stays where it was then. A file that is deleted meanwhile is not an error.
        """
        if self._has_new_name:
            self._has_new_name = False
            self._sync_names()
        start = self.flushed_offset
        for mapped_file in list(self.files):
            base = mapped_file.start_offset
            if mapped_file.end_offset > start and base < offset:
                mapped_file.flush(max(start - base, 0), min(offset - base, mapped_file.size_bytes))
        self.flushed_offset = max(self.flushed_offset, offset)
        return self.flushed_offset

    def truncate(self, offset: int, *, clear: bool = True) -> None:
        """Drop everything from `offset` on: later files are deleted, the rest of its file becomes zero.

        Without `clear` the rest is zero already.
        """
        while self.files and self.files[-1].start_offset > offset:
            self.files.pop().delete()
        last = self.files[-1] if self.files else None
        if clear and last is not None and last.start_offset <= offset < last.end_offset:
            last.clear_from(offset - last.start_offset)
        self.flushed_offset = min(self.flushed_offset, offset)

    def delete_first(self) -> None:
        """Delete the oldest file. Caller: any thread; one of 1 GiB takes long, but does not hold the GIL."""
        first = self.files.pop(0)
        descriptor = first.unlink()
        del first  # unmaps it; its blocks are freed when the descriptor is closed
        if descriptor is not None:
            os.close(descriptor)

    def delete_all(self) -> None:
        while self.files:
            self.files.pop().delete()
