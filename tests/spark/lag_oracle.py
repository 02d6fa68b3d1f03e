"""What rows of lag reports must say, worked out again in SQL: DuckDB over the Parquet files of history.

Knows nothing of the program but the layout of a chunk's row and the numbers of statuses, and was written from the
definitions (lag.md 1.2 and 7): a sample holds until the next round, four intervals at most, then it is unknown what
holds; differences of offsets count at the later sample; a topic has the worst status of its queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# number in files, word, how bad it is
STATUSES = (
    (1, "OK", 1), (2, "CATCHING_UP", 3), (3, "FALLING_BEHIND", 8), (4, "STALLED", 11), (5, "STOPPED", 10),
    (6, "REWOUND", 5), (7, "SKIPPED", 4), (8, "LOST", 12), (9, "OFFLINE", 9), (10, "NEVER_COMMITTED", 2),
    (11, "INVALID", 7), (12, "UNKNOWN", 6),
)  # fmt: skip
Key = tuple[Any, ...]

SAMPLES = """
create table samples as
with numbered as (
  select c.*, d.dt, unnest(range(n)) as i from chunks c join times d using (dt_ms)
),
own as (
  select "group" as g, topic, broker_name as broker, queue_id as queue, incarnation as life, t0_ms + dt[i + 1] as t,
    max0 + coalesce(list_sum(dmax[:i + 1]), 0) as high, min0 + coalesce(list_sum(dmin[:i + 1]), 0) as low,
    max0 + coalesce(list_sum(dmax[:i + 1]), 0) - lag_base - coalesce(lag[i + 1], 0) as c,
    coalesce(time_lag[i + 1], time_lag_base, -1) as age, coalesce(status[i + 1], status_base, 12) as status,
    coalesce(flags[i + 1], flags_base, 0) as flags
  from numbered where "group" <> ''
),
earlier as (
  select "group", topic, broker_name, queue_id, incarnation, prev_t_ms, prev_max, prev_min, prev_committed,
    coalesce(prev_time_lag, -1), coalesce(prev_status, 12), coalesce(prev_flags, 0)
  from chunks where "group" <> '' and prev_t_ms is not null
)
select distinct on (g, topic, broker, queue, life, t) g, topic, broker, queue, life, t::bigint as t,
  high::bigint as high, low::bigint as low, coalesce(c, -1)::bigint as c,
  case when age < 0 then -1 else age * 100 end as age, status, flags
from (select * from own union all select * from earlier)
"""
ROUNDS = """
create table rounds as
select t, greatest(0, least(after, t + $limit, $b) - greatest(t, $a)) as held,
  greatest(0, least(after, $b) - greatest(t, $a)) as whole, t >= $a as inside
from (select t, coalesce(lead(t) over (order by t), $b) as after from (select distinct t from samples where t < $b))
where t >= $a or after > $a or after = $b
"""
CELLS = """
create table cells as
with linked as (
  select *, lag(life) over w = life and lag(status) over w <> 0 and status <> 0 and flags & 64 = 0 as linked,
    lag(high) over w as high0,
    lag(c) over w as c0, lag(low) over w as low0, lag(status) over w as status0
  from samples where t < $b window w as (partition by g, topic, broker, queue order by t)
)
select l.*, severity, held, whole, inside, status not in (0, 12) as is_read, status not in (0, 11, 12) as is_valid,
  case when status in (10, 11, 12) then 0 else greatest(0, high - greatest(c, low)) end as lag,
  case when linked and inside then greatest(0, high - high0) else 0 end as produced,
  case when linked and inside and c >= 0 and c0 >= 0 and status not in (11, 12) and status0 <> 11 and flags & 32 = 0
    then greatest(0, c - greatest(c0, low0)) else 0 end as consumed,
  case when linked and inside and c >= 0 and c0 >= 0 and flags & 32 > 0 then greatest(0, c - greatest(c0, low0))
    else 0 end as skipped,
  case when linked and inside and c >= 0 and c0 >= 0 then greatest(0, low - greatest(c0, low0, c)) else 0 end as lost,
  linked and inside and c >= 0 and c0 > c and status0 <> 11 as rewound,
  status not in (0, 11, 12) and (age >= 0 or status = 10) as is_aged,
  case when status in (10, 11, 12) then 0 else greatest(age, 0) end as wait
from linked l join rounds using (t) left join statuses using (status) where status <> 0
"""
ROWS = """
with at_round as (
  select {key}, t, any_value(held) as held, any_value(whole) as whole, any_value(inside) as inside, count(*) as queues,
    sum(lag) as lag, max(severity) as severity, bool_and(is_read) as is_read,
    bool_and(is_valid and flags & 2 = 0) as is_counted,
    max(case when is_valid and status <> 10 then greatest(age, 0) else 0 end) as age,
    sum(produced) as produced, sum(consumed) as consumed, sum(skipped) as skipped, sum(lost) as lost,
    bool_or(rewound) as rewound, bool_and(is_aged) as is_aged,
    max(t - wait) filter (consumed > 0 and is_aged) as newest,
    max(case when is_aged and inside then t end) as known, max((flags & 4 > 0)::int) filter (is_read) as not_count
  from cells group by {key}, t
),
ranked as (
  select *, row_number() over (partition by {key} order by lag) as place, count(*) over (partition by {key}) as n
  from at_round where inside and is_counted
),
percentiles as (
  select {key}, count(*) as samples, arg_min(lag, t) as lag_first, arg_max(lag, t) as lag_last,
    min(lag) filter (place >= ceil(0.50 * n)) as lag_p50, min(lag) filter (place >= ceil(0.95 * n)) as lag_p95,
    min(lag) filter (place >= ceil(0.99 * n)) as lag_p99
  from ranked group by {key}
),
spent as (
  select {key}, map_from_entries(list((word, ms))) as status_ms from (
    select {key}, word, sum(ms)::bigint as ms from (
      select {key}, severity, held as ms from at_round union all select {key}, 6, whole - held from at_round
    ) join statuses using (severity) group by {key}, word having sum(ms) > 0
  ) group by {key}
)
select r.*, coalesce(samples, 0) as samples, lag_first, lag_last, lag_p50, lag_p95, lag_p99, status_ms,
  case when wait_last = 0 then 0 when wait_last < wait_first and wait_last / (wait_first - wait_last) * span <= $horizon
    then round(wait_last / (wait_first - wait_last) * span)::bigint end as drain_by_speed_ms
from (
  select {key}, max(queues) filter (whole > 0) as queues, sum(whole)::bigint as exists_ms,
    sum(produced)::bigint as produced, sum(consumed)::bigint as consumed, sum(skipped)::bigint as skipped,
    sum(lost)::bigint as lost, count(*) filter (rewound and inside) as rewinds,
    max(lag) filter (inside) as lag_max, max(age) filter (inside) as time_lag_max_ms,
    coalesce(sum(held) filter (age > $slo), 0)::bigint as breach_ms,
    round(100 * coalesce(sum(held) filter (is_read), 0) / sum(whole), 2) as coverage_pct,
    count(*) filter (inside) - count(*) filter (inside and is_counted) as partial_samples,
    max(known) - max(newest) filter (inside) as last_consumed_age_ms,
    max(not_count) filter (inside) > 0 as offset_is_not_count,
    arg_min(age, t) filter (inside and is_aged) as wait_first, arg_max(age, t) filter (inside and is_aged) as wait_last,
    max(t) filter (inside and is_aged) - min(t) filter (inside and is_aged) as span
  from at_round group by {key}
) r left join percentiles using ({key}) left join spent using ({key}) where exists_ms > 0
"""
SKEWS = """
with queues as (
  select g, topic, broker, queue, sum(lag * held)::double as area, max(wait) filter (inside) as wait,
    sum(held) filter (is_read) as known
  from cells group by all
),
ordered as (select *, row_number() over (partition by g, topic order by area) as place from queues)
select g, topic, max(wait) filter (known > 0) - floor(median(wait) filter (known > 0))::bigint as time_lag_spread_ms,
  case when sum(area) > 0 then round(max(area) / avg(area), 6) end as skew_max_mean,
  case when sum(area) > 0 then round(stddev_pop(area) / avg(area), 6) end as skew_cv,
  case when sum(area) > 0
    then round(sum(area * (2 * place - 1)) / (count(*) * sum(area)) - 1, 6) end as skew_gini,
  case when sum(area) > 0 then round(sum(area) ** 2 / sum(area ** 2), 6) end as effective_queues
from ordered group by g, topic
"""
HORIZON_MS = 365 * 86_400_000  # a forecast beyond it is none
STEPS = ("wait_first", "wait_last", "span")  # to a figure, and none themselves
GRAINS = {"topic": "g, topic", "queue": "g, topic, broker, queue"}


def rows(
    paths: Sequence[str], from_ms: int, to_ms: int, interval_ms: int, slo_ms: int = 60_000
) -> dict[Key, dict[str, Any]]:
    """{(grain, group, topic, broker, queue): figures} of a window, from chunk files."""
    chunks = pa.concat_tables([pq.read_table(path) for path in paths], promote_options="default")
    blobs = chunks["dt_ms"].cast(pa.binary()).unique().to_pylist()
    times = pa.table({"dt_ms": blobs, "dt": [np.frombuffer(blob, "<i4").tolist() for blob in blobs]})
    names = ("status", "word", "severity")
    statuses = pa.table(dict(zip(names, map(list, zip(*STATUSES, strict=True)), strict=True)))
    window = {"a": from_ms, "b": to_ms}
    found: dict[Key, dict[str, Any]] = {}
    with duckdb.connect() as connection:
        for name, table in (("chunks", chunks), ("times", times), ("statuses", statuses)):
            connection.register(name, table)
        connection.execute(SAMPLES)
        connection.execute(ROUNDS, {**window, "limit": 4 * interval_ms})
        connection.execute(CELLS, {"b": to_ms})
        for grain, key in GRAINS.items():
            for name, row in _fetched(connection, ROWS.format(key=key), slo=slo_ms, horizon=HORIZON_MS):
                found[grain, *name] = {step: value for step, value in row.items() if step not in STEPS}
        for name, row in _fetched(connection, SKEWS):
            if ("topic", *name) in found:
                found["topic", *name] |= row
    return found


def _fetched(
    connection: duckdb.DuckDBPyConnection, sql: str, **values: int
) -> list[tuple[Key, dict[str, Any]]]:
    cursor = connection.execute(sql, values)
    columns = [column[0] for column in cursor.description or ()]
    found = []
    for fetched in cursor.fetchall():
        row = dict(zip(columns, fetched, strict=True))
        found.append(((row.pop("g"), row.pop("topic"), row.pop("broker", ""), row.pop("queue", -1)), row))
    return found


def bucket_end(value: int | None) -> int | None:
    """The largest value of a histogram's bucket: the seven bits behind the leading one count, the rest are ones."""
    if value is None or value < 256:
        return value
    shift = value.bit_length() - 8
    return (((value >> shift) + 1) << shift) - 1
