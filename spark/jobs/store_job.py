"""The common part of jobs over stores of brokers: reading them, the window, and the columns of every row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource

from spark.job import JobFailed, JobResult, JobSpec
from spark.lag.local_time import DAY_MS, periods
from spark.notes import NOTES_MAX, Note
from spark.output.publish import result, write
from spark.schemas import report_columns
from spark.sources.store import CommitLogSource
from spark.sources.store_files import log_began_ms

ORDER = ("cluster", "window_start_ms", "grain", "group", "topic", "broker_name")


def read_stores(
    spark: SparkSession,
    spec: JobSpec,
    source: type[DataSource],
    *,
    all_times: bool = False,
    topic_prefix: str = "",
) -> DataFrame:
    """Read all stores of the spec, topics with the prefix only.

    Of the commit logs the messages of the window, or all that are left.
    """
    spark.dataSource.register(source)
    tables = []
    for store in spec.stores:
        options = {"path": store.path, "cluster": store.cluster, "broker_name": store.broker_name}
        options["topic_prefix"] = topic_prefix
        if source is CommitLogSource:
            options["from_ms"] = "0" if all_times else str(spec.from_ms)
            options["to_ms"] = str(min(spec.to_ms, spec.as_of_ms))
        tables.append(spark.read.format(source.name()).options(**options).load())
    return reduce(DataFrame.unionByName, tables)


def days(spec: JobSpec) -> list[tuple[int, int]]:
    """Return start and end of each day of the window, in the spec's zone; the running one ends at `as_of_ms`."""
    until_ms = min(spec.to_ms, spec.as_of_ms)
    found = periods(spec.from_ms, until_ms, DAY_MS, spec.zone)
    return [(start_ms, min(end_ms, spec.as_of_ms)) for start_ms, end_ms in found]


def day_start(column: str, spec: JobSpec) -> Column:
    """Return when the day begins that holds a time in ms: the last start that is not after it."""
    first, *later = [start_ms for start_ms, _ in days(spec)]
    return reduce(
        lambda found, start_ms: F.when(F.col(column) >= F.lit(start_ms), F.lit(start_ms)).otherwise(found),
        later,
        F.lit(first),
    ).cast("bigint")


def stamped(rows: DataFrame, spec: JobSpec, coverage: DataFrame) -> DataFrame:
    """Add the columns of every row; `coverage`: cluster and `log_from_ms`, since when a commit log of it is kept.

    Messages are records of a log, not samples: `interval_ms` is null, and what is missing is the time before the oldest
    record that is left.
    """
    ends = rows.sparkSession.createDataFrame(days(spec), "window_start_ms bigint, window_end_ms bigint")
    end = F.col("window_end_ms")
    missing = F.greatest(F.lit(0), F.least(F.col("log_from_ms"), end) - F.col("window_start_ms"))
    length = end - F.col("window_start_ms")
    return (
        rows.join(F.broadcast(coverage), "cluster", "left")
        .join(F.broadcast(ends), "window_start_ms")
        .withColumn("interval_ms", F.lit(None).cast("int"))
        .withColumn("max_gap_ms", missing.cast("bigint"))
        .withColumn("coverage_pct", F.round(100 * (1 - missing / length), 2))
        .withColumn("queue_id", F.lit(-1))
        .withColumn("incarnation", F.lit(0))
        .withColumns({name: F.lit(value) for name, value in spec.stamp.items()})
    )


def coverage(spark: SparkSession, spec: JobSpec) -> DataFrame:
    """Return since when each cluster's logs are kept: the latest of its brokers' oldest records."""
    found: dict[str, int] = {}
    for store in spec.stores:
        began_ms = log_began_ms(store.path)
        if began_ms is not None:
            found[store.cluster] = max(began_ms, found.get(store.cluster, 0))
    return spark.createDataFrame([*found.items()], "cluster string, log_from_ms bigint")


def published(
    spark: SparkSession,
    spec: JobSpec,
    rows: DataFrame,
    schema: pa.Schema,
    order: Sequence[str],
    *,
    started: float,
    sources: Sequence[DataFrame],
) -> JobResult:
    """Write the rows; `sources` are their input, with warnings. Raises JobFailed when nothing could be read.

    Earlier rows stay then: an unreadable store is not an empty one.
    """
    texts = reduce(DataFrame.union, [one.select("warning") for one in sources])
    broken = texts.filter(F.col("warning").isNotNull()).distinct().orderBy("warning").limit(NOTES_MAX)
    notes = [Note(row["warning"]) for row in broken.collect()]
    if notes and not any(log_began_ms(store.path) for store in spec.stores):
        raise JobFailed(f"No message of the stores could be read: {notes[0].text}.")
    table = rows.select(*report_columns(schema)).toArrow()
    write(table, spec.output, order)
    return result(spark, spec, started=started, rows=table.num_rows, notes=notes)
