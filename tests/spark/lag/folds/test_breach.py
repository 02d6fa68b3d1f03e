"""Budgets and burn rates."""

from __future__ import annotations

import pytest

from spark.lag.folds.breach import budget_left, burn_rate


def test_it_burns_a_budget() -> None:
    assert burn_rate(36_000, 3_600_000, 0.999) == pytest.approx(10)
    assert burn_rate(0, 0, 0.999) is None
    assert budget_left(1_800, 3_600_000, 0.999) == pytest.approx(0.5)
    assert budget_left(7_200, 3_600_000, 0.999) == pytest.approx(-1)
