"""Clusters too large for the suite: two masters of Apache 5.3.3 with a slave each, a pair with a controller, a proxy.

    python -m tests.peers.real_clusters [-k WORDS]

Five JVMs, then three, then four. The suite has one slave (test_apache_slaves.py). Ends with the tests' status.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# How many brokers of the cluster have a slave.
PAIRS_VARIABLE = "TIDEMARK_PEER_PAIRS"
MODULES = ("test_apache_slaves.py", "controlled_pair.py", "proxied_members.py")


def main() -> int:
    modules = [str(Path(__file__).parent / name) for name in MODULES]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        *sys.argv[1:],
        *modules,
    ]
    return subprocess.run(command, env={**os.environ, PAIRS_VARIABLE: "2"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
