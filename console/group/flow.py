"""Cumulative flow of a group from its recorded samples: produced, pulled, committed, oldest stored. Pure.

The vertical distance of two lines is lag, the horizontal one latency.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from console.brokers.mqadmin import MessageQueue
from spark.lag.codes import SampleFlag
from spark.lag.folds.figures import handling_rates
from spark.lag.folds.rounds import rounds_of, whole
from spark.lag.folds.window import level_of
from spark.lag.grid import grid_of
from spark.lag.local_time import MINUTE_MS
from spark.lag.samples import Samples
from spark.lag.snapshot import UNKNOWN_OFFSET, BoolArray, Int64Array

BEST_PERCENTILE = 95  # of the minutes: one exceptional minute, or one counted twice, must not set the speed
LINES = ("produced", "pulled", "committed", "stored_from")
FloatArray = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """Lines of a chart in messages since the first committed offset, null in a gap; times in epoch ms.

    ``pulled`` is null where it was not read; ``stored_from`` is the oldest message still stored, mostly negative.
    ``queues`` of ``queues_total`` are in the sums: a queue without a reading at the end is left out.
    """

    times: Sequence[int]
    produced: Sequence[int | None]
    pulled: Sequence[int | None]
    committed: Sequence[int | None]
    stored_from: Sequence[int | None]
    queues: int
    queues_total: int


def cumulative_flow(samples: Samples, points: int, gap_ms: int) -> Flow:
    """Return the lines of a chart, summed over the queues that were read from the first to the last round."""
    places = [place for _, place in samples.slices() if place.stop > place.start]
    if not places:
        return Flow((), **dict.fromkeys(LINES, ()), queues=0, queues_total=0)
    grid = _grid(np.unique(samples.t_ms), points)
    lines = {name: np.zeros(len(grid)) for name in LINES}
    counted = 0
    for place in places:
        if samples.t_ms[place.stop - 1] < grid[-1] - gap_ms:
            continue
        counted += 1
        for name, values in _queue_lines(samples, place, grid, gap_ms).items():
            lines[name] += values
    return Flow(
        times=grid.tolist(),
        **{name: _listed(values) for name, values in lines.items()},
        queues=counted,
        queues_total=len(places),
    )


def _queue_lines(samples: Samples, place: slice, grid: Int64Array, gap_ms: int) -> dict[str, FloatArray]:
    """Return one queue's lines at the common times: 0 before its first commit, NaN where no round read it."""
    times = samples.t_ms[place]
    at = np.searchsorted(times, grid, side="right") - 1
    begun = at >= 0
    at = np.maximum(at, 0)
    fresh = grid - times[at] <= gap_ms
    first = int(samples.committed[place][0])
    columns = {
        "produced": samples.max_offset[place],
        "pulled": samples.pulled[place],
        "committed": samples.committed[place],
        "stored_from": samples.min_offset[place],
    }
    lines = {}
    for name, column in columns.items():
        values = (column[at] - first).astype(np.float64)
        values[(column[at] == UNKNOWN_OFFSET) | ~fresh] = np.nan
        values[~begun] = 0.0
        lines[name] = values
    return lines


def _grid(times: Int64Array, points: int) -> Int64Array:
    """Return at most `points` of the times, first and last included, evenly spread."""
    if len(times) <= points:
        return times
    picked: Int64Array = times[np.linspace(0, len(times) - 1, points).round().astype(np.int64)]
    return picked


def _listed(values: FloatArray) -> list[int | None]:
    return [None if np.isnan(value) else round(value) for value in values.tolist()]


def _was_set(samples: Samples, place: slice) -> BoolArray:
    """Return which samples show an offset that was set since the previous sample."""
    found: BoolArray = (samples.flags[place] & SampleFlag.MOVED) != 0
    return found


PACE_PERCENTILE = 90  # of the steps with progress: one undetected reset must not set the pace


def queue_paces(
    samples: Samples, gap_ms: int, set_at_ms: Mapping[MessageQueue, int]
) -> dict[MessageQueue, float]:
    """Return the pace of each queue in messages per second, as observed from round to round.

    Steps over a gap, backwards, over a jump, or in which the offset was set (``set_at_ms``) are not counted.
    A queue without progress is left out.
    """
    found: dict[MessageQueue, float] = {}
    for key, place in samples.slices():
        times, committed = samples.t_ms[place], samples.committed[place]
        if len(times) < 2:
            continue
        queue = MessageQueue(key.topic, key.broker_name, key.queue_id)
        took, gained = np.diff(times), np.diff(committed)
        is_read = (gained > 0) & (took <= gap_ms) & (committed[:-1] != UNKNOWN_OFFSET)
        is_read &= ~_was_set(samples, place)[1:]
        if queue in set_at_ms:
            # the round that shows it may have been read just before the move was recorded
            is_read &= (times[:-1] > set_at_ms[queue]) | (times[1:] + gap_ms < set_at_ms[queue])
        if is_read.any():
            rates = gained[is_read] * 1000 / took[is_read]
            pace = float(np.percentile(rates, PACE_PERCENTILE, method="nearest"))
            found[queue] = max(pace, found.get(queue, 0.0))
    return found


def handled_speed(samples: Samples, interval_ms: int) -> float | None:
    """Return messages per second in the median minute in which the group was behind; None without one.

    The same rule as in reports (`spark.lag.folds.figures.handling_rates`).
    """
    if not samples.keys:
        return None
    grid = grid_of(samples, interval_ms)
    rounds = rounds_of(grid).together(whole(len(grid.keys)))
    from_ms, to_ms = int(grid.t_ms[0]), int(grid.t_ms[-1]) + 1
    level = level_of(rounds, grid.keys[:1], np.zeros(1, dtype=np.int64), from_ms, to_ms)
    rate = float(handling_rates(level, (50,))[50][0])
    return rate if rate > 0 else None  # NaN without such a minute


@dataclasses.dataclass(frozen=True, slots=True)
class Speed:
    """Messages per second committed in a good minute, and the number of minutes with progress."""

    per_s: float
    minutes: int


def best_speed(samples: Samples, gap_ms: int) -> Speed | None:
    """Return the 95th percentile of the group's minutes with progress, as the speed it can reach.

    A minute in which an offset jumped or went back, or that ends a gap, is left out: a reset is not reading.
    None when nothing was read.
    """
    if not len(samples.t_ms):
        return None
    start = int(samples.t_ms.min())
    minutes = np.zeros((int(samples.t_ms.max()) - start) // MINUTE_MS + 1)
    spoilt = np.zeros(len(minutes), dtype=np.bool_)
    for _, place in samples.slices():
        times, committed = samples.t_ms[place], samples.committed[place]
        if len(times) < 2:
            continue
        gained = np.diff(committed)
        minute = (times[1:] - start - 1) // MINUTE_MS  # what was gained until a full minute belongs to it
        spoilt[minute[(gained < 0) | (np.diff(times) > gap_ms) | _was_set(samples, place)[1:]]] = True
        np.add.at(minutes, minute, np.maximum(gained, 0))
    read = minutes[(minutes > 0) & ~spoilt]
    if not len(read):
        return None
    return Speed(float(np.percentile(read, BEST_PERCENTILE, method="nearest")) * 1000 / MINUTE_MS, len(read))
