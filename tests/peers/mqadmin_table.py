"""The table of docs/reference/mqadmin.md: how each command of mqadmin ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mqadmin.md"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`done`, `fails`, or the code of the answer that ended the command."""

    brokerd: str
    apache: str


def documented(release: str) -> dict[str, Outcomes]:
    """Return the outcomes by command for one release of mqadmin and of Apache's broker."""
    table = {}
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and cells[1] == release:
            table[cells[0].strip("`")] = Outcomes(cells[2], cells[3])
    return table
