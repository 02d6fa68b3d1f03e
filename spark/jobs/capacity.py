"""Capacity of each group, its load, and how much room retention leaves.

`python -m spark.jobs.capacity < spec.json`

One row per group-topic and day, grain `group`:

    mu_max                messages a second that it handled in the median minute in which it was behind: its oldest
                          message waited longer than a commit takes and no queue stood still. null where there were
                          none: a group that keeps pace reads what comes, whatever it could do
    behind_pct            share of the time it was known in which it was behind
    lambda_mean, _peak    produce rate of the day, and the 99th percentile of its minutes
    utilisation_pct       lambda_mean / mu_max
    consumers_factor      how many times as many consumers as now it takes: 1 where it was behind for less than
                          `BEHIND_SHARE` of the time, else (lambda_mean + lag_max / recovery time) / mu_max, at least 1;
                          `consumers_needed` with `clients` now, where that is known, at most `queues`
    runway_ms             until retention reached the first unread message, in the worst round; null: never
    skew_offender         the queue that was worst in at least half of the hours with a backlog; `skew_share_pct`
    dead_weight           "no progress": messages waited all day and none was consumed; "idle": neither traffic nor
                          backlog; null else
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.job import JobResult, JobSpec
from spark.jobs.line_job import Row, run_lines, shared
from spark.lag.folds import figures
from spark.lag.folds.line import Line, LineKey, joined, topic_lines
from spark.lag.folds.window import Fold, fold, merge
from spark.lag.forecast import DRAIN_MS_MAX, consumers_factor
from spark.lag.local_time import MINUTE_MS
from spark.process.job_process import main
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.sources.work import HistoryReader, Window

BEHIND_SHARE = 0.02  # half an hour of a day: a restart or a burst needs no more consumers
SCHEMA = row_schema(
    KEY,
    WINDOW,
    pa.field("queues", pa.int64()),
    pa.field("clients", pa.int64()),
    pa.field("produced", pa.int64()),
    pa.field("consumed", pa.int64()),
    pa.field("busy_minutes", pa.int64()),
    pa.field("behind_pct", pa.float64()),
    pa.field("mu_max", pa.float64()),
    pa.field("lambda_mean", pa.float64()),
    pa.field("lambda_peak", pa.float64()),
    pa.field("utilisation_pct", pa.float64()),
    pa.field("lag_max", pa.int64()),
    pa.field("recovery_ms", pa.int64()),
    pa.field("consumers_factor", pa.float64()),
    pa.field("consumers_needed", pa.int64()),
    pa.field("runway_ms", pa.int64()),
    pa.field("skew_offender", pa.string()),
    pa.field("skew_share_pct", pa.float64()),
    pa.field("dead_weight", pa.string()),
    STAMP,
)


def capacity_rows(windows: Iterable[Window], reader: HistoryReader) -> Iterator[Row]:
    """Return the capacity of some groups."""
    folds: list[Fold] = []
    lines: dict[LineKey, list[Line]] = {}
    for window in windows:
        folds.append(fold(window.grid, window.from_ms, window.to_ms, reader.slo_at(window.from_ms)))
        for name, line in topic_lines([window.grid]).items():
            lines.setdefault(name, []).append(line)
    if not folds:
        return
    whole = merge(folds)
    offenders = _offenders(folds)
    rates = figures.handling_rates(whole.topics, (50,))[50].tolist()
    for row, key in enumerate(whole.topics.keys):
        own = LineKey(key.group, key.topic)
        whole_line = joined(lines[own])
        offender, share = offenders.get(own, (None, None))
        yield {
            **shared(whole_line, own, reader.item, reader.spec),
            "grain": "group",
            **_figures(whole, row, rates[row], whole_line, reader.spec),
            "skew_offender": offender,
            "skew_share_pct": share,
        }


def _figures(whole: Fold, row: int, rate: float, line: Line, spec: JobSpec) -> Row:
    level = whole.topics
    sums = {
        name: int(getattr(level.sums, name)[row])
        for name in ("produced", "consumed", "counted_ms", "known_ms", "lag_max", "queues", "runway_ms")
    }
    minutes = level.minutes.rows == row
    behind_ms = int(level.minutes.behind_ms[minutes].sum())
    behind = behind_ms / sums["known_ms"] if sums["known_ms"] else 0.0
    mu = None if np.isnan(rate) else float(rate)
    mean = sums["produced"] * 1000 / sums["counted_ms"] if sums["counted_ms"] else None
    lag_max = sums["lag_max"] if sums["known_ms"] else None
    return {
        **{name: sums[name] for name in ("queues", "produced", "consumed")},
        "busy_minutes": int((level.minutes.behind_ms[minutes] >= figures.BUSY_MS).sum()),
        "behind_pct": round(100 * behind, 2),
        "mu_max": mu,
        "lambda_mean": mean,
        "lambda_peak": peak_rate(line),
        "utilisation_pct": round(100 * mean / mu, 2) if mu and mean is not None else None,
        "lag_max": lag_max,
        "recovery_ms": spec.recovery_ms,
        "consumers_factor": needed_factor(behind, mu, mean, lag_max, spec.recovery_ms),
        "runway_ms": sums["runway_ms"] if sums["runway_ms"] <= DRAIN_MS_MAX else None,
        "dead_weight": dead_weight(whole, row),
    }


def needed_factor(
    behind: float, mu: float | None, mean: float | None, lag_max: int | None, recovery_ms: int
) -> float | None:
    """Return how many times the present consumers are needed; None: it was behind and its speed is unknown."""
    if mean is None or lag_max is None:
        return None
    if behind < BEHIND_SHARE:
        return 1.0
    factor = consumers_factor(mean, mu, lag_max, recovery_ms)
    return None if factor is None else round(max(1.0, factor), 4)


def peak_rate(line: Line) -> float | None:
    """Return the 99th percentile of the minutes' produce rates."""
    if not len(line.t_ms):
        return None
    minutes = line.t_ms // MINUTE_MS
    starts = np.flatnonzero(np.diff(minutes, prepend=minutes[0] - 1))
    span = np.add.reduceat(line.gap_ms, starts)
    total = np.add.reduceat(np.where(line.gap_ms > 0, line.produced, 0), starts)
    usable = np.logical_and.reduceat(line.is_read, starts) & (span > 0)
    rates = np.sort(total[usable] * 1000 / span[usable])
    return float(rates[max(-(-99 * len(rates) // 100) - 1, 0)]) if len(rates) else None


def dead_weight(whole: Fold, row: int) -> str | None:
    """Return why the group did no work today; None for one that did."""
    sums, lag = whole.topics.sums, whole.topics.histograms["lag"]
    if sums.consumed[row] or not sums.samples[row]:
        return None
    least = lag.buckets[lag.rows == row].min()
    if least > 0:
        return "no progress"
    return "idle" if not sums.lag_max[row] and not sums.produced[row] else None


def _offenders(folds: Iterable[Fold]) -> dict[LineKey, tuple[str, float]]:
    """Return the queue with the oldest message in most hours with a backlog, if in half of them."""
    worst: dict[LineKey, list[str]] = {}
    for one in folds:
        names = figures.of_topics(one)["worst_queue"].to_pylist()
        for key, name, queues in zip(one.topics.keys, names, one.topics.sums.queues.tolist(), strict=True):
            if name and queues > 1:
                worst.setdefault(LineKey(key.group, key.topic), []).append(name)
    found = {}
    for topic, hours in worst.items():
        name, count = Counter(hours).most_common(1)[0]
        if 2 * count >= len(hours):
            found[topic] = name, round(100 * count / len(hours), 2)
    return found


def with_clients(rows: DataFrame, clients: dict[str, int]) -> DataFrame:
    """Add how many members each group has now, and how many it needs."""
    if not clients:
        return rows
    known = rows.sparkSession.createDataFrame([*clients.items()], "group string, members bigint")
    wanted = F.ceil(F.col("consumers_factor") * F.greatest(F.col("members"), F.lit(1)))
    needed = F.when(F.col("members").isNotNull() & wanted.isNotNull(), F.least(wanted, F.col("queues")))
    found = rows.join(F.broadcast(known), "group", "left")
    return found.withColumns({"clients": F.col("members"), "consumers_needed": needed.cast("bigint")}).select(
        rows.columns
    )


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform and write. The same spec writes the same rows in the same order."""
    return run_lines(spark, spec, capacity_rows, SCHEMA, finish=lambda rows: with_clients(rows, spec.clients))


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
