"""How good drain forecasts were: `python -m spark.jobs.forecast_scorecard < spec.json`.

For every backlog of a queue in a day the forecast of the live pages (`spark.lag.forecast.drain`) is made again
every five minutes from what was known then, and compared with what came. Grain `group`: one row per group-topic that
had a backlog; grain `cluster`: all of them together.

    backlogs, forecasts   how many there were; `judged` of the forecasts gave a number and the end was seen
    mape_pct              mean of |forecast - actual| / actual over those judged
    banded, covered       forecasts with a band, and those whose band holds the actual; `covered_pct`
    backlogs_covered      backlogs whose first banded forecast holds the actual, of `backlogs_banded`
    said_never            forecasts of "never"; `never_wrong` of them were of backlogs that did end in the day
    unseen                forecasts whose end was not seen (the day or a gap in the data cut it): not judged
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.job import JobResult, JobSpec
from spark.jobs.line_job import Row, run_lines, shared
from spark.lag.folds.line import Line, late_queue_lines
from spark.lag.folds.replay import Forecast, backlogs, forecasts
from spark.process.job_process import main
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.sources.work import HistoryReader, Window

COUNTS = (
    "backlogs", "forecasts", "judged", "banded", "covered", "backlogs_banded", "backlogs_covered", "said_never",
    "never_wrong", "unseen",
)  # fmt: skip
SCHEMA = row_schema(
    KEY,
    WINDOW,
    *[pa.field(name, pa.int64()) for name in COUNTS],
    pa.field("error_sum", pa.float64()),
    pa.field("mape_pct", pa.float64()),
    pa.field("covered_pct", pa.float64()),
    pa.field("backlogs_covered_pct", pa.float64()),
    STAMP,
)


def score_rows(windows: Iterable[Window], reader: HistoryReader) -> Iterator[Row]:
    """Return the scores of the queues of some groups that were ever behind."""
    for key, line in sorted(late_queue_lines(window.grid for window in windows).items()):
        row = shared(line, key, reader.item, reader.spec)
        yield from ({**row, **score} for score in scores(line))


def scores(line: Line) -> Iterator[Row]:
    """Return the score of one line; none where nothing was forecast."""
    counts = dict.fromkeys(COUNTS, 0)
    error_sum = 0.0
    for backlog in backlogs(line):
        made = list(forecasts(line, backlog))
        counts["backlogs"] += bool(made)
        is_first = True
        for one in made:
            _count(counts, one)
            if one.ms is not None and one.actual_ms:
                error_sum += abs(one.ms - one.actual_ms) / one.actual_ms
            if is_first and _has_band(one) and one.actual_ms is not None:
                is_first = False
                counts["backlogs_banded"] += 1
                counts["backlogs_covered"] += _is_covered(one)
    if counts["forecasts"]:
        yield {"grain": "queue", **counts, "error_sum": round(error_sum, 6)}


def _count(counts: dict[str, int], one: Forecast) -> None:
    counts["forecasts"] += 1
    counts["said_never"] += one.never
    if one.actual_ms is None:
        counts["unseen"] += 1
        return
    counts["never_wrong"] += one.never
    counts["judged"] += one.ms is not None
    if _has_band(one):
        counts["banded"] += 1
        counts["covered"] += _is_covered(one)


def _has_band(one: Forecast) -> bool:
    return one.ms is not None and one.low_ms is not None


def _is_covered(one: Forecast) -> bool:
    assert one.actual_ms is not None and one.low_ms is not None
    return one.low_ms <= one.actual_ms and (one.high_ms is None or one.actual_ms <= one.high_ms)


def finish(rows: DataFrame) -> DataFrame:
    """Replace rows of queues by rows of group-topics and clusters, with shares."""
    broken, queues = rows.filter(F.col("warning").isNotNull()), rows.filter(F.col("warning").isNull())
    groups = _together(queues, "group", "kind", "group", "topic")
    clusters = _together(queues, "cluster")
    return groups.unionByName(clusters).unionByName(broken)


def _together(queues: DataFrame, grain: str, *by: str) -> DataFrame:
    added = queues.groupBy(
        "cluster", "window_start_ms", "window_end_ms", "interval_ms", *STAMP_NAMES, *by
    ).agg(
        F.max("incarnation").alias("incarnation"),
        F.min("coverage_pct").alias("coverage_pct"),
        F.max("max_gap_ms").alias("max_gap_ms"),
        *[F.sum(name).alias(name) for name in COUNTS],
        F.round(F.sum("error_sum"), 6).alias("error_sum"),
    )
    own = {
        "grain": F.lit(grain),
        **{name: F.lit("") for name in ("kind", "group", "topic", "broker_name") if name not in by},
        "queue_id": F.lit(-1),
        "mape_pct": _share("error_sum", "judged"),
        "covered_pct": _share("covered", "banded"),
        "backlogs_covered_pct": _share("backlogs_covered", "backlogs_banded"),
        "warning": F.lit(None).cast("string"),
    }
    return added.withColumns(own).select(*SCHEMA.names)


STAMP_NAMES = tuple(field.name for field in STAMP)


def _share(part: str, whole: str) -> Column:
    return F.when(F.col(whole) > 0, F.round(100.0 * F.col(part) / F.col(whole), 2))


def run(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Read, transform and write. The same spec writes the same rows in the same order."""
    return run_lines(spark, spec, score_rows, SCHEMA, finish=finish)


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read(), run))
