"""Write the rows of a report as a file: collected by the driver, in a fixed order, below `output`.

The driver writes through fsspec and not through Spark's writer: that one leaves the parts with the executors where
they share no folder, and needs Hadoop's own file systems for object storage. For reports with few rows;
`spark.output.part_files` has those with many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from spark.job import JobFailed, JobResult, JobSpec
from spark.notes import Note, result_fields
from spark.process.job_process import report_step
from spark.process.session import cores_of
from spark.schemas import WARNING, report_columns
from spark.sources.work import TASKS_MAX, TASKS_PER_CORE, WORK_SCHEMA, WorkItem

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
    """Transform the items and write the rows as one Parquet file; `finish` makes the rows from those of all items.

    `order` is total, so the same rows give the same bytes.
    """
    started = time.monotonic()
    if not items:
        return result(spark, spec, started=started, rows=0)
    hours = sum(len(item.hours) for item in items if not item.after)
    report_step("hours", hours)
    rolled = transform(spread(spark, items))
    made = (rolled if finish is None else finish(rolled)).toArrow()
    is_row = pc.is_null(made[WARNING.name])
    notes = [Note.from_json(text) for text in made[WARNING.name].drop_null().to_pylist()]
    rows = made.filter(is_row).select(report_columns(schema))
    write(rows, spec.output, order)
    return result(spark, spec, started=started, rows=rows.num_rows, notes=notes)


def spread(spark: SparkSession, items: Sequence[WorkItem]) -> DataFrame:
    """Return the items as rows of WORK_SCHEMA, dealt out to the tasks one by one.

    A partitioner that hashes or draws samples would put two items into one task and none into the next.
    """
    tasks = min(len(items), max(TASKS_MAX, TASKS_PER_CORE * cores_of(spark)))
    work = pa.table(
        {
            "task": pa.array([number % tasks for number in range(len(items))], pa.int32()),
            "item": [item.to_json() for item in items],
        }
    )
    dealt = spark.createDataFrame(work).repartitionById(tasks, "task")
    return dealt.select(*WORK_SCHEMA.names)


def write(rows: pa.Table, output: str, order: Sequence[str]) -> None:
    """Write one file, sorted by `order`, replacing what is there. Raises JobFailed."""
    ordered = rows.sort_by([(name, "ascending") for name in order])
    try:
        files, folder = emptied(output)
        with files.open(f"{folder}/part-00000.parquet", "wb") as sink:
            pq.write_table(ordered, sink, compression="zstd")
    except OSError as error:
        raise JobFailed(
            f"The rows could not be written to {output}: {type(error).__name__}: {error}."
        ) from error


def emptied(output: str) -> tuple[Any, str]:
    """Return the file system and the folder of an output, without what an earlier attempt left there."""
    files, folder = fsspec.core.url_to_fs(output)
    if files.exists(folder):
        files.rm(folder, recursive=True)
    files.makedirs(folder, exist_ok=True)
    return files, folder


def result(
    spark: SparkSession | SparkContext,
    spec: JobSpec,
    *,
    started: float,
    rows: int,
    notes: Sequence[Note] = (),
) -> JobResult:
    """Return the result of a run that began at `started` (monotonic seconds)."""
    hours = {(hour.cluster, hour.hour_ms) for hour in spec.hours if hour.hour_ms < spec.as_of_ms}
    return JobResult(
        job_id=spec.job_id,
        output=spec.output,
        rows=rows,
        hours=len(hours),
        elapsed_ms=int((time.monotonic() - started) * 1000),
        spark_version=spark.version,
        **result_fields(notes),
    )
