"""Owns the checkpoint file: up to which store times the files are durable.

    0                8                16               24               32               40     4096
    +----------------+----------------+----------------+----------------+----------------+-- … --+
    | physic time    | logics time    | index time     | master flushed | confirm offset | zero  |
    +----------------+----------------+----------------+----------------+----------------+-- … --+

Times in ms. Source: `store/.../StoreCheckpoint.java`, reference store-format §9. Unlike Java, the logics time
is only advanced after all consume queues were flushed: after a power failure it is then true.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

CHECKPOINT = struct.Struct(">qqqqq")
assert CHECKPOINT.size == 40
CHECKPOINT_FILE_BYTES = 4096
SAFETY_MS = 3_000  # StoreCheckpoint.getMinTimestamp


class StoreCheckpoint:
    """The five numbers in memory and their file."""

    def __init__(self, path: Path) -> None:
        """Read the file if it is there; a shorter or missing one counts as all zero."""
        self.path = path
        data = path.read_bytes()[: CHECKPOINT.size] if path.exists() else b""
        (
            self.physic_msg_timestamp_ms,
            self.logics_msg_timestamp_ms,
            self.index_msg_timestamp_ms,
            self.master_flushed_offset,
            self.confirm_offset,
        ) = CHECKPOINT.unpack(data.ljust(CHECKPOINT.size, b"\0"))
        self._written = data

    @property
    def min_timestamp_ms(self) -> int:
        """Records stored before this are in the durable part of log and consume queues."""
        oldest_ms: int = min(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms)
        return max(0, oldest_ms - SAFETY_MS)

    def flush(self) -> None:
        """Write and sync the file, if a number changed."""
        data = CHECKPOINT.pack(
            self.physic_msg_timestamp_ms,
            self.logics_msg_timestamp_ms,
            self.index_msg_timestamp_ms,
            self.master_flushed_offset,
            self.confirm_offset,
        )
        if data == self._written:
            return
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.fstat(descriptor).st_size < CHECKPOINT_FILE_BYTES:
                os.ftruncate(descriptor, CHECKPOINT_FILE_BYTES)
            os.pwrite(descriptor, data, 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self._written = data
