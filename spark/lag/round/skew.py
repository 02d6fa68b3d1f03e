"""Skew of a backlog over queues: whether more consumers help or another key (lag.md 1.2, 22)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.snapshot import Int64Array


class Skews(NamedTuple):
    """Hold how unevenly the lag of each group is spread over its queues.

    All in 1 queue is gini near 1 and 1 effective queue, all alike is gini 0 and as many as there are; `variation` is
    the standard deviation over the mean. NaN where nothing waits.
    """

    max_over_mean: npt.NDArray[np.float64]
    variation: npt.NDArray[np.float64]
    gini: npt.NDArray[np.float64]
    effective_queues: npt.NDArray[np.float64]


def skews(lags: Int64Array, groups: Int64Array, count: int, *, unknown: int) -> Skews:
    """Return the skew of `count` groups; `groups[k]` is the group (0 and up) of the queue with `lags[k]`.

    A lag that is `unknown` does not count.
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
        effective = total * total / squares
        variation = np.sqrt(np.maximum(queues / effective - 1, 0))
        found = (largest / (total / queues), variation, weighted / (queues * total), effective)
    return Skews(*(np.where(waits, one, np.nan) for one in found))
