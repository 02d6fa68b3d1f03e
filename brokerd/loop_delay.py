"""How long the event loop lets what is due wait: a timer that looks how late it comes, fifty times a second."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple

INTERVAL_S = 0.02
SAMPLES = 3_000  # one minute


class Delays(NamedTuple):
    """Of the last minute, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


class LoopDelay:
    """The sampler. Single-threaded: the event loop."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._due_s = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due_s = time.monotonic()
        self._look()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _look(self) -> None:
        now_s = time.monotonic()
        self.note(now_s - self._due_s)
        self._due_s = now_s + INTERVAL_S
        self._handle = asyncio.get_running_loop().call_later(INTERVAL_S, self._look)

    def note(self, delay_s: float) -> None:
        """Record a delay, and those of the samples that it prevented: a share of p99 is a share of time."""
        while delay_s > INTERVAL_S:
            self._samples.append(delay_s)
            delay_s -= INTERVAL_S
        self._samples.append(max(0.0, delay_s))

    def delays(self) -> Delays:
        found = sorted(self._samples) or [0.0]
        at = [found[min(len(found) - 1, int(len(found) * share))] for share in (0.5, 0.99)]
        return Delays(*(round(1000 * delay_s, 1) for delay_s in (*at, found[-1])))
