"""What `spark.lag_hour` must say, worked out twice more: sample by sample in plain Python, and in SQL by DuckDB.

Both read the same flat list of samples, know nothing of files, arrays or Spark, and were written from the definitions
(lag.md 1.2 and the docstring of `spark.lag.rollup`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import duckdb

HOUR = 3_600_000
SLO_MS = 60_000


class Sample(NamedTuple):
    """One queue of one group in one round."""

    t: int
    group: str
    topic: str
    broker: str
    queue: int
    low: int
    high: int
    committed: int


Key = tuple[Any, ...]


def rows(
    samples: Sequence[Sample], hours: Iterable[tuple[int, int]], interval_ms: int
) -> dict[Key, dict[str, Any]]:
    """{(hour, grain, group, topic, broker, queue): figures} by plain Python."""
    found: dict[Key, dict[str, Any]] = {}
    for start, end in hours:
        bundles: dict[Key, list[list[Sample]]] = defaultdict(list)
        for series in _series(samples, end):
            one = series[0]
            bundles["topic", one.group, one.topic, "", -1].append(series)
            bundles["queue", one.group, one.topic, one.broker, one.queue].append(series)
        for key, all_series in bundles.items():
            figures = _figures(all_series, start, end, interval_ms, by_topic=key[0] == "topic")
            quiet = figures and not (figures["lag_max"] or figures["produced"] or figures["consumed"])
            if figures and not (key[0] == "queue" and quiet):
                found[start, *key] = figures
    return found


def _series(samples: Sequence[Sample], end: int) -> list[list[Sample]]:
    series: dict[Key, list[Sample]] = defaultdict(list)
    for one in sorted(samples):
        if one.t < end:
            series[one[1:5]].append(one)
    return list(series.values())


def _figures(
    all_series: list[list[Sample]], start: int, end: int, interval_ms: int, *, by_topic: bool
) -> dict[str, Any] | None:
    """Figures of the queues of one row, or None when none was seen in [start, end)."""
    limit = 4 * interval_ms
    lag: dict[int, int] = defaultdict(int)
    age: dict[int, int] = defaultdict(int)
    read: dict[int, int] = defaultdict(int)
    total = dict.fromkeys(("produced", "consumed", "rewinds", "lost", "consumed_within_slo"), 0)
    late_lag: dict[int, int] = defaultdict(int)
    per_queue: dict[Key, int] = defaultdict(int)
    latencies: list[int] = []
    for series in all_series:
        for at, one in enumerate(series):
            if one.t < start:
                continue
            read[one.t] += one.committed <= one.high
            own_lag = max(0, one.high - max(one.committed, one.low))
            per_queue[one[1:5]] += own_lag
            waiting_from = max(one.committed, one.low)
            if waiting_from < one.high:
                lag[one.t] += one.high - waiting_from
                own_age = one.t - _stored(series[: at + 1], waiting_from)
                age[one.t] = max(age[one.t], own_age)
                late_lag[one.t] += own_lag if own_age > SLO_MS else 0
            if at == 0:
                continue
            before = series[at - 1]
            total["rewinds"] += one.committed < before.committed
            total["lost"] += max(0, one.low - max(before.committed, before.low, one.committed))
            if one.t - before.t <= limit:
                total["produced"] += max(0, one.high - before.high)
                gained = max(0, one.committed - max(before.committed, before.low))
                total["consumed"] += gained
                # of the round before, or of its own where that was before the window
                then = series[: at + 1] if before.t < start else series[:at]
                latency = _age(then)
                latencies += [latency] * gained
                total["consumed_within_slo"] += gained if latency <= SLO_MS else 0
    if not read:
        return None
    times = sorted(read)
    begun = [series[0].t for series in all_series]
    complete = [t for t in times if read[t] == sum(first <= t for first in begun)]
    earlier = max((one.t for series in all_series for one in series if one.t < times[0]), default=None)
    gap = {
        t: t - (times[i - 1] if i else (earlier if earlier is not None else t)) for i, t in enumerate(times)
    }
    capped = {t: min(gap[t], limit) for t in times}
    counted = sum(gap[t] for t in times if gap[t] <= limit)
    span = complete[-1] - complete[0] if complete else 0
    return {
        **total,
        "lag_first": lag[complete[0]] if complete else None,
        "watched_ms": sum(capped.values()),
        "counted_ms": counted,
        "late_message_ms": sum(capped[t] * late_lag[t] for t in times),
        "breach_weighted_ms": sum(capped[t] * late_lag[t] // max(lag[t], 1) for t in times),
        "catch_up_speed": round(1 - (age[complete[-1]] - age[complete[0]]) / span, 6) if span else None,
        "in_rate": total["produced"] * 1000 / counted if counted else None,
        **(skew(list(per_queue.values())) if by_topic else {}),
        **{f"message_latency_p{p}_ms": _bucket_end(_rank(sorted(latencies), p)) for p in (50, 95, 99)},
        "samples": len(complete),
        "partial_samples": len(times) - len(complete),
        "expected_samples": (end - start) // interval_ms,
        "max_gap_ms": max(b - a for a, b in zip([start, *complete], [*complete, end], strict=True)),
        "breach_ms": sum(min(gap[t], limit) for t in times if age[t] > SLO_MS),
        **_distribution("lag_{}", [lag[t] for t in complete]),
        **_distribution("time_lag_{}_ms", [age[t] for t in complete]),
    }


def _distribution(name: str, values: list[int]) -> dict[str, int | None]:
    """The last, the largest and discrete percentiles of values in the order of time."""
    return {
        name.format("last"): values[-1] if values else None,
        name.format("max"): max(values, default=None),
        **{name.format(f"p{p}"): _rank(values, p) for p in (50, 95, 99)},
    }


def _age(series: list[Sample]) -> int:
    """The time lag of a queue at its last sample."""
    one = series[-1]
    waiting_from = max(one.committed, one.low)
    return one.t - _stored(series, waiting_from) if waiting_from < one.high else 0


def _bucket_end(value: int | None) -> int | None:
    """The largest value of a histogram's bucket: the seven bits behind the leading one count, the rest are ones."""
    if value is None or value < 256:
        return value
    shift = value.bit_length() - 8
    return (((value >> shift) + 1) << shift) - 1


def skew(lags: list[int]) -> dict[str, float | None]:
    """Figures of the distribution of lag over queues, by definition."""
    total, count = sum(lags), len(lags)
    if not total:
        return {"skew_max_mean": None, "skew_gini": None, "effective_queues": None}
    differences = sum(abs(a - b) for a in lags for b in lags)
    return {
        "skew_max_mean": round(max(lags) / (total / count), 6),
        "skew_gini": round(differences / (2 * count * total), 6),
        "effective_queues": round(total**2 / sum(lag**2 for lag in lags), 6),
    }


def _rank(values: list[int], share: int) -> int | None:
    return sorted(values)[math.ceil(share * len(values) / 100) - 1] if values else None


def _stored(series: list[Sample], offset: int) -> int:
    """When a message was stored: between the rounds that saw the head pass it; at the first round at the latest."""
    top, top_at = series[0].high, series[0].t
    if offset < top:
        return top_at
    for one in series[1:]:
        high = max(top, one.high)
        if top <= offset < high:
            return top_at + round((offset + 0.5 - top) / (high - top) * (one.t - top_at))
        top, top_at = high, one.t
    raise AssertionError("the offset is not below the head")


# Everything but time lag, which needs the inversion of the head.
SQL = """
with series as (
  select *, lag(t) over w as t0, lag(low) over w as low0, lag(high) over w as high0, lag(committed) over w as c0,
         min(t) over (partition by "group", topic, broker, queue) as born
  from samples window w as (partition by "group", topic, broker, queue order by t)
),
hour_samples as (
  select *, t - t % 3600000 as hour, greatest(high - greatest(committed, low), 0) as waiting from series
),
counts as (
  select hour, "group", topic,
    sum(case when t - t0 <= $limit then greatest(high - high0, 0) else 0 end)::bigint as produced,
    sum(case when t - t0 <= $limit then greatest(committed - greatest(c0, low0), 0) else 0 end)::bigint as consumed,
    sum(case when committed < c0 then 1 else 0 end)::bigint as rewinds,
    sum(case when t0 is null then 0 else greatest(low - greatest(c0, low0, committed), 0) end)::bigint as lost
  from hour_samples group by all
),
born as (select distinct "group", topic, broker, queue, born from series),
rounds as (
  select hour, t, "group", topic, sum(waiting)::bigint as lag, count(*) filter (committed <= high) as read,
    (select count(*) from born b where b."group" = s."group" and b.topic = s.topic and b.born <= s.t) as expected
  from hour_samples s group by hour, t, "group", topic
),
ranked as (
  select *, row_number() over (partition by hour, "group", topic order by lag) as place,
         count(*) over (partition by hour, "group", topic) as n
  from rounds where read = expected
),
percentiles as (
  select hour, "group", topic, count(*) as samples, max(lag) as lag_max, arg_max(lag, t) as lag_last,
    min(lag) filter (place >= ceil(0.50 * n)) as lag_p50,
    min(lag) filter (place >= ceil(0.95 * n)) as lag_p95,
    min(lag) filter (place >= ceil(0.99 * n)) as lag_p99
  from ranked group by all
)
select counts.*, coalesce(samples, 0) as samples, lag_max, lag_last, lag_p50, lag_p95, lag_p99
from counts left join percentiles using (hour, "group", topic)
"""


def sql_rows(samples: Sequence[Sample], interval_ms: int) -> dict[Key, dict[str, Any]]:
    """{(hour, "topic", group, topic, "", -1): counts and lag percentiles} by DuckDB."""
    with duckdb.connect() as connection:
        connection.execute(
            'create table samples (t bigint, "group" text, topic text, broker text, queue int, low bigint, '
            "high bigint, committed bigint)"
        )
        connection.executemany(
            "insert into samples values (?, ?, ?, ?, ?, ?, ?, ?)", [list(one) for one in samples]
        )
        cursor = connection.execute(SQL, {"limit": 4 * interval_ms})
        names = [column[0] for column in cursor.description or ()]
        found = [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
    return {(row.pop("hour"), "topic", row.pop("group"), row.pop("topic"), "", -1): row for row in found}
