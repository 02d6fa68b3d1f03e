"""Weekly lag, from Monday to Monday, as `lag_day` makes days: `python -m spark.jobs.lag_week < spec.json`."""

from __future__ import annotations

import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark.job import JobResult, JobSpec
from spark.jobs import lag_day
from spark.lag.local_time import WEEK_MS
from spark.process.job_process import main


def run(spark: SparkSession | SparkContext, spec: JobSpec) -> JobResult:
    """Read, transform and write."""
    return lag_day.run(spark, spec, period_ms=WEEK_MS)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
