"""When was the message at an offset stored? Answered from the history of max offsets, without asking a
broker.

The max offset m of a queue never falls (within an incarnation), so a message at offset o with m(t_i) <= o <
m(t_j) was stored in (t_i, t_j]. The estimate interpolates in that interval and is never further from the
truth than its length (lag.md 1.2, metric 7). An offset below the first max offset known is *censored*: it was
stored at t_0 or before, so the age is at least t - t_0; it is never extrapolated.
"""

from dataclasses import dataclass

import numpy as np

from spark.lag.samples import Samples
from spark.lag.snapshot import BoolArray, Int64Array

CENSORED = -1


@dataclass(frozen=True, slots=True)
class StoreTimes:
    """Per question: estimated store time, and the bounds that are certain: `after_ms` < truth <= `until_ms`.

    Where `censored`, `estimate_ms` and `until_ms` are the start of history and `after_ms` is `CENSORED`: the
    message is that old or older.
    """

    estimate_ms: Int64Array
    after_ms: Int64Array
    until_ms: Int64Array
    censored: BoolArray


def store_time(
    times_ms: Int64Array, max_offsets: Int64Array, offset: int, *, written_ms: int | None = None
) -> StoreTimes:
    """Answer for one queue and one offset below the last max offset.

    `written_ms`, the broker's store time of the newest message when the history begins (202's
    lastUpdateTimestamp, on the collector's clock), tightens the bound of a censored offset and is exact for
    the last one.
    """
    assert len(times_ms) == len(max_offsets) > 0
    heads = np.maximum.accumulate(max_offsets)
    assert offset < heads[-1], (offset, int(heads[-1]))
    if offset < heads[0]:
        start = int(times_ms[0]) if written_ms is None else min(int(times_ms[0]), written_ms)
        exact = written_ms is not None and offset == heads[0] - 1
        return _one(start, start - 1 if exact else CENSORED, start, not exact)
    after, until, estimate = _arrival(times_ms, heads, offset)
    return _one(estimate, after, until, False)


def _arrival(times_ms: Int64Array, heads: Int64Array, offset: int) -> tuple[int, int, int]:
    """Return (after, until, estimate) of an offset inside the history; `heads` never falls."""
    at = int(heads.searchsorted(offset, side="right")) - 1
    after, until = int(times_ms[at]), int(times_ms[at + 1])
    share = (offset + 0.5 - int(heads[at])) / (int(heads[at + 1]) - int(heads[at]))
    return after, until, after + round(share * (until - after))


def store_times(samples: Samples, rows: Int64Array, offsets: Int64Array) -> StoreTimes:
    """Answer for many samples at once: `offsets[k]` in the series of sample `rows[k]`, from that series' own
    history.

    Every offset must be below the max offset of its sample. The series' previous sample counts as its first.
    """
    heads, times, starts = _heads(samples)
    # One sorted array for all series: each gets its own range of numbers, so one binary search answers
    # everything.
    lowest = heads[starts[:-1]]
    spans = heads[starts[1:] - 1] - lowest + 2
    bases = np.concatenate([[0], np.cumsum(spans)[:-1]]) if len(spans) else spans
    shift = bases - lowest
    keys = heads + np.repeat(shift, np.diff(starts))
    series = np.searchsorted(samples.starts, rows, side="right") - 1
    censored = offsets < lowest[series]
    # What is older than its history is looked up as its first offset, and marked.
    known = np.where(censored, lowest[series], offsets)
    at = np.searchsorted(keys, known + shift[series], side="right") - 1
    following = np.minimum(at + 1, len(times) - 1)
    after, until, head = times[at], times[following], heads[at]
    share = (known + 0.5 - head) / np.maximum(heads[following] - head, 1)
    estimate = after + np.rint(share * (until - after)).astype(np.int64)
    if censored.any():
        at = starts[:-1][series[censored]]
        estimate[censored] = until[censored] = times[at]
        after[censored] = CENSORED
    return StoreTimes(estimate, after, until, censored)


def _heads(samples: Samples) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return max offsets that never fall, their times and the series' starts, the previous sample in front of
    each series.
    """
    has_previous = samples.previous.t_ms >= 0
    counts = samples.counts + has_previous
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    heads = np.empty(int(starts[-1]), dtype=np.int64)
    times = np.empty(int(starts[-1]), dtype=np.int64)
    inserted = starts[:-1][has_previous]
    own = np.ones(len(heads), dtype=np.bool_)
    own[inserted] = False
    heads[own], times[own] = samples.max_offset, samples.t_ms
    heads[inserted] = samples.previous.max_offset[has_previous]
    times[inserted] = samples.previous.t_ms[has_previous]
    return _running_max(heads, starts), times, starts


def _running_max(values: Int64Array, starts: Int64Array) -> Int64Array:
    """Return the running maximum of each series; only series with a head regression cost a loop."""
    falls = np.flatnonzero(values[1:] < values[:-1]) + 1
    broken = np.unique(np.searchsorted(starts, falls, side="right") - 1)
    result = values.copy()
    for series in broken.tolist():
        own = slice(int(starts[series]), int(starts[series + 1]))
        result[own] = np.maximum.accumulate(values[own])
    return result


def _one(estimate: int, after: int, until: int, censored: bool) -> StoreTimes:
    return StoreTimes(
        np.array([estimate], dtype=np.int64),
        np.array([after], dtype=np.int64),
        np.array([until], dtype=np.int64),
        np.array([censored], dtype=np.bool_),
    )


@dataclass(frozen=True, slots=True)
class KnownTime:
    """A message whose store time somebody read: the newest one in the topic's statistics, or one that was
    looked up.
    """

    offset: int
    stored_ms: int
