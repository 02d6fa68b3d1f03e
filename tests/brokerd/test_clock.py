from __future__ import annotations

from brokerd.clock import steady_ms, wall_ms


def test_steady_times_look_like_wall_times() -> None:
    assert abs(steady_ms() - wall_ms()) < 60_000
    first = steady_ms()
    assert steady_ms() >= first
