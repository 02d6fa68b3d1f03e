"""`python -m consumers` as a program of `tests.support.forks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumers import __main__ as command


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    return command.main(arguments, environment.get("NAMESRV_ADDR", "127.0.0.1:9876"))
