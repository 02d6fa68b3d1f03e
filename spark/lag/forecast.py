"""Forecasts of backlogs: one rule for "growing" and "shrinking", and what follows from it.

Status and drain time are read from the same `Trend` of the same window, so that no page shows "catching up" and
"never" for one queue. All functions are pure; rates are messages per second, durations milliseconds, None means
unknown, and "never" is a field of its own (`never`), not a large number.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from spark.lag.local_time import DAY_MS, HOUR_MS, UTC, hour_of_week
from spark.lag.snapshot import Int64Array

DRAIN_MS_MAX = 365 * 24 * 3_600_000  # beyond a year "never" is the truer word
TREND_MS = 120_000  # a turn shows within a minute and a half
TREND_POINTS_MIN = 5  # a group that commits once a minute is watched for five
TREND_POINTS_MAX = (
    40  # a reading every 5 s; of more some are left out, for the number of pairs grows with the square
)
TREND_SURE_PCT = 90  # of the pairs of points must agree, or the lag is steady
PEAK_AGE_MS = 60_000  # a largest lag younger than that is the rhythm of commits
BAND_STEP_MS = (
    60_000  # the band is made from whole minutes: shorter ones show the rhythm of commits, not speed
)
HOURS_OF_WEEK = 168
FORECAST_HOURS_MAX = 14 * 24  # a backlog that two weeks do not clear is a capacity question
CATCH_UP_MS = 15 * 60_000  # how soon a backlog should be gone by default

FloatArray = npt.NDArray[np.float64]


class Direction(StrEnum):
    """The direction of a lag."""

    SHRINKING = "SHRINKING"
    STEADY = "STEADY"
    GROWING = "GROWING"


@dataclass(frozen=True, slots=True)
class Trend:
    """Describe how a lag changes: `pace` in messages per millisecond.

    With the paces between which all but a tenth at either end of the pairs of points lie, and the lags of the first
    and the last point, `span_ms` apart.
    """

    first: int
    last: int
    span_ms: int
    pace: float
    low_pace: float
    high_pace: float

    @property
    def direction(self) -> Direction:
        """Return STEADY unless nine of ten pairs agree: chance does not make a lag grow or shrink."""
        if self.high_pace < 0:
            return Direction.SHRINKING
        return Direction.GROWING if self.low_pace > 0 else Direction.STEADY


@dataclass(frozen=True, slots=True)
class Drain:
    """Time until the backlog is gone: `ms`, or `never` at the present pace, or neither when that is unknown.

    `low_ms` and `high_ms` are the band (None: unknown, or for `high_ms` with `low_ms` given: never); `window_ms` is
    the time over which the pace was measured.
    """

    ms: int | None
    never: bool
    low_ms: int | None = None
    high_ms: int | None = None
    window_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BandRule:
    """Set how wide a band is.

    It reaches from the `100 - low` to the `low` percentile of how fast the backlog shrank in the window's minutes, and
    never less than a factor on either side of the forecast: `1 + room`, more by `spread` times how far those minutes
    lie apart (as a share of the pace), and for forecasts longer than the window they are made from more by their ratio
    to the power `growth`: arrivals do not stay as they are.
    """

    low: float
    room: float
    spread: float
    growth: float


# Chosen on some traffic and measured on other: `tests.benchmark.drain_bands`.
BAND = BandRule(10, 0.75, 1, 0.5)
BAND_WINDOW_MS = 10 * 60_000
SCATTER_MAX = 4.0  # minutes further apart than that widen the band no more
UNKNOWN_DRAIN = Drain(None, False)
DRAINED = Drain(0, False)


def trend(t_ms: Int64Array, lag: Int64Array, committed: Int64Array) -> Trend:
    """Return the trend of a window of at least one sample (Theil and Sen).

    The median of the paces between all pairs of points of the last minutes, which neither a burst nor a pause bends.

    Points are the rounds in which the committed offset rose: behind each commit the lag is what the group has really
    not handled, whether it commits every few seconds or every half minute. Without two of them it is the first and the
    last round.
    """
    points = np.flatnonzero(np.diff(committed) > 0) + 1
    recent = points[t_ms[points] >= t_ms[-1] - TREND_MS]
    points = recent if len(recent) >= TREND_POINTS_MIN else points[-TREND_POINTS_MIN:]
    points = points[:: -(len(points) // TREND_POINTS_MAX + 1)][::-1]
    if len(points) < 2:
        points = np.array([0, len(t_ms) - 1])
    times, values = t_ms[points], lag[points]
    one, other = np.triu_indices(len(points), 1)
    took_ms = times[other] - times[one]
    if not took_ms.any():
        return Trend(int(lag[0]), int(lag[-1]), 0, 0.0, 0.0, 0.0)
    low, pace, high = np.percentile(
        (values[other] - values[one]) / took_ms, [100 - TREND_SURE_PCT, 50, TREND_SURE_PCT]
    )
    span_ms = int(times[-1] - times[0])
    return Trend(int(values[0]), int(values[-1]), span_ms, float(pace), float(low), float(high))


def drain(t_ms: Int64Array, max_offset: Int64Array, committed: Int64Array, *, band: BandRule = BAND) -> Drain:
    """Return when the lag of a window (one queue, uninterrupted backlog, no jumps) is gone.

    The time is L / (mu - lambda) (lag.md 1.2, 14) with mu - lambda from the trend: `never` unless it shrinks. The band
    is that of a `BandRule` over whole minutes since the lag was largest; with fewer than three of them there is none.
    """
    lag = max_offset - committed
    if lag[-1] <= 0:
        return DRAINED
    found = trend(t_ms, lag, committed)
    if found.span_ms == 0:
        return UNKNOWN_DRAIN
    ms = _limited(int(lag[-1]) / -found.pace) if found.pace < 0 else None
    if ms is None:
        return Drain(None, True, window_ms=found.span_ms)
    low_ms, high_ms = band_of(*since_largest(t_ms, max_offset, committed), ms, band)
    return Drain(ms, False, low_ms, high_ms, found.span_ms)


def since_largest(
    t_ms: Int64Array, max_offset: Int64Array, committed: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the window from where its lag was largest: how fast it shrinks, not how long it stood still before."""
    peak = len(t_ms) - 1 - int((max_offset - committed)[::-1].argmax())
    if t_ms[-1] - t_ms[peak] <= PEAK_AGE_MS:
        return t_ms, max_offset, committed
    return t_ms[peak:], max_offset[peak:], committed[peak:]


def band_of(
    t_ms: Int64Array, max_offset: Int64Array, committed: Int64Array, ms: int, band: BandRule
) -> tuple[int | None, int | None]:
    """Return (low, high) of a forecast of `ms` from a window since its lag was largest; `ms` lies between them."""
    edges = np.searchsorted(t_ms, np.arange(t_ms[0], t_ms[-1] + 1, BAND_STEP_MS))
    edges = np.unique(np.minimum(edges, len(t_ms) - 1))
    spans = np.diff(t_ms[edges])
    if len(spans) < 3:
        return None, None
    lag = int(max_offset[-1] - committed[-1])
    paces = np.diff(committed[edges] - max_offset[edges]) / spans
    slow, fast = np.percentile(paces, [band.low, 100 - band.low])
    scatter = min((fast - slow) * ms / lag, SCATTER_MAX)
    factor = (1 + band.room + band.spread * scatter) * max(1.0, ms / BAND_WINDOW_MS) ** band.growth
    low_ms = _limited(lag / fast) if fast > 0 else None
    high_ms = _limited(lag / slow) if slow > 0 else None
    farthest_ms = _limited(ms * factor)
    if high_ms is not None and farthest_ms is not None:
        return min(round(ms / factor), low_ms or ms), max(farthest_ms, high_ms)
    return min(round(ms / factor), low_ms or ms), None


def _limited(ms: float) -> int | None:
    return None if ms > DRAIN_MS_MAX else round(ms)


def slowest(drains: Sequence[Drain]) -> Drain:
    """Return the drain of a group from those of its queues: the last one to finish.

    `never` wins over unknown: one queue that never drains settles it. Unknown wins over a number.
    """
    if any(one.never for one in drains):
        return next(one for one in drains if one.never)
    if not drains or any(one.ms is None for one in drains):
        return UNKNOWN_DRAIN
    last = max(drains, key=lambda one: one.ms or 0)
    lows = [one.low_ms for one in drains if one.ms]
    highs = [one.high_ms for one in drains if one.ms]
    low = None if any(one is None for one in lows) else max((one or 0 for one in lows), default=None)
    high = None if any(one is None for one in highs) else max((one or 0 for one in highs), default=None)
    return Drain(last.ms, False, low, high, last.window_ms)


@dataclass(frozen=True, slots=True)
class HourPattern:
    """What a week looks like: produce rate by hour of the week (NaN: never seen), and the capacity.

    `produce_rate[h]` is the median of the same hour of the week (`spark.lag.local_time.hour_of_week`) of `zone` over
    past weeks; `capacity` the 95th percentile of the consume rate while messages waited; `weeks` how many weeks went
    into it.
    """

    produce_rate: FloatArray
    capacity: float | None
    weeks: int
    zone: str = UTC


def hour_pattern(
    hour_ms: Int64Array,
    produce_rate: FloatArray,
    consume_rate: FloatArray,
    had_backlog: npt.NDArray[np.bool_],
    zone: str = UTC,
) -> HourPattern:
    """Learn a week from hourly rows (parallel arrays, any order)."""
    rates = np.full(HOURS_OF_WEEK, np.nan)
    places = np.array([hour_of_week(int(one), zone) for one in hour_ms], dtype=np.int64)
    for place in np.unique(places).tolist():
        own = produce_rate[places == place]
        own = own[~np.isnan(own)]
        if len(own):
            rates[place] = float(np.median(own))
    busy = consume_rate[had_backlog & ~np.isnan(consume_rate)]
    capacity = float(np.percentile(busy, 95, method="higher")) if len(busy) else None
    # the hour that comes twice when the clock is set back is of one week
    seen = {(place, at_ms // DAY_MS) for place, at_ms in zip(places.tolist(), hour_ms.tolist(), strict=True)}
    weeks = max(Counter(place for place, _ in seen).values(), default=0)
    return HourPattern(rates, capacity, weeks, zone)


def drain_forecast(lag: int | None, now_ms: int, pattern: HourPattern) -> Drain:
    """Return the smallest time after which capacity minus expected arrivals has read the lag (lag.md 1.2, 15).

    Shows whether tonight's trough clears it. Unknown when an hour on the way was never seen; `never` when two weeks
    do not suffice.
    """
    if lag is None or pattern.capacity is None:
        return UNKNOWN_DRAIN
    left, at_ms = float(lag), now_ms
    while left > 0:
        if at_ms - now_ms > FORECAST_HOURS_MAX * HOUR_MS:
            return Drain(None, True)
        rate = pattern.produce_rate[hour_of_week(at_ms, pattern.zone)]
        if math.isnan(rate):
            return UNKNOWN_DRAIN
        until_ms = at_ms - at_ms % HOUR_MS + HOUR_MS
        gain = (pattern.capacity - rate) * (until_ms - at_ms) / 1000
        if gain >= left:
            return Drain(round(at_ms - now_ms + left / (pattern.capacity - rate) * 1000), False)
        left, at_ms = left - gain, until_ms
    return DRAINED


# A pace is measured over two minutes, and what becomes of it within days is not in that measure: a loss farther away
# than messages are kept is not in sight, else the figure would come, go and change by days with every batch that a
# slow group handles. A group that stands still is always nearer, and a loss within a day is always in sight.
LOSS_HORIZON_MS_MIN = 24 * HOUR_MS


def consumers_needed(
    consumers: int | None,
    produce_rate: float | None,
    consume_rate: float | None,
    lag: int | None,
    queues: int,
    *,
    within_ms: int = CATCH_UP_MS,
) -> int | None:
    """Return how many consumers read all arrivals and the backlog `within_ms` (lag.md 1.2, 17).

    Each is taken to read as much as those of now do; `consume_rate` must be measured while messages wait. More than
    there are queues would idle. None without consumption: there is no pace to multiply.
    """
    factor = consumers_factor(produce_rate, consume_rate, lag, within_ms)
    return None if not consumers or factor is None else max(1, min(queues, math.ceil(consumers * factor)))


def consumers_factor(
    produce_rate: float | None, consume_rate: float | None, lag: int | None, within_ms: int
) -> float | None:
    """Return how many times the present consumers read all arrivals and the backlog `within_ms`; None: unknown."""
    if produce_rate is None or not consume_rate or lag is None:
        return None
    return (produce_rate + lag / (within_ms / 1000)) / consume_rate
