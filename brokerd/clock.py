"""The two clocks: the wall's for what is stored and shown, a steady one for intervals and deadlines."""

from __future__ import annotations

import time

# Steady times look like wall times: they begin at the wall clock's and go on evenly when that is set.
STEADY_OFFSET_MS = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """For intervals and deadlines; never for what outlives the process."""
    return time.monotonic_ns() // 1_000_000 + STEADY_OFFSET_MS
