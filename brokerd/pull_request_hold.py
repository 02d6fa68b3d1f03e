"""Owns pulls that wait for messages (long polling): woken by an arrival, answered at their deadline.

Source: semantics §2.6 (`PullRequestHoldService.java`). Where Java scans every 5 s, a deadline is kept per request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from brokerd.channel import Channel

logger = logging.getLogger(__name__)

IsWoken = Callable[[Channel], bool]

HELD_MAX = 100_000  # beyond that a pull is answered at once instead of held
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
        self._ready: list[HeldPull] = []
        self._next_deadline_ms = 0
        self.count = 0

    def hold(self, topic: str, queue_id: int, pull: HeldPull) -> bool:
        """Keep a pull until something arrives; False when too many wait already."""
        if self.count >= HELD_MAX:
            return False
        self._held.setdefault((topic, queue_id), []).append(pull)
        if self.count == 0 or pull.deadline_ms < self._next_deadline_ms:
            self._next_deadline_ms = pull.deadline_ms
        self.count += 1
        return True

    def notify_arrival(self, topic: str, queue_id: int, new_max_offset: int, tags_code: int) -> None:
        """A message got its place in a queue. Caller: the store's dispatcher. Affects: what run_ready resumes."""
        held = self._held.get((topic, queue_id))
        if held is None:
            return
        waiting: list[HeldPull] = []
        for pull in held:
            matches = pull.tags_codes is None or tags_code in pull.tags_codes
            (self._ready if matches and new_max_offset > pull.offset else waiting).append(pull)
        self._replace((topic, queue_id), held, waiting)

    def wake_group(self, topic: str, group: str, queue_ids: Iterable[int], is_woken: IsWoken) -> None:
        """Resume a group's waiting pulls although nothing arrived: its offset was reset."""
        for key in [(topic, queue_id) for queue_id in queue_ids]:
            held = self._held.get(key, [])
            woken = [pull for pull in held if pull.group == group and is_woken(pull.channel)]
            if woken:
                self._ready.extend(woken)
                self._replace(key, held, [pull for pull in held if pull not in woken])

    def take_due(self, now_ms: int) -> None:
        """Move pulls whose deadline passed, and drop those whose connection closed."""
        if not self.count or now_ms < self._next_deadline_ms:
            return
        self._next_deadline_ms = now_ms + 3_600_000
        for key, held in list(self._held.items()):
            waiting = []
            for pull in held:
                if not pull.channel.is_open:
                    continue
                if pull.deadline_ms <= now_ms:
                    self._ready.append(pull)
                    continue
                waiting.append(pull)
                self._next_deadline_ms = min(self._next_deadline_ms, pull.deadline_ms)
            self._replace(key, held, waiting)
        # With many, some deadline is always due: they share a scan and are a little late. Clients wait twice as long.
        self._next_deadline_ms = max(self._next_deadline_ms, now_ms + self.count // LOOKED_AT_A_MS)

    def _replace(self, key: tuple[str, int], held: list[HeldPull], waiting: list[HeldPull]) -> None:
        self.count -= len(held) - len(waiting)
        if waiting:
            self._held[key] = waiting
        else:
            del self._held[key]

    def run_ready(self, now_ms: int) -> None:
        """Answer what was woken; once per read of a socket, not once per message.

        One that fails is logged and left to its client's timeout: the caller is mostly another client's send.
        """
        while self._ready:
            ready, self._ready = self._ready, []
            for pull in ready:
                if not pull.channel.is_open:
                    continue
                try:
                    pull.resume(now_ms)
                except Exception:
                    logger.exception("held pull failed group=%s offset=%d", pull.group, pull.offset)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)
