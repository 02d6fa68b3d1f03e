"""Error budgets: how fast they burn, and the windows of burn rate alerts (lag.md 1.2, 21).

A service level objective: the oldest unread message waits at most `slo_ms`, `target` of the time. Which time was
bad, good or not watched is folded (`spark.lag.folds.window`).
"""

from typing import NamedTuple

from spark.lag.local_time import MINUTE_MS


class BurnWindow(NamedTuple):
    """An alert of the SRE workbook: both windows must burn faster than `factor`."""

    long_ms: int
    short_ms: int
    factor: float


BURN_WINDOWS = (
    BurnWindow(60 * MINUTE_MS, 5 * MINUTE_MS, 14.4),  # 2 % of a 30-day budget in an hour
    BurnWindow(6 * 60 * MINUTE_MS, 30 * MINUTE_MS, 6.0),  # 5 % in six hours
    BurnWindow(3 * 24 * 60 * MINUTE_MS, 6 * 60 * MINUTE_MS, 1.0),  # 10 % in three days
)


def burn_rate(bad_ms: float, valid_ms: float, target: float) -> float | None:
    """Return how many times faster than allowed the error budget is used: 1 uses it up exactly; None unwatched."""
    assert 0 <= target < 1, target
    return bad_ms / valid_ms / (1 - target) if valid_ms > 0 else None


def budget_left(bad_ms: float, valid_ms: float, target: float) -> float | None:
    """Return which share of the error budget is left, negative when overspent; None unwatched."""
    rate = burn_rate(bad_ms, valid_ms, target)
    return None if rate is None else 1 - rate
