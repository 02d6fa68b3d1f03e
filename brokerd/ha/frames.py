"""The bytes between a master and its slave, in both directions; pure.

    slave → master: how far its log goes. The first one is where it wants to begin, later ones acknowledge.
    +----------------+
    | offset         |
    +----------------+

    master → slave: a piece of the log. Size 0 is a sign of life. A piece may begin and end inside a record.
    +----------------+--------+------ … ------+
    | offset         | size   | bytes         |
    +----------------+--------+---------------+

Source: store-format §18 (`DefaultHAConnection.java`, `DefaultHAClient.java`); the same in 4.x and 5.x.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

REPORT = struct.Struct(">q")
TRANSFER = struct.Struct(">qi")
REPORT_BYTES, TRANSFER_BYTES = REPORT.size, TRANSFER.size
assert (REPORT_BYTES, TRANSFER_BYTES) == (8, 12)
# haTransferBatchSize is 32 KiB, and Java's slave reads into 4 MiB: what is longer cannot be meant.
PIECE_BYTES_MAX = 4 * 1024 * 1024 - TRANSFER_BYTES


class TransferError(Exception):
    """The peer does not speak this protocol; the connection is unusable."""


class Piece(NamedTuple):
    """Bytes of the master's log; none for a sign of life."""

    offset: int
    data: bytes


class TransferFrames:
    """What a slave receives. Feed it what was read, cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> Iterator[Piece]:
        """Yield the complete pieces. Raises TransferError behind those before the fault."""
        self._rest += data
        while len(self._rest) >= TRANSFER_BYTES:
            offset, size_bytes = TRANSFER.unpack_from(self._rest)
            if offset < 0 or not 0 <= size_bytes <= PIECE_BYTES_MAX:
                raise TransferError(
                    f"the master sent {size_bytes} bytes of offset {offset}: no piece of a log"
                )
            end = TRANSFER_BYTES + size_bytes
            if len(self._rest) < end:
                return
            piece = Piece(offset, self._rest[TRANSFER_BYTES:end])
            self._rest = self._rest[end:]
            yield piece


class ReportFrames:
    """What a master receives. Only the newest report counts."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> int | None:
        """Return the newest offset; None while none is complete. Raises TransferError."""
        self._rest += data
        complete = len(self._rest) - len(self._rest) % REPORT_BYTES
        if not complete:
            return None
        (offset,) = REPORT.unpack_from(self._rest, complete - REPORT_BYTES)
        self._rest = self._rest[complete:]
        if offset < 0:
            raise TransferError(f"the slave reported offset {offset}")
        return int(offset)
