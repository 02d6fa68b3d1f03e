"""Breach time, budgets and burn rates."""

from __future__ import annotations

import numpy as np
import pytest

from spark.lag.breach import (
    BURN_WINDOWS,
    Breach,
    breach,
    budget_left,
    burn_rate,
    burning,
    traffic_shares,
    watched_ms,
)

MINUTE = 60_000


def test_it_counts_a_gap_as_neither_good_nor_bad() -> None:
    times = np.array([0, 5_000, 10_000, 100_000, 105_000], dtype=np.int64)
    assert watched_ms(times, 5_000).tolist() == [0, 5_000, 5_000, 0, 5_000]
    assert watched_ms(times, 5_000, before_ms=-5_000).tolist() == [5_000, 5_000, 5_000, 0, 5_000]
    assert watched_ms(times[:0], 5_000, before_ms=1).tolist() == []


def test_it_counts_strictly_and_by_messages() -> None:
    late = np.array([[False, False], [True, False], [True, True], [False, False]])
    spans = np.full(4, 60_000, dtype=np.int64)
    assert breach(late, spans, traffic_shares([1, 9])) == Breach(240_000, 120_000, pytest.approx(66_000))
    assert traffic_shares([0, 0]).tolist() == [0.5, 0.5]


def test_it_burns_a_budget() -> None:
    assert burn_rate(36_000, 3_600_000, 0.999) == pytest.approx(10)
    assert burn_rate(0, 0, 0.999) is None
    assert budget_left(1_800, 3_600_000, 0.999) == pytest.approx(0.5)
    assert budget_left(7_200, 3_600_000, 0.999) == pytest.approx(-1)


def test_it_looks_at_a_long_and_a_short_window() -> None:
    times = np.arange(MINUTE, 61 * MINUTE, MINUTE, dtype=np.int64)
    bad = times > 54 * MINUTE  # the last six minutes
    found = burning(times, np.full(60, MINUTE, dtype=np.int64), bad, 60 * MINUTE, target=0.99)
    assert [one[0] for one in found] == list(BURN_WINDOWS)
    assert found[0][1:] == (pytest.approx(10), pytest.approx(100))
    assert found[1][1:] == (pytest.approx(10), pytest.approx(20))
