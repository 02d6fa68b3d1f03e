"""The distribution of waiting times per hour, from `past.measures`."""

from __future__ import annotations

from typing import Any

from console.lag import selectors
from spark.lag.local_time import DAY_MS, HOUR_MS

SLICES_MAX = 28
SPAN_MS_MAX = 7 * DAY_MS
STEPS_MS = tuple(hours * HOUR_MS for hours in (1, 2, 3, 6))


def latency_heat(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    *,
    slo_ms: int,
    target: float,
    topic: str | None = None,
) -> dict[str, Any]:
    """Return {"step_ms", "slices": […]} over [from_ms, to_ms), at most SPAN_MS_MAX.

    A slice: "from_ms", "to_ms", "messages", "within_slo", "censored" (only a lower bound is known) and "histogram"
    (`api.lag.LatencyBucketSerializer`), null if unobserved.
    """
    step_ms = next((step for step in STEPS_MS if (to_ms - from_ms) / step <= SLICES_MAX), STEPS_MS[-1])
    slices = []
    begin = from_ms - from_ms % step_ms
    for start_ms in range(begin, to_ms, step_ms):
        first_ms, end_ms = max(start_ms, from_ms), min(start_ms + step_ms, to_ms)
        found = selectors.latency(cluster, group, first_ms, end_ms, slo_ms=slo_ms, target=target, topic=topic)
        slices.append(
            {
                "from_ms": first_ms,
                "to_ms": end_ms,
                "messages": found["messages"],
                "within_slo": found["within_slo"],
                "censored": found["censored"],
                "histogram": found["histogram"] if found["watched_ms"] else None,
            }
        )
    return {"step_ms": step_ms, "slices": slices}
