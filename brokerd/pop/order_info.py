"""Orderly POP: one block of messages per queue and group is out at a time, and what is known of it.

The next pop of the queue gets messages when every one of the block is acknowledged, or those that are not became
visible again, or the pop repeats the attempt that took the block. How often a message was consumed is counted here, as
it goes to no retry topic. Saved as consumerOrderInfo.json. Source: `ConsumerOrderInfoManager.java`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from brokerd.pop.checkpoint import GroupQueue
from brokerd.remoting.body import fastjson
from brokerd.remoting.message.pop_handle import message_count_info, queue_count_info

KEPT_MS = 24 * 3_600_000  # after the last pop of a queue
BLOCK_MAX = 64  # bits of commitOffsetBit


@dataclass(slots=True)
class OrderInfo:
    """The block that is out: offsets ascend; bit n of `acked` stands for the nth of them."""

    attempt_id: str | None
    pop_time_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]
    popped_ms: int
    acked: int = 0
    visible_ms: dict[int, int] = field(default_factory=dict)  # offset → when, of those that were changed
    consumed: dict[int, int] = field(default_factory=dict)  # offset → how often before

    def blocked_until(self, now_ms: int) -> int | None:
        """Return when the first message that is out becomes visible again; None while none is out."""
        for bit, offset in enumerate(self.offsets):
            if not self.acked >> bit & 1:
                visible_ms = self.visible_ms.get(offset, self.pop_time_ms + self.invisible_ms)
                if now_ms < visible_ms:
                    return visible_ms
        return None

    @property
    def next_offset(self) -> int:
        """The first offset that is not acknowledged; after the last when all are."""
        for bit, offset in enumerate(self.offsets):
            if not self.acked >> bit & 1:
                return offset
        return self.offsets[-1] + 1

    def consumed_after(self, offsets: Sequence[int], attempt_id: str | None) -> dict[int, int]:
        """Return how often messages of the next block were consumed; the same attempt counts no second time."""
        if self.attempt_id is not None and self.attempt_id == attempt_id:
            return self.consumed
        return {offset: self.consumed.get(offset, 0) + 1 for offset in offsets if offset in self.offsets}


class OffsetUnknown(LookupError):
    """The offset is not of the block that is out."""


class OrderInfoTable:
    """Blocks by queue and group. Single-threaded: the broker's event loop."""

    def __init__(self, blocks: dict[GroupQueue, OrderInfo] | None = None) -> None:
        self.blocks = blocks or {}
        self.is_changed = False

    def blocked_until(self, queue: GroupQueue, attempt_id: str | None, now_ms: int) -> int | None:
        """Return when a queue that may not be popped now may be; None for one that may."""
        block = self.blocks.get(queue)
        if block is None or (block.attempt_id is not None and block.attempt_id == attempt_id):
            return None
        return block.blocked_until(now_ms)

    def pop(
        self,
        queue: GroupQueue,
        attempt_id: str | None,
        pop_time_ms: int,
        invisible_ms: int,
        offsets: Sequence[int],
    ) -> list[str]:
        """Note a block; return the entries of orderCountInfo."""
        before = self.blocks.get(queue)
        block = OrderInfo(attempt_id, pop_time_ms, invisible_ms, tuple(offsets), pop_time_ms)
        if before is not None:
            block.consumed = before.consumed_after(offsets, attempt_id)
        self.blocks[queue] = block
        self.is_changed = True
        topic, queue_id = queue.topic, queue.queue_id
        entries = [
            message_count_info(topic, queue_id, offset, count) for offset, count in block.consumed.items()
        ]
        is_whole = len(block.consumed) == len(block.offsets)
        least = min(block.consumed.values(), default=0) if is_whole else 0
        return [*entries, queue_count_info(topic, queue_id, least)]

    def acknowledge(self, queue: GroupQueue, offset: int, pop_time_ms: int) -> int | None:
        """Return the offset to commit; None for a block that was popped again. Raises OffsetUnknown."""
        block = self.blocks.get(queue)
        if block is None:
            return offset + 1
        if block.pop_time_ms != pop_time_ms:
            return None
        if offset not in block.offsets:
            raise OffsetUnknown(offset)
        block.acked |= 1 << block.offsets.index(offset)
        self.is_changed = True
        return block.next_offset

    def change_visible(self, queue: GroupQueue, offset: int, pop_time_ms: int, visible_ms: int) -> None:
        block = self.blocks.get(queue)
        if block is not None and block.pop_time_ms == pop_time_ms:
            block.visible_ms[offset] = visible_ms
            self.is_changed = True

    def clear(self, queue: GroupQueue) -> None:
        """Let a queue be popped whatever is out: its offset was reset."""
        self.is_changed |= self.blocks.pop(queue, None) is not None

    def drop(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Take out a deleted topic or group."""
        for queue in [each for each in self.blocks if each.topic == topic or each.group == group]:
            self.clear(queue)

    def drop_old(self, now_ms: int) -> None:
        for queue in [each for each, block in self.blocks.items() if now_ms - block.popped_ms > KEPT_MS]:
            self.clear(queue)

    def pieces(self) -> Iterator[bytes]:
        """Return the file's content."""
        self.is_changed = False
        yield fastjson.dumps(document(self.blocks))

    def document_pieces(self) -> Iterator[bytes]:
        return iter(list(self.pieces()))


def document(blocks: dict[GroupQueue, OrderInfo]) -> dict[str, object]:
    """RocketMQ's own shape of consumerOrderInfo.json: offsets but for the first are differences to it."""
    table: dict[str, dict[str, object]] = {}
    for queue, block in blocks.items():
        first = block.offsets[0]
        entry: dict[str, object] = {
            "cm": block.acked,
            "i": block.invisible_ms,
            "l": block.popped_ms,
            "o": [first, *(offset - first for offset in block.offsets[1:])],
            "popTime": block.pop_time_ms,
        }
        if block.attempt_id is not None:
            entry["a"] = block.attempt_id
        if block.consumed:
            entry["oc"] = {str(offset): count for offset, count in block.consumed.items()}
        if block.visible_ms:
            entry["ot"] = {str(offset): visible for offset, visible in block.visible_ms.items()}
        table.setdefault(f"{queue.topic}@{queue.group}", {})[str(queue.queue_id)] = entry
    return {"table": table}


def parse(content: bytes) -> dict[GroupQueue, OrderInfo]:
    """Raises BodyError, KeyError, TypeError or ValueError."""
    blocks = {}
    for name, queues in fastjson.loads(content)["table"].items():
        topic, _, group = name.partition("@")
        for queue_id, entry in queues.items():
            first, *differences = entry.get("o") or [None]
            if first is None:
                continue
            blocks[GroupQueue(topic, group, int(queue_id))] = OrderInfo(
                entry.get("a"),
                int(entry["popTime"]),
                int(entry.get("i") or 0),
                (int(first), *(int(first) + int(each) for each in differences)),
                int(entry.get("l") or 0),
                int(entry.get("cm") or 0),
                {int(offset): int(visible) for offset, visible in (entry.get("ot") or {}).items()},
                {int(offset): int(count) for offset, count in (entry.get("oc") or {}).items()},
            )
    return blocks
