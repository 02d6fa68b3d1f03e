from __future__ import annotations

from tests.hard.damage_store import run_round
from tests.hard.tally import run_rounds


def test_damage_is_cut_refused_or_kept_from_consumers() -> None:
    tally = run_rounds("damage_store", run_round, rounds=20, seed=1)
    assert tally.failures == []
    assert {outcome.split(" ")[0] for outcome in tally.outcomes} >= {
        "power:",
        "batch:",
        "flip",
        "zero",
        "delete",
    }
