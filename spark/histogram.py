"""Counts of values in buckets that can be added up: percentiles of an hour, a day and a week from the same counts.

Values from 0 to 255 have a bucket each; above, every power of two is cut into 128, so that a value read back is never
below the true one and at most 0.8 % above it. Adding histograms is adding counts: no order, no split of the input and
no number of files changes the result, which is what averages of percentiles cannot promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

SUB_BITS = 7
DENSE_MAX = 1 << 24  # buckets of all rows: 128 MB
EXACT = 2 << SUB_BITS  # 256: below it a value is its own bucket
CACHED_ROWS = 256


def bucket_of(values: Int64Array) -> Int64Array:
    """The bucket of each value; values must not be negative."""
    shift = np.maximum(np.frexp(values.astype(np.float64))[1] - (SUB_BITS + 1), 0).astype(np.int64)
    buckets: Int64Array = (shift << SUB_BITS) + (values >> shift)
    return buckets


def narrow_bucket_of(values: Int32Array) -> Int32Array:
    """`bucket_of`, for 32-bit values: a float's leading bits are its power of two and the seven bits behind."""
    buckets: Int32Array
    if values.size and values.max() < 1 << 24:  # exact in 32 bits
        buckets = values.astype(np.float32).view(np.int32)
        buckets >>= 23 - SUB_BITS
        buckets -= _bias(127)
    else:
        bits = values.astype(np.float64).view(np.int64) >> (52 - SUB_BITS)
        buckets = (bits - _bias(1023)).astype(np.int32)
    # below 128 a value is its own bucket, and what came out above is less; all other buckets are 128 or more
    return np.maximum(buckets, np.minimum(values, EXACT // 2 - 1), out=buckets)


def codes_of(values: Int32Array) -> npt.NDArray[np.uint16]:
    """`narrow_bucket_of` in 16 bits, some rows of a matrix at a time: what stays in the cache takes half the time."""
    codes = np.empty(values.shape, dtype=np.uint16)
    for first in range(0, len(values), CACHED_ROWS):
        own = slice(first, first + CACHED_ROWS)
        codes[own] = narrow_bucket_of(values[own])
    return codes


def _bias(exponent: int) -> np.int32:
    return np.int32((exponent + SUB_BITS - 1) << SUB_BITS)


def highest_of(buckets: Int64Array) -> Int64Array:
    """The largest value that falls into each bucket."""
    shift = np.maximum((buckets >> SUB_BITS) - 1, 0)
    highest: Int64Array = ((buckets - (shift << SUB_BITS) + 1) << shift) - 1
    return highest


def merged(buckets: Int64Array, counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Buckets in ascending order, each once, with the sum of its counts."""
    if len(buckets) == 0:
        return buckets, counts
    width = int(counts.max()).bit_length()
    if int(buckets.max()).bit_length() + width < 63:
        # Both in one number: NumPy sorts numbers five times as fast as it finds their order.
        ordered = np.sort((buckets << width) | counts)
        buckets, counts = ordered >> width, ordered & ((1 << width) - 1)
    else:
        order = np.argsort(buckets)
        buckets, counts = buckets[order], counts[order]
    starts = np.flatnonzero(np.diff(buckets, prepend=buckets[:1] - 1))
    return buckets[starts], np.add.reduceat(counts, starts)


def added(
    rows: Int64Array, buckets: Int32Array, counts: Int64Array, row_count: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Histograms of `row_count` rows from counts in buckets, each of some row, in any order: (buckets, counts, starts),
    those of row i at starts[i]..starts[i + 1].
    """
    width = int(buckets.max(initial=0)) + 1
    keys = rows * width + buckets
    if (
        row_count * width <= DENSE_MAX
    ):  # adding up into all buckets there are is faster than sorting those there are
        sums = np.bincount(keys, counts, minlength=row_count * width)
        found = np.flatnonzero(sums > 0)
        weights = sums[found].astype(np.int64)  # sums of doubles are exact up to 2**53
    else:
        found, weights = merged(keys, counts)
    return found % width, weights, np.searchsorted(found, np.arange(row_count + 1) * width)


class Found(NamedTuple):
    """A percentile of every row; `is_empty` where there is nothing to take it from."""

    values: Int64Array
    is_empty: npt.NDArray[np.bool_]


def percentiles(
    buckets: Int64Array, counts: Int64Array, starts: Int64Array, shares: Iterable[int]
) -> dict[int, Found]:
    """For each share the value at or below which so many percent of a row's counts lie (nearest rank).

    Row i owns buckets[starts[i] : starts[i + 1]], ascending.
    """
    upto = np.concatenate([[0], np.cumsum(counts)])
    whole = upto[starts[1:]] - upto[starts[:-1]]
    highest = highest_of(buckets) if len(buckets) else np.zeros(1, dtype=np.int64)
    found = {}
    for share in shares:
        rank = np.maximum(-(-share * whole // 100), 1)
        at = np.searchsorted(upto[1:], upto[starts[:-1]] + rank)
        found[share] = Found(highest[np.minimum(at, len(highest) - 1)], whole == 0)
    return found


def matrix_percentiles(counts: Int64Array, shares: Sequence[int]) -> dict[int, Found]:
    """`percentiles` of rows that have a count in each bucket: a matrix rows x buckets."""
    width = counts.shape[1]
    upto = np.cumsum(counts)  # over all rows: one search finds the places of all
    ends = upto[width - 1 :: width]
    begins = np.append(0, ends[:-1])
    whole = ends - begins
    ranks = np.maximum(-(-np.array(shares)[:, None] * whole // 100), 1)
    at = np.searchsorted(upto, ranks + begins) - np.arange(len(counts)) * width
    highest = highest_of(np.minimum(at, width - 1))  # a row without counts ends where the next one begins
    return {share: Found(values, whole == 0) for share, values in zip(shares, highest, strict=True)}


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
