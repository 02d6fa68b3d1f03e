"""Changes of figures by day: literal cases, and what chance alone does."""

from __future__ import annotations

import numpy as np
import pytest

from spark.lag.folds.trend import change_point, week_over_week

NAN = float("nan")


def days(*values: float) -> np.typing.NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def test_it_calls_a_week_of_rises_significant() -> None:
    found = week_over_week(days(10, 12, 11, 10, 13, 5, 4), days(15, 18, 16, 15, 20, 8, 6))
    assert found is not None
    assert (found.pairs, found.is_significant) == (7, True)
    assert found.p_value == pytest.approx(2 / 128)  # of 128 exchanges only all and none do as much
    assert (found.before, found.after) == (pytest.approx(65 / 7), pytest.approx(98 / 7))


def test_it_does_not_call_ups_and_downs_a_change() -> None:
    found = week_over_week(days(10, 12, 11, 10, 13, 5, 4), days(12, 10, 13, 9, 14, 4, 5))
    assert found is not None and found.is_significant is False


def test_it_compares_only_days_known_in_both_weeks_and_says_when_they_are_too_few() -> None:
    found = week_over_week(days(10, NAN, 10, 10, 10, 10, NAN), days(20, 20, 20, 20, NAN, 20, 20))
    assert found is not None
    assert (found.pairs, found.p_value, found.is_significant) == (4, None, None)
    assert week_over_week(days(NAN, 1), days(1, NAN)) is None


def test_two_equal_weeks_are_no_change() -> None:
    found = week_over_week(days(*[0] * 7), days(*[0] * 7))
    assert found is not None and found.p_value == 1.0


def test_it_finds_the_day_from_which_the_level_is_another() -> None:
    values = days(*[100, 104, 98, 101, 97, 103, 99, 102, 100, 98, 180, 190, 176, 185, 183, 179, 188])
    found = change_point(values)
    assert found is not None
    assert (found.at, found.before, found.after) == (10, 100.0, 183.0)
    assert found.p_value < 0.01


def test_unknown_days_move_no_change_and_make_none() -> None:
    values = days(*[5.0] * 6, NAN, NAN, *[9.0] * 6)
    found = change_point(values)
    assert found is not None and found.at == 8
    assert change_point(days(*[5.0] * 4, NAN, NAN, NAN, *[9.0] * 5)) is None  # nine known days
    assert change_point(days(*[3.0] * 20)) is None


def test_chance_alone_is_seldom_called_a_change() -> None:
    chance = np.random.default_rng(5)
    weeks = [week_over_week(chance.lognormal(3, 1, 7), chance.lognormal(3, 1, 7)) for _ in range(400)]
    assert sum(bool(one and one.is_significant) for one in weeks) <= 0.08 * 400
    assert sum(change_point(chance.lognormal(3, 1, 28)) is not None for _ in range(200)) <= 0.08 * 200
