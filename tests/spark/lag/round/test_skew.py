"""Skew: the two ends and a middle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.plain_group_figures import skew


def test_it_is_nothing_when_nothing_waits() -> None:
    assert skew([]) is None
    assert skew([0, 0, 0]) is None


def test_it_tells_one_hot_queue_from_many() -> None:
    hot = skew([0, 0, 0, 400], [0, 0, 0, 90_000])
    even = skew([100, 100, 100, 100], [5_000, 5_000, 5_000, 5_000])
    assert hot is not None
    assert even is not None
    assert (hot.max_over_mean, hot.gini, hot.effective_queues, hot.time_lag_spread_ms) == (4, 0.75, 1, 90_000)
    assert hot.variation == pytest.approx(3**0.5)
    assert (even.max_over_mean, even.gini, even.effective_queues, even.time_lag_spread_ms) == (1, 0, 4, 0)
    middle = skew([1, 2, 3])
    assert middle is not None
    assert (middle.gini, middle.effective_queues) == (pytest.approx(2 / 9), pytest.approx(36 / 14))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50), st.integers(1, 9))
def test_it_does_not_depend_on_the_unit_or_the_order(lags: list[int], factor: int) -> None:
    one, other = skew(lags), skew([lag * factor for lag in reversed(lags)])
    if one is None or other is None:
        assert one is other is None
        return
    assert one.gini == pytest.approx(other.gini, abs=1e-9)
    assert 0 <= one.gini < 1
    assert 1 - 1e-9 <= one.effective_queues <= len(lags) + 1e-9
