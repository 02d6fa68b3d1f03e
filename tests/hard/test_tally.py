"""A failed round is counted with its seed, and the rounds behind it still run."""

from tests.hard.tally import run_rounds


def test_it_counts_outcomes_and_keeps_the_seed_of_a_failure() -> None:
    def run_round(seed: int) -> str:
        assert seed != 8, "lost a message"
        return "even" if seed % 2 == 0 else "odd"

    tally = run_rounds("example", run_round, rounds=4, seed=7)

    assert tally.rounds == 4
    assert dict(tally.outcomes) == {"odd": 2, "failed": 1, "even": 1}
    assert [failure.seed for failure in tally.failures] == [8]
    assert "lost a message" in tally.failures[0].what


def test_a_failure_keeps_its_cause_and_the_end_of_what_was_printed() -> None:
    def run_round(seed: int) -> str:
        raise AssertionError("brokerd ended with -9: " + "x" * 1_000_000 + " last line")

    (failure,) = run_rounds("example", run_round, rounds=1, seed=7).failures
    assert failure.what.startswith("brokerd ended with -9: xxx") and failure.what.endswith("xxx last line\n")
    assert len(failure.what) < 3_000
