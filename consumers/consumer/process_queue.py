"""ProcessQueue: what a push consumer has pulled from one queue and is not done with.

Pure; time is an argument.

Semantics reference 9.4 (ProcessQueue.java). Offsets only grow within one ProcessQueue, so insertion order is
offset order and the first key is the oldest message.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from brokerd.remoting.body.client import ProcessQueueInfo
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord

# ProcessQueue.PULL_MAX_IDLE_TIME: a queue without any attempt to pull for so long has lost its pull loop.
PULL_IDLE_MAX_MS = 120_000
# ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME: half of the broker's 60 s, so that we stop before another may
# start.
LOCK_LIVE_MAX_MS = 30_000


class ProcessQueue:
    """The messages of one queue while it is ours.

    Life: created when a queue becomes ours → messages are put and removed → (orderly: `end`: the running
    batch is the last) → `drop`: nothing counts any more.

    Three tasks of one event loop share it; every method names which of them calls it and what it changes.
    Cached = pulled and not done with. For an orderly consumer, taken messages are being consumed and still
    cached.
    """

    def __init__(self, message_queue: MessageQueue, now_ms: int) -> None:
        self.message_queue = message_queue
        self.is_dropped = False
        self.ending_since_ms: int | None = None
        # Rounds in which it was to be given up, and its batch still ran.
        self.try_unlock_times = 0
        self.cached_bytes = 0
        self.last_pull_ms = now_ms
        self.last_consume_ms = now_ms
        self.lock_ms: int | None = None
        self._messages: OrderedDict[int, MessageRecord] = OrderedDict()
        self._taken: OrderedDict[int, MessageRecord] = OrderedDict()
        self._consume_started_ms: dict[int, int] = {}
        self._next_offset = 0

    def __repr__(self) -> str:
        state = "dropped" if self.is_dropped else f"{self.cached_count} cached"
        return f"<ProcessQueue {self.message_queue.topic} {self.message_queue.queue_id} {state}>"

    # Anybody

    @property
    def cached_count(self) -> int:
        return len(self._messages) + len(self._taken)

    @property
    def min_offset(self) -> int | None:
        """The oldest cached offset."""
        firsts = [next(iter(part)) for part in (self._taken, self._messages) if part]
        return min(firsts) if firsts else None

    @property
    def max_offset(self) -> int | None:
        """The newest cached offset."""
        lasts = [next(reversed(part)) for part in (self._taken, self._messages) if part]
        return max(lasts) if lasts else None

    @property
    def max_span(self) -> int:
        """Newest minus oldest cached offset: how far one stuck message has let the others run ahead."""
        first, last = self.min_offset, self.max_offset
        return 0 if first is None or last is None else last - first

    def is_locked(self, now_ms: int) -> bool:
        """Return whether the broker's lock is ours and fresh (orderly, clustering)."""
        return self.lock_ms is not None and now_ms - self.lock_ms <= LOCK_LIVE_MAX_MS

    def is_over(self, now_ms: int) -> bool:
        """Return whether it must be given up whatever the allocation is."""
        is_pull_expired = now_ms - self.last_pull_ms > PULL_IDLE_MAX_MS
        return self.is_dropped or self.ending_since_ms is not None or is_pull_expired

    def info(self, commit_offset: int, now_ms: int) -> ProcessQueueInfo:
        """For GET_CONSUMER_RUNNING_INFO (307)."""
        taken = list(self._taken)
        return ProcessQueueInfo(
            commit_offset=commit_offset,
            cached_msg_min_offset=self.min_offset or 0,
            cached_msg_max_offset=self.max_offset or 0,
            cached_msg_count=self.cached_count,
            cached_msg_size_in_mib=self.cached_bytes // (1024 * 1024),
            transaction_msg_min_offset=taken[0] if taken else 0,
            transaction_msg_max_offset=taken[-1] if taken else 0,
            transaction_msg_count=len(taken),
            locked=self.is_locked(now_ms),
            try_unlock_times=self.try_unlock_times,
            last_lock_timestamp=self.lock_ms or 0,
            dropped=self.is_dropped or self.ending_since_ms is not None,
            last_pull_timestamp=self.last_pull_ms,
            last_consume_timestamp=self.last_consume_ms,
        )

    # The pull loop

    def put_messages(self, messages: Iterable[MessageRecord]) -> None:
        """Caller: pull loop. Affects: cached messages and bytes. A repeated offset replaces the message."""
        for message in messages:
            offset = message.queue_offset
            if offset < self._next_offset and offset in self._messages:
                self.cached_bytes -= len(self._messages[offset].body)
            self.cached_bytes += len(message.body)
            self._messages[offset] = message
            self._next_offset = max(self._next_offset, offset + 1)

    # ConsumeMessageService, concurrent

    def start_messages(self, messages: Iterable[MessageRecord], now_ms: int) -> None:
        """Record when a handler got these. Caller: consume service. Affects: expired messages."""
        self.last_consume_ms = now_ms
        for message in messages:
            self._consume_started_ms[message.queue_offset] = now_ms

    def remove_messages(self, messages: Iterable[MessageRecord]) -> int | None:
        """Drop consumed messages; return the next committable offset: everything before it is done with.

        None when nothing was cached. Caller: consume service. Affects: cached messages and bytes.
        """
        if not self._messages:
            return None
        for message in messages:
            removed = self._messages.pop(message.queue_offset, None)
            if removed is not None:
                self.cached_bytes -= len(removed.body)
                self._consume_started_ms.pop(message.queue_offset, None)
        return next(iter(self._messages), self._next_offset)

    def replace_message(self, message: MessageRecord) -> bool:
        """Keep the message with changed reconsume times; False when it is gone. Caller: consume service."""
        if message.queue_offset not in self._messages:
            return False
        self._messages[message.queue_offset] = message
        self._consume_started_ms.pop(message.queue_offset, None)
        return True

    def expired_messages(self, timeout_ms: int, now_ms: int, limit: int = 16) -> list[MessageRecord]:
        """Return messages from the head whose handler has run longer than `timeout_ms`. Caller: consume service."""
        expired: list[MessageRecord] = []
        for offset, message in self._messages.items():
            started_ms = self._consume_started_ms.get(offset)
            if started_ms is None or now_ms - started_ms <= timeout_ms or len(expired) >= limit:
                break
            expired.append(message)
        return expired

    # PullConsumer

    def pop_messages(self, limit: int, now_ms: int) -> list[MessageRecord]:
        """Drop the oldest messages and return them. Caller: PullConsumer. Affects: cached messages and bytes."""
        self.last_consume_ms = now_ms
        if len(self._messages) <= limit:
            popped = list(self._messages.values())
            self._messages.clear()
            self.cached_bytes = 0
        else:
            popped = [self._messages.popitem(last=False)[1] for _ in range(limit)]
            self.cached_bytes -= sum(len(message.body) for message in popped)
        return popped

    # ConsumeMessageService, orderly

    def take_messages(self, limit: int, now_ms: int) -> list[MessageRecord]:
        """Move the oldest messages to the handler; none when the queue is ending.

        Caller: consume service. Affects: taken messages.
        """
        taken: list[MessageRecord] = []
        if self.ending_since_ms is not None or self.is_dropped:
            return taken
        self.last_consume_ms = now_ms
        while self._messages and len(taken) < limit:
            offset, message = self._messages.popitem(last=False)
            self._taken[offset] = message
            taken.append(message)
        return taken

    def commit_taken(self) -> int | None:
        """Drop what was taken; return the offset after it.

        Caller: consume service. Affects: taken, bytes.
        """
        if not self._taken:
            return None
        next_offset = next(reversed(self._taken)) + 1
        self.cached_bytes -= sum(len(message.body) for message in self._taken.values())
        self._taken.clear()
        return next_offset

    def taken_messages(self) -> list[MessageRecord]:
        """Caller: consume service, after a failure of its own."""
        return list(self._taken.values())

    def put_back(self, messages: Sequence[MessageRecord]) -> None:
        """Give taken messages back, to be taken again first, with changed reconsume times.

        Caller: consume service.
        """
        for message in sorted(messages, key=lambda m: m.queue_offset, reverse=True):
            self._taken.pop(message.queue_offset, None)
            self._messages[message.queue_offset] = message
            self._messages.move_to_end(message.queue_offset, last=False)

    # The rebalancer

    def end(self, now_ms: int) -> None:
        """Give no more messages to the handler. Caller: rebalancer. Affects: take_messages."""
        if self.ending_since_ms is None:
            self.ending_since_ms = now_ms

    def drop(self) -> None:
        """The queue is not ours any more: results that still come are ignored.

        Caller: rebalancer, pull loop.
        """
        self.is_dropped = True

    def clear(self) -> None:
        """Drop all messages (an offset reset). Caller: PushConsumer."""
        self._messages.clear()
        self._taken.clear()
        self._consume_started_ms.clear()
        self.cached_bytes = 0


@dataclass(frozen=True, slots=True)
class AllocationChange:
    """What a new allocation changes; both in queue order."""

    drop: list[MessageQueue]
    add: list[MessageQueue]

    def __bool__(self) -> bool:
        return bool(self.drop or self.add)


class ProcessQueueTable:
    """The queues that are ours. Changed by the rebalancer and by an offset reset; read by all parts."""

    def __init__(self) -> None:
        self._queues: dict[MessageQueue, ProcessQueue] = {}
        self._by_topic: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._queues)

    def __iter__(self) -> Iterator[MessageQueue]:
        return iter(sorted(self._queues))

    def get(self, message_queue: MessageQueue) -> ProcessQueue | None:
        return self._queues.get(message_queue)

    def values(self) -> list[ProcessQueue]:
        return [self._queues[queue] for queue in self]

    def count_of_topic(self, topic: str) -> int:
        return self._by_topic[topic]

    def add(self, process_queue: ProcessQueue) -> None:
        """Caller: rebalancer. Affects: what `compare` calls ours."""
        assert process_queue.message_queue not in self._queues, process_queue
        self._queues[process_queue.message_queue] = process_queue
        self._by_topic[process_queue.message_queue.topic] += 1

    def remove(self, message_queue: MessageQueue) -> ProcessQueue | None:
        """Caller: rebalancer, offset reset. The queue is dropped as well."""
        process_queue = self._queues.pop(message_queue, None)
        if process_queue is not None:
            process_queue.drop()
            self._by_topic[message_queue.topic] -= 1
        return process_queue

    def compare(self, topic: str, allocated: Iterable[MessageQueue], now_ms: int) -> AllocationChange:
        """Return which queues of the topic to give up, and which to begin with (updateProcessQueueTableInRebalance).

        A queue that stays ours and yet lost its pull loop, is ending or was dropped on the way, is given up
        and begun anew.
        """
        wanted = set(allocated)
        drop = [
            queue
            for queue in self
            if queue.topic == topic and (queue not in wanted or self._queues[queue].is_over(now_ms))
        ]
        kept = set(self._queues) - set(drop)
        return AllocationChange(drop=drop, add=sorted(wanted - kept))

    def unsubscribed(self, topics: Iterable[str]) -> list[MessageQueue]:
        """Return queues of topics that are not among `topics` any more."""
        known = set(topics)
        return [queue for queue in self if queue.topic not in known]
