"""The body of BATCH_ACK_MESSAGE (protocol section 3.9)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from brokerd.remoting.body.json_body import JsonBody, wire

OFFSETS_MAX = 1024  # of one entry; a pop gives 32 messages


@dataclass(slots=True)
class BatchAck(JsonBody):
    """Messages of one checkpoint; bit n of `bits` (little-endian, base64) stands for `start_offset` + n."""

    group: str = wire("c", "")
    topic: str = wire("t", "")
    retry: str = wire("r", "0")
    start_offset: int = wire("so", 0)
    queue_id: int = wire("q", 0)
    revive_queue_id: int = wire("rq", 0)
    pop_time_ms: int = wire("pt", 0)
    invisible_ms: int = wire("it", 0)
    bits: str = wire("b", "")

    def offsets(self) -> list[int]:
        """Raise ValueError for what is no base64 or too long."""
        try:
            data = base64.b64decode(self.bits, validate=True)
        except binascii.Error as error:
            raise ValueError(f"b={self.bits[:40]!r}: {error}") from error
        if len(data) * 8 > OFFSETS_MAX:
            raise ValueError(f"b has {len(data)} bytes, at most {OFFSETS_MAX // 8}")
        bits = int.from_bytes(data, "little")
        return [self.start_offset + bit for bit in range(bits.bit_length()) if bits >> bit & 1]


@dataclass(slots=True)
class BatchAckMessageRequestBody(JsonBody):
    """200151."""

    broker_name: str = ""
    acks: list[BatchAck] = field(default_factory=list)
