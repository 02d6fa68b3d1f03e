from __future__ import annotations

import pytest

from brokerd.timer.timer_message import deliver_time_ms, is_timer_message, number, slot_ms


def test_a_slot_is_over_with_the_time_of_its_messages() -> None:
    assert [slot_ms(time, 1_000) for time in (5_000, 5_001, 5_999, 6_000)] == [4_000, 5_000, 5_000, 5_000]
    assert slot_ms(5_000, 100) == 4_900


def test_the_first_property_counts() -> None:
    assert (
        deliver_time_ms({"TIMER_DELIVER_MS": "9", "TIMER_DELAY_MS": "5", "TIMER_DELAY_SEC": "2"}, 100)
        == 2_100
    )
    assert deliver_time_ms({"TIMER_DELIVER_MS": "9", "TIMER_DELAY_MS": "5"}, 100) == 105
    assert deliver_time_ms({"TIMER_DELIVER_MS": "9"}, 100) == 9


def test_one_that_was_delivered_does_not_wait_again() -> None:
    assert is_timer_message({"TIMER_DELAY_MS": "5"})
    assert not is_timer_message({"TIMER_DELAY_MS": "5", "TIMER_OUT_MS": "4"})
    assert not is_timer_message({"DELAY": "5"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("-3", -3), ("+3", 3), ("", None), ("-", None), ("1.5", None), ("٣", None)],
)
def test_numbers_are_javas_longs(text: str, value: int | None) -> None:
    assert number(text) == value
