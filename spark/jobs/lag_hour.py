"""Hourly lag of every group, topic and queue over the history: `python -m spark.jobs.lag_hour < spec.json`.

Work items are an hour of a cluster and a range of groups each. A task reads its files, folds them and writes the
rows (`rows.lag_rows`, `rows.part_files`), because a file is complete for its series: no shuffle, no join. The
files' names are in the order of their rows, and the same spec gives the same bytes. `topn`: the worst of each hour.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark.job import JobResult, JobSpec
from spark.lag.local_time import HOUR_MS
from spark.output.lag_rows import GRAIN_TOPIC, LAG_SCHEMA, hour_rows
from spark.output.part_files import publish_parts
from spark.process.job_process import main
from spark.process.session import cores_of
from spark.schemas import report_columns
from spark.sources.stored_folds import delete_expired
from spark.sources.work import work_items

COLUMNS = report_columns(LAG_SCHEMA)
GRAIN_TOP = "topn"
TOP = 50
# By what a group-topic can be among the worst: word → (figure, whether a larger one is worse).
TOP_BY = {
    "time_lag": ("time_lag_max_ms", True),
    "burn": ("burn_rate", True),
    "time_to_loss": ("time_to_loss_ms", False),
    "growth": ("growth", True),
}
TOP_COLUMNS = [
    "grain", "cluster", "kind", "group", "topic", "broker_name", "queue_id", "incarnation", "window_start_ms",
    "window_end_ms", "interval_ms", "coverage_pct", "max_gap_ms", "by", "rank", "value", "worst_queue",
    "generated_at_ms", "job_id", "code_version",
]  # fmt: skip
TOPIC_COLUMNS = [name for name in TOP_COLUMNS if name not in ("grain", "by", "rank", "value")]
READ_FOR_TOP = ("lag_first", "lag_last", "time_lag_max_ms", "burn_rate", "time_to_loss_ms")


def top(topics: pa.Table) -> pa.Table:
    """Return the worst 50 group-topics of each hour by time lag, burn rate, time to loss and growth.

    `topics` are in the order of rows.
    """
    topics = topics.filter(pc.equal(topics["kind"], "GROUP"))
    topics = topics.append_column("growth", pc.subtract(topics["lag_last"], topics["lag_first"]))
    starts, clusters = topics["window_start_ms"].to_numpy(), topics["cluster"].combine_chunks()
    hour = np.zeros(topics.num_rows, dtype=np.int64)
    hour[1:] = np.cumsum(
        (np.diff(starts) != 0) | pc.not_equal(clusters[1:], clusters[:-1]).to_numpy(zero_copy_only=False)
    )
    found = []
    for word, (name, is_larger_worse) in TOP_BY.items():
        value = topics[name].cast(pa.float64()).to_numpy()  # NaN: unknown
        badness = value if is_larger_worse else -value
        bad = np.flatnonzero(value > 0 if is_larger_worse else ~np.isnan(value))
        order = bad[np.lexsort((-badness[bad], hour[bad]))]
        rank = np.arange(len(order)) - np.searchsorted(hour[order], hour[order]) + 1
        worst, rank = order[rank <= TOP], rank[rank <= TOP]
        columns = {
            "grain": pa.repeat(GRAIN_TOP, len(worst)),
            "by": pa.repeat(word, len(worst)),
            "rank": pa.array(rank, pa.int32()),
            "value": pa.array(value[worst]),
        }
        kept = topics.take(worst)
        columns |= {one: kept[one] for one in TOPIC_COLUMNS}
        found.append(pa.table([columns[one] for one in TOP_COLUMNS], names=TOP_COLUMNS))
    return pa.concat_tables(found).sort_by([(name, "ascending") for name in TOP_COLUMNS])


def write_top(files: Any, folder: str) -> None:
    """Read the group-topics that the tasks wrote and write the worst of them."""
    paths = sorted(files.glob(f"{folder}/part-*-{GRAIN_TOPIC}-*.parquet"))
    if paths:
        names = [*TOPIC_COLUMNS, *(name for name in READ_FOR_TOP if name not in TOPIC_COLUMNS)]
        topics = pa.concat_tables([pq.read_table(path, filesystem=files, columns=names) for path in paths])
        files.makedirs(f"{folder}/{GRAIN_TOP}")
        with files.open(f"{folder}/{GRAIN_TOP}/part-00000.parquet", "wb") as sink:
            pq.write_table(top(topics.combine_chunks()), sink)


def run(spark: SparkSession | SparkContext, spec: JobSpec) -> JobResult:
    """Read, fold and write. The same spec writes the same rows in the same order."""
    items = work_items(spec, period_ms=HOUR_MS, cores=cores_of(spark))
    delete_expired(spec)
    return publish_parts(spark, spec, items, hour_rows, finish=write_top)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
