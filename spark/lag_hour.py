"""Hourly lag of every group, topic and queue over the history: `python -m spark.lag_hour < spec.json`.

read: one work item per cluster and hour, with the history files that touch it. transform: each item is rolled up where
its files are read (`spark.lag.rollup`), because a file is complete for its series: no shuffle, no join. write: Parquet,
one file, in the order of ORDER, so that the same spec gives the same bytes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import fsspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.job import HOUR_MS, JobResult, JobSpec
from spark.job_process import main, say
from spark.lag import chunk, rollup, wal

GRAIN_TOPIC, GRAIN_QUEUE = "topic", "queue"
WORK_SCHEMA = pa.schema(
    [
        pa.field("cluster", pa.string()),
        pa.field("from_ms", pa.int64()),
        pa.field("to_ms", pa.int64()),
        pa.field("interval_ms", pa.int32()),
        pa.field("slo_ms", pa.int64()),
        pa.field("lookback_ms", pa.int64()),
        pa.field("files", pa.list_(pa.string())),
    ]
)
# What a work item yields: figures, or the name of a file that could not be read and why.
ROLLED_SCHEMA = pa.schema(
    [pa.field("grain", pa.string()), pa.field("warning", pa.string()), *rollup.HOUR_SCHEMA]
)
# The report's contract with the console.
COLUMNS = ("grain", *rollup.HOUR_SCHEMA.names)
ORDER = ("cluster", "window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
UNREADABLE = (wal.WalError, pa.ArrowException, OSError)
WARNINGS_MAX = 100  # a page shows a few; a history where more is broken is looked at elsewhere
WARNING_LENGTH_MAX = 500
TASKS_MAX = 64  # a task costs 20-50 ms whatever it does; the hours of a month are packed into these


def work_items(spec: JobSpec) -> pa.Table:
    """One row per cluster and hour of the spec; the running hour ends at `as_of_ms`."""
    rows = [
        {
            "cluster": hour.cluster,
            "from_ms": hour.hour_ms,
            "to_ms": min(hour.hour_ms + HOUR_MS, spec.as_of_ms),
            "interval_ms": spec.interval_ms,
            "slo_ms": spec.slo_ms,
            "lookback_ms": spec.lookback_ms,
            "files": list(hour.files),
        }
        for hour in spec.hours
        if hour.hour_ms < spec.as_of_ms
    ]
    return pa.Table.from_pylist(rows, schema=WORK_SCHEMA)


def transform(work: DataFrame) -> DataFrame:
    """Figures of every work item (rows of COLUMNS) and its warnings (all else null)."""
    rolled = work.mapInArrow(roll_up, _ddl(ROLLED_SCHEMA))
    return rolled.select(*COLUMNS, "warning")


def roll_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The executor's side: work items in, rows out."""
    for batch in batches:
        for item in batch.to_pylist():
            table, warnings = load(item)
            samples = chunk.decode_table(table)
            window = (item["from_ms"], item["to_ms"])
            asked = {name: item[name] for name in ("cluster", "interval_ms", "slo_ms")}
            yield from _rows(GRAIN_TOPIC, rollup.hourly(samples, *window, **asked))
            yield from _rows(GRAIN_QUEUE, rollup.hourly_queues(samples, *window, **asked))
            yield from _warnings(warnings)


def load(item: dict[str, Any]) -> tuple[pa.Table, list[str]]:
    """The samples of a work item, and a sentence about each file that is not whole: the rest still counts."""

    def window(files: Sequence[str]) -> pa.Table:
        return chunk.load_window(
            files,
            item["from_ms"],
            item["to_ms"],
            lookback_ms=item["lookback_ms"],
            interval_ms=item["interval_ms"],
        )

    damaged = [f"{path}: damaged inside, read up to there" for path in item["files"] if is_damaged(path)]
    try:
        return window(item["files"]), damaged
    except UNREADABLE:
        readable, unreadable = [], []
        for path in item["files"]:
            try:
                window([path])
                readable.append(path)
            except UNREADABLE as error:
                unreadable.append(f"{path}: {type(error).__name__}: {error}"[:WARNING_LENGTH_MAX])
        return window(readable), [*damaged, *unreadable]


def is_damaged(path: str) -> bool:
    """Whether a log segment has whole rounds behind a broken one: they are lost, while a torn end is a crash's normal
    trace. False for a file that cannot be read at all: reading it says so.
    """
    if not path.endswith(".wal"):
        return False
    try:
        with fsspec.open(path, "rb") as file:
            return wal.read_segment(file.read()).damaged
    except UNREADABLE:
        return False


def _rows(grain: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
    count = table.num_rows
    table = table.add_column(0, ROLLED_SCHEMA.field("grain"), pa.array([grain] * count, pa.string()))
    table = table.add_column(1, ROLLED_SCHEMA.field("warning"), pa.nulls(count, pa.string()))
    yield from table.select(ROLLED_SCHEMA.names).cast(_nullable(ROLLED_SCHEMA)).to_batches()


def _warnings(warnings: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if warnings:
        rows = [{"warning": text} for text in warnings]
        yield from pa.Table.from_pylist(rows, schema=_nullable(ROLLED_SCHEMA)).to_batches()


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


SQL_TYPES = {pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double"}


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {SQL_TYPES[field.type]}" for field in schema)


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform, write. The same spec writes the same rows in the same order."""
    started = time.monotonic()
    items = work_items(spec)
    warnings: list[str] = []
    rows = 0
    if items.num_rows:
        say(f"computing {items.num_rows} hour{'s' if items.num_rows > 1 else ''}")
        work = spark.createDataFrame(items).repartition(min(items.num_rows, TASKS_MAX))
        rolled = transform(work).cache()
        figures = rolled.filter(F.col("warning").isNull()).select(*COLUMNS)
        figures.repartition(1).sortWithinPartitions(*ORDER).write.mode("overwrite").parquet(spec.output)
        rows = figures.count()
        broken = rolled.filter(F.col("warning").isNotNull()).select("warning").distinct()
        warnings = sorted(row["warning"] for row in broken.limit(WARNINGS_MAX).collect())
        rolled.unpersist()
    return JobResult(
        job_id=spec.job_id,
        output=spec.output,
        rows=rows,
        hours=items.num_rows,
        elapsed_ms=int((time.monotonic() - started) * 1000),
        spark_version=spark.version,
        warnings=tuple(warnings),
    )


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
