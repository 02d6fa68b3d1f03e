"""Figures of pages, REST and reports, computed once from the merged sums of a window (`spark.lag.folds.window`).

Null is unknown, never zero. Counts are messages, times milliseconds, rates messages per second; percentiles are those
of histograms (`spark.lag.folds.histogram`), at most 0.8 % too large: only so are those of a day the ones of its hours.

    lag_*               waiting and readable, summed over the row's queues, in rounds in which all were counted
                        (`samples`); `lag_max` of what was known: with `partial_samples` it was at least that
    time_lag_*_ms       age of the oldest of them, the maximum over queues; `time_lag_censored` rounds know a lower
                        bound
    message_latency_*   how long the consumed messages had waited; `latency_mean_ms` their mean, of which
                        `little_mean_ms` is the check without any age: area under the lag over messages consumed;
                        `little_agrees` whether the two differ by no more than what waited at either end of the window
                        explains, and two intervals; null where not all of it is known, or offsets were set
    within_slo_pct      share of the consumed messages with a latency of at most `slo_ms`, `consumed_within_slo` of them
    in_flight_p95       pulled and not confirmed, `ready_p95` not pulled yet: where it was read of every queue
    catch_up_speed      seconds of the topic's time that the row gained per second: 1 keeps pace, 0 stands still
    last_consumed_age_ms  age, when the row was last known, of the newest message that was consumed in the window (of a
                        topic by any of its queues): at least that, by an interval and what the message itself waited;
                        not a lag, it grows on an idle topic; null: none was consumed
    breach_ms           time in which some queue's time lag was above `slo_ms`; `breach_weighted_ms` the same, each
                        moment weighted by the share of the waiting messages that lie in such queues
    late_message_ms     cost of lag: every message that waits in such a queue, times the time that it waits there
    watched_ms          time in which it is known whether the promise was kept
    burn_rate           (breach_ms / watched_ms) / (1 - the group's target); null below `COVERAGE_MIN` of the time: then
                        it is between `burn_lo` (all else was good) and `burn_hi` (all else was bad)
    drain_ms            until the backlog at the end is gone: where nothing is behind what its oldest message has
                        waited, else the backlog over (what was handled in the median minute behind - what comes);
                        `_lo`, `_hi` with the 80th and the 20th percentile; null with `drain_never`: not at these rates
    drain_by_speed_ms   the same by ages alone: what the oldest message at the end has waited over (catch-up speed - 1);
                        null: unknown, or not at this speed
    time_to_loss_ms     until retention reaches the first unread message, in the worst round in which the collector
                        found that the row does not keep pace; null: never, or not in sight (`round_arrays.losses_ms`)
    lost, skipped       removed unread by retention; passed by when a committed offset was set
    skew_*              max / mean, standard deviation / mean (`cv`) and Gini of the queues' mean lags;
                        `effective_queues`: over how many it spreads
    time_lag_spread_ms  the longest time lag of any queue less that of the median queue, each its longest in the window
    offset_is_not_count offsets of the topic do not count messages: figures in messages are upper bounds
    stall_ms_max        longest time a queue with messages waiting stood still; of whole intervals, so that it goes on
                        in the next window where this one ends
    coverage_pct        share of the time the row existed in which every queue was known; `max_gap_ms` longest time
                        without a round in which all was counted
    status_ms           milliseconds in each status, in the order of `codes.WORST_FIRST`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark.lag.codes import SEVERITY, WORST_FIRST
from spark.lag.folds import histogram
from spark.lag.folds.level import HIGHEST, NONE, Level, Sums
from spark.lag.folds.window import BEHIND_MS, WEIGHT, Fold
from spark.lag.forecast import DRAIN_MS_MAX
from spark.lag.grid import TOPIC_WIDTH
from spark.lag.round.skew import skews
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array

PERCENTILES = (50, 95, 99)
COVERAGE_MIN = 0.95  # less was watched: the budget is unknown
BUSY_MS = 30_000  # of a minute in which a row was behind: less does not show its pace
FloatArray = npt.NDArray[np.float64]
Columns = dict[str, Any]


def of_level(level: Level, interval_ms: int, slo_ms: Int64Array, target: FloatArray) -> Columns:
    """Return the columns of some rows; those that only topics have are null (`of_topics`)."""
    sums = level.sums
    existed = sums.exists_ms
    seconds = np.maximum(sums.counted_ms, 1) / 1000
    in_rate = sums.produced / seconds
    is_uncounted = sums.counted_ms == 0
    span_ms = level.aged.last_ms - level.aged.first_ms
    speed = 1 - (level.aged.last - level.aged.first) / np.maximum(span_ms, 1)
    return {
        "incarnation": pa.array(sums.incarnation),
        "queues": pa.array(sums.queues),
        "slo_ms": pa.array(slo_ms),
        "interval_ms": pa.array(np.full(len(level), interval_ms)),
        "coverage_pct": masked(np.round(100 * sums.known_ms / np.maximum(existed, 1), 2), existed == 0),
        "max_gap_ms": pa.array(_longest_gap(level)),
        "samples": pa.array(sums.samples),
        "partial_samples": pa.array(sums.partial_samples),
        "expected_samples": pa.array(-(-existed // interval_ms)),
        "lag_first": masked(level.counted.first, level.counted.first_ms < 0),
        "lag_last": masked(level.counted.last, level.counted.last_ms < 0),
        "lag_max": masked(sums.lag_max, (sums.lag_max < 0) | (sums.known_ms == 0)),
        "time_lag_last_ms": masked(level.aged.last, level.aged.last_ms < 0),
        "time_lag_max_ms": masked(sums.age_max_ms, (sums.age_max_ms < 0) | (sums.known_ms == 0)),
        "time_lag_censored": pa.array(sums.bound_samples),
        **_percentiles(level),
        **_waits(level, interval_ms),
        **{name: pa.array(getattr(sums, name)) for name in ("produced", "consumed", "counted_ms")},
        "in_rate": masked(in_rate, is_uncounted),
        "out_rate": masked(sums.consumed / seconds, is_uncounted),
        "catch_up_speed": masked(np.round(speed, 6), span_ms <= 0),
        "last_consumed_age_ms": _age(sums.newest_ms, level.aged.last_ms),
        "offset_is_not_count": masked(sums.not_count > 0, sums.not_count < 0),
        **_budget(level, target),
        **_drain(level, in_rate),
        "drain_by_speed_ms": _drain_by_speed(level),
        "time_to_loss_ms": masked(sums.runway_ms, sums.runway_ms > DRAIN_MS_MAX),
        **{name: pa.array(getattr(sums, name)) for name in ("lost", "skipped", "rewinds")},
        "stall_ms_max": pa.array(level.still.longest_ms),
        **_status(sums.status_ms),
    }


def of_topics(fold: Fold) -> Columns:
    """Return what only the queues of a group's topic show together: skew, the worst of them, the longest standstill."""
    queues, count = fold.queues.sums, len(fold.topics)
    place = {key[:TOPIC_WIDTH]: row for row, key in enumerate(fold.topics.keys)}
    topic = np.array([place[key[:TOPIC_WIDTH]] for key in fold.queues.keys], dtype=np.int64)
    waits = np.zeros(count, dtype=np.int64)
    np.maximum.at(waits, topic, queues.lag_max)
    order = np.lexsort((-queues.lag_max, -queues.age_max_ms, topic))
    worst = order[np.searchsorted(topic[order], np.arange(count))]
    names = [queue_name(fold.queues.keys[row]) for row in worst.tolist()]
    still, known_ms = np.zeros(count, dtype=np.int64), np.full(count, NONE, dtype=np.int64)
    np.maximum.at(still, topic, fold.queues.still.longest_ms)
    np.maximum.at(known_ms, topic, fold.queues.aged.last_ms)
    return {
        "worst_queue": pa.array(
            [name if waited else "" for name, waited in zip(names, waits > 0, strict=True)]
        ),
        "stall_ms_max": pa.array(still),
        "last_consumed_age_ms": _age(fold.topics.sums.newest_ms, known_ms),
        "time_lag_spread_ms": _time_lag_spread(queues, topic, count),
        **skew(queues.lag_area, topic, count),
    }


def queue_name(key: SeriesKey) -> str:
    """Return how pages and reports name a queue."""
    return f"{key.broker_name} · {key.queue_id}"


def skew(areas: Int64Array, group: Int64Array, count: int) -> Columns:
    """Return how uneven the mean lags of the queues of each group are (lag.md 1.2, 22); null where nothing waited."""
    found = skews(areas, group, count, unknown=NONE)
    columns = zip(("skew_max_mean", "skew_cv", "skew_gini", "effective_queues"), found, strict=True)
    return {name: masked(np.round(np.nan_to_num(values), 6), np.isnan(values)) for name, values in columns}


def _time_lag_spread(queues: Sums, topic: Int64Array, count: int) -> pa.Array:
    """Return how far the queue with the longest time lag of each topic is above the median one."""
    is_known = (queues.age_max_ms >= 0) & (queues.known_ms > 0)
    ages, of = queues.age_max_ms[is_known], topic[is_known]
    ages = ages[np.lexsort((ages, of))]
    numbers = np.bincount(of, minlength=count)
    ends = np.cumsum(numbers)
    has = numbers > 0
    found = np.zeros(count, dtype=np.int64)
    begin, number = (ends - numbers)[has], numbers[has]
    median = (ages[begin + (number - 1) // 2] + ages[begin + number // 2]) // 2
    found[has] = ages[ends[has] - 1] - median
    return masked(found, ~has)


def _age(stored_ms: Int64Array, at_ms: Int64Array) -> pa.Array:
    return masked(at_ms - stored_ms, (stored_ms < 0) | (at_ms < 0))


def _longest_gap(level: Level) -> Int64Array:
    begin, end = level.sums.exists_from_ms, level.sums.exists_to_ms
    first, last = level.counted.first_ms, level.counted.last_ms
    edges = np.maximum(first - begin, end - last)
    found = np.where(first >= 0, np.maximum(edges, level.counted.gap_ms), end - begin)
    return np.where(end > NONE, found, 0)


def _percentiles(level: Level) -> Columns:
    found: Columns = {}
    for name, pattern, highest in (
        ("lag", "lag_p{}", level.sums.lag_max),
        ("time_lag", "time_lag_p{}_ms", level.sums.age_max_ms),
        ("latency", "message_latency_p{}_ms", None),
        ("in_flight", "in_flight_p{}", None),
        ("ready", "ready_p{}", None),
    ):
        own = level.histograms[name]
        shares = PERCENTILES if name not in ("in_flight", "ready") else (95,)
        by_share = histogram.percentiles(own.buckets, own.counts, own.starts(len(level)), shares)
        for share, one in by_share.items():
            values = one.values if highest is None else np.minimum(one.values, np.maximum(highest, 0))
            found[pattern.format(share)] = masked(values, one.is_empty)
    return found


def _waits(level: Level, interval_ms: int) -> Columns:
    sums = level.sums
    timed, consumed = np.maximum(sums.timed, 1), np.maximum(sums.consumed, 1)
    mean_ms, little_ms = sums.latency_ms // timed, sums.lag_area // consumed
    # Those that waited before the window began, and those that still wait at its end.
    at_ends = level.counted.first * level.aged.first + level.counted.last * level.aged.last
    agrees = np.abs(mean_ms - little_ms) <= at_ends // consumed + 2 * interval_ms
    is_whole = (sums.consumed > 0) & (sums.timed == sums.consumed) & (sums.known_ms == sums.exists_ms)
    is_whole &= (sums.partial_samples == 0) & (sums.bound_samples == 0) & (level.aged.first_ms >= 0)
    is_whole &= (sums.skipped == 0) & (sums.lost == 0) & (sums.rewinds == 0)
    return {
        "consumed_within_slo": pa.array(sums.in_time),
        "within_slo_pct": masked(np.round(100 * sums.in_time / timed, 4), sums.timed == 0),
        "latency_mean_ms": masked(mean_ms, sums.timed == 0),
        "little_mean_ms": masked(little_ms, sums.consumed == 0),
        "little_agrees": masked(agrees, ~is_whole),
    }


def _budget(level: Level, target: FloatArray) -> Columns:
    sums = level.sums
    existed = np.maximum(sums.exists_ms, 1)
    allowed = 1 - target
    burn = sums.breach_ms / np.maximum(sums.watched_ms, 1) / allowed
    unknown_ms = sums.exists_ms - sums.watched_ms
    return {
        "breach_ms": pa.array(sums.breach_ms),
        "breach_weighted_ms": pa.array(sums.breach_weighted // WEIGHT),
        "late_message_ms": pa.array(sums.late_message_ms),
        "watched_ms": pa.array(sums.watched_ms),
        "burn_rate": masked(np.round(burn, 6), ~is_covered(level)),
        "burn_lo": masked(np.round(sums.breach_ms / existed / allowed, 6), sums.exists_ms == 0),
        "burn_hi": masked(
            np.round((sums.breach_ms + unknown_ms) / existed / allowed, 6), sums.exists_ms == 0
        ),
    }


def is_covered(level: Level) -> BoolArray:
    """Return the rows of which enough of the time was watched to know how much of a budget is spent."""
    covered: BoolArray = level.sums.watched_ms >= COVERAGE_MIN * np.maximum(level.sums.exists_ms, 1)
    return covered


def handling_rates(level: Level, shares: Sequence[int]) -> dict[int, FloatArray]:
    """Return percentiles of how many messages a second each row handled in its minutes behind; NaN without one."""
    minutes = level.minutes
    usable = minutes.behind_ms >= BUSY_MS
    rows, rates = minutes.rows[usable], minutes.consumed[usable] * 1000 / minutes.behind_ms[usable]
    order = np.lexsort((rates, rows))
    rows, rates = rows[order], rates[order]
    starts = np.searchsorted(rows, np.arange(len(level) + 1))
    count = np.diff(starts)
    found = {}
    for share in shares:
        at = starts[:-1] + np.maximum(-(-share * count // 100) - 1, 0)
        values = rates[np.minimum(at, len(rates) - 1)] if len(rates) else np.zeros(len(level))
        found[share] = np.where(count > 0, values, np.nan)
    return found


def _drain(level: Level, in_rate: FloatArray) -> Columns:
    rates = handling_rates(level, (20, 50, 80))
    lag, age = level.counted.last, level.aged.last
    is_known = (level.counted.last_ms >= 0) & (level.aged.last_ms >= 0)
    is_level = is_known & (age <= BEHIND_MS)
    is_stuck = is_known & ~is_level & (level.sums.consumed == 0)
    found: Columns = {}
    for name, share in (("drain_lo_ms", 80), ("drain_ms", 50), ("drain_hi_ms", 20)):
        spare = rates[share] - in_rate
        with np.errstate(divide="ignore", invalid="ignore"):
            ms = np.where(is_level, np.where(lag == 0, 0, age), lag * 1000 / spare)
        is_unknown = ~is_known | (~is_level & ~is_stuck & np.isnan(rates[share]))
        is_never = ~is_unknown & ~is_level & (is_stuck | ~((spare > 0) & (ms <= DRAIN_MS_MAX)))
        gone = is_unknown | is_never
        found[name] = masked(np.rint(np.where(gone, 0, ms)).astype(np.int64), gone)
        if name == "drain_ms":
            found["drain_never"] = masked(is_never, is_unknown)
    return found


def _drain_by_speed(level: Level) -> pa.Array:
    """Return the age at the end over (catch-up speed - 1), which is how fast the age fell in the window."""
    aged = level.aged
    fallen = aged.first - aged.last
    ms = np.rint(aged.last / np.maximum(fallen, 1) * (aged.last_ms - aged.first_ms))
    is_level = (aged.last_ms >= 0) & (aged.last == 0)
    is_unknown = ~is_level & ((fallen <= 0) | (ms > DRAIN_MS_MAX))
    return masked(np.where(is_level | is_unknown, 0, ms).astype(np.int64), is_unknown)


def _status(status_ms: Int64Array) -> Columns:
    ordered = status_ms[:, [SEVERITY[status] for status in WORST_FIRST]]
    count, width = ordered.shape
    words = pa.array([status.value for status in WORST_FIRST])
    none = ~(ordered > 0).any(axis=1)
    worst = pa.array(np.argmax(ordered > 0, axis=1), mask=none)
    offsets = pa.array(np.arange(count + 1) * width, pa.int32())
    return {
        "status_worst": words.take(worst),
        "status_ms": pa.ListArray.from_arrays(offsets, pa.array(ordered.reshape(-1))),
    }


def masked(values: Any, unknown: BoolArray) -> pa.Array:
    """Return a column, null where unknown."""
    return pa.array(values, mask=unknown)


assert HIGHEST > DRAIN_MS_MAX
