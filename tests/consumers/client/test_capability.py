from __future__ import annotations

from brokerd.remoting.command import RemotingCommand
from consumers.client.capability import parse_capabilities


def answer(code: int, **fields: str) -> RemotingCommand:
    return RemotingCommand(code, opaque=1, flag=1, ext_fields=fields)


def test_it_reads_the_names_of_extensions() -> None:
    assert parse_capabilities(answer(0, capabilities="assignment, , x")) == {"assignment", "x"}
    assert parse_capabilities(answer(0)) == frozenset()


def test_a_broker_without_extensions_has_none() -> None:
    assert parse_capabilities(answer(3, capabilities="assignment")) == frozenset()
