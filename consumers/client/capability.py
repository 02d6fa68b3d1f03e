"""Extensions of brokerd and how it announces them (docs/wire-extensions.md). Apache's brokers have none."""

from __future__ import annotations

from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand

# QUERY_ASSIGNMENT answers what the console has computed and stored.
ASSIGNMENT = "assignment"


def parse_capabilities(response: RemotingCommand) -> frozenset[str]:
    """Return the names in an answer to TIDEMARK_GET_CAPABILITIES: its field `capabilities`, separated by commas.

    A broker without these extensions answers REQUEST_CODE_NOT_SUPPORTED: no extensions.
    """
    if response.code != ResponseCode.SUCCESS:
        return frozenset()
    names = response.ext_fields.get("capabilities", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())
