"""The hourly lag job on real Spark and real history files, against literal rows and two independent oracles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.job import HourFiles, JobResult, JobSpec
from spark.lag_hour import COLUMNS, run
from tests.spark import lag_oracle
from tests.spark.history_files import AS_OF, HOUR, START, STEP, History, generated

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def history() -> History:
    return generated()


def spec(folder: Path, files: list[str], **changes: Any) -> JobSpec:
    values: dict[str, Any] = {
        "job": "lag_hour",
        "job_id": "report-1",
        "from_ms": START,
        "to_ms": START + 2 * HOUR,
        "hours": tuple(HourFiles("local", START + i * HOUR, tuple(files)) for i in (0, 1)),
        "output": str(folder / "out"),
        "as_of_ms": AS_OF,
        "interval_ms": STEP,
    }
    return JobSpec(**{**values, **changes})


def rows(result: JobResult) -> list[dict[str, Any]]:
    (path,) = Path(result.output).glob("*.parquet")
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def by_key(found: list[dict[str, Any]]) -> dict[lag_oracle.Key, dict[str, Any]]:
    names = ("window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
    return {tuple(row[name] for name in names): row for row in found}


def agree(
    found: dict[lag_oracle.Key, dict[str, Any]], expected: dict[lag_oracle.Key, dict[str, Any]]
) -> None:
    for key, figures in expected.items():
        assert {name: found[key][name] for name in figures} == figures, key


def test_it_agrees_with_plain_python_and_sql(spark: SparkSession, history: History, tmp_path: Path) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    result = run(spark, spec(tmp_path, files))
    assert (result.hours, result.warnings, result.spark_version) == (2, (), "4.3.0")
    table = rows(result)
    assert result.rows == len(table)
    assert list(table[0]) == COLUMNS
    found = by_key(table)
    assert list(found) == sorted(found) and len(found) == len(table)  # in the order of ORDER, no key twice
    hours = [(START, START + HOUR), (START + HOUR, AS_OF)]
    samples = [one for one in history.samples if one.t < AS_OF]
    expected = lag_oracle.rows(samples, hours, STEP)
    assert set(found) == set(expected)
    agree(found, expected)
    by_sql = lag_oracle.sql_rows(samples, STEP)
    assert set(by_sql) == {key for key in expected if key[1] == "topic"}
    agree(found, by_sql)


def test_it_says_what_happened_in_words_of_the_report(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    found = by_key(rows(run(spark, spec(tmp_path, files))))
    first = found[START, "topic", "analytics", "clicks", "", -1]
    assert (first["kind"], first["lost"], first["samples"], first["expected_samples"]) == (
        "GROUP",
        10,
        52,
        60,
    )
    assert (first["max_gap_ms"], first["coverage_pct"]) == (9 * STEP, 86.67)
    assert found[START, "topic", "billing", "orders", "", -1]["rewinds"] == 1
    assert found[START, "topic", "billing", "%RETRY%billing", "", -1]["kind"] == "RETRY"
    running = found[START + HOUR, "topic", "billing", "orders", "", -1]
    assert (running["window_end_ms"], running["expected_samples"]) == (AS_OF, 40)
    assert (running["samples"], running["partial_samples"], running["queues"]) == (35, 5, 2)
    # a queue without traffic or backlog is a row of its group and topic only
    assert (START, "topic", "quiet", "idle", "", -1) in found
    assert (START, "queue", "quiet", "idle", "broker-a", 0) not in found


def test_it_writes_the_same_bytes_again(spark: SparkSession, history: History, tmp_path: Path) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    written = []
    for order in (files, files[::-1]):
        run(spark, spec(tmp_path, order))
        (path,) = (tmp_path / "out").glob("*.parquet")
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_it_names_broken_files_and_computes_the_rest(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    first, *log = history.write_chunk(tmp_path), *history.write_log(tmp_path)
    garbage = tmp_path / "garbage.parquet"
    garbage.write_bytes(b"PAR1 this is none PAR1")
    foreign = tmp_path / "foreign.wal"
    foreign.write_bytes(b"another program's file, long enough for a header")
    flipped = bytearray(Path(log[-1]).read_bytes())
    flipped[60] ^= 1
    Path(log[-1]).write_bytes(bytes(flipped))
    gone = str(tmp_path / "gone.parquet")
    files = [str(garbage), first, str(foreign), gone, *log]
    result = run(spark, spec(tmp_path, files, as_of_ms=START + 2 * HOUR))
    assert [text.removeprefix(str(tmp_path)).split(": ")[:2] for text in result.warnings] == [
        [f"/{Path(log[-1]).name}", "damaged inside, read up to there"],
        ["/foreign.wal", "WalError"],
        ["/garbage.parquet", "ArrowInvalid"],
        ["/gone.parquet", "FileNotFoundError"],
    ]
    expected = lag_oracle.rows(history.samples, [(START, START + HOUR)], STEP)
    agree(by_key(rows(result)), expected)
    last_segment_ms = int(Path(log[-1]).stem)
    second = by_key(rows(result))[START + HOUR, "topic", "analytics", "clicks", "", -1]
    assert second["samples"] == (last_segment_ms - START - HOUR) // STEP


def test_it_makes_an_empty_report_of_a_window_without_hours(spark: SparkSession, tmp_path: Path) -> None:
    result = run(spark, spec(tmp_path, [], hours=()))
    assert (result.rows, result.hours, result.warnings) == (0, 0, ())
    assert not (tmp_path / "out").exists()
    future = run(spark, spec(tmp_path, [], as_of_ms=START))
    assert (future.rows, future.hours) == (0, 0)


def test_it_makes_no_rows_of_files_without_samples(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    later = spec(
        tmp_path,
        [history.write_chunk(tmp_path)],
        from_ms=START + 20 * HOUR,
        to_ms=START + 21 * HOUR,
        hours=(HourFiles("local", START + 20 * HOUR, (history.write_chunk(tmp_path),)),),
        as_of_ms=START + 21 * HOUR,
    )
    result = run(spark, later)
    assert (result.rows, result.hours, rows(result)) == (0, 1, [])
