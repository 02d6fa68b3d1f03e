"""Is the backlog everywhere or in one queue? Tells "add consumers" from "fix the key" (lag.md 1.2, 22)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.snapshot import Int64Array


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


class Skews(NamedTuple):
    """`Skew` of many groups at once; NaN where nothing waits."""

    max_over_mean: npt.NDArray[np.float64]
    gini: npt.NDArray[np.float64]
    effective_queues: npt.NDArray[np.float64]


def skews(lags: Int64Array, groups: Int64Array, count: int, *, unknown: int) -> Skews:
    """Return the skew of `count` groups; `groups[k]` is the group (0 and up) of the queue with `lags[k]`. A lag that is
    `unknown` does not count.
    """
    known = lags != unknown
    values, groups = lags[known].astype(np.float64), groups[known]
    order = np.lexsort((values, groups))
    values, groups = values[order], groups[order]
    queues = np.bincount(groups, minlength=count)
    total = np.bincount(groups, weights=values, minlength=count)
    starts = np.cumsum(queues) - queues
    ranks = np.arange(1, len(values) + 1) - starts[groups]
    weighted = np.bincount(groups, weights=(2 * ranks - queues[groups] - 1) * values, minlength=count)
    squares = np.bincount(groups, weights=values * values, minlength=count)
    largest = np.zeros(count)
    np.maximum.at(largest, groups, values)
    waits = total > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (largest / (total / queues), weighted / (queues * total), total * total / squares)
    return Skews(*(np.where(waits, one, np.nan) for one in found))
