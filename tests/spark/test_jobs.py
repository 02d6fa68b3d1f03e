"""Every job over lag history on real Spark: written once, written again the same, named damage, and SQL agrees."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.job import HOUR_MS, HourFiles, JobSpec
from tests.support.lag_reference import SIZES, START_MS, write_history

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
HOURS = 3
DAY_START = START_MS - START_MS % (24 * HOUR_MS)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("reference")
    return [str(folder / row.path) for row in write_history(SIZES["small"], folder, HOURS)]


def spec(job: str, files: list[str], folder: Path, **changes: Any) -> JobSpec:
    values: dict[str, Any] = {
        "job": job,
        "job_id": "report-1",
        "from_ms": DAY_START,
        "to_ms": DAY_START + 24 * HOUR_MS,
        "hours": tuple(
            HourFiles("reference", START_MS + i * HOUR_MS, (path,), tuple(files[:i]))
            for i, path in enumerate(files)
        ),
        "output": str(folder / job),
        "as_of_ms": START_MS + HOURS * HOUR_MS,
        "interval_ms": 15_000,
        "clients": {"group-0000": 4},
    }
    return JobSpec(**{**values, **changes})


def written(asked: JobSpec) -> tuple[bytes, list[dict[str, Any]]]:
    (path,) = Path(asked.output).glob("*.parquet")
    return path.read_bytes(), pq.read_table(path).to_pylist()


@pytest.mark.parametrize("job", ["lag_day", "episodes", "capacity", "forecast_scorecard"])
def test_it_writes_the_same_rows_each_time(
    job: str, spark: SparkSession, history: list[str], tmp_path: Path
) -> None:
    run = import_module(f"spark.{job}").run
    asked = spec(job, history, tmp_path)
    result = run(spark, asked)
    first, rows = written(asked)
    assert (result.rows, result.hours, result.warnings) == (len(rows), HOURS, ())
    assert rows and {row["job_id"] for row in rows} == {"report-1"}
    assert {row["generated_at_ms"] for row in rows} == {asked.as_of_ms}
    assert {row["window_start_ms"] for row in rows} == {DAY_START}
    (tmp_path / job / "left by a job that was killed.parquet").write_bytes(first[:100])
    run(spark, asked)
    assert written(asked)[0] == first
    if job == "capacity":
        clients = {row["group"]: (row["clients"], row["consumers_needed"]) for row in rows}
        assert clients["group-0000"][0] == 4 and clients["group-0000"][1] >= 1
        assert clients["group-0001"] == (None, None)
    if job == "forecast_scorecard":
        (whole,) = [row for row in rows if row["grain"] == "cluster"]
        groups = [row for row in rows if row["grain"] == "group"]
        assert whole["forecasts"] == sum(row["forecasts"] for row in groups)


def test_it_names_a_broken_chunk_and_computes_the_rest(
    spark: SparkSession, history: list[str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.parquet"
    data = bytearray(Path(history[1]).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2_000] = bytes(2_000)
    broken.write_bytes(bytes(data))
    asked = spec("lag_day", [history[0], str(broken), history[2]], tmp_path)
    result = import_module("spark.lag_day").run(spark, asked)
    (warning,) = result.warnings
    assert warning.startswith(f"{broken}: ")
    assert result.rows > 0


HIGHER_ORDER = """
with chunk as (select * from parquet.`{path}` where kind = 'GROUP'),
figures as (
  select group, topic, broker_name, queue_id,
    coalesce(aggregate(dmax, 0L, (total, d) -> total + greatest(d, 0)), 0L)
      + if(t0_ms - prev_t_ms between 1 and 60000, greatest(max0 - prev_max, 0L), 0L) as produced,
    transform(coalesce(lag, array_repeat(0, n)), one -> greatest(lag_base + one, 0L)) as waiting,
    n, min_last <= max0 - array_max(coalesce(lag, array(0))) - lag_base as nothing_lost
  from chunk
),
ordered as (select *, array_sort(waiting) as ranked from figures)
select group, topic, broker_name, queue_id, produced, array_max(waiting) as lag_max, waiting[n - 1] as lag_last,
  ranked[cast(ceil(0.50 * n) as int) - 1] as lag_p50, ranked[cast(ceil(0.95 * n) as int) - 1] as lag_p95,
  ranked[cast(ceil(0.99 * n) as int) - 1] as lag_p99
from ordered where nothing_lost
"""


def test_it_agrees_with_higher_order_functions_of_spark_sql(
    spark: SparkSession, history: list[str], tmp_path: Path
) -> None:
    asked = spec("lag_hour", history, tmp_path)
    (hour,) = asked.hours[1:2]
    import_module("spark.lag_hour").run(spark, spec("lag_hour", history, tmp_path, hours=(hour,)))
    names = ("group", "topic", "broker_name", "queue_id")
    found = {tuple(row[name] for name in names): row for row in written(asked)[1] if row["grain"] == "queue"}
    by_sql = [row.asDict() for row in spark.sql(HIGHER_ORDER.format(path=history[1])).collect()]
    compared = 0
    for row in by_sql:
        key = tuple(row[name] for name in names)
        if key in found and found[key]["partial_samples"] == 0:
            assert {name: found[key][name] for name in row} == row, key
            compared += 1
        elif key not in found:
            assert (row["produced"], row["lag_max"]) == (0, 0)
    assert compared > 50
    top = pq.read_table(Path(asked.output) / "topn").to_pylist()
    worst = [row["value"] for row in sorted(top, key=lambda row: row["rank"]) if row["by"] == "time_lag"]
    topics = [row["time_lag_max_ms"] for row in written(asked)[1] if row["grain"] == "topic"]
    assert worst == sorted((float(age) for age in topics if age), reverse=True)[:50]
