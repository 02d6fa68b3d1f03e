"""How long until retention reaches the first unread message, at the rates of a window."""

from __future__ import annotations

import numpy as np

from spark.lag.snapshot import Int64Array
from spark.rounds import Bundles, Matrix

NEVER = np.iinfo(np.int64).max >> 1


def time_to_loss_ms(matrix: Matrix, bundles: Bundles) -> Int64Array:
    """Of each bundle's queue that retention reaches first: the distance from the oldest message kept to the first
    unread one, over the speed at which it shrank in the window; NEVER where it did not.
    """
    width = len(matrix.times)
    rows = np.arange(len(matrix.keys))
    first = np.argmax(matrix.present, axis=1)
    last = width - 1 - np.argmax(matrix.present[:, ::-1], axis=1)
    span = np.maximum(matrix.times[last] - matrix.times[first], 1)
    low = matrix.min_offset[rows, last]
    closing = low - matrix.min_offset[rows, first] - matrix.consumed.sum(axis=1)
    distance = np.maximum(matrix.committed[rows, last] - low, 0)
    at_risk = (closing > 0) & (matrix.lag[rows, last] > 0)
    left = np.where(at_risk, distance * span // np.maximum(closing, 1), NEVER)
    return -bundles.largest(-left[:, None])[:, 0]
