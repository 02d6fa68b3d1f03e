"""The states of a letter in the ledger are one table."""

from __future__ import annotations

import pytest

from console.deadletter.models import LedgerState
from console.deadletter.replay.ledger import LETTER, LedgerEntry, LetterEvent
from console.operation.errors import IllegalTransition
from console.text import Text


def entry() -> LedgerEntry:
    return LedgerEntry(
        "op-1", "local", "billing", "%DLQ%billing", "a", 0, 7, "id", "", "PENDING", "op-1:0", 1
    )


@pytest.mark.parametrize(
    ("event", "after"),
    [
        (LetterEvent.SKIPPED, "SKIPPED"),
        (LetterEvent.MARKED, "HANDLED"),
        (LetterEvent.UNSENDABLE, "FAILED"),
        (LetterEvent.STORED, "SENT"),
        (LetterEvent.REFUSED, "FAILED"),
        (LetterEvent.WITHDRAWN, "FAILED"),
        (LetterEvent.LOST, "UNKNOWN"),
    ],
)
def test_every_event_decides_a_pending_letter(event: LetterEvent, after: str) -> None:
    one = entry()
    one.on(event, Text("why"))
    assert (one.state, one.reason) == (after, "why")


def test_a_decided_letter_stays_as_it_is() -> None:
    for state in LedgerState:
        if state is not LedgerState.PENDING:
            one = entry()
            one.state = state
            for event in LetterEvent:
                with pytest.raises(IllegalTransition):
                    one.on(event)
            assert one.state is state


def test_every_event_is_in_the_table() -> None:
    assert {event for _, event in LETTER.table} == set(LetterEvent)
