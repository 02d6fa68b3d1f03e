"""What a crash at any step leaves of history. Its processes are on SQLite, whatever database the other tests are on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_it_loses_at_most_the_unsynced_round_whatever_step_dies(tmp_path: Path) -> None:
    """kill -9 at every write, fsync, Parquet block and manifest change of appending, compacting, merging, healing,
    uploading, adopting another host's log and expiring.
    """
    run = subprocess.run(
        [sys.executable, "-m", "tests.console.lag.history.crash_steps", str(tmp_path / "crash")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        timeout=280,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    first, *works = [json.loads(line) for line in run.stdout.splitlines()]
    by_name = {work["work"]: work["found"] for work in works}
    counts = [len(found) for found in by_name["append"]]
    assert counts[-1] == len(first["appended"]) == 5
    assert all(found == first["appended"][: len(found)] for found in by_name["append"])
    assert all(0 <= after - before <= 1 for before, after in zip(counts, counts[1:], strict=False))
    assert len(by_name["expire"]) >= 6
    assert all(found == {"left": [], "states": ["deleted"]} for found in by_name["expire"])
    for name in ("compact", "merge", "quarantine", "upload", "adopt"):
        assert len(by_name[name]) >= 3
        for found in by_name[name]:
            assert found["after"] == found["before"] == first["wanted"], name
            assert found["missing"] == []
