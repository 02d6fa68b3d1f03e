"""Episodes of a past time: `python -m spark.episodes < spec.json`, one row for each (`spark.lag.episodes`).

The collector opens, extends and closes the episodes of now. This finds them in stored history by the same states, for
days of before: each UTC day is a window, so an episode that goes on over midnight has a row on both days, of which the
second `began_before` and the first `is_ongoing`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import SparkSession

from spark.job import JobResult, JobSpec
from spark.job_process import main
from spark.lag.episodes import Episode, episodes
from spark.lag.line import topic_lines
from spark.line_job import ORDER, Row, run_lines, shared
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.work import HistoryReader, Window

SCHEMA = row_schema(
    KEY,
    WINDOW,
    pa.field("start_ms", pa.int64()),
    pa.field("end_ms", pa.int64()),
    pa.field("duration_ms", pa.int64()),
    pa.field("began_before", pa.bool_()),
    pa.field("is_ongoing", pa.bool_()),
    pa.field("cause", pa.string()),
    pa.field("is_intentional", pa.bool_()),
    pa.field("slo_ms", pa.int64()),
    pa.field("peak_lag", pa.int64()),
    pa.field("peak_time_lag_ms", pa.int64()),
    pa.field("messages_late", pa.int64()),
    pa.field("lost", pa.int64()),
    pa.field("breach_ms", pa.int64()),
    pa.field("worst_queue", pa.string()),
    pa.field("committed_offset", pa.int64()),
    pa.field("max_offset", pa.int64()),
    pa.field("forecast_at_ms", pa.int64()),
    pa.field("forecast_ms", pa.int64()),
    pa.field("forecast_lo_ms", pa.int64()),
    pa.field("forecast_hi_ms", pa.int64()),
    pa.field("drained_ms", pa.int64()),
    STAMP,
)


def episode_rows(windows: Iterable[Window], reader: HistoryReader) -> Iterator[Row]:
    """The episodes of some groups, by topic, kind and time."""
    item, spec = reader.item, reader.spec
    for key, line in sorted(topic_lines(window.grid for window in windows).items()):
        row = shared(line, key, item, spec)
        for one in episodes(key, line, item.from_ms, item.to_ms, reader.slo_of(key.group)):
            yield {**row, "grain": "episode", **_figures(one)}


def _figures(one: Episode) -> Row:
    return {
        **{name: value for name, value in asdict(one).items() if name not in ("is_open", "has_ended")},
        "is_ongoing": one.is_open,
        "duration_ms": one.end_ms - one.start_ms,
        "drained_ms": one.recovered_ms,
    }


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform, write. The same spec writes the same rows in the same order."""
    return run_lines(spark, spec, episode_rows, SCHEMA, order=(*ORDER, "kind", "start_ms"))


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
