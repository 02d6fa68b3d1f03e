"""Maven for the Java parts of the tests: each project is built once, by one process of tests at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.scratch import common_folder

# Two builds at once would write the same files of Maven's repository in the home folder.
LOCK = common_folder() / f"tidemark-test-maven-{os.getuid()}.lock"


def build_once(
    project: Path,
    stamp: Path,
    sources: Iterable[Path],
    *options: str,
    then: Callable[[], None] = lambda: None,
) -> None:
    """`mvn compile` and what follows it, unless ``stamp`` is newer than all sources."""
    newest = max(source.stat().st_mtime for source in sources)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.stat().st_mtime >= newest:
            return
        if shutil.which("mvn") is None:
            raise RuntimeError("Maven is missing: apt-get install maven (make test does it when run as root)")
        subprocess.run(
            ["mvn", "-q", "-B", *options, "compile"],
            cwd=project,
            check=True,
            timeout=600,
        )
        then()
        stamp.touch()
