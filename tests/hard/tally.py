"""Count the outcomes of a fault harness round by round, and keep every failure's seed.

A harness is a module `tests/hard/<name>.py` with `run_round(seed) -> outcome`: one round with one kind of fault, made
from nothing but the seed. It raises AssertionError when a promise was broken. `python -m tests.hard.<name> --rounds N
--seed S` prints one JSON object and exits with 1 after a failure; `--seed S --rounds 1` repeats a failed round.
`tests/hard/test_<name>.py` runs a few rounds inside the test suite.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

# What a failure says first, and what the process printed last: a round's output between them may be megabytes.
CAUSE_CHARACTERS_MAX, FAILURE_CHARACTERS_MAX = 300, 2_000

RunRound = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Failure:
    seed: int
    what: str


@dataclass(slots=True)
class Tally:
    """What the rounds of one harness came to."""

    harness: str
    rounds: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(asdict(self) | {"outcomes": dict(sorted(self.outcomes.items()))}, indent=2)


def run_rounds(harness: str, run_round: RunRound, rounds: int, seed: int) -> Tally:
    """Run `rounds` rounds with the seeds `seed`, `seed + 1`, …; a failed round does not end the run."""
    tally = Tally(harness)
    started = time.monotonic()
    for round_seed in range(seed, seed + rounds):
        tally.rounds += 1
        try:
            tally.outcomes[run_round(round_seed)] += 1
        except Exception as failure:  # noqa: BLE001  whatever a round raises is its result
            what = f"{str(failure)[:CAUSE_CHARACTERS_MAX]}\n…\n{traceback.format_exc()[-FAILURE_CHARACTERS_MAX:]}"
            tally.outcomes["failed"] += 1
            tally.failures.append(Failure(round_seed, what))
    tally.seconds = round(time.monotonic() - started, 1)
    return tally


def main(harness: str, run_round: RunRound, rounds: int) -> None:
    """Entry point of a harness; `rounds` is how many `make hard` runs."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.hard.{harness}")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    arguments = parser.parse_args()
    tally = run_rounds(harness, run_round, arguments.rounds, arguments.seed)
    print(tally.as_json())
    sys.exit(1 if tally.failures else 0)
