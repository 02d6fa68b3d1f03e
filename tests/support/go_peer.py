"""The official Go client as a peer: built once, a process for each, as its clients share more than Java's do."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tests.support.peer_process import Peer, PeerProcess
from tests.support.scratch import common_folder

PROJECT = Path(__file__).parent.parent / "peers" / "go"
GO = Path(sysconfig.get_path("scripts")) / "go"  # of requirements-go.txt
BUILD_S = 300


def program_of_go() -> str | None:
    """Return where Go is, that of `make go` or the machine's; None without one."""
    return str(GO) if GO.exists() else shutil.which("go")


def build() -> Path:
    """Return the peer's program; Go's own cache makes the second build cheap."""
    program = PROJECT / "target" / "peer"
    with (common_folder() / "tidemark-test-go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [program_of_go() or "go", "build", "-mod=readonly", "-o", str(program), "."]
        subprocess.run(command, cwd=PROJECT, check=True, timeout=BUILD_S)
    return program


class GoPeer(Peer):
    """A running peer of the Go client."""

    def __init__(self, program: Path, arguments: Sequence[str], home: Path) -> None:
        """Begin it; `home` is where its broadcasting consumers keep their offsets."""
        super().__init__(PeerProcess([str(program)], {"HOME": str(home)}), arguments)

    def stop(self) -> None:
        """End it and its process."""
        super().stop()
        self._process.kill()
