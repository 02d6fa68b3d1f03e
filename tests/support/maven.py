"""Maven for the Java parts of the tests: built once for each release, by one process of tests at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.scratch import common_folder

PEERS = Path(__file__).parent.parent / "peers"
# Two builds at once would write the same files of Maven's repository in the home folder.
LOCK = common_folder() / f"tidemark-test-maven-{os.getuid()}.lock"


def build(release: str) -> Path:
    """Bring the jars and classes of all projects for a release of RocketMQ; return the file that says when."""
    stamp = PEERS / "apache" / "target" / release / "built"
    sources = [PEERS / "pom.xml", *PEERS.glob("*/pom.xml"), *PEERS.glob("java/src/**/*.java")]

    once(stamp, sources, lambda: compile_project(PEERS, f"-Drocketmq.version={release}"))
    return stamp


def compile_project(folder: Path, *options: str) -> None:
    """`mvn compile` there."""
    if shutil.which("mvn") is None:
        raise RuntimeError("Maven is missing: apt-get install maven (make test does it when run as root)")
    subprocess.run(["mvn", "-q", "-B", *options, "compile"], cwd=folder, check=True, timeout=600)


def once(stamp: Path, sources: Iterable[Path], make: Callable[[], None]) -> None:
    """Make something, unless ``stamp`` is newer than all sources."""
    newest = max(source.stat().st_mtime for source in sources)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            make()
            stamp.touch()
