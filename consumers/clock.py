"""The clock that loops and entry points read; everything else is given the time."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Milliseconds since the epoch."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000
