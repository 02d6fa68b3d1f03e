"""What each group can do, what is asked of it, and how much room retention leaves:
`python -m spark.capacity < spec.json`.

One row per group-topic and UTC day, grain `group`:

    mu_max                95th percentile of the consume rate over the minutes in which it was behind all the time, the
                          oldest message waiting longer than a commit takes: the rate it reaches when it may choose.
                          null where there were none: a group that keeps pace reads what comes, whatever it could do
    lambda_mean, _peak    produce rate of the day, and the 99th percentile of its minutes
    utilisation_pct       lambda_peak / mu_max
    consumers_factor      (lambda_peak + lag_max / recovery time) / mu_max: how many times as many consumers as now it
                          takes to be current again within `recovery_ms`; `consumers_needed` with `clients` now, where
                          that is known, at most `queues`
    runway_ms             until retention reaches the first unread message of the queue nearest to it, at the rates at
                          which its minimum rose and the group read in this day; null: never
    skew_offender         the queue that was worst in at least half of the hours with a backlog; `skew_share_pct`
    dead_weight           "no progress": messages waited all day and none was consumed; "idle": neither traffic nor
                          backlog; null else
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.job import HOUR_MS, JobResult, JobSpec
from spark.job_process import main
from spark.lag.status import TIME_LAG_ALLOWED_MS
from spark.line_job import Row, run_lines
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.timeline import Key, Timeline, minute_rates, nearest_rank
from spark.work import WorkItem

SCHEMA = row_schema(
    KEY,
    WINDOW,
    pa.field("queues", pa.int64()),
    pa.field("clients", pa.int64()),
    pa.field("produced", pa.int64()),
    pa.field("consumed", pa.int64()),
    pa.field("busy_minutes", pa.int64()),
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


def capacity_rows(line: Timeline, key: Key, item: WorkItem, spec: JobSpec) -> Iterator[Row]:
    """The capacity of one line."""
    counted = line.counted_ms
    busy = minute_rates(line, line.consumed, (line.time_lag_ms > TIME_LAG_ALLOWED_MS) & line.complete)
    mu_max = nearest_rank(busy, 95)
    peak = nearest_rank(minute_rates(line, line.produced, line.complete), 99)
    lag_max = int(line.lag[line.complete].max()) if line.complete.any() else None
    factor = None
    if mu_max and peak is not None and lag_max is not None:
        factor = round((peak + lag_max * 1000 / spec.recovery_ms) / mu_max, 4)
    offender, share = _offender(line)
    yield {
        "grain": "group",
        "queues": len(line.queue_names),
        "produced": int(line.produced.sum()),
        "consumed": int(line.consumed.sum()),
        "busy_minutes": len(busy),
        "mu_max": mu_max,
        "lambda_mean": float(line.produced.sum()) * 1000 / counted if counted else None,
        "lambda_peak": peak,
        "utilisation_pct": round(100 * peak / mu_max, 2) if mu_max and peak is not None else None,
        "lag_max": lag_max,
        "recovery_ms": spec.recovery_ms,
        "consumers_factor": factor,
        "runway_ms": line.runway_ms,
        "skew_offender": offender,
        "skew_share_pct": share,
        "dead_weight": dead_weight(line),
    }


def dead_weight(line: Timeline) -> str | None:
    """Why nobody would miss this group today; None for one that works."""
    if line.consumed.any():
        return None
    if line.lag.all():
        return "no progress"
    return "idle" if not line.lag.any() and not line.produced.any() else None


def _offender(line: Timeline) -> tuple[str | None, float | None]:
    """The queue with the oldest message in most hours with a backlog, if that is half of them."""
    hours = line.t_ms // HOUR_MS
    worst = []
    for hour in np.unique(hours[line.lag > 0]).tolist():
        inside = np.flatnonzero(hours == hour)
        worst.append(int(line.worst[inside[np.argmax(line.time_lag_ms[inside])]]))
    if not worst or len(line.queue_names) < 2:
        return None, None
    queue, count = Counter(worst).most_common(1)[0]
    share = round(100 * count / len(worst), 2)
    return (line.queue_names[queue], share) if share >= 50 else (None, None)


def with_clients(rows: DataFrame, clients: dict[str, int]) -> DataFrame:
    """Add how many members each group has now, and how many it needs."""
    if not clients:
        return rows
    known = F.create_map(*[F.lit(part) for pair in sorted(clients.items()) for part in pair])
    needed = F.least(
        F.ceil(F.col("consumers_factor") * F.greatest(F.col("clients"), F.lit(1))), F.col("queues")
    )
    return rows.withColumn("clients", known[F.col("group")].cast("bigint")).withColumn(
        "consumers_needed", F.when(F.col("clients").isNotNull(), needed).cast("bigint")
    )


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform, write. The same spec writes the same rows in the same order."""
    return run_lines(spark, spec, capacity_rows, SCHEMA, finish=lambda rows: with_clients(rows, spec.clients))


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
