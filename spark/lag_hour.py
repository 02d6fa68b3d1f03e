"""Hourly lag of every group, topic and queue over the history: `python -m spark.lag_hour < spec.json`.

read: work items, each an hour of a cluster and a range of groups. transform: each item is rolled up where its files
are read (`spark.hour_rows`), because a file is complete for its series: no shuffle, no join. write: Parquet, one file,
in the order of ORDER, so that the same spec gives the same bytes. `topn` rows name the worst of each hour.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark.grid_rows import GridRows, retry_counts
from spark.hour_rows import LAG_SCHEMA, Asked, tables
from spark.job import HOUR_MS, JobResult, JobSpec
from spark.job_process import main
from spark.publish import publish
from spark.rounds import Matrix
from spark.row_facts import GRAIN_TOPIC
from spark.schemas import ddl, report_columns, warning_rows
from spark.work import HistoryReader, HourBlock, HourGrid, WorkItem, work_items

COLUMNS = report_columns(LAG_SCHEMA)
ORDER = ("cluster", "window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
GRAIN_TOP = "topn"
TOP = 50
# By what a group-topic can be among the worst: word → (figure, whether a larger one is worse).
TOP_BY = {
    "time_lag": ("time_lag_max_ms", True),
    "burn": ("burn_rate", True),
    "time_to_loss": ("time_to_loss_ms", False),
    "growth": ("growth", True),
}


def transform(work: DataFrame) -> DataFrame:
    """Figures of every work item (rows of COLUMNS) and its warnings (all else null)."""
    return work.mapInArrow(roll_up, ddl(LAG_SCHEMA)).select(*COLUMNS, "warning")


def roll_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The executor's side: work items in, rows out."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            reader = HistoryReader(WorkItem.from_json(text))
            hours = HourTables(reader)
            for parts in reader.parts():
                for part in parts:
                    for table in hours.of(part):
                        yield from table.to_batches()
            for table in hours.rest():
                yield from table.to_batches()
            reader.close()
            yield from warning_rows(LAG_SCHEMA, reader.warnings).to_batches()


class HourTables:
    """The rows of the parts of hours: `of` each, and at last `rest`, group-topics of all of them."""

    def __init__(self, reader: HistoryReader, *, queue_histograms: bool = False) -> None:
        self._reader = reader
        self._queue_histograms = queue_histograms
        self._grids = GridRows(queue_histograms=queue_histograms)

    def of(self, part: HourBlock | HourGrid) -> list[pa.Table]:
        spec = self._reader.spec
        window = part.from_ms, part.to_ms
        asked = Asked(self._reader.item.cluster, *window, spec.interval_ms, spec.promise, spec.stamp)
        if isinstance(part, HourGrid):
            retries = retry_counts(part.grid)
            groups = pc.unique(part.grid.names["group"]).to_pylist()
            into = {group: (retries.get(group), part.dead_letters.get(group)) for group in groups}
            return self._grids.queues(part.grid, asked, into)
        matrix = Matrix.of(part.samples, part.figures, *window, spec.interval_ms)
        return tables(matrix, asked, retries_of(matrix, part), queue_histograms=self._queue_histograms)

    def rest(self, *, at_least: int = 0) -> list[pa.Table]:
        """The rows of the group-topics so far, unless they are fewer than `at_least`."""
        return self._grids.topics() if self._grids.waiting >= at_least else []


def retries_of(matrix: Matrix, block: HourBlock) -> dict[str, tuple[int | None, int | None]]:
    """Group → messages into its %RETRY% and %DLQ% topic; a topic that nobody collected is unknown."""
    produced = matrix.produced.sum(axis=1).tolist()
    retry: dict[str, int] = {}
    for key, count in zip(matrix.keys, produced, strict=True):
        if key.kind == "RETRY":
            retry[key.group] = retry.get(key.group, 0) + count
    groups = {key.group for key in matrix.keys}
    return {group: (retry.get(group), block.dead_letters.get(group)) for group in groups}


def top(rows: DataFrame) -> DataFrame:
    """The worst 50 group-topics of each hour by time lag, burn rate, time to loss and growth of the lag."""
    topics = rows.filter((F.col("grain") == GRAIN_TOPIC) & (F.col("kind") == "GROUP")).withColumn(
        "growth", F.col("lag_last") - F.col("lag_first")
    )
    # One stage for all of them: a row for each figure by which it may be among the worst.
    candidates = []
    for word, (name, is_larger_worse) in TOP_BY.items():
        value = F.col(name).cast("double")
        is_bad = value > 0 if is_larger_worse else value.isNotNull()
        badness = value if is_larger_worse else -value
        one = F.struct(F.lit(word).alias("by"), value.alias("value"), badness.alias("badness"))
        candidates.append(F.when(is_bad, one))
    each = topics.withColumn("one", F.explode(F.array_compact(F.array(*candidates))))
    worst_first = Window.partitionBy("cluster", "window_start_ms", "one.by").orderBy(
        F.col("one.badness").desc(), "group", "topic"
    )
    ranked = each.withColumn("rank", F.row_number().over(worst_first)).filter(F.col("rank") <= TOP)
    merged = ranked.withColumn("by", F.col("one.by")).withColumn("value", F.col("one.value"))
    return merged.withColumn("grain", F.lit(GRAIN_TOP)).select(
        "grain", "cluster", "kind", "group", "topic", "broker_name", "queue_id", "incarnation", "window_start_ms",
        "window_end_ms", "interval_ms", "coverage_pct", "max_gap_ms", "by", "rank", "value", "worst_queue",
        "generated_at_ms", "job_id", "code_version",
    )  # fmt: skip


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform, write. The same spec writes the same rows in the same order."""
    items = work_items(spec, period_ms=HOUR_MS)
    return publish(spark, spec, items, transform, LAG_SCHEMA, ORDER, extras={GRAIN_TOP: top})


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
