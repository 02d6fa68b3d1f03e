"""When usual traffic lets a backlog drain, from hourly rows of the last weeks (lag.md 1.2, 15).

A drain at the present pace is "never" while more comes in than goes out. This one finds when, at the group's best
reading rate and with the arrivals of the same hours of past weeks, the trough comes that clears the backlog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from console.report import selectors
from console.report.models import LagRow
from spark.lag.forecast import Drain, HourPattern, drain_forecast, hour_pattern
from spark.lag.local_time import DAY_MS

WEEKS = 4
CAPACITY_MS = 7 * DAY_MS  # a group's reading rate is that of its present members, not of a month ago


@dataclass(frozen=True, slots=True)
class UsualDrain:
    """`lag` messages of `topic` at `at_ms`.

    `drain`: unknown while an hour on the way, or the capacity, was never seen; `capacity` in messages per
    second; `weeks` of which the arrivals are the median.
    """

    topic: str
    lag: int
    at_ms: int
    drain: Drain
    capacity: float | None
    weeks: int


def usual_drain(cluster: str, group: str, runways: Sequence[LagRow]) -> UsualDrain | None:
    """Return the drain of the topic with the largest backlog at the end of the newest hour (`runways`).

    None without a backlog. One query, of at most 672 rows.
    """
    behind = [row for row in runways if row.lag_last]
    worst = max(behind, key=lambda row: row.lag_last or 0, default=None)
    if worst is None or not worst.lag_last:
        return None
    pattern = _pattern(cluster, group, worst)
    at_ms = min(worst.window_end_ms, worst.generated_at_ms)
    drain = drain_forecast(worst.lag_last, at_ms, pattern)
    return UsualDrain(worst.topic, worst.lag_last, at_ms, drain, pattern.capacity, pattern.weeks)


def _pattern(cluster: str, group: str, newest: LagRow) -> HourPattern:
    hours_found = selectors.group_hours(cluster, group, newest.window_start_ms - WEEKS * 7 * DAY_MS + 1)
    rows = hours_found.filter(topic=newest.topic, window_start_ms__lte=newest.window_start_ms).values_list(
        "window_start_ms", "in_rate", "out_rate", "lag_p50"
    )
    columns = list(zip(*rows, strict=True))
    hours = np.array(columns[0], dtype=np.int64)
    produced, consumed = (np.array(columns[place], dtype=np.float64) for place in (1, 2))  # None is NaN
    waited = np.array([bool(lag) for lag in columns[3]], dtype=np.bool_)
    return hour_pattern(
        hours,
        produced,
        consumed,
        waited & (hours > newest.window_start_ms - CAPACITY_MS),
        selectors.zone_of(cluster, "lag_day"),
    )
