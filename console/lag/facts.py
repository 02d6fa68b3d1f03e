"""Compute facts to alert on for every group's topic: burn over several windows and a forecast breach.

Pure functions over rows of the last round and the courses of promises. What is unknown is null: no alert may take it
for zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from console.lag.episode_state import Promised
from console.lag.models import GroupRow
from spark.lag.folds.breach import BURN_WINDOWS, burn_rate
from spark.lag.folds.figures import COVERAGE_MIN
from spark.lag.folds.promise import Spent

# The windows of the SRE workbook's alerts (`spark.lag.folds.breach.BURN_WINDOWS`), the shortest first.
WINDOWS_MS = tuple(
    sorted({length_ms for window in BURN_WINDOWS for length_ms in (window.long_ms, window.short_ms)})
)
LONGEST_MS = WINDOWS_MS[-1]


class Gap(NamedTuple):
    """Describe time in which everything is unknown; `to_ms` null: it still lasts."""

    from_ms: int
    to_ms: int | None


class Burn(NamedTuple):
    """Hold how many times too fast the error budget was used in `window_ms`; `rate` null: unwatched."""

    window_ms: int
    rate: float | None


def burns(
    spent: Sequence[Spent], targets: Sequence[float], windows_ms: Sequence[int] = WINDOWS_MS
) -> list[Burn]:
    """Return the burn over each window: time in breach by time that is known, as in REST and reports.

    Null where less than COVERAGE_MIN of the time is known.
    """
    windows = zip(windows_ms, spent, targets, strict=True)
    return [Burn(length_ms, _burn(own, target)) for length_ms, own, target in windows]


def _burn(spent: Spent, target: float) -> float | None:
    if not spent.exists_ms or spent.watched_ms < COVERAGE_MIN * spent.exists_ms:
        return None
    return burn_rate(spent.breach_ms, spent.watched_ms, target)


def burning(found: Iterable[Burn]) -> list[float]:
    """Return the factors of the workbook's alerts that fire: both of an alert's windows burn faster than that."""
    rates = {one.window_ms: one.rate for one in found}
    fired = []
    for window in BURN_WINDOWS:
        both = rates.get(window.long_ms), rates.get(window.short_ms)
        if all(rate is not None and rate > window.factor for rate in both):
            fired.append(window.factor)
    return fired


def forecast_breach(row: GroupRow, promised: Promised) -> bool | None:
    """Return whether a group that is late now is forecast to be late for longer than it promises.

    A backlog that never drains is a breach; one queue that is known to drain too late is one for the group. A late
    group whose known queues drain in time is unknown while the forecast of others is.
    """
    if row.time_lag_ms is None:
        return None
    if row.time_lag_ms <= promised.slo_ms:
        return None if row.time_lag_lower_bound else False
    if row.drain_never:
        return True
    if max(row.drain_ms or 0, row.drain_known_ms or 0) > promised.slo_ms:
        return True
    return None if row.drain_ms is None else False
