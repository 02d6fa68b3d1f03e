"""Read a broker's store from outside the broker: records of commit logs, units of consume queues.

Files are opened read-only and read in pieces; they may be the live files of a running broker or a copy that was made
while it ran. So a file may end anywhere: what is whole counts, and a warning names where reading stopped and why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from brokerd.remoting.errors import CorruptRecord, TornRecord
from brokerd.remoting.message.record import (
    HEAD,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    MessageRecord,
    decode_record,
)

BLANK_MAGIC = 0xCBD43194  # the rest of the file is empty on purpose
PIECE_BYTES = 8 * 1024 * 1024
RECORD_BYTES_MAX = 64 * 1024 * 1024  # maxMessageSize is 4 MiB by default; more than this is no record
FILE_NAME_DIGITS = 20
UNIT = np.dtype([("commit_log_offset", ">i8"), ("size_bytes", ">i4"), ("tags_code", ">i8")])
assert UNIT.itemsize == 20
FILLER_SIZE = 0x7FFFFFFF  # of units before the first message of a queue that does not begin at 0

Units = npt.NDArray[np.void]
Warn = Callable[[str], None]


def log_files(folder: Path) -> list[Path]:
    """Return the files of a commit log or of one consume queue, oldest first; none where there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.iterdir() if len(path.name) == FILE_NAME_DIGITS and path.name.isdigit()
    )


def records(path: Path, warn: Warn) -> Iterator[MessageRecord]:
    """Yield the records of one commit log file, in order, up to its end or the first bytes that are none."""
    begins_at = int(path.name)
    try:
        with path.open("rb") as file:
            yield from _walk(file, begins_at, path, warn)
    except OSError as error:
        warn(f"{path}: {type(error).__name__}: {error.strerror}")


def _walk(file: BinaryIO, begins_at: int, path: Path, warn: Warn) -> Iterator[MessageRecord]:
    piece, position, read_to = memoryview(file.read(PIECE_BYTES)), 0, 0
    read_to = len(piece)
    while True:
        if len(piece) - position < HEAD.size:
            more = file.read(PIECE_BYTES)
            if not more:
                if any(piece[position:]):
                    warn(
                        f"{path}: ends inside a record at offset {begins_at + read_to - len(piece) + position}"
                    )
                return
            piece, position = memoryview(bytes(piece[position:]) + more), 0
            read_to += len(more)
            continue
        at = begins_at + read_to - len(piece) + position
        size, magic, *_ = HEAD.unpack_from(piece, position)
        if magic == BLANK_MAGIC or (size == 0 and magic == 0):
            return
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_BYTES_MIN <= size <= RECORD_BYTES_MAX:
            warn(f"{path}: no record at offset {at}, read up to there")
            return
        if len(piece) - position < size:
            more = file.read(max(PIECE_BYTES, size))
            if not more:
                warn(f"{path}: ends inside a record at offset {at}")
                return
            piece, position = memoryview(bytes(piece[position:]) + more), 0
            read_to += len(more)
            continue
        try:
            record = decode_record(piece, position)
        except (CorruptRecord, TornRecord) as error:
            warn(f"{path}: damaged or being written at offset {at}, read up to there ({error})")
            return
        if record.commit_log_offset != at:
            warn(
                f"{path}: the record at offset {at} says it is at {record.commit_log_offset}, read up to there"
            )
            return
        yield record
        position += size


def first_store_time_ms(path: Path) -> int | None:
    """Return when the first message of a commit log file was stored; None for a file without one."""
    found = next(records(path, lambda text: None), None)
    return None if found is None else found.store_timestamp_ms


def units(path: Path, warn: Warn) -> tuple[int, Units]:
    """Return (queue offset of the first, units) of one consume queue file, without what was never written."""
    first = int(path.name) // UNIT.itemsize
    try:
        size = os.stat(path).st_size
        found = np.fromfile(path, dtype=UNIT, count=size // UNIT.itemsize)
    except OSError as error:
        warn(f"{path}: {type(error).__name__}: {error.strerror}")
        return first, np.empty(0, dtype=UNIT)
    if size % UNIT.itemsize:
        warn(f"{path}: ends inside a unit")
    unwritten = np.flatnonzero(found["size_bytes"] <= 0)
    found = found[: unwritten[0]] if len(unwritten) else found
    fillers = int(np.count_nonzero(found["size_bytes"] == FILLER_SIZE))
    return first + fillers, found[fillers:]
