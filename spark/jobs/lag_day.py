"""Daily lag of every group, topic and queue, from raw history: `python -m spark.jobs.lag_day < spec.json`.

Days are those of the spec's zone. The hours of a day are folded where their files are read and added up there
(`rows.lag_rows`): percentiles come from added histograms, never from averages. A day needs no hourly run before it and
can be computed again while its history exists.
"""

from __future__ import annotations

import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark.job import JobResult, JobSpec
from spark.lag.local_time import DAY_MS
from spark.output.lag_rows import period_rows
from spark.output.part_files import publish_parts
from spark.process.job_process import main
from spark.process.session import cores_of
from spark.sources.work import work_items


def run(spark: SparkSession | SparkContext, spec: JobSpec, *, period_ms: int = DAY_MS) -> JobResult:
    """Read, fold, add up and write. The same spec writes the same rows in the same order."""
    items = work_items(spec, period_ms=period_ms, cores=cores_of(spark))
    return publish_parts(spark, spec, items, period_rows)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
