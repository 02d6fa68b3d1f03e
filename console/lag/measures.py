"""Figures of a past window of one group: latency by message, promises kept, throughput by the minute."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from console.lag import past
from console.lag.past import DAY_MS, LOOKBACK_MS
from spark.lag import latency, rollup
from spark.lag.breach import breach, budget_left, burning, traffic_shares, watched_ms
from spark.lag.latency import Departures
from spark.lag.rollup import Figures
from spark.lag.samples import Samples
from spark.lag.snapshot import BoolArray, Int64Array

MINUTE_MS = 60_000
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Day:
    """A part of the window: its samples, what they mean, and which of them belong to it (the rest are older)."""

    samples: Samples
    figures: Figures
    inside: BoolArray


def _days(
    cluster: str, group: str, topic: str | None, from_ms: int, to_ms: int, interval_ms: int
) -> list[_Day]:
    """Return the window day by day, each with an hour before it so that ages are known."""
    days = []
    for start_ms in range(from_ms, to_ms, DAY_MS):
        end_ms = min(start_ms + DAY_MS, to_ms)
        samples = past.load_main(
            cluster, group, start_ms - LOOKBACK_MS, end_ms, interval_ms=interval_ms, topic=topic
        )
        if len(samples.t_ms):
            figures = rollup.figures(samples, interval_ms=interval_ms)
            days.append(_Day(samples, figures, samples.t_ms >= start_ms))
    return days


def latency_of(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    *,
    interval_ms: int,
    slo_ms: int,
    target: float,
    topic: str | None = None,
) -> dict[str, Any]:
    """Return how long the messages of a window waited, and how the promise `slo_ms`, `target` of the time, was kept.

    See `api.lag.LatencySerializer` for the columns.
    """
    days = _days(cluster, group, topic, from_ms, to_ms, interval_ms)
    batches = _joined([_departures(day) for day in days])
    found = latency.distribution(batches, slo_ms=slo_ms)
    areas = [_little(day) for day in days]
    area, consumed = sum(one[0] for one in areas), sum(one[1] for one in areas)
    return {
        "interval_ms": interval_ms,
        "slo_ms": slo_ms,
        "messages": found.messages,
        "censored": found.censored,
        "within_slo": found.within_slo,
        "within_slo_pct": round(100 * found.within_slo / found.messages, 3) if found.messages else None,
        "mean_ms": None if found.mean_ms is None else round(found.mean_ms),
        "little_mean_ms": round(area / consumed) if consumed else None,
        "p50_ms": found.p50_ms,
        "p95_ms": found.p95_ms,
        "p99_ms": found.p99_ms,
        "max_ms": found.max_ms,
        "histogram": _histogram(found.histogram),
        **_promise(days, from_ms, to_ms, interval_ms, slo_ms, target),
    }


def _departures(day: _Day) -> Departures:
    consumed = np.where(day.inside, day.figures.consumed, 0)
    return latency.departures(day.samples, consumed, day.samples.t_ms - day.figures.gap_ms)


def _joined(parts: list[Departures]) -> Departures:
    if not parts:
        nothing = np.empty(0, dtype=np.int64)
        return Departures(nothing, nothing, nothing.astype(np.bool_))
    names = ("latency_ms", "messages", "censored")
    return Departures(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _little(day: _Day) -> tuple[float, int]:
    """Return (area under the lag in message-milliseconds, messages consumed): Little's law needs no store time."""
    area, consumed = 0.0, 0
    for _, place in day.samples.slices():
        own = np.arange(place.start, place.stop)[day.inside[place]]
        if len(own):
            area += float(np.trapezoid(day.figures.lag[own].astype(np.float64), day.samples.t_ms[own]))
            consumed += int(day.figures.consumed[own].sum())
    return area, consumed


def _histogram(counts: Int64Array) -> list[dict[str, int | None]]:
    """Return the edges up to the last one that is needed; `up_to_ms` null is everything above."""
    edges: list[int | None] = [*latency.EDGES_MS.tolist(), None]
    used = np.flatnonzero(counts)
    last = int(used[-1]) + 1 if len(used) else 0
    return [
        {"up_to_ms": edge, "messages": int(count)}
        for edge, count in zip(edges[:last], counts[:last].tolist(), strict=True)
    ]


def _promise(
    days: list[_Day], from_ms: int, to_ms: int, interval_ms: int, slo_ms: int, target: float
) -> dict[str, Any]:
    """Return breach time, burn rates up to `to_ms` and what is left of the error budget."""
    valid_ms, bad_ms, weighted_ms = 0, 0, 0.0
    times, spans, bad = [], [], []
    for day in days:
        own_times, late, produced = _late(day, slo_ms)
        own_spans = watched_ms(own_times, interval_ms, before_ms=_before(day, own_times))
        found = breach(late, own_spans, traffic_shares(produced))
        valid_ms, bad_ms, weighted_ms = (
            valid_ms + found.valid_ms,
            bad_ms + found.bad_ms,
            weighted_ms + found.weighted_ms,
        )
        times.append(own_times)
        spans.append(own_spans)
        bad.append(late.any(axis=1))
    burn = (
        burning(np.concatenate(times), np.concatenate(spans), np.concatenate(bad), to_ms, target=target)
        if times
        else []
    )
    left = budget_left(bad_ms, valid_ms, target)
    return {
        "target": target,
        "watched_ms": valid_ms,
        "coverage_pct": round(100 * min(1.0, valid_ms / (to_ms - from_ms)), 2),
        "breach_ms": bad_ms,
        "breach_weighted_ms": round(weighted_ms),
        "budget_left": None if left is None else round(left, 4),
        "burn": [
            {
                "long_ms": window.long_ms,
                "short_ms": window.short_ms,
                "factor": window.factor,
                "long_burn": None if long is None else round(long, 2),
                "short_burn": None if short is None else round(short, 2),
            }
            for window, long, short in burn
        ],
    }


def _late(day: _Day, slo_ms: int) -> tuple[Int64Array, BoolArray, Int64Array]:
    """Return (times, rounds x queues: was it late, messages produced per queue) of the rounds inside."""
    rows = np.flatnonzero(day.inside)
    times, round_of = np.unique(day.samples.t_ms[rows], return_inverse=True)
    series = day.samples.series[rows]
    late = np.zeros((len(times), len(day.samples.keys)), dtype=np.bool_)
    late[round_of, series] = day.figures.time_lag_ms[rows] > slo_ms
    produced = np.bincount(series, day.figures.produced[rows], len(day.samples.keys)).astype(np.int64)
    return times, late, produced


def _before(day: _Day, times: Int64Array) -> int | None:
    older = day.samples.t_ms[~day.inside]
    return int(older.max()) if len(older) and len(times) else None


def throughput_of(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    points: int,
    *,
    interval_ms: int,
    topic: str | None = None,
) -> dict[str, Any]:
    """Return what came and what was read, by steps of whole minutes, at most `points` of them.

    Lists of one length: "times" (begin of a step), "produced", "committed", "lost" (messages in the step) and
    "watched_ms" (of the step; 0: nobody looked, and the counts are null).
    """
    minutes = max(1, -(-(to_ms - from_ms) // (points * MINUTE_MS)))
    step_ms = minutes * MINUTE_MS
    start_ms = from_ms - from_ms % step_ms
    count = -(-(to_ms - start_ms) // step_ms)
    names = ("produced", "committed", "lost")
    totals = {name: np.zeros(count, dtype=np.int64) for name in names}
    watched = np.zeros(count, dtype=np.int64)
    for day in _days(cluster, group, topic, from_ms, to_ms, interval_ms):
        rows = np.flatnonzero(day.inside)
        steps = (day.samples.t_ms[rows] - start_ms) // step_ms
        columns = (day.figures.produced, day.figures.consumed, day.figures.lost)
        for name, values in zip(names, columns, strict=True):
            np.add.at(totals[name], steps, values[rows])
        times = np.unique(day.samples.t_ms[rows])
        spans = watched_ms(times, interval_ms, before_ms=_before(day, times))
        np.add.at(watched, (times - start_ms) // step_ms, spans)
    seen = (watched > 0).tolist()
    return {
        "interval_ms": interval_ms,
        "step_ms": step_ms,
        "times": list(range(start_ms, start_ms + count * step_ms, step_ms)),
        **{
            name: [value if ok else None for value, ok in zip(values.tolist(), seen, strict=True)]
            for name, values in totals.items()
        },
        "watched_ms": watched.tolist(),
    }
