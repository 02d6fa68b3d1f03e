"""A sample of the frame fuzz: the same seeds at every run."""

from tests.hard.fuzz_frames import run_round
from tests.hard.tally import run_rounds


def test_no_frame_harms_the_broker_or_its_other_clients() -> None:
    tally = run_rounds("fuzz_frames", run_round, rounds=600, seed=1)
    assert tally.failures == []
    assert tally.outcomes.keys() == {"answered", "closed", "incomplete"}
