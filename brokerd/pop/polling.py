"""Pops that wait for messages (long polling), by topic, group and queue; queue −1 stands for any.

An arrival wakes one request of each group that may want it: the others would find nothing. One that found messages and
left some wakes the next. Source: `PopLongPollingService.java`. Where Java scans every 20 ms, the next time is kept.
Single-threaded: the broker's event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from brokerd.clients.pull_request_hold import HeldPull, PullRequestHoldService
from brokerd.connections.channel import Channel
from brokerd.pop.checkpoint import GroupQueue

POLLS_MAX = 100_000  # maxPopPollingSize
POLLS_OF_QUEUE_MAX = 1_024  # popPollingSize
ANY_QUEUE = -1


@dataclass(slots=True, eq=False)
class Poll:
    """One waiting request. `resume` runs it again and answers it, or holds it again."""

    channel: Channel
    queue: GroupQueue
    tags_codes: frozenset[int] | None  # None: every message matches
    wake_ms: int  # its deadline, or when a block of an orderly queue ends
    resume: Callable[[int], None]


@dataclass(slots=True, eq=False)
class PollQueue:
    """The requests of one group for one queue, oldest first, and the one that was woken last."""

    queue: GroupQueue
    waiting: deque[Poll] = field(default_factory=deque)
    woken: Poll | None = None


class PopPolling:
    """`topics` of a request: where its messages arrive, its topic and the retry topics of its group."""

    def __init__(self, hold: PullRequestHoldService) -> None:
        self._hold = hold
        self._queues: dict[GroupQueue, PollQueue] = {}
        self._topics: dict[GroupQueue, tuple[str, ...]] = {}
        self._watchers: dict[str, list[PollQueue]] = {}
        self._next_ms = 0
        self.count = 0

    def count_of(self, queue: GroupQueue) -> int:
        found = self._queues.get(queue)
        return 0 if found is None else len(found.waiting)

    def poll(self, poll: Poll, topics: Sequence[str]) -> bool:
        """Keep a request until something arrives; False when too many wait already."""
        queue = self._queues.get(poll.queue)
        if self.count >= POLLS_MAX or (queue is not None and len(queue.waiting) >= POLLS_OF_QUEUE_MAX):
            return False
        if queue is None:
            queue = self._add(poll.queue, topics)
        queue.waiting.append(poll)
        if self.count == 0 or poll.wake_ms < self._next_ms:
            self._next_ms = poll.wake_ms
        self.count += 1
        return True

    def _add(self, key: GroupQueue, topics: Sequence[str]) -> PollQueue:
        queue = self._queues[key] = PollQueue(key)
        self._topics[key] = tuple(topics)
        for topic in topics:
            self._watchers.setdefault(topic, []).append(queue)
            self._hold.watchers.setdefault(topic, {})[self] = self.arrived
        return queue

    def _drop(self, key: GroupQueue) -> None:
        queue = self._queues.pop(key)
        for topic in self._topics.pop(key):
            watchers = self._watchers[topic]
            watchers.remove(queue)
            if not watchers:
                del self._watchers[topic]
                callbacks = self._hold.watchers[topic]
                del callbacks[self]
                if not callbacks:
                    del self._hold.watchers[topic]

    def arrived(self, topic: str, queue_id: int, tags_code: int) -> None:
        """A message got its place in a queue. Caller: the store's dispatcher, through the hold of pulls."""
        for queue in list(self._watchers.get(topic, ())):
            is_retry = topic != queue.queue.topic
            if is_retry or queue.queue.queue_id in (ANY_QUEUE, queue_id):
                self._wake_one(queue, tags_code)

    def wake(self, key: GroupQueue) -> None:
        """Messages of this queue can be popped that could not be."""
        for each in (key._replace(queue_id=ANY_QUEUE), key):
            queue = self._queues.get(each)
            if queue is not None:
                self._wake_one(queue, None)

    def _wake_one(self, queue: PollQueue, tags_code: int | None) -> None:
        if queue.woken is not None and queue.woken.channel.is_open:
            return  # it takes this message too
        for poll in queue.waiting:
            matches = tags_code is None or poll.tags_codes is None or tags_code in poll.tags_codes
            if matches and poll.channel.is_open:
                queue.woken = poll
                self._take_out(queue, poll)
                self._run_soon(queue, poll)
                return

    def _take_out(self, queue: PollQueue, poll: Poll) -> None:
        queue.waiting.remove(poll)
        self.count -= 1
        if not queue.waiting and queue.woken is None:
            self._drop(queue.queue)

    def _run_soon(self, queue: PollQueue, poll: Poll) -> None:
        def resume(now_ms: int) -> None:
            if queue.woken is poll:
                queue.woken = None
            try:
                poll.resume(now_ms)
            finally:
                if not queue.waiting and self._queues.get(queue.queue) is queue and queue.woken is None:
                    self._drop(queue.queue)

        self._hold.run_soon(
            HeldPull(
                channel=poll.channel,
                group=queue.queue.group,
                offset=0,
                tags_codes=None,
                deadline_ms=0,
                resume=resume,
            )
        )

    def take_due(self, now_ms: int) -> None:
        """Resume requests whose time has come, and drop those whose connection closed."""
        if not self._queues or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + 3_600_000
        for queue in list(self._queues.values()):
            if queue.woken is not None and not queue.woken.channel.is_open:
                queue.woken = None
                self._wake_one(queue, None)
            for poll in list(queue.waiting):
                if not poll.channel.is_open:
                    self._take_out(queue, poll)
                elif poll.wake_ms <= now_ms:
                    self._take_out(queue, poll)
                    self._run_soon(queue, poll)
                else:
                    self._next_ms = min(self._next_ms, poll.wake_ms)
            if not queue.waiting and queue.woken is None and self._queues.get(queue.queue) is queue:
                self._drop(queue.queue)
