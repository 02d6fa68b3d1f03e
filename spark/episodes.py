"""Episodes: when a group's topic broke its promise, stood still, or lost messages, and why:
`python -m spark.episodes < spec.json`.

One row per contiguous stretch of a UTC day, `kind`:

    breach    the oldest message waited longer than the group promises (`slo_ms`)
    stall     some queue with messages waiting made no progress for a minute, others did (or there is only one)
    offline   no queue that had messages waiting made progress for a minute. History knows no connections: a group that
              hangs looks the same as one that is gone
    lost      some committed offset is below what retention left

`cause` is the first that fits at the start: reset (an offset went back in the ten minutes before) · offline · queue
stuck · surge (five minutes' produce rate above 1.5 times that of the hour before) · slow (consume rate below two thirds
of it) · unclear. `worst_queue` with its offsets at the start is the evidence. `messages_late` were consumed while the
promise was broken. `forecast_*` is the first drain forecast during the episode (`spark.lag.forecast`), `drained_ms`
what it took from there until the backlog was gone; null: not within the day. `began_before` and `is_ongoing` say that
the day cuts the episode, `is_cut` that a gap in the data does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from spark.drain_replay import first_forecast
from spark.job import JobResult, JobSpec
from spark.job_process import main
from spark.lag.rollup import GAP_INTERVALS
from spark.lag.snapshot import BoolArray, Int64Array
from spark.line_job import ORDER, Row, run_lines
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.timeline import Key, Run, Timeline, runs
from spark.work import WorkItem

RECENT_MS, BEFORE_MS, RESET_MS = 5 * 60_000, 3_600_000, 10 * 60_000
SURGE, SLOW = 1.5, 0.67
SCHEMA = row_schema(
    KEY,
    WINDOW,
    pa.field("start_ms", pa.int64()),
    pa.field("end_ms", pa.int64()),
    pa.field("duration_ms", pa.int64()),
    pa.field("began_before", pa.bool_()),
    pa.field("is_ongoing", pa.bool_()),
    pa.field("is_cut", pa.bool_()),
    pa.field("cause", pa.string()),
    pa.field("slo_ms", pa.int64()),
    pa.field("peak_lag", pa.int64()),
    pa.field("peak_time_lag_ms", pa.int64()),
    pa.field("messages_late", pa.int64()),
    pa.field("lost", pa.int64()),
    pa.field("worst_queue", pa.string()),
    pa.field("committed_offset", pa.int64()),
    pa.field("max_offset", pa.int64()),
    pa.field("forecast_at_ms", pa.int64()),
    pa.field("forecast_ms", pa.int64()),
    pa.field("forecast_lo_ms", pa.int64()),
    pa.field("forecast_hi_ms", pa.int64()),
    pa.field("drained_ms", pa.int64()),
    STAMP,
)


def episode_rows(line: Timeline, key: Key, item: WorkItem, spec: JobSpec) -> Iterator[Row]:
    """The episodes of one line, by kind and time."""
    limit_ms = GAP_INTERVALS * spec.interval_ms
    everyone = (line.standing > 0) & (line.standing >= line.waiting) & (len(line.queue_names) > 1)
    slo_ms = spec.promise(key.group).slo_ms
    kinds = {
        "breach": line.time_lag_ms > slo_ms,
        "stall": (line.standing > 0) & ~everyone,
        "offline": everyone,
        "lost": line.below_min > 0,
    }
    for kind, holds in kinds.items():
        for run in runs(line, holds, limit_ms):
            yield {"grain": "episode", "kind": kind, **_row(line, run, slo_ms, spec.interval_ms)}


def _row(line: Timeline, run: Run, slo_ms: int, interval_ms: int) -> Row:
    inside = slice(run.first, run.last + 1)
    # It began in the interval that ends with the first round, and is over at the first round without it.
    start_ms = int(line.t_ms[run.first])
    is_ongoing = run.last == len(line.t_ms) - 1
    end_ms = int(line.t_ms[run.last if is_ongoing or run.cut else run.last + 1])
    late = line.time_lag_ms[inside] > slo_ms
    worst = int(line.worst[run.first])
    forecast = first_forecast(line, run.first, run.last, interval_ms)
    return {
        "start_ms": start_ms,
        "end_ms": end_ms,
        "duration_ms": end_ms - start_ms,
        "began_before": run.first == 0,
        "is_ongoing": is_ongoing,
        "is_cut": run.cut,
        "cause": cause(line, run.first),
        "slo_ms": slo_ms,
        "peak_lag": int(line.lag[inside].max()),
        "peak_time_lag_ms": int(line.time_lag_ms[inside].max()),
        "messages_late": int(line.consumed[inside][late].sum()),
        "lost": int(line.lost[inside].sum()),
        "worst_queue": line.queue_names[worst],
        "committed_offset": int(line.committed[run.first]),
        "max_offset": int(line.max_offset[run.first]),
        "forecast_at_ms": None if forecast is None else forecast.at_ms,
        "forecast_ms": None if forecast is None else forecast.ms,
        "forecast_lo_ms": None if forecast is None else forecast.low_ms,
        "forecast_hi_ms": None if forecast is None else forecast.high_ms,
        "drained_ms": None if forecast is None else forecast.actual_ms,
    }


def cause(line: Timeline, at: int) -> str:
    """What changed first, as far as the line shows, when an episode begins at round `at`."""
    now_ms = int(line.t_ms[at])
    if line.rewound[_between(line, now_ms - RESET_MS, now_ms)].any():
        return "reset"
    if line.standing[at]:
        return "offline" if line.standing[at] >= line.waiting[at] > 1 else "queue stuck"
    recent, earlier = (
        _between(line, now_ms - RECENT_MS, now_ms),
        _between(line, now_ms - BEFORE_MS, now_ms - RECENT_MS),
    )
    for word, counts, factor in (("surge", line.produced, SURGE), ("slow", line.consumed, SLOW)):
        now, before = _rate(line, counts, recent), _rate(line, counts, earlier)
        if now is None or before is None:
            continue
        if (factor > 1 and now > factor * before) or (factor < 1 and now < factor * before):
            return word
    return "unclear"


def _between(line: Timeline, from_ms: int, to_ms: int) -> BoolArray:
    """Rounds in (from, to]."""
    inside: BoolArray = (line.t_ms > from_ms) & (line.t_ms <= to_ms)
    return inside


def _rate(line: Timeline, counts: Int64Array, inside: BoolArray) -> float | None:
    span = int(line.gap_ms[inside].sum())
    return None if span == 0 else float(np.sum(counts[inside])) * 1000 / span


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform, write. The same spec writes the same rows in the same order."""
    return run_lines(spark, spec, episode_rows, SCHEMA, order=(*ORDER, "kind", "start_ms"))


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
