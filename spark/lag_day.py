"""Daily lag of every group, topic and queue, from raw history: `python -m spark.lag_day < spec.json`.

The hours of a day are rolled up where their files are read and added up there (`spark.periods`): percentiles come from
added histograms, never from averages. A day needs no hourly run before it and can be computed again while its history
exists.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark.hour_rows import LAG_SCHEMA
from spark.job import HOUR_MS, JobResult, JobSpec
from spark.job_process import main
from spark.lag_hour import COLUMNS, ORDER, hour_tables
from spark.periods import merge
from spark.publish import publish
from spark.schemas import ddl, warning_rows
from spark.work import HistoryReader, WorkItem, work_items

DAY_MS = 24 * HOUR_MS


def transform(work: DataFrame) -> DataFrame:
    """Figures of every period (rows of COLUMNS) and its warnings (all else null)."""
    return work.mapInArrow(roll_up, ddl(LAG_SCHEMA)).select(*COLUMNS, "warning")


def roll_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The executor's side: one work item is a period of some groups."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            item = WorkItem.from_json(text)
            reader = HistoryReader(item)
            for blocks in reader.blocks():
                hours = [
                    table for block in blocks for table in hour_tables(reader, block, queue_histograms=True)
                ]
                if hours:
                    yield from merge(
                        pa.concat_tables(hours), item.from_ms, item.to_ms, reader.spec
                    ).to_batches()
            reader.close()
            yield from warning_rows(LAG_SCHEMA, reader.warnings).to_batches()


def run(spark: SparkSession, spec: JobSpec, *, period_ms: int = DAY_MS) -> JobResult:
    """Read, transform, write. The same spec writes the same rows in the same order."""
    return publish(spark, spec, work_items(spec, period_ms=period_ms), transform, LAG_SCHEMA, ORDER)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
