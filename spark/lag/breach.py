"""Promises kept and broken: breach time, error budgets, burn rates.

A service level objective says: the oldest unread message waits at most `slo_ms`, `target` of the time. Time in which
nobody looked is neither good nor bad (lag.md 1.2, 20 and 21).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.snapshot import BoolArray, Int64Array

GAP_INTERVALS = 4  # a longer silence is unknown, not good or bad

FloatArray = npt.NDArray[np.float64]


class BurnWindow(NamedTuple):
    """An alert of the SRE workbook: both windows must burn faster than `factor`."""

    long_ms: int
    short_ms: int
    factor: float


MINUTE_MS = 60_000
BURN_WINDOWS = (
    BurnWindow(60 * MINUTE_MS, 5 * MINUTE_MS, 14.4),  # 2 % of a 30-day budget in an hour
    BurnWindow(6 * 60 * MINUTE_MS, 30 * MINUTE_MS, 6.0),  # 5 % in six hours
    BurnWindow(3 * 24 * 60 * MINUTE_MS, 6 * 60 * MINUTE_MS, 1.0),  # 10 % in three days
)


@dataclass(frozen=True, slots=True)
class Breach:
    """Time of a window. `valid_ms` was watched; in `bad_ms` some queue was late (strict), `weighted_ms` counts each
    late queue by its share of the messages (fair).
    """

    valid_ms: int
    bad_ms: int
    weighted_ms: float


def watched_ms(t_ms: Int64Array, interval_ms: int, *, before_ms: int | None = None) -> Int64Array:
    """Return the time each round stands for: since the round before, nothing where that is too long ago.

    `before_ms` is the round before the first, None when there is none.
    """
    spans = np.zeros(len(t_ms), dtype=np.int64)
    spans[1:] = np.diff(t_ms)
    if before_ms is not None and len(t_ms):
        spans[0] = t_ms[0] - before_ms
    spans[spans > GAP_INTERVALS * interval_ms] = 0
    return spans


def breach(late: BoolArray, spans_ms: Int64Array, shares: FloatArray) -> Breach:
    """Return the breach of a window from `late` (rounds x queues), the rounds' times and the queues' shares of all
    messages (sum 1).
    """
    strict = late.any(axis=1)
    return Breach(
        valid_ms=int(spans_ms.sum()),
        bad_ms=int(spans_ms[strict].sum()),
        weighted_ms=float((spans_ms * (late @ shares)).sum()),
    )


def traffic_shares(produced: Sequence[int] | Int64Array) -> FloatArray:
    """Return each queue's share of the messages; equal shares when nothing arrived."""
    counts = np.asarray(produced, dtype=np.float64)
    total = counts.sum()
    shares: FloatArray = counts / total if total > 0 else np.full(len(counts), 1 / max(1, len(counts)))
    return shares


def burn_rate(bad_ms: float, valid_ms: float, target: float) -> float | None:
    """Return how many times faster than allowed the error budget is used: 1 uses it up exactly; None unwatched."""
    assert 0 <= target < 1, target
    return bad_ms / valid_ms / (1 - target) if valid_ms > 0 else None


def burning(
    t_ms: Int64Array, spans_ms: Int64Array, bad: BoolArray, now_ms: int, *, target: float
) -> list[tuple[BurnWindow, float | None, float | None]]:
    """Return (window, burn over its long part, burn over its short part) for each of `BURN_WINDOWS`."""
    found = []
    for window in BURN_WINDOWS:
        rates = []
        for length_ms in (window.long_ms, window.short_ms):
            inside = t_ms > now_ms - length_ms
            spans = spans_ms[inside]
            rates.append(burn_rate(float(spans[bad[inside]].sum()), float(spans.sum()), target))
        found.append((window, rates[0], rates[1]))
    return found


def budget_left(bad_ms: float, valid_ms: float, target: float) -> float | None:
    """Return which share of the error budget is left, negative when overspent; None unwatched."""
    rate = burn_rate(bad_ms, valid_ms, target)
    return None if rate is None else 1 - rate
