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
from spark.lag_hour import COLUMNS, ORDER, HourTables
from spark.periods import merge
from spark.publish import publish
from spark.schemas import ddl, warning_rows
from spark.work import HistoryReader, WorkItem, work_items

DAY_MS = 24 * HOUR_MS
TOPICS_KEPT = 2_000  # hours of group-topics that become rows at once: 40 MB of them


def transform(work: DataFrame) -> DataFrame:
    """Figures of every period (rows of COLUMNS) and its warnings (all else null)."""
    return work.mapInArrow(roll_up, ddl(LAG_SCHEMA)).select(*COLUMNS, "warning")


def roll_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The executor's side: one work item is a period of some groups."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            item = WorkItem.from_json(text)
            reader = HistoryReader(item)
            hours = HourTables(reader, queue_histograms=True)
            for parts in reader.parts():
                found = [table for part in parts for table in hours.of(part)]
                found += hours.rest(at_least=TOPICS_KEPT)
                yield from _merged(found, item, reader)
            yield from _merged(hours.rest(), item, reader)
            reader.close()
            yield from warning_rows(LAG_SCHEMA, reader.warnings).to_batches()


def _merged(hours: list[pa.Table], item: WorkItem, reader: HistoryReader) -> Iterator[pa.RecordBatch]:
    if hours:
        yield from merge(pa.concat_tables(hours), item.from_ms, item.to_ms, reader.spec).to_batches()


def run(spark: SparkSession, spec: JobSpec, *, period_ms: int = DAY_MS) -> JobResult:
    """Read, transform, write. The same spec writes the same rows in the same order."""
    return publish(spark, spec, work_items(spec, period_ms=period_ms), transform, LAG_SCHEMA, ORDER)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
