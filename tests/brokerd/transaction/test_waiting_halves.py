from __future__ import annotations

import pytest

from brokerd.transaction import waiting_halves
from brokerd.transaction.waiting_halves import WaitingHalves


def test_a_copy_replaces_the_one_before() -> None:
    waiting = WaitingHalves()
    for offset in (0, 1):
        waiting.add(offset, offset, 1_000)
    waiting.add(2, 0, 2_000)
    assert (len(waiting), waiting.lowest_offset) == (2, 1)
    assert [waiting.newest(first) for first in (0, 1, 2)] == [2, 1, 2]
    waiting.add(3, 0, 2_000)
    assert waiting.newest(0) == 3
    waiting.remove(3)
    assert waiting.newest(0) is None
    waiting.remove(1)
    assert (len(waiting), waiting.lowest_offset) == (0, None)


def test_it_gives_what_is_due_once_and_nothing_that_ended() -> None:
    waiting = WaitingHalves()
    for offset, due_ms in ((0, 3_000), (1, 1_000), (2, 2_000), (3, 9_000)):
        waiting.add(offset, offset, due_ms)
    waiting.remove(2)
    assert waiting.take_due(999) == []
    assert waiting.take_due(3_000) == [0, 1]
    assert waiting.take_due(3_000) == []
    waiting.check_again(1, 4_000)
    assert waiting.take_due(9_000) == [1, 3]


def test_times_of_ended_transactions_do_not_pile_up() -> None:
    waiting = WaitingHalves()
    for offset in range(10 * waiting_halves.ENDED_TIMES_MAX):
        waiting.add(offset, offset, offset)
        if offset % 1_000:
            waiting.remove(offset)
    assert len(waiting._due) <= 2 * len(waiting) + waiting_halves.ENDED_TIMES_MAX + 1
    assert waiting.take_due(10**9) == list(range(0, 10 * waiting_halves.ENDED_TIMES_MAX, 1_000))


def test_those_far_behind_are_found_but_not_for_their_own_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_halves, "BEHIND_MAX", 10)
    waiting = WaitingHalves()
    for offset in range(5):
        waiting.add(offset, offset, 10**9)
    assert waiting.far_behind(30) == []
    assert waiting.far_behind(32) == [0, 1]
    for offset in range(5):
        waiting.add(35 + offset, offset, 10**9)
    assert waiting.far_behind(40) == []
