"""A process has the slack that it was started with; the one that started it has its own again."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.timer_slack import timer_slack

SLACK = Path("/proc/self/timerslack_ns")


def slack_of_a_child() -> int:
    return int(subprocess.run(["cat", SLACK], capture_output=True, text=True, check=True).stdout)


def test_processes_that_start_meanwhile_have_it() -> None:
    before = slack_of_a_child()
    assert before < 10_000_000
    with timer_slack(10):
        assert slack_of_a_child() == 10_000_000
    assert (slack_of_a_child(), int(SLACK.read_text())) == (before, before)
