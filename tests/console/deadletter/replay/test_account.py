"""A replay is verified when its ledger has one outcome for each letter of the plan, and the job reports the same."""

from __future__ import annotations

from collections import Counter

import pytest

from console.deadletter.replay.account import Figures, verify_sums
from console.deadletter.replay.before import ReplayBefore
from console.operation.errors import VerificationFailed

LEDGER = {"SENT": 5, "SKIPPED": 2, "HANDLED": 1, "FAILED": 1, "UNKNOWN": 1}


def before(matched: int | None = 10) -> ReplayBefore:
    return ReplayBefore(
        topic="%DLQ%g",
        ranges=(),
        matched=matched,
        counted=10,
        already=0,
        unreadable=0,
        topics={},
        retention_ms=None,
    )


def verify(ledger: dict[str, int], reported: dict[str, int] | None = None, matched: int | None = 10) -> str:
    counts, told = Counter(ledger), Counter(LEDGER if reported is None else reported)
    try:
        verify_sums(before(matched), Figures.of(told, before(matched)), counts)
    except VerificationFailed as error:
        return str(error)
    return ""


def test_matched_is_sent_and_skipped_and_failed_with_the_unknown() -> None:
    figures = Figures.of(Counter(LEDGER), before())
    assert figures.matched == figures.sent + figures.skipped + figures.failed == 10
    assert (figures.unknown, figures.failed, figures.skipped) == (1, 2, 3)
    assert verify(LEDGER) == ""


def test_progress_names_all_letters_of_the_plan_and_the_result_those_with_an_outcome() -> None:
    figures = Figures.of(Counter({"SENT": 2, "PENDING": 1}), before())
    assert (figures.matched, figures.done, figures.total) == (10, 2, 10)
    assert figures.sums.matched == 3


@pytest.mark.parametrize("state", ["SENT", "SKIPPED", "FAILED", "UNKNOWN"])
def test_sums_that_the_ledger_does_not_have_are_refused(state: str) -> None:
    assert "its ledger has" in verify(LEDGER, LEDGER | {state: LEDGER[state] + 1})


def test_a_send_without_an_outcome_is_refused() -> None:
    assert verify(LEDGER | {"PENDING": 2}) == "The outcome of 2 sends is unknown"


def test_the_ledger_has_as_many_letters_as_the_plan_counted() -> None:
    fewer, more = LEDGER | {"SENT": 4}, LEDGER | {"SENT": 6}
    assert "counted 10 dead letters, the replay processed 9: 1 were" in verify(fewer, fewer)
    assert "counted 10 dead letters, the replay processed 11" in verify(more, more)
    assert verify(more, more, matched=None) == "", "the plan counted a part of them"
