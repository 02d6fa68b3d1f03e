"""Is the backlog everywhere or in one queue? Tells "add consumers" from "fix the key" (lag.md 1.2, 22)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Skew:
    """Of a group's queues. All 1 queue: gini near 1, `effective_queues` 1; all alike: gini 0, as many as there are.

    `time_lag_spread_ms` is the largest minus the median time lag.
    """

    max_over_mean: float
    variation: float  # standard deviation over mean
    gini: float
    effective_queues: float
    time_lag_spread_ms: int | None


def skew(lags: Sequence[int], time_lags_ms: Sequence[int] = ()) -> Skew | None:
    """Return the skew of known lags, None when nothing waits: nothing is evenly spread over nothing."""
    values = np.sort(np.asarray(lags, dtype=np.float64))
    total = float(values.sum())
    if total <= 0:
        return None
    count = len(values)
    mean = total / count
    ranks = np.arange(1, count + 1)
    gini = float((2 * ranks - count - 1) @ values / (count * total))
    spread = None
    if len(time_lags_ms):
        spread = int(max(time_lags_ms) - np.median(np.asarray(time_lags_ms)))
    return Skew(
        max_over_mean=float(values[-1] / mean),
        variation=float(values.std() / mean),
        gini=gini,
        effective_queues=float(total * total / (values @ values)),
        time_lag_spread_ms=spread,
    )
