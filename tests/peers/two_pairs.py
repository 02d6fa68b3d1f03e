"""The tests of slaves with two masters of Apache 5.3.3 and a slave of each: five JVMs.

    python -m tests.peers.two_pairs

The suite runs them with one slave. Ends with the tests' status.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.peers.test_apache_slaves import PAIRS_VARIABLE


def main() -> int:
    module = Path(__file__).parent / "test_apache_slaves.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", str(module)]
    return subprocess.run(command, env={**os.environ, PAIRS_VARIABLE: "2"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
