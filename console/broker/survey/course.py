"""What a broker's figures were in the last hour, and what is usual for them, of the samples of each minute."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

MINUTE_MS = 60_000
HOUR_MINUTES = 60
# Fewer make no habit.
USUAL_FROM = 30
# Samples that a `BrokerSample` keeps, by the figure of 28 that they are of.
COLUMNS = {
    "putTps": "in_rate",
    "putLatency99": "put_p99_ms",
    "pageCacheLockTimeMills": "log_lock_ms",
    "sendThreadPoolQueueSize": "waiting_sends",
    "loopDelay99": "loop_p99_ms",
    "getTransferredTps": "out_rate",
    "getFoundTps": "found_rate",
    "getMissTps": "miss_rate",
    "commitLogDiskRatio": "disk_ratio",
    "remainHowManyDataToFlush": "unflushed_bytes",
    "dispatchBehindBytes": "undispatched_bytes",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Course:
    """`trend`: one value for each minute of the last hour, null where none was sampled.

    `usual`: the middle 80 % of the samples before that hour as (low, high); null while there are too few.
    """

    trend: Sequence[float | None]
    usual: tuple[float, float] | None


def course(samples: Mapping[int, float], now_ms: int) -> Course:
    """Fold the samples of a figure, {minute since the epoch: value}."""
    last = now_ms // MINUTE_MS
    if last not in samples:
        last -= 1  # the present minute is sampled somewhere in it: before that it is no gap
    first = last - HOUR_MINUTES + 1
    before = [value for minute, value in samples.items() if minute < first]
    usual = None
    if len(before) >= USUAL_FROM:
        tenths = statistics.quantiles(before, n=10)
        usual = (tenths[0], tenths[-1])
    return Course([samples.get(minute) for minute in range(first, last + 1)], usual)
