"""How long did messages wait? Per message, not per round: the horizontal distance of the cumulative flow diagram.

The messages that a queue confirmed between two rounds are a batch: confirmed in the middle of the interval, stored
when its middle message was (`spark.lag.inversion`); a batch whose messages came over a longer time, as after a stall,
is cut into up to `PARTS_MAX` parts. Both ends are within half an interval of the truth. Skips and rewinds are not
consumption and have no latency (lag.md 1.2, 18). `mean_residence` gives the same mean without looking at any store
time (Little's law, 19): a cross-check of the history itself.
"""

from dataclasses import dataclass

import numpy as np

from spark.lag import inversion
from spark.lag.samples import Samples
from spark.lag.snapshot import BoolArray, Int64Array

# Upper edges of the histogram, 4 to a factor of 2: 5.5 % steps from 1 s to 12 days, then everything above.
EDGES_MS = np.rint(1_000 * 2 ** (np.arange(0, 81) / 4)).astype(np.int64)
PARTS_MAX = 16  # of one batch: what a stall of a minute frees in one round of 5 s


@dataclass(frozen=True, slots=True)
class Departures:
    """Batches of messages of one or many queues: `latency_ms` at least where `censored`, `messages` the weight."""

    latency_ms: Int64Array
    messages: Int64Array
    censored: BoolArray


def departures(samples: Samples, consumed: Int64Array, before_ms: Int64Array) -> Departures:
    """Return the batches of group series.

    `consumed` per sample is what was confirmed since the sample before (0 over gaps, jumps and at the start),
    `before_ms` the time of that sample (see `spark.lag.rollup.figures`).
    """
    rows = np.flatnonzero(consumed > 0).astype(np.int64)
    spans = samples.t_ms[rows] - before_ms[rows]
    first = inversion.store_times(samples, rows, samples.committed[rows] - consumed[rows])
    last = inversion.store_times(samples, rows, samples.committed[rows] - 1)
    spread = (last.estimate_ms - first.estimate_ms) // np.maximum(spans, 1) + 1
    parts = np.minimum(np.minimum(spread, PARTS_MAX), consumed[rows])
    part = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    rows, parts = np.repeat(rows, parts), np.repeat(parts, parts)
    begins, ends = consumed[rows] * part // parts, consumed[rows] * (part + 1) // parts
    middle = samples.committed[rows] - consumed[rows] + (begins + ends - 1) // 2
    stored = inversion.store_times(samples, rows, middle)
    left_ms = (samples.t_ms[rows] + before_ms[rows]) // 2
    return Departures(np.maximum(left_ms - stored.estimate_ms, 0), ends - begins, stored.censored)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Latencies of `messages` messages: discrete percentiles by weight, None without a message.

    `censored` of them waited at least as long as history reaches back. `histogram[i]` counts latencies up to
    `EDGES_MS[i]`, its last item those above all edges.
    """

    messages: int
    censored: int
    within_slo: int
    mean_ms: float | None
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    histogram: Int64Array


def distribution(batches: Departures, *, slo_ms: int) -> Distribution:
    """Return the distribution by messages."""
    order = np.argsort(batches.latency_ms, kind="stable")
    latency, weight = batches.latency_ms[order], batches.messages[order]
    total = int(weight.sum())
    place = np.searchsorted(EDGES_MS, latency, side="left")
    histogram = np.zeros(len(EDGES_MS) + 1, dtype=np.int64)
    np.add.at(histogram, place, weight)
    if total == 0:
        return Distribution(0, 0, 0, None, None, None, None, None, histogram)
    up_to = np.cumsum(weight)
    p50, p95, p99 = (int(latency[np.searchsorted(up_to, -(-share * total // 100))]) for share in (50, 95, 99))
    return Distribution(
        messages=total,
        censored=int(batches.messages[batches.censored].sum()),
        within_slo=int(weight[latency <= slo_ms].sum()),
        mean_ms=float((latency * weight).sum() / total),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        max_ms=int(latency[-1]),
        histogram=histogram,
    )


def mean_residence(t_ms: Int64Array, lag: Int64Array, consumed: int) -> float | None:
    """Return the mean wait in ms by Little's law: the area under one queue's lag over the messages consumed.

    Exact where the window begins and ends empty; otherwise messages still waiting are counted with the time they
    have waited so far.
    """
    if consumed <= 0:
        return None
    return float(np.trapezoid(lag.astype(np.float64), t_ms) / consumed)
