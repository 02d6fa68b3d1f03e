"""Every scenario of official clients and tools against brokerd and Apache 5.3.3, and a table of how each ended.

    python -m tests.peers.side_by_side [-k WORDS]

Java clients and mqadmin of 5.3.3 and 4.9.7 (`-k 4.9.7` for one), the Go client where Go is installed (`make go`). A
scenario that passes on one of the two only is a difference: the command ends with 1, and names the first line of its
failure. mqadmin meets Apache's broker of its own release, accounts of 4.x the one of 4.9.7. Stores that change hands
take both brokers in one run, and are in the table once. All of it takes an hour.

Where the two answer differently on purpose a scenario says so itself (`is_apache`), and docs/brokerd.md why.
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

from tests.support import go_peer
from tests.support.apache_server import APACHE, BROKERD, SERVER_VARIABLE

FOLDER = Path(__file__).parent
JAVA = (
    "acl", "client", "light", "namespace", "pop", "requests", "reset", "timers", "tls", "transactions",
)  # fmt: skip
# Not here: placement is an extension of ours (test_java_placement.py), which no broker of Apache's serves; the replay
# of dead letters is the console's (test_java_replay.py; on Apache test_apache_replay.py).
MODULES = (*(f"test_java_{name}" for name in JAVA), "java_consumers", "test_mqadmin")
BETWEEN = ("test_store_swap", "test_light_swap")
PASSES = "passes"


def paths(names: Sequence[str]) -> list[Path]:
    return [FOLDER / f"{name}.py" for name in names]


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
    module = case.get("classname", "").rpartition(".")[2].removeprefix("test_").removeprefix("java_")
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            return (
                f"{module}: {case.get('name')}",
                f"{kind}: {found.get('message', '').partition(chr(10))[0]}",
            )
    return f"{module}: {case.get('name')}", PASSES


def table(found: Sequence[Mapping[str, str]], heads: Sequence[str]) -> tuple[list[str], int]:
    """Return the lines of the table, and how many scenarios do not pass on every side."""
    lines, red = [f"{'scenario':<100} {'  '.join(f'{head:<12}' for head in heads)}"], 0
    for scenario in sorted({each for side in found for each in side}):
        outcomes = [side.get(scenario, "not run") for side in found]
        words = [PASSES if each == PASSES else "differs" for each in outcomes]
        lines.append(f"{scenario:<100} {'  '.join(f'{word:<12}' for word in words)}".rstrip())
        lines += [f"    {head}: {each}" for head, each in zip(heads, outcomes, strict=True) if each != PASSES]
        red += set(words) != {PASSES}
    return lines, red


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only scenarios with these words, as pytest's -k")
    words = parser.parse_args().k
    options = ["-k", words] if words else []
    modules = paths([*MODULES, *(["go_client"] if go_peer.program_of_go() else [])])
    sides = [outcomes(server, options, modules) for server in (BROKERD, APACHE)]
    lines, red = table(sides, (BROKERD, "Apache 5.3.3"))
    swaps, lost = table([outcomes(BROKERD, options, paths(BETWEEN))], ("both ways",))
    print("\n".join([*lines, "", *swaps]))
    print(f"{red + lost} scenarios differ" if red + lost else "no scenario differs")
    return min(red + lost, 1)


if __name__ == "__main__":
    sys.exit(main())
