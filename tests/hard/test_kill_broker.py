from __future__ import annotations

from tests.hard.kill_broker import run_round
from tests.hard.tally import run_rounds


def test_kill_9_under_load_takes_nothing_acknowledged() -> None:
    assert run_rounds("kill_broker", run_round, rounds=1, seed=3).failures == []
