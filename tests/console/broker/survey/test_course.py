"""The last hour of a figure and what is usual for it."""

from __future__ import annotations

from console.broker.survey.course import HOUR_MINUTES, MINUTE_MS, USUAL_FROM, course

NOW = 10_000


def test_a_minute_without_a_sample_is_a_gap() -> None:
    found = course({NOW: 5.0, NOW - 2: 7.0}, NOW * MINUTE_MS)
    assert len(found.trend) == HOUR_MINUTES
    assert found.trend[-3:] == [7.0, None, 5.0]


def test_the_present_minute_is_no_gap_before_its_sample() -> None:
    assert course({NOW - 1: 7.0}, NOW * MINUTE_MS).trend[-1] == 7.0
    assert course({NOW - 2: 7.0}, NOW * MINUTE_MS).trend[-2:] == [7.0, None]


def test_usual_is_the_middle_of_what_was_before_the_last_hour() -> None:
    before = {NOW - HOUR_MINUTES - minute: float(minute) for minute in range(100)}
    found = course({**before, NOW: 10_000.0}, NOW * MINUTE_MS)
    assert found.usual is not None
    low, high = found.usual
    assert (round(low), round(high)) == (9, 90)


def test_few_samples_make_nothing_usual() -> None:
    before = {NOW - HOUR_MINUTES - minute: 1.0 for minute in range(USUAL_FROM - 1)}
    assert course(before, NOW * MINUTE_MS).usual is None
