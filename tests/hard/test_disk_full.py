"""A few rounds of the full disk: one file system of each kind."""

from __future__ import annotations

import json
import subprocess

from tests.hard.disk_full import in_own_namespace


def test_a_full_disk_loses_nothing_and_kills_nothing() -> None:
    done = subprocess.run(in_own_namespace(["--rounds", "3", "--seed", "9"]), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = json.loads(done.stdout)["outcomes"]
    assert sum(outcomes.values()) == 3
