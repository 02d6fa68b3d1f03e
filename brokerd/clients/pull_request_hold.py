"""Pulls that wait for messages (long polling): woken by an arrival, answered at their deadline.

Source: semantics §2.6 (`PullRequestHoldService.java`). Where Java scans every 5 s, a deadline is kept per request.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from brokerd.connections.channel import Channel

logger = logging.getLogger(__name__)

IsWoken = Callable[[Channel], bool]
Arrived = Callable[[str, int, int], None]  # topic, queue id, tags code

HELD_MAX = 100_000
HELD_A_CONNECTION_MAX = 10_000  # a client has one for each of its queues
READY_A_TURN = 200  # answers to held pulls in one turn of the event loop: 5 ms
LOOKED_AT_A_MS = 20  # held pulls per ms between two scans: 20,000 are looked at once a second, in 3 ms


@dataclass(slots=True, eq=False)
class HeldPull:
    """One waiting pull. `resume` runs it again, without holding, and answers it."""

    channel: Channel
    group: str
    offset: int
    tags_codes: frozenset[int] | None  # None: every message matches
    deadline_ms: int
    resume: Callable[[int], None]  # now_ms


class PullRequestHoldService:
    """The held pulls per (topic, queue id). Single-threaded: the broker's event loop."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], list[HeldPull]] = {}
        self._of: dict[Channel, int] = {}
        self._ready: deque[HeldPull] = deque()
        self._next_deadline_ms = 0
        self.count = 0
        # Topic → who else waits for its messages (POP), by who that is.
        self.watchers: dict[str, dict[object, Arrived]] = {}
        # Runs a call in the next turn of the event loop.
        self.soon: Callable[[Callable[[], None]], object] = lambda call: call()
        self._is_going_on = False

    def has_room(self, channel: Channel) -> bool:
        """Return whether one more pull of this connection may wait."""
        return self.count < HELD_MAX and self._of.get(channel, 0) < HELD_A_CONNECTION_MAX

    def hold(self, topic: str, queue_id: int, pull: HeldPull) -> bool:
        """Keep a pull until something arrives; False when too many wait already."""
        if not self.has_room(pull.channel):
            return False
        self._held.setdefault((topic, queue_id), []).append(pull)
        self._of[pull.channel] = self._of.get(pull.channel, 0) + 1
        if self.count == 0 or pull.deadline_ms < self._next_deadline_ms:
            self._next_deadline_ms = pull.deadline_ms
        self.count += 1
        return True

    @property
    def is_awaited(self) -> bool:
        """Whether a pull or a pop waits for any message."""
        return bool(self._held or self.watchers)

    def notify_arrival(self, topic: str, queue_id: int, new_max_offset: int, tags_code: int) -> None:
        """A message got its place in a queue. Caller: the store's dispatcher. Affects: what run_ready resumes."""
        if self.watchers:
            for arrived in list(self.watchers.get(topic, {}).values()):
                arrived(topic, queue_id, tags_code)
        held = self._held.get((topic, queue_id))
        if held is None:
            return
        woken: list[HeldPull] = []
        waiting: list[HeldPull] = []
        for pull in held:
            matches = pull.tags_codes is None or tags_code in pull.tags_codes
            (woken if matches and new_max_offset > pull.offset else waiting).append(pull)
        self._ready.extend(woken)
        self._replace((topic, queue_id), woken, waiting)

    def wake_group(self, topic: str, group: str, queue_ids: Iterable[int], is_woken: IsWoken) -> None:
        """Resume a group's waiting pulls although nothing arrived: its offset was reset."""
        for key in [(topic, queue_id) for queue_id in queue_ids]:
            woken: list[HeldPull] = []
            waiting: list[HeldPull] = []
            for pull in self._held.get(key, []):
                (woken if pull.group == group and is_woken(pull.channel) else waiting).append(pull)
            if woken:
                self._ready.extend(woken)
                self._replace(key, woken, waiting)

    def take_due(self, now_ms: int) -> None:
        """Move pulls whose deadline passed, and drop those whose connection closed."""
        if not self.count or now_ms < self._next_deadline_ms:
            return
        self._next_deadline_ms = now_ms + 3_600_000
        for key, held in list(self._held.items()):
            gone: list[HeldPull] = []
            waiting: list[HeldPull] = []
            for pull in held:
                if not pull.channel.is_open:
                    gone.append(pull)
                elif pull.deadline_ms <= now_ms:
                    gone.append(pull)
                    self._ready.append(pull)
                else:
                    waiting.append(pull)
                    self._next_deadline_ms = min(self._next_deadline_ms, pull.deadline_ms)
            self._replace(key, gone, waiting)
        # With many, some deadline is always due: they share a scan and are a little late. Clients wait twice as long.
        self._next_deadline_ms = max(self._next_deadline_ms, now_ms + self.count // LOOKED_AT_A_MS)

    def run_soon(self, pull: HeldPull) -> None:
        """Have what waited elsewhere resumed with the others that are ready."""
        self._ready.append(pull)

    def _replace(self, key: tuple[str, int], gone: list[HeldPull], waiting: list[HeldPull]) -> None:
        self.count -= len(gone)
        for pull in gone:
            left = self._of[pull.channel] - 1
            if left:
                self._of[pull.channel] = left
            else:
                del self._of[pull.channel]
        if waiting:
            self._held[key] = waiting
        else:
            del self._held[key]

    def run_ready(self, now_ms: int) -> None:
        """Answer what was woken; once per read of a socket, not once per message.

        Of thousands the first READY_A_TURN, and the others in the next turns of the event loop: the caller is mostly
        another client's send. One that fails is logged and left to its client's timeout.
        """
        if self._is_going_on:
            return
        self._run_some(now_ms)
        if self._ready:
            self._is_going_on = True
            self.soon(partial(self._go_on, now_ms))

    def _go_on(self, now_ms: int) -> None:
        self._is_going_on = False
        self.run_ready(now_ms)

    def _run_some(self, now_ms: int) -> None:
        for _ in range(min(len(self._ready), READY_A_TURN)):
            pull = self._ready.popleft()
            if not pull.channel.is_open:
                continue
            try:
                pull.resume(now_ms)
            except Exception:
                logger.exception("held pull failed group=%s offset=%d", pull.group, pull.offset)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)
