"""The distribution of waiting times per hour, from `past.measures`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.lag import selectors
from console.lag.past.measures import Bucket
from console.lag.promise_versions import promises_of
from spark.lag.local_time import DAY_MS, MINUTE_MS

SLICES_MAX = 28
SPAN_MS_MAX = 7 * DAY_MS
STEPS_MS = tuple(minutes * MINUTE_MS for minutes in (5, 10, 30, 60, 120, 180, 360))


@dataclass(frozen=True, slots=True)
class Slice:
    """The messages of one slice; of `censored` only a lower bound is known, `histogram` is None if unobserved."""

    from_ms: int
    to_ms: int
    messages: int
    within_slo: int
    censored: int
    histogram: Sequence[Bucket] | None


@dataclass(frozen=True, slots=True)
class LatencyHeat:
    """The distribution of a window, cut into slices of `step_ms`; the first and the last may be shorter."""

    step_ms: int
    slices: Sequence[Slice]


def latency_heat(
    cluster: str, group: str, from_ms: int, to_ms: int, *, slo_ms: int | None = None, topic: str | None = None
) -> LatencyHeat:
    """Return the slices of [from_ms, to_ms), at most SPAN_MS_MAX.

    Each is judged by `slo_ms`; without it by the promise in force at the end of the slice.
    """
    step_ms = next((step for step in STEPS_MS if (to_ms - from_ms) / step <= SLICES_MAX), STEPS_MS[-1])
    promises = promises_of(cluster, [group])
    slices = []
    begin = from_ms - from_ms % step_ms
    for start_ms in range(begin, to_ms, step_ms):
        first_ms, end_ms = max(start_ms, from_ms), min(start_ms + step_ms, to_ms)
        promised = promises.at(group, end_ms)
        found = selectors.latency(
            cluster,
            group,
            first_ms,
            end_ms,
            slo_ms=promised.slo_ms if slo_ms is None else slo_ms,
            target=promised.target,
            topic=topic,
        )
        histogram = found.histogram if found.watched_ms else None
        slices.append(Slice(first_ms, end_ms, found.messages, found.within_slo, found.censored, histogram))
    return LatencyHeat(step_ms, slices)
