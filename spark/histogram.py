"""Counts of values in buckets that can be added up: percentiles of an hour, a day and a week from the same counts.

Values from 0 to 255 have a bucket each; above, every power of two is cut into 128, so that a value read back is never
below the true one and at most 0.8 % above it. Adding histograms is adding counts: no order, no split of the input and
no number of files changes the result, which is what averages of percentiles cannot promise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

SUB_BITS = 7
EXACT = 2 << SUB_BITS  # 256: below it a value is its own bucket


def bucket_of(values: Int64Array) -> Int64Array:
    """The bucket of each value; values must not be negative."""
    shift = np.maximum(np.frexp(values.astype(np.float64))[1] - (SUB_BITS + 1), 0).astype(np.int64)
    buckets: Int64Array = (shift << SUB_BITS) + (values >> shift)
    return buckets


def highest_of(buckets: Int64Array) -> Int64Array:
    """The largest value that falls into each bucket."""
    shift = np.maximum((buckets >> SUB_BITS) - 1, 0)
    highest: Int64Array = ((buckets - (shift << SUB_BITS) + 1) << shift) - 1
    return highest


def merged(buckets: Int64Array, counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Buckets in ascending order, each once, with the sum of its counts."""
    order, place = np.unique(buckets, return_inverse=True)
    total = np.zeros(len(order), dtype=np.int64)
    np.add.at(total, place, counts)
    return order, total


def percentile(buckets: Int64Array, counts: Int64Array, share: int, *, highest: int | None) -> int | None:
    """The value below or at which `share` percent of the counts lie (nearest rank); None without counts.

    `buckets` ascend. `highest` is the largest value there was, if known: no percentile is above it.
    """
    total = int(counts.sum())
    if total == 0:
        return None
    rank = max(-(-share * total // 100), 1)
    at = int(np.searchsorted(np.cumsum(counts), rank))
    value = int(highest_of(buckets[at : at + 1])[0])
    return value if highest is None else min(value, highest)


def row_histograms(ordered: Int64Array, counts: Int64Array) -> tuple[Any, Any, Int64Array]:
    """Histograms of rows of ascending values, of which the first `counts[i]` of row i count.

    Returns (buckets, counts, starts): those of row i are at starts[i]..starts[i + 1].
    """
    rows, width = ordered.shape
    live = np.arange(width) < counts[:, None]
    buckets = bucket_of(np.where(live, ordered, 0))
    begins = live.copy()
    begins[:, 1:] &= buckets[:, 1:] != buckets[:, :-1]
    at = np.flatnonzero(begins)
    per_row = begins.sum(axis=1)
    starts = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(per_row, out=starts[1:])
    row_end = np.repeat(np.arange(rows) * width + counts, per_row)
    next_at = np.append(at[1:], 0)
    is_last = np.zeros(len(at), dtype=np.bool_)
    is_last[starts[1:][per_row > 0] - 1] = True
    ends = np.where(is_last, row_end, next_at)
    return buckets.reshape(-1)[at], ends - at, starts
