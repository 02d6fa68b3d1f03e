"""Every scenario of our client against brokerd, Apache 4.9.7 and Apache 5.3.3, and a table of how each ended.

    python -m tests.peers.our_client [-k WORDS] [--server brokerd|apache|apache-4.9.7] [--java]

With `--java` the scenarios of the Java peers run too (client 5.3.3; some minutes more), beside ours of the same name.
Ends with 1 while one fails; below the table is the first line of each failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.peers.side_by_side import JAVA, PASSES, outcomes, paths
from tests.support.apache_server import APACHE, BROKERD, OLD_APACHE

FOLDER = Path(__file__).parent
MODULES = ("sending", "consuming", "secured")
HEADS: Mapping[str, str] = {BROKERD: "brokerd", OLD_APACHE: "4.9.7", APACHE: "5.3.3"}
JAVA_RELEASE = "5.3.3"

Outcomes = Mapping[str, str]


def ours(server: str, options: Sequence[str]) -> dict[str, str]:
    return outcomes(server, options, [FOLDER / f"{name}.py" for name in MODULES])


def javas(server: str, options: Sequence[str]) -> dict[str, str]:
    """Outcomes of the Java client's scenarios by name; one of several parameters passes when all do."""
    found = outcomes(server, options, paths([*(f"test_java_{name}" for name in JAVA), "java_consumers"]))
    by_name: dict[str, str] = {}
    for scenario, outcome in found.items():
        name, _, parameters = scenario.partition(": ")[2].partition("[")
        if JAVA_RELEASE in parameters and by_name.get(name, PASSES) == PASSES:
            by_name[name] = outcome
    return by_name


def cell(outcome: str | None) -> str:
    if outcome is None:
        return ""
    if outcome == PASSES:
        return PASSES
    return "-" if outcome.startswith("skipped") else "FAILS"


def table(found: Mapping[str, Outcomes], java: Mapping[str, Outcomes]) -> tuple[list[str], int]:
    """Return the lines of the table, and how many cells of ours are failures. `found`, `java`: by server."""
    heads = [HEADS[server] for server in found] + [f"Java/{HEADS[server]}" for server in java]
    lines = [f"{'scenario':<82}" + "".join(f"{head:<14}" for head in heads)]
    notes: list[str] = []
    for scenario in sorted({each for side in found.values() for each in side}):
        name = scenario.partition(": ")[2].partition("[")[0]
        cells = [side.get(scenario) for side in found.values()]
        theirs = [side.get(name) for side in java.values()]
        lines.append(f"{scenario:<82}" + "".join(f"{cell(each):<14}" for each in cells + theirs).rstrip())
        for head, outcome in zip(heads, cells + theirs, strict=True):
            if outcome not in (None, PASSES):
                notes.append(f"{scenario} on {head}: {outcome}")
    red = sum(cell(each) == "FAILS" for side in found.values() for each in side.values())
    return lines + notes, red


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only scenarios with these words, as pytest's -k")
    parser.add_argument("--server", action="append", choices=list(HEADS), help="one column; may be repeated")
    parser.add_argument("--java", action="store_true", help="the Java client's outcomes beside ours")
    given = parser.parse_args()
    options = ["-k", given.k] if given.k else []
    servers = [server for server in HEADS if not given.server or server in given.server]
    found = {server: ours(server, options) for server in servers}
    java = {server: javas(server, options) for server in servers} if given.java else {}
    lines, red = table(found, java)
    print("\n".join(lines))
    print(f"{red} cells fail" if red else "every scenario passes")
    return min(red, 1)


if __name__ == "__main__":
    sys.exit(main())
