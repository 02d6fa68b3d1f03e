"""Checkpoints and acknowledgements: what the revive log holds, and its JSON, as Java writes and reads it.

A checkpoint names messages that one pop took from one queue; acknowledgements name offsets of one. Both lie in a queue
of `rmq_sys_REVIVE_LOG_<cluster>` under the tags `ck`, `ack` (one offset) and `bAck` (several).

Source: `PopCheckPoint.java`, `AckMsg.java`, `BatchAckMsg.java`, `PopMessageProcessor.genCkUniqueId`. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import orjson

CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
MESSAGES_MAX = 32  # of one pop: the bitmap of a checkpoint is an int
INT_SIGN = 1 << 31


class CheckpointKey(NamedTuple):
    """What acknowledgements name their checkpoint by."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    broker_name: str


class GroupQueue(NamedTuple):
    topic: str
    group: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Messages taken by one pop; `offsets` ascend. Bit n of `acked` stands for the nth of them, and no other is set."""

    key: CheckpointKey
    invisible_ms: int
    offsets: tuple[int, ...]
    acked: int = 0

    @property
    def revive_ms(self) -> int:
        """When what is not acknowledged becomes visible again."""
        return self.key.pop_time_ms + self.invisible_ms

    @property
    def unacked(self) -> list[int]:
        return [offset for bit, offset in enumerate(self.offsets) if not self.acked >> bit & 1]

    @property
    def unacked_count(self) -> int:
        return len(self.offsets) - self.acked.bit_count()

    @property
    def queue(self) -> GroupQueue:
        return GroupQueue(self.key.topic, self.key.group, self.key.queue_id)

    def with_acked(self, acked_offsets: tuple[int, ...] | frozenset[int]) -> Checkpoint:
        """Return it with more offsets acknowledged; offsets that it does not have are passed over."""
        bits, offsets = self.acked, self.offsets
        for offset in acked_offsets:
            bit = bisect_left(offsets, offset)
            if bit < len(offsets) and offsets[bit] == offset:
                bits |= 1 << bit
        return Checkpoint(self.key, self.invisible_ms, offsets, bits)


@dataclass(frozen=True, slots=True)
class Ack:
    """Offsets of one checkpoint that are done with."""

    key: CheckpointKey
    offsets: tuple[int, ...]


class _CheckpointBody(msgspec.Struct):
    so: int
    pt: int
    it: int
    t: str
    n: int = 0
    bm: int = 0
    q: int = 0
    c: str = ""
    cid: str = ""
    d: list[int] | None = None
    bn: str = ""


class _AckBody(msgspec.Struct):
    so: int
    pt: int
    t: str
    c: str
    ao: int = -1
    q: int = 0
    bn: str = ""
    aol: list[int] | None = None


_checkpoint_decoder = msgspec.json.Decoder(_CheckpointBody, strict=False)
_ack_decoder = msgspec.json.Decoder(_AckBody, strict=False)


def checkpoint_body(checkpoint: Checkpoint) -> bytes:
    key = checkpoint.key
    return orjson.dumps(
        {
            "bm": checkpoint.acked - (1 << 32) if checkpoint.acked & INT_SIGN else checkpoint.acked,
            "bn": key.broker_name,
            "c": key.group,
            "d": [offset - key.start_offset for offset in checkpoint.offsets],
            "it": checkpoint.invisible_ms,
            "n": len(checkpoint.offsets),
            "pt": key.pop_time_ms,
            "q": key.queue_id,
            "reviveTime": checkpoint.revive_ms,
            "ro": 0,
            "so": key.start_offset,
            "t": key.topic,
        }
    )


def parse_checkpoint(body: bytes, broker_name: str) -> Checkpoint:
    """Raise ValueError. One without a broker's name is this broker's."""
    try:
        found = _checkpoint_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    group = found.c or found.cid
    if not found.t or not group:
        raise ValueError("it names no topic or no group")
    key = CheckpointKey(found.t, group, found.q, found.so, found.pt, found.bn or broker_name)
    # Releases before 5.0 final wrote no differences: the offsets follow each other.
    differences = found.d if found.d else range(min(max(found.n, 0), MESSAGES_MAX))
    offsets = tuple(found.so + difference for difference in differences)[:MESSAGES_MAX]
    return Checkpoint(key, found.it, offsets, found.bm & ((1 << len(offsets)) - 1))


def ack_body(ack: Ack) -> bytes:
    """Return an AckMsg of one offset, a BatchAckMsg of several."""
    key = ack.key
    body: dict[str, object] = {
        "ao": ack.offsets[0] if len(ack.offsets) == 1 else -1,
        "bn": key.broker_name,
        "c": key.group,
        "pt": key.pop_time_ms,
        "q": key.queue_id,
        "so": key.start_offset,
        "t": key.topic,
    }
    if len(ack.offsets) != 1:
        body["aol"] = list(ack.offsets)
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def parse_ack(body: bytes, broker_name: str) -> Ack:
    """Raise ValueError."""
    try:
        found = _ack_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    key = CheckpointKey(found.t, found.c, found.q, found.so, found.pt, found.bn or broker_name)
    return Ack(key, tuple(found.aol) if found.aol is not None else (found.ao,))


def ack_tag(ack: Ack) -> str:
    return ACK_TAG if len(ack.offsets) == 1 else BATCH_ACK_TAG


def unique_key_of_checkpoint(key: CheckpointKey) -> str:
    """Return the UNIQ_KEY that Java gives it."""
    return (
        f"{key.topic}@{key.queue_id}@{key.start_offset}@{key.group}@{key.pop_time_ms}@{key.broker_name}"
        f"@{CHECKPOINT_TAG}"
    )


def unique_key_of_ack(ack: Ack) -> str:
    """The same; Java names those of several by the offset -1 too."""
    key = ack.key
    offset = ack.offsets[0] if len(ack.offsets) == 1 else -1
    return f"{key.topic}@{key.queue_id}@{offset}@{key.group}@{key.pop_time_ms}@{key.broker_name}@{ACK_TAG}"
