"""Two worker hosts with one PostgreSQL, one Redis and one history, one of them killed while it collects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[4]


@pytest.mark.timeout(400)
def test_rounds_go_on_and_none_is_lost_when_a_host_dies(short_dir: Path) -> None:
    done = subprocess.run(
        [
            str(CHECKOUT / "deploy/with-postgres.sh"),
            sys.executable,
            "-m",
            "tests.console.lag.history.real_hosts",
            str(short_dir / "hosts"),
        ],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        timeout=360,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["stayed"] and found["took_over"], found
    assert found["took_over_s"] < 60, found
    assert found["numbers_once"] and found["rounds"] >= 17, found
    # What the dead host had not uploaded stays its own: live, unread and a gap.
    assert 4 <= found["adopted"] < found["rounds"], found
    assert found["dead_rows"] == [["live", 0]], found
    # It is back: every round that was taken is in the hour files, each once.
    assert found["rounds"] <= found["filled_in"] <= found["rounds"] + 1, found
    assert found["live_for_each_hour"], found
    assert found["log_states"] == ["superseded"], found
    assert found["objects"] and found["copies"] == 0, found
