"""A run counts as over when its process is gone or it ended, never while it is frozen or elsewhere."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytest_django import Settings

from console.operation.job import run_lock

HOLD = """
import sys, time
from django.conf import settings
settings.configure(DATA_DIR=sys.argv[1])
from console.operation.job import run_lock
with run_lock.locked(sys.argv[2]):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


def test_a_frozen_process_is_not_over_and_a_killed_one_is(folder: Path) -> None:
    run = run_lock.new_run("worker-1")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), run], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        assert not run_lock.is_over(run)
        process.send_signal(signal.SIGSTOP)
        assert not run_lock.is_over(run)
        process.kill()
        process.wait()
    assert run_lock.is_over(run)


def test_a_run_of_another_machine_is_never_known_to_be_over(folder: Path) -> None:
    assert not run_lock.is_over("elsewhere:7:1.0badcafe")


def test_a_run_of_this_process_is_over_when_it_ended(folder: Path) -> None:
    with run_lock.locked("worker-1.00000001"):
        assert not run_lock.is_over("worker-1.00000001")
    assert run_lock.is_over("worker-1.00000001")


def test_files_of_killed_runs_are_removed_after_a_day(folder: Path) -> None:
    for run in ("old", "held", "new"):
        with run_lock.locked(run):
            pass
    day_ago = time.time() - run_lock.LEFT_S - 1
    for run in ("old", "held"):
        os.utime(folder / "runs" / run, (day_ago, day_ago))
    with (folder / "runs" / "held").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run_lock.remove_left_files()
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["held", "new"]
