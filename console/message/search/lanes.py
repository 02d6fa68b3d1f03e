"""Read many queues as one list in time order: what to pull next, and which hits are certain. Pure.

Each queue is a lane with a part that is still to be read. Going up, a lane's hits come as they are pulled; going
down, it is read in windows from its end, each window upwards and then reversed. The merge returns a hit only when
no lane can still hold one before it. Within a queue the order is by offset; between queues by store time, then by
the queue's name.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import deque
from collections.abc import Sequence

from console.brokers.body_unpack import DoesNotUnpack, inner_messages, is_batch
from console.brokers.mqadmin import MessageRecord, PullResult
from console.brokers.queues import BrokerQueue
from console.message.search.query import Query

WINDOW_MIN = 8
# Offsets of one queue between two moments when a hit can be returned: they wait in memory.
WINDOW_MAX = 2_048
PULL_MAX = 256  # messages of one pull; Apache brokers return 32 and, filtering, examine 800
LANES_AT_ONCE = 32  # pulls of one round: the queues of a large topic must not overload its brokers

Key = tuple[int, str, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Hit:
    """A message found.

    ``batch`` = (index from 1, size) inside a stored batch, (0, 0) for any other.
    """

    broker_name: str
    record: MessageRecord
    batch: tuple[int, int] = (0, 0)

    @property
    def key(self) -> Key:
        """Return its position in the merged order, oldest first."""
        record = self.record
        return (record.store_timestamp_ms, self.broker_name, record.queue_id, record.queue_offset)


@dataclasses.dataclass(frozen=True, slots=True)
class Pull:
    """One pull to make: ``count`` messages of the lane's queue from ``offset`` on."""

    lane: Lane
    offset: int
    count: int


class Lane:
    """One queue while it is read: [low, high) is what is still to be read."""

    def __init__(self, place: BrokerQueue, low: int, high: int, *, up: bool, window: int) -> None:
        self.place = place
        self.low, self.high = low, max(low, high)
        self.total = self.high - self.low
        self.found: deque[Hit] = deque()
        self.failure = ""  # why its reading stopped
        self._up = up
        self._first_window = self._window = window
        self._position: int | None = None  # inside a window that is read downwards
        self._window_low = self.high
        self._pending: list[Hit] = []

    @property
    def is_ended(self) -> bool:
        return bool(self.failure) or self.low >= self.high

    @property
    def is_unsure(self) -> bool:
        """Return whether an unread message of it may come before those of other queues."""
        return not self.found and not self.is_ended

    @property
    def read(self) -> int:
        """Return how many offsets were read."""
        in_window = 0 if self._position is None else self._position - self._window_low
        return self.total - (self.high - self.low) + in_window

    @property
    def cut(self) -> int:
        """Return the cut after the last returned hit: hits not yet returned lie beyond it."""
        if self._up:
            return self.found[0].record.queue_offset if self.found else self.low
        return self.found[0].record.queue_offset + 1 if self.found else self.high

    def next_pull(self) -> Pull:
        """Return what to pull now; only for a lane that has not ended."""
        if self._up:
            return Pull(self, self.low, min(PULL_MAX, self._window, self.high - self.low))
        if self._position is None:
            self._window_low = self._position = max(self.low, self.high - self._window)
        return Pull(self, self._position, min(PULL_MAX, self.high - self._position))

    def take(self, hits: Sequence[Hit], next_offset: int) -> None:
        """Record an answer: the hits found at offsets below ``next_offset``."""
        start = self.low if self._position is None else self._position
        mine = [hit for hit in hits if start <= hit.record.queue_offset < self.high]
        reached = min(next_offset, self.high) if next_offset > start else self.high
        if self._up:
            self.found.extend(mine)
            self.low = reached
            self._resize(found=bool(mine))
            return
        self._pending += mine
        self._position = reached
        if reached >= self.high:
            self.found.extend(reversed(self._pending))
            self._resize(found=bool(self._pending))
            self.high, self._position, self._pending = self._window_low, None, []

    def _resize(self, *, found: bool) -> None:
        """Read further at once where hits are rare."""
        self._window = self._first_window if found else min(self._window * 4, WINDOW_MAX)

    def fail(self, reason: str) -> None:
        """Stop reading a broker that does not answer; the cut stays before what was not read."""
        self.failure = reason
        self._position, self._pending = None, []


class Merge:
    """All lanes of one search as one list.

    ``ahead``: hits a lane may hold before it need not be read, so that a long list pulls all of its queues at once
    instead of one after the other.
    """

    def __init__(self, lanes: Sequence[Lane], *, up: bool, ahead: int = 0) -> None:
        self.lanes = list(lanes)
        self.up = up
        self._ahead = ahead

    def pulls(self) -> list[Pull]:
        """Return what to pull before another hit is certain; [] when everything left is certain."""
        unsure = [lane for lane in self.lanes if lane.is_unsure]
        if not unsure:
            return []
        low = [
            lane for lane in self.lanes if lane.found and len(lane.found) < self._ahead and not lane.is_ended
        ]
        return [lane.next_pull() for lane in [*unsure, *low][:LANES_AT_ONCE]]

    def certain(self, count: int) -> list[Hit]:
        """Remove and return up to ``count`` hits, in order, that no unread message can precede."""
        return [] if any(lane.is_unsure for lane in self.lanes) else self._take(count, until_unsure=True)

    def rest(self, count: int) -> list[Hit]:
        """Remove and return up to ``count`` hits in the order known so far, for a search that was stopped."""
        return self._take(count, until_unsure=False)

    def found(self) -> list[Hit]:
        """Return every hit not returned yet, in order."""
        hits = [hit for lane in self.lanes for hit in lane.found]
        return sorted(hits, key=lambda hit: hit.key, reverse=not self.up)

    def _take(self, count: int, *, until_unsure: bool) -> list[Hit]:
        heads = sorted((lane.found[0].key, index) for index, lane in enumerate(self.lanes) if lane.found)
        taken: list[Hit] = []
        while heads and len(taken) < count:
            _, index = heads.pop(0 if self.up else -1)
            lane = self.lanes[index]
            taken.append(lane.found.popleft())
            if lane.found:
                bisect.insort(heads, (lane.found[0].key, index))
            elif until_unsure and lane.is_unsure:
                break
        return taken

    @property
    def is_ended(self) -> bool:
        return all(lane.is_ended and not lane.found for lane in self.lanes)


def hits_of(query: Query, place: BrokerQueue, result: PullResult) -> list[Hit]:
    """Return the hits of a pull, batches split into their messages."""
    name = place.queue.broker_name
    hits = []
    for record in result.messages:
        if not is_batch(record):
            hits += _accepted(query, Hit(name, record))
            continue
        try:
            inner = inner_messages(record)
        except DoesNotUnpack:
            inner = []
        if not inner:
            hits += _accepted(query, Hit(name, record))  # its page shows why the batch cannot be split
        for index, each in enumerate(inner, start=1):
            hits += _accepted(query, Hit(name, each, (index, len(inner))))
    return hits


def _accepted(query: Query, hit: Hit) -> list[Hit]:
    """Return the hit without masked values, [] if it is none then: a filter must not find them either."""
    record = query.masks.masked(hit.record)
    return [dataclasses.replace(hit, record=record)] if query.accepts(record) else []


def hits_ahead(lanes: int, limit: int) -> int:
    """Return half of a lane's share of the wanted hits, at most one pull."""
    return min(PULL_MAX, limit // (2 * max(1, lanes)))


def first_window(lanes: int, limit: int) -> int:
    """Return the first window: twice a queue's share of the page."""
    return max(WINDOW_MIN, min(PULL_MAX, 2 * limit // max(1, lanes)))
