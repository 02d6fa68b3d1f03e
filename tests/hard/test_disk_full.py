"""A few rounds of the full disk, one file system of each kind, and one of a disk that fails."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.hard.disk_full import in_own_namespace


def test_a_full_disk_loses_nothing_and_kills_nothing() -> None:
    done = subprocess.run(in_own_namespace(["--rounds", "3", "--seed", "9"]), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = json.loads(done.stdout)["outcomes"]
    assert sum(outcomes.values()) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="a failing disk is made of a loop device, which takes root")
def test_a_disk_that_fails_takes_nothing_more() -> None:
    command = in_own_namespace(["--rounds", "1", "--seed", "1"], "failed_flush")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
