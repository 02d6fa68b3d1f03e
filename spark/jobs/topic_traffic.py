"""Traffic of each topic, message by message, from the store files of brokers: `python -m spark.jobs.topic_traffic`.

From commit logs: when, how large, how late. From consume queues: whether every record can be reached. Grain `topic`: a
row per topic and day; grain `hour`: per hour of it (`hour_ms`), from local midnight on.

    messages, size_bytes   records stored in the window and their bytes in the log; `body_bytes_mean`, `size_max_bytes`
    queues, tags           how many different ones had traffic
    peak_per_s             messages of the busiest minute per second
    store_delay_p50_ms,..  between the producer's clock when sending and the broker's when storing; the producer's clock
                           may be wrong, so a negative one is possible
    resent                 messages that were consumed before and came back (reconsume times above 0)
    undispatched           records no unit of a consume queue leads to: a broker that is being read while it runs has
                           some of the last moments; others cannot be consumed
    wrong_units            units that lead to a record of another size
"""

from __future__ import annotations

import sys
import time

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.job import JobResult, JobSpec
from spark.jobs.store_job import ORDER, coverage, day_start, published, read_stores, stamped
from spark.lag.local_time import HOUR_MS, MINUTE_MS
from spark.output.publish import result
from spark.process.job_process import main, report_step
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.sources.store import CommitLogSource, ConsumeQueueSource

SCHEMA = row_schema(
    KEY,
    WINDOW,
    pa.field("hour_ms", pa.int64()),
    *[
        pa.field(name, pa.int64())
        for name in ("messages", "size_bytes", "size_max_bytes", "queues", "tags", "resent")
    ],
    pa.field("body_bytes_mean", pa.float64()),
    pa.field("peak_per_s", pa.float64()),
    *[pa.field(f"store_delay_p{share}_ms", pa.int64()) for share in (50, 95, 99)],
    pa.field("first_ms", pa.int64()),
    pa.field("last_ms", pa.int64()),
    pa.field("undispatched", pa.int64()),
    pa.field("wrong_units", pa.int64()),
    pa.field("log_from_ms", pa.int64()),
    STAMP,
)


def transform(messages: DataFrame, units: DataFrame, spec: JobSpec) -> DataFrame:
    """Return rows of both grains, without the columns of every row. `messages` and `units`: rows of the two sources."""
    at = ("cluster", "broker_name", "topic", "queue_id", "queue_offset")
    known = units.filter(F.col("warning").isNull()).select(
        *at, F.col("commit_log_offset").alias("unit_offset"), F.col("size_bytes").alias("unit_size")
    )
    found = (
        messages.filter(F.col("warning").isNull())
        .join(known, list(at), "left")
        .withColumn("window_start_ms", day_start("store_timestamp_ms", spec))
        .withColumn("into_hour", (F.col("store_timestamp_ms") - F.col("window_start_ms")) % F.lit(HOUR_MS))
        .withColumn("hour_ms", F.col("store_timestamp_ms") - F.col("into_hour"))
        .withColumn("minute", F.floor(F.col("store_timestamp_ms") / F.lit(MINUTE_MS)))
        .withColumn("delay", F.col("store_timestamp_ms") - F.col("born_timestamp_ms"))
        .withColumn("leads_here", F.col("unit_offset") == F.col("commit_log_offset"))
    )
    days = _totals(found, "window_start_ms").withColumn("grain", F.lit("topic"))
    hours = _totals(found, "window_start_ms", "hour_ms").withColumn("grain", F.lit("hour"))
    return days.unionByName(hours, allowMissingColumns=True)


def _totals(found: DataFrame, *by: str) -> DataFrame:
    keys = ("cluster", "topic", *by)
    minutes = found.groupBy(*keys, "minute").agg(F.count(F.lit(1)).alias("in_minute"))
    peaks = minutes.groupBy(*keys).agg(F.round(F.max("in_minute") / 60, 4).alias("peak_per_s"))
    totals = found.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("messages"),
        F.sum("size_bytes").alias("size_bytes"),
        F.max("size_bytes").cast("bigint").alias("size_max_bytes"),
        F.round(F.avg("body_bytes"), 2).alias("body_bytes_mean"),
        F.countDistinct("broker_name", "queue_id").alias("queues"),
        F.countDistinct("tags").alias("tags"),
        F.count_if(F.col("reconsume_times") > 0).alias("resent"),
        *[_discrete("delay", share).alias(f"store_delay_p{share}_ms") for share in (50, 95, 99)],
        F.min("store_timestamp_ms").alias("first_ms"),
        F.max("store_timestamp_ms").alias("last_ms"),
        F.count_if(~F.coalesce(F.col("leads_here"), F.lit(False))).alias("undispatched"),
        F.count_if(F.col("leads_here") & (F.col("unit_size") != F.col("size_bytes"))).alias("wrong_units"),
    )
    return totals.join(peaks, list(keys))


def _discrete(name: str, share: int) -> Column:
    """Return the smallest measured value with so many percent at or below it."""
    return F.expr(f"percentile_disc({share / 100}) within group (order by {name})").cast("bigint")


def kind_of(topic: Column) -> Column:
    """Return NORMAL, RETRY, DLQ, or SYSTEM for topics of the broker itself."""
    is_system = (
        topic.startswith("RMQ_SYS_")
        | topic.startswith("rmq_sys_")
        | topic.isin("SCHEDULE_TOPIC_XXXX", "TBW102")
    )
    return (
        F.when(topic.startswith("%RETRY%"), "RETRY")
        .when(topic.startswith("%DLQ%"), "DLQ")
        .when(is_system, "SYSTEM")
        .otherwise("NORMAL")
    )


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform and write. The same files give the same rows in the same order."""
    started = time.monotonic()
    if not spec.stores:
        return result(spark, spec, started=started, rows=0)
    report_step("stores", len(spec.stores))
    messages = read_stores(spark, spec, CommitLogSource).cache()
    units = read_stores(spark, spec, ConsumeQueueSource).cache()
    rows = stamped(transform(messages, units, spec), spec, coverage(spark, spec))
    rows = rows.withColumns({"kind": kind_of(F.col("topic")), "group": F.lit(""), "broker_name": F.lit("")})
    order = (*ORDER, "hour_ms")
    done = published(spark, spec, rows, SCHEMA, order, started=started, sources=[messages, units])
    for one in (messages, units):
        one.unpersist()
    return done


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
