"""A few faults at writes of plans and jobs; `make hard` runs every fault at every write."""

from __future__ import annotations

import json
import subprocess
import sys

ROUNDS = 4


def test_plans_and_jobs_survive_faults_at_their_writes() -> None:
    """In a process of its own, on a database of its own: it forks and kills."""
    command = [sys.executable, "-m", "tests.hard.plan_faults", "--rounds", str(ROUNDS), "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    tally = json.loads(done.stdout)
    assert (tally["rounds"], tally["failures"]) == (ROUNDS, [])
    assert done.returncode == 0
