"""How a job's rows become files: computed once, written in a fixed order, what could not be read told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark.job import JobResult, JobSpec
from spark.job_process import say
from spark.schemas import report_columns
from spark.work import TASKS_MAX, WORK_SCHEMA, WorkItem

WARNINGS_MAX = 100  # a page shows a few; a history where more is broken is looked at elsewhere

Transform = Callable[[DataFrame], DataFrame]


def publish(
    spark: SparkSession,
    spec: JobSpec,
    items: Sequence[WorkItem],
    transform: Transform,
    schema: pa.Schema,
    order: Sequence[str],
    *,
    finish: Transform | None = None,
) -> JobResult:
    """Transform the items and write the rows as one Parquet file in `output`; the order is total, so the same rows
    give the same bytes. `finish` makes the rows from those of all items. Only what could not be read is computed twice:
    keeping all rows for a second look took longer than making them. For jobs with few rows; `spark.part_files` has
    those with many.
    """
    started = time.monotonic()
    warnings: list[str] = []
    rows = 0
    if items:
        hours = sum(len(item.hours) for item in items if not item.after)
        say(f"computing {hours} hour{'' if hours == 1 else 's'}")
        rolled = transform(spread(spark, items))
        if finish is not None:
            rolled.cache()
        made = rolled if finish is None else finish(rolled)
        seen = Observation()
        counted = made.observe(seen, F.count(F.lit(1)).alias("all"), F.count("warning").alias("warnings"))
        figures = counted.filter(F.col("warning").isNull()).select(*report_columns(schema))
        write(figures, spec.output, order)
        rows = int(seen.get["all"]) - int(seen.get["warnings"])
        if seen.get["warnings"]:
            warnings = warnings_of(rolled)
        if finish is not None:
            rolled.unpersist()
    return result(spark, spec, started=started, rows=rows, warnings=warnings)


def spread(spark: SparkSession, items: Sequence[WorkItem]) -> DataFrame:
    """The items as rows of WORK_SCHEMA, dealt out to the tasks one by one: a partitioner that hashes or draws samples
    would put two items into one task and none into the next.
    """
    tasks = min(len(items), TASKS_MAX)
    work = pa.table(
        {
            "task": pa.array([number % tasks for number in range(len(items))], pa.int32()),
            "item": [item.to_json() for item in items],
        }
    )
    dealt = spark.createDataFrame(work).repartitionById(tasks, "task")
    return dealt.select(*WORK_SCHEMA.names)


def write(rows: DataFrame, output: str, order: Sequence[str]) -> None:
    """One file, sorted by `order`."""
    by = [F.col(name) for name in order]
    rows.repartition(1).sortWithinPartitions(*by).write.mode("overwrite").parquet(output)


def warnings_of(rolled: DataFrame) -> list[str]:
    """What could not be read, each sentence once, in order."""
    broken = rolled.filter(F.col("warning").isNotNull()).select("warning").distinct().orderBy("warning")
    return [row["warning"] for row in broken.limit(WARNINGS_MAX).collect()]


def result(
    spark: SparkSession | SparkContext, spec: JobSpec, *, started: float, rows: int, warnings: Sequence[str]
) -> JobResult:
    """The answer of a run that began at `started` (monotonic seconds)."""
    hours = {(hour.cluster, hour.hour_ms) for hour in spec.hours if hour.hour_ms < spec.as_of_ms}
    return JobResult(
        job_id=spec.job_id,
        output=spec.output,
        rows=rows,
        hours=len(hours),
        elapsed_ms=int((time.monotonic() - started) * 1000),
        spark_version=spark.version,
        warnings=tuple(warnings),
    )
