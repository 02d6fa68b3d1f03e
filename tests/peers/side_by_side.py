"""Every scenario of the official Java client against brokerd and Apache 5.3.3, and a table of how each ended.

    python -m tests.peers.side_by_side [-k WORDS]

A scenario that passes on one of the two only is a difference: the command ends with 1, and names the first line of its
failure. Those that are decisions stand in DECISIONS, with the reason. Timers and transactions of a store that another
broker wrote, TLS and accounts have tests of their own (tests/peers/test_java_tls.py, test_java_acl.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.apache_server import APACHE, BROKERD, SERVER_VARIABLE

FOLDER = Path(__file__).parent
MODULES = ("client", "light", "pop", "requests", "reset", "timers", "transactions")
PASSES = "passes"
# Scenario → why Apache ends otherwise on purpose of ours (docs/brokerd.md has the sentence).
DECISIONS: Mapping[str, str] = {}


def outcomes(server: str, options: Sequence[str], modules: Sequence[Path]) -> dict[str, str]:
    """Run the scenarios of `modules` on one server; return `passes` or the failure's first line by scenario."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
        subprocess.run(
            [*command, f"--junitxml={report}", *options, *map(str, modules)],
            env={**os.environ, SERVER_VARIABLE: server},
            stdout=sys.stderr,
            check=False,
        )
        return dict(map(outcome, ElementTree.parse(report).iter("testcase")))


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    module = case.get("classname", "").rpartition(".")[2].removeprefix("test_java_")
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            return (
                f"{module}: {case.get('name')}",
                f"{kind}: {found.get('message', '').partition(chr(10))[0]}",
            )
    return f"{module}: {case.get('name')}", PASSES


def table(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[list[str], int]:
    """Return the lines of the table, and how many scenarios differ without a decision."""
    lines, differences = [f"{'scenario':<82} {BROKERD:<10} Apache 5.3.3"], 0
    for scenario in sorted({*ours, *theirs}):
        found = [side.get(scenario, "not run") for side in (ours, theirs)]
        words = [PASSES if each == PASSES else "differs" for each in found]
        decision = DECISIONS.get(scenario.partition("[")[0])
        lines.append(f"{scenario:<82} {words[0]:<10} {words[1]}")
        lines += [f"    {each}" for each in found if each != PASSES]
        if decision is not None:
            lines.append(f"    decision: {decision}")
        differences += found != [PASSES, PASSES] and decision is None
    return lines, differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only scenarios with these words, as pytest's -k")
    words = parser.parse_args().k
    options = ["-k", words] if words else []
    modules = [FOLDER / f"test_java_{name}.py" for name in MODULES]
    lines, differences = table(*(outcomes(server, options, modules) for server in (BROKERD, APACHE)))
    print("\n".join(lines))
    print(f"{differences} scenarios differ" if differences else "no scenario differs")
    return min(differences, 1)


if __name__ == "__main__":
    sys.exit(main())
