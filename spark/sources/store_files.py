"""Read a broker's store from outside the broker: records of commit logs, units of consume queues.

Files lie on a disk or wherever fsspec reaches; they are opened read-only and read in pieces, without the bodies. They
may be the live files of a running broker or a copy that was made while it ran. So a file may end anywhere: what is
whole counts, and a warning names where reading stopped and why.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from brokerd.remoting.errors import CorruptRecord
from brokerd.remoting.message.hosts import IPV4_BYTES, IPV6_BYTES
from brokerd.remoting.message.names import SysFlag
from brokerd.remoting.message.properties import decode_properties
from brokerd.remoting.message.record import (
    HEAD,
    INT32,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH,
    RECORD_BYTES_MIN,
    TIMESTAMP,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
)
from spark.lag.history import files

BLANK_MAGIC = 0xCBD43194  # the rest of the file is empty on purpose
PIECE_BYTES = 1024 * 1024  # a body that is longer is not read at all
RECORD_BYTES_MAX = 64 * 1024 * 1024  # maxMessageSize is 4 MiB by default; more than this is no record
FILE_NAME_DIGITS = 20
HEAD_BYTES_MAX = 112  # up to the body, with both hosts of IPv6
# Reconsume times, offset of the prepared message, length of the body.
BEFORE_BODY = struct.Struct(">iqi")
UNIT = np.dtype([("commit_log_offset", ">i8"), ("size_bytes", ">i4"), ("tags_code", ">i8")])
assert UNIT.itemsize == 20
FILLER_SIZE = 0x7FFFFFFF  # of units before the first message of a queue that does not begin at 0

Units = npt.NDArray[np.void]
Warn = Callable[[str], None]


class LogRecord(NamedTuple):
    """A stored message without its body."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    store_size_bytes: int
    body_bytes: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    reconsume_times: int
    properties: dict[str, str]


def log_files(folder: str) -> list[str]:
    """Return the files of a commit log or of one consume queue, oldest first; none where there is no such folder."""
    names = files.names_in(folder)
    return [
        posixpath.join(folder, name) for name in names if len(name) == FILE_NAME_DIGITS and name.isdigit()
    ]


def first_offset(path: str) -> int:
    """Return the offset of the first byte of a file, which is its name."""
    return int(posixpath.basename(path))


def records(path: str, warn: Warn, topic_prefix: str = "") -> Iterator[LogRecord]:
    """Yield the records of one commit log file, in order, up to its end or the first bytes that are none.

    Only of topics that begin with `topic_prefix`.
    """
    try:
        with files.opened(path) as file:
            yield from _walk(_Pieces(file), path, warn, topic_prefix)
    except OSError as error:
        warn(_reason(path, error))


def _reason(path: str, error: OSError) -> str:
    text = error.strerror or str(error)
    return text if path in text else f"{path}: {type(error).__name__}: {text}"


class _Pieces:
    """Parts of a file, read ahead."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._begin, self._piece = 0, b""

    def part(self, position: int, size: int) -> bytes:
        """Return the bytes at a position, fewer at the end of the file. What lies before them is not read again."""
        begin = position - self._begin
        if begin + size > len(self._piece):
            known = self._piece[begin:]
            self._file.seek(position + len(known))
            self._piece = known + self._file.read(max(PIECE_BYTES, size - len(known)))
            self._begin, begin = position, 0
        return self._piece[begin : begin + size]


def _walk(pieces: _Pieces, path: str, warn: Warn, prefix: str) -> Iterator[LogRecord]:
    begins_at, position = first_offset(path), 0
    while True:
        at = begins_at + position
        head = pieces.part(position, HEAD_BYTES_MAX)
        if len(head) < HEAD.size:
            if any(head):
                warn(f"{path}: ends inside a record at offset {at}")
            return
        size, magic, *_ = HEAD.unpack_from(head)
        if magic == BLANK_MAGIC or (size == 0 and magic == 0):
            return
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_BYTES_MIN <= size <= RECORD_BYTES_MAX:
            warn(f"{path}: no record at offset {at}, read up to there")
            return
        try:
            record = _record(pieces, position, head, prefix)
        except EOFError:
            warn(f"{path}: ends inside a record at offset {at}")
            return
        except (CorruptRecord, struct.error) as error:
            warn(f"{path}: damaged or being written at offset {at}, read up to there ({error})")
            return
        if record.commit_log_offset != at:
            warn(
                f"{path}: the record at offset {at} says it is at {record.commit_log_offset}, read up to there"
            )
            return
        if record.topic.startswith(prefix):
            yield record
        position += size


def _record(pieces: _Pieces, position: int, head: bytes, prefix: str) -> LogRecord:
    """Decode a record but for its body, and properties only of topics with `prefix`.

    Raises EOFError when the file ends inside of it, CorruptRecord and struct.error when a field does not fit.
    """
    size, magic, _, queue_id, _, queue_offset, offset, sys_flag, born_ms = HEAD.unpack_from(head)
    if len(head) < min(size, HEAD_BYTES_MAX):
        raise EOFError
    stored_at = HEAD.size + _host_bytes(sys_flag, SysFlag.BORN_HOST_V6)
    counted_at = stored_at + TIMESTAMP.size + _host_bytes(sys_flag, SysFlag.STORE_HOST_V6)
    (stored_ms,) = TIMESTAMP.unpack_from(head, stored_at)
    tries, _, body_bytes = BEFORE_BODY.unpack_from(head, counted_at)
    names_at = counted_at + BEFORE_BODY.size + body_bytes
    if body_bytes < 0 or names_at > size:
        raise CorruptRecord(f"body of {body_bytes} bytes in a record of {size}")
    names = pieces.part(position + names_at, size - names_at)
    if len(names) < size - names_at:
        raise EOFError
    length = TOPIC_LENGTH_V2 if magic == MAGIC_V2 else TOPIC_LENGTH_V1
    topic_end = length.size + length.unpack_from(names)[0]
    (properties_bytes,) = PROPERTIES_LENGTH.unpack_from(names, topic_end)
    properties_at = topic_end + PROPERTIES_LENGTH.size
    if properties_bytes < 0 or properties_at + properties_bytes != len(names):
        raise CorruptRecord(f"properties of {properties_bytes} bytes in a record of {size}")
    # Java's decoder replaces bad bytes too.
    topic = names[length.size : topic_end].decode(errors="replace")
    is_own = topic.startswith(prefix)
    properties = decode_properties(names[properties_at:].decode(errors="replace")) if is_own else {}
    return LogRecord(
        topic,
        queue_id,
        queue_offset,
        offset,
        size,
        body_bytes,
        born_ms,
        stored_ms,
        tries,
        properties,
    )


def _host_bytes(sys_flag: int, is_v6: int) -> int:
    return (IPV6_BYTES if sys_flag & is_v6 else IPV4_BYTES) + INT32.size


def first_store_time_ms(path: str) -> int | None:
    """Return when the first message of a commit log file was stored; None for a file without one."""
    found = next(records(path, lambda text: None), None)
    return None if found is None else found.store_timestamp_ms


def log_began_ms(root: str) -> int | None:
    """Return when the oldest message of a store was stored that can be read; None without one."""
    times = map(first_store_time_ms, log_files(posixpath.join(root, "commitlog")))
    return next((one for one in times if one is not None), None)


def units(path: str, warn: Warn) -> tuple[int, Units]:
    """Return (queue offset of the first, units) of one consume queue file, without what was never written."""
    first = first_offset(path) // UNIT.itemsize
    try:
        data = files.read(path)
    except OSError as error:
        warn(_reason(path, error))
        return first, np.empty(0, dtype=UNIT)
    found = np.frombuffer(data, dtype=UNIT, count=len(data) // UNIT.itemsize)
    if len(data) % UNIT.itemsize:
        warn(f"{path}: ends inside a unit")
    unwritten = np.flatnonzero(found["size_bytes"] <= 0)
    found = found[: unwritten[0]] if len(unwritten) else found
    fillers = int(np.count_nonzero(found["size_bytes"] == FILLER_SIZE))
    return first + fillers, found[fillers:]
