"""One round of each kind of slow peer."""

from tests.hard.slow_peers import KINDS, run_round
from tests.hard.tally import run_rounds


def test_no_slow_peer_harms_the_broker_or_its_other_clients() -> None:
    tally = run_rounds("slow_peers", run_round, rounds=len(KINDS), seed=0)
    assert tally.failures == []
    assert tally.outcomes == {kind.__name__: 1 for kind in KINDS}
