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
