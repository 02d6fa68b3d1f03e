"""Dead letters from the store files of brokers: how many, why, how old, how fast they grow.

`python -m spark.jobs.dead_letter < spec.json`

A dead letter is a record of a `%DLQ%` topic that its consume queue still leads to. Grain `group`: a row per group and
day; grain `cause`: per group, topic it came from and cause.

    letters            in the store at the end of the window; `arrived` in the window, `peak_per_h` in its busiest hour
    oldest_ms, age_*   since when, and percentiles of the ages at the end of the window
    life_p50_ms        between the producer's send and the dead letter
    cause              "retries used up": it was tried `attempts` times, all that the group allows (`retry_max`, of the
                       broker's subscriptionGroup.json; 16 where that has none); "given up": the consumer sent it
                       here itself, before that. The broker keeps no exception: which error it was is not in a store
    repeated           letters whose original message is here more than once: it was sent again and failed again
"""

from __future__ import annotations

import json
import posixpath
import sys
import time

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.job import JobResult, JobSpec
from spark.jobs.store_job import ORDER, coverage, days, published, read_stores, stamped
from spark.lag.history import files
from spark.lag.local_time import HOUR_MS
from spark.output.publish import result
from spark.process.job_process import main, report_step
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.sources.store import CommitLogSource, ConsumeQueueSource

PREFIX = "%DLQ%"
RETRY_MAX = 16  # RocketMQ's retryMaxTimes
SCHEMA = row_schema(
    KEY,
    WINDOW,
    pa.field("cause", pa.string()),
    pa.field("letters", pa.int64()),
    pa.field("arrived", pa.int64()),
    pa.field("peak_per_h", pa.int64()),
    pa.field("oldest_ms", pa.int64()),
    pa.field("newest_ms", pa.int64()),
    *[pa.field(f"age_p{share}_ms", pa.int64()) for share in (50, 95)],
    pa.field("life_p50_ms", pa.int64()),
    pa.field("attempts_max", pa.int64()),
    pa.field("retry_max", pa.int64()),
    pa.field("repeated", pa.int64()),
    pa.field("size_bytes", pa.int64()),
    pa.field("log_from_ms", pa.int64()),
    STAMP,
)


def transform(letters: DataFrame, requested: DataFrame, limits: DataFrame) -> DataFrame:
    """Return rows of both grains, without the columns of every row.

    `letters`: records of %DLQ% topics; `requested`: `window_start_ms` and `end_ms` of the days; `limits`: `group` and
    `retry_max` of groups that have their own.
    """
    found = (
        letters.withColumn("group", F.substring("topic", len(PREFIX) + 1, 1_000))
        .join(F.broadcast(limits), "group", "left")
        .fillna(RETRY_MAX, ["retry_max"])
        # the copy that becomes a dead letter counts as one more try
        .withColumn("attempts", F.greatest(F.col("reconsume_times") - 1, F.lit(0)))
        .withColumn(
            "cause", F.when(F.col("attempts") >= F.col("retry_max"), "retries used up").otherwise("given up")
        )
        .withColumn("life", F.col("store_timestamp_ms") - F.col("born_timestamp_ms"))
        .crossJoin(F.broadcast(requested))
        .filter(F.col("store_timestamp_ms") < F.col("end_ms"))
        .withColumn("age", F.col("end_ms") - F.col("store_timestamp_ms"))
        .withColumn("is_new", F.col("store_timestamp_ms") >= F.col("window_start_ms"))
        .withColumn("hour", F.floor(F.col("store_timestamp_ms") / F.lit(HOUR_MS)))
    )
    groups = _totals(found).withColumns(
        {"grain": F.lit("group"), "topic": F.lit(""), "cause": F.lit(None).cast("string")}
    )
    causes = _totals(found, "origin_topic", "cause").withColumns(
        {"grain": F.lit("cause"), "topic": F.coalesce(F.col("origin_topic"), F.lit(""))}
    )
    return groups.unionByName(causes.drop("origin_topic"))


def _totals(found: DataFrame, *by: str) -> DataFrame:
    keys = ("cluster", "group", "window_start_ms", *by)
    found = found.withColumns({name: F.coalesce(F.col(name), F.lit("")) for name in by})
    hours = found.filter("is_new").groupBy(*keys, "hour").agg(F.count(F.lit(1)).alias("in_hour"))
    peaks = hours.groupBy(*keys).agg(F.max("in_hour").alias("peak_per_h"))
    origins = found.groupBy(*keys, "origin_message_id").agg(F.count(F.lit(1)).alias("copies"))
    repeated = origins.filter(F.col("origin_message_id").isNotNull() & (F.col("copies") > 1))
    repeats = repeated.groupBy(*keys).agg(F.sum("copies").alias("repeated"))
    totals = found.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("letters"),
        F.count_if("is_new").alias("arrived"),
        F.min("store_timestamp_ms").alias("oldest_ms"),
        F.max("store_timestamp_ms").alias("newest_ms"),
        *[_discrete("age", share).alias(f"age_p{share}_ms") for share in (50, 95)],
        _discrete("life", 50).alias("life_p50_ms"),
        F.max("attempts").cast("bigint").alias("attempts_max"),
        F.max("retry_max").cast("bigint").alias("retry_max"),
        F.sum("size_bytes").alias("size_bytes"),
    )
    joined = totals.join(peaks, list(keys), "left").join(repeats, list(keys), "left")
    return joined.fillna(0, ["peak_per_h", "repeated"])


def _discrete(name: str, share: int) -> Column:
    return F.expr(f"percentile_disc({share / 100}) within group (order by {name})").cast("bigint")


def retry_limits(spec: JobSpec) -> dict[str, int]:
    """Return {group: retryMaxTimes} of the stores' own configuration; of a missing file nothing."""
    found: dict[str, int] = {}
    for store in spec.stores:
        try:
            table = json.loads(files.read(posixpath.join(store.path, "config", "subscriptionGroup.json")))
        except (OSError, ValueError):
            continue
        for group, config in (table.get("subscriptionGroupTable") or {}).items():
            if isinstance(config, dict) and isinstance(config.get("retryMaxTimes"), int):
                found[group] = config["retryMaxTimes"]
    return found


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform and write. The same files give the same rows in the same order."""
    started = time.monotonic()
    if not spec.stores:
        return result(spark, spec, started=started, rows=0)
    report_step("dead_letters", len(spec.stores))
    messages = read_stores(spark, spec, CommitLogSource, all_times=True, topic_prefix=PREFIX).cache()
    units = read_stores(spark, spec, ConsumeQueueSource, topic_prefix=PREFIX).cache()
    at = ["cluster", "broker_name", "topic", "queue_id", "queue_offset"]
    letters = messages.filter(F.col("warning").isNull()).join(units.select(*at), at, "left_semi")
    requested = spark.createDataFrame(days(spec), "window_start_ms bigint, end_ms bigint")
    limits = spark.createDataFrame([*retry_limits(spec).items()], "group string, retry_max int")
    rows = stamped(transform(letters, requested, limits), spec, coverage(spark, spec))
    rows = rows.withColumns({"kind": F.lit("DLQ"), "broker_name": F.lit("")})
    order = (*ORDER, "cause")
    done = published(spark, spec, rows, SCHEMA, order, started=started, sources=[messages, units])
    for one in (messages, units):
        one.unpersist()
    return done


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
