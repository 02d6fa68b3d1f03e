"""Each request code that is handled has been seen between Apache's own programs, or is sent by them in a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.processor.handlers import BROKER_HANDLERS, NAMESRV_HANDLERS
from brokerd.remoting.codes import RequestCode
from tests.brokerd.remoting.golden_frames import golden_frames

TESTS = Path(__file__).parents[2]
# Codes without a capture → the test in which an official client or tool sends them, and how it is named there.
SENT_IN = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ("support/mqadmin_commands.py", "updateAclConfig"),
    RequestCode.DELETE_ACL_CONFIG: ("support/mqadmin_commands.py", "deleteAclConfig"),
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ("support/mqadmin_commands.py", "updateGlobalWhiteAddr"),
    RequestCode.POP_ROLLBACK: ("support/mqadmin_commands.py", "exportPopRecord"),
    # Ours: no other program has them.
    RequestCode.TIDEMARK_PUT_ASSIGNMENT: ("consumers/test_with_brokerd_admin.py", "put_assignment"),
    RequestCode.TIDEMARK_GET_CAPABILITIES: ("consumers/test_with_brokerd_admin.py", "capabilities"),
}
HANDLED = sorted({RequestCode(code) for code in (*BROKER_HANDLERS, *NAMESRV_HANDLERS)})


@pytest.fixture(scope="module")
def captured() -> set[int]:
    return {frame.code for frame in golden_frames() if frame.is_request}


@pytest.mark.parametrize("code", HANDLED, ids=lambda code: code.name.lower())
def test_each_handled_code_is_captured_or_sent_by_a_peer(code: RequestCode, captured: set[int]) -> None:
    if code in captured:
        assert code not in SENT_IN
        return
    file, word = SENT_IN[code]
    assert word in (TESTS / file).read_text("utf-8")


def test_each_row_of_the_table_is_of_a_handled_code() -> None:
    assert set(SENT_IN) <= set(HANDLED)
