from __future__ import annotations

import logging
import sys

import pytest

from brokerd.log_lines import OneLineFormatter

FORMATTER = OneLineFormatter("%(levelname)s %(name)s %(message)s")


def line(message: str, *arguments: object, error: bool = False) -> str:
    info = sys.exc_info() if error else None
    return FORMATTER.format(logging.LogRecord("brokerd.x", logging.INFO, "", 1, message, arguments, info))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("c\n2026-11-22 INFO brokerd forged", r"c\n2026-11-22 INFO brokerd forged"),
        ("c\r\x1b[31mred\x1b[0m", r"c\r\x1b[31mred\x1b[0m"),
        ("c\u2028next\u202eltr\x85", r"c\u2028next\u202eltr\x85"),
        ("half \ud800", r"half \ud800"),
        ("组 ünïcode", "组 ünïcode"),
    ],
)
def test_a_name_cannot_leave_its_line(name: str, shown: str) -> None:
    assert line("member joined client_id=%s", name) == f"INFO brokerd.x member joined client_id={shown}"


def test_a_traceback_cannot_begin_a_line_of_its_own() -> None:
    try:
        raise ValueError("bad name\n2026-11-22 INFO brokerd forged")
    except ValueError:
        text = line("request failed peer=%s", "a:1", error=True)
    first, *others = text.split("\n")
    assert first == "INFO brokerd.x request failed peer=a:1"
    assert all(other.startswith("    ") for other in others)
    assert others[-1] == "    2026-11-22 INFO brokerd forged"


def test_a_long_name_is_clipped() -> None:
    text = line("group=%s", "x" * 10_000_000)
    assert len(text) < 4_100
    assert text.endswith("… (10000006 characters)")
