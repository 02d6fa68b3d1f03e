"""config/timercheck: how far the timer has come; 56 bytes of Java's at the front of a page, and our copy of them.

    0                8              16                24                       32        40          48       56
    +----------------+--------------+-----------------+------------------------+---------+-----------+---------+
    | slots before   | timer log is | timer topic is  | the same, at once (for | state   | changed   | counter |
    | it were read   | on the disk  | enqueued, on    | slaves, and Java's     | version | at, ms    |         |
    | (ms)           | to here      | the disk        | start after a kill)    |         |           |         |
    +----------------+--------------+-----------------+------------------------+---------+-----------+---------+

Source: store-format §11.2 (`TimerCheckpoint.java`). The copy at 64 shows whether a broker of Apache wrote it last,
whose wheel may be older than its timer log.
"""

from __future__ import annotations

import os
import struct
from dataclasses import astuple, dataclass
from pathlib import Path

LAYOUT = struct.Struct(">7q")
LAYOUT_BYTES = 56
assert LAYOUT.size == LAYOUT_BYTES
COPY_AT = 64
PAGE_BYTES = 4096
MASTER_QUEUE_OFFSET_AT = 24


@dataclass(frozen=True, slots=True)
class TimerProgress:
    """The fields in their order; times in ms."""

    read_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    changed_ms: int = 0
    counter: int = 0

    def encode(self) -> bytes:
        return LAYOUT.pack(*astuple(self))

    @classmethod
    def decode(cls, data: bytes) -> TimerProgress:
        """Raise ValueError for data that is too short."""
        if len(data) < LAYOUT_BYTES:
            raise ValueError(f"timer checkpoint of {len(data)} bytes, {LAYOUT_BYTES} expected")
        return cls(*LAYOUT.unpack_from(data))


class TimerCheckpoint:
    """The file. Raises OSError. Caller: the event loop; `save` in a thread, one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.saved = TimerProgress()
        self.is_ours = False

    def load(self) -> bool:
        """Return whether there is one."""
        self.saved, self.is_ours = TimerProgress(), False
        if not self._path.exists():
            return False
        data = self._path.read_bytes()
        if len(data) < LAYOUT_BYTES:
            return False
        self.saved = TimerProgress.decode(data)
        # Java's only writes the front; the offset that is noted at once is the one field that may differ.
        fields, copy = data[:LAYOUT_BYTES], data[COPY_AT : COPY_AT + LAYOUT_BYTES]
        self.is_ours = without_master(fields) == without_master(copy)
        return True

    def note_enqueued(self, queue_offset: int) -> None:
        """Note at once how far the topic is in the timer log, so that after a kill Java enqueues nothing twice."""
        if self.saved.changed_ms:
            with self._path.open("r+b") as file:
                os.pwrite(file.fileno(), queue_offset.to_bytes(8), MASTER_QUEUE_OFFSET_AT)

    def save(self, progress: TimerProgress) -> None:
        """Write and sync."""
        data = progress.encode()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.fstat(descriptor).st_size < PAGE_BYTES:
                os.ftruncate(descriptor, PAGE_BYTES)
            os.pwrite(descriptor, data.ljust(COPY_AT, b"\0") + data, 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self.saved, self.is_ours = progress, True


def without_master(fields: bytes) -> bytes:
    return fields[:MASTER_QUEUE_OFFSET_AT] + fields[MASTER_QUEUE_OFFSET_AT + 8 :]
