"""What processes leave in temporary folders ends with the run, and what runs share does not."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.support import scratch

CHILD = (
    "import os, tests, tempfile; print(tempfile.mkdtemp()); print(os.environ['JDK_JAVA_OPTIONS']); input()"
)
RUN = f"import subprocess, sys, tests; sys.exit(subprocess.run([sys.executable, '-c', {CHILD!r}]).returncode)"


def test_a_run_removes_what_a_child_left_in_its_temporary_folder(tmp_path: Path) -> None:
    environ = {name: text for name, text in os.environ.items() if name != scratch.RUN} | {
        "TMPDIR": str(tmp_path)
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", RUN], env=environ, **pipes) as run:  # type: ignore[call-overload]
        assert run.stdin is not None and run.stdout is not None
        left, java_options = Path(run.stdout.readline().strip()), run.stdout.readline()
        assert left.is_dir() and left.parent.parent == tmp_path
        assert f"-Djava.io.tmpdir={left.parent}" in java_options
        run.stdin.write("\n")
    assert run.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_the_next_run_removes_the_folder_of_a_killed_one_and_of_no_other(tmp_path: Path) -> None:
    environ = {name: text for name, text in os.environ.items() if name != scratch.RUN} | {
        "TMPDIR": str(tmp_path)
    }

    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", f"import os, tests; {code}"], env=environ, check=True)

    run("os._exit(0)")
    (left,) = tmp_path.iterdir()
    run("")
    assert list(tmp_path.iterdir()) == []
    left.mkdir()
    (left / scratch.LOCK).touch()
    with (left / scratch.LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("")
        assert left.is_dir()


def test_runs_share_a_folder_outside_their_temporary_ones() -> None:
    assert scratch.common_folder() == Path(os.environ[scratch.RUN]).parent
    assert scratch.common_folder() != Path(os.environ["TMPDIR"])
