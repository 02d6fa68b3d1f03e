from __future__ import annotations

import time

from consumers.clock import system_clock


def test_it_counts_milliseconds_since_the_epoch() -> None:
    assert abs(system_clock() - time.time() * 1000) < 60_000
