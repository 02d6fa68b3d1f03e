"""Two rounds of clock steps: one of each way of flushing."""

from __future__ import annotations

import pytest

from tests.hard.clock_steps import run_round


@pytest.mark.parametrize(("seed", "flush"), [(1, "ASYNC_FLUSH"), (5, "SYNC_FLUSH")])
def test_a_clock_that_steps_stops_nothing(seed: int, flush: str) -> None:
    assert run_round(seed) == flush
