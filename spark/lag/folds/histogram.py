"""Counts of values in buckets that can be added up: percentiles of an hour, a day and a week from the same counts.

Values from 0 to 255 have a bucket each; above, every power of two is cut into 128, so that a value read back is never
below the true one and at most 0.8 % above it. Adding histograms is adding counts: no order, no split of the input and
no number of files changes the result, which averages of percentiles cannot promise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

SUB_BITS = 7
EXACT = 2 << SUB_BITS  # 256: below it a value is its own bucket


def bucket_of(values: Int64Array) -> Int64Array:
    """Return the bucket of each value; values must not be negative."""
    shift = np.maximum(np.frexp(values.astype(np.float64))[1] - (SUB_BITS + 1), 0).astype(np.int64)
    buckets: Int64Array = (shift << SUB_BITS) + (values >> shift)
    return buckets


def narrow_bucket_of(values: Int32Array) -> Int32Array:
    """Return `bucket_of` 32-bit values: a float's leading bits are its power of two and seven bits more."""
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


def codes_of(values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Return `bucket_of` in 16 bits, which hold every bucket; by `narrow_bucket_of` where the values fit."""
    if values.size == 0 or values.max() < 1 << 31:
        return narrow_bucket_of(values.astype(np.int32)).astype(np.uint16)
    return bucket_of(values).astype(np.uint16)


def runs_of(ordered: npt.NDArray[np.uint16], counts: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Count ascending buckets, of which the first `counts[i]` of row i count: (rows, buckets, counts), each run one."""
    width = ordered.shape[1]
    begins = np.ones(ordered.shape, dtype=np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    if not (counts == width).all():
        begins &= np.arange(width) < counts[:, None]
    at = np.flatnonzero(begins)
    rows = at // max(width, 1)
    ends = np.minimum(np.append(at[1:], ordered.size), rows * width + counts[rows])
    return rows, ordered.reshape(-1)[at].astype(np.int64), ends - at


def weighed(
    buckets: npt.NDArray[np.uint16], weights: npt.NDArray[Any]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Add up the weights of the buckets of each row: (rows, buckets, sums), each bucket once and in order.

    A weight of 0 does not count.
    """
    nothing = np.empty(0, dtype=np.int64)
    bits = int(weights.max(initial=0)).bit_length()
    if not bits:
        return nothing, nothing, nothing
    is_narrow = int(buckets.max()).bit_length() + bits <= 32
    keys: npt.NDArray[Any] = buckets.astype(np.uint32 if is_narrow else np.uint64)
    keys <<= bits
    keys |= weights.astype(keys.dtype)
    keys *= weights > 0
    keys.sort(axis=1)
    ordered = keys >> bits
    begins = np.ones(keys.shape, dtype=np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    at = np.flatnonzero(begins)
    keys &= keys.dtype.type((1 << bits) - 1)
    sums = np.add.reduceat(keys.reshape(-1), at, dtype=np.int64)
    at, sums = at[sums > 0], sums[sums > 0]
    return at // keys.shape[1], ordered.reshape(-1)[at].astype(np.int64), sums


def _bias(exponent: int) -> np.int32:
    return np.int32((exponent + SUB_BITS - 1) << SUB_BITS)


def highest_of(buckets: Int64Array) -> Int64Array:
    """Return the largest value of each bucket."""
    shift = np.maximum((buckets >> SUB_BITS) - 1, 0)
    highest: Int64Array = ((buckets - (shift << SUB_BITS) + 1) << shift) - 1
    return highest


def merged(buckets: Int64Array, counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return buckets in ascending order, each once, with the sum of its counts."""
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


class Found(NamedTuple):
    """A percentile of every row; `is_empty` where there is nothing to take it from."""

    values: Int64Array
    is_empty: npt.NDArray[np.bool_]


def percentiles(
    buckets: Int64Array, counts: Int64Array, starts: Int64Array, shares: Iterable[int]
) -> dict[int, Found]:
    """Return for each share the value at or below which so many percent of a row's counts lie (nearest rank).

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
