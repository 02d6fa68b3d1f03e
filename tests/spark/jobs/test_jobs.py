"""Every job on real Spark: written once, written again the same, named damage, agreement with independent oracles.

One module, because a JVM takes seconds to start and tests are dealt out to processes by module.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.job import HourFiles, JobResult, JobSpec, StoreFolder
from spark.jobs import dead_letter, lag_day, lag_hour, lag_week, topic_traffic
from spark.jobs.store_job import coverage
from spark.lag.history import chunk
from spark.lag.history.files import filesystem_of, write_bytes
from spark.lag.local_time import HOUR_MS, MINUTE_MS, hour_of_week
from spark.lag.samples import SeriesKey
from spark.process.job_server import JOBS
from spark.sources.store_files import log_files, records
from tests.brokerd.store.stores import GOLDEN, unpack_golden
from tests.spark import lag_oracle
from tests.spark.history_files import AS_OF, HOUR, START, STEP, generated
from tests.spark.hours import an_hour
from tests.spark.lag import judged
from tests.spark.work_of import rows_of
from tests.support.lag_reference import SIZES, START_MS, write_history
from tests.support.s3_server import S3Server
from tests.support.spark_cluster import running_master, running_worker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
HOURS = 2
DAY_MS = 24 * HOUR_MS
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


def spec_of(job: str, history: list[str], store: Path | str, output: str, **changes: Any) -> JobSpec:
    """Ask for a job of what it reads: the reference's history, or the store of a broker."""
    if job in ("dead_letter", "topic_traffic"):
        return store_spec(store, Path(output), job, output=output, **changes)
    if job == "lag_week":
        monday_ms = START_MS - (START_MS + 3 * DAY_MS) % (7 * DAY_MS)
        changes |= {"from_ms": monday_ms, "to_ms": monday_ms + 7 * DAY_MS}
    return spec(job, history, Path(output), output=output, **changes)


@pytest.fixture(scope="module")
def alone(
    spark: SparkSession, history: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[JobSpec, JobResult]]:
    """Run a job here, once for all tests that look at it: what it was asked for and its result."""
    folder = tmp_path_factory.mktemp("alone")
    store = unpack_golden("5.3.3", folder / "golden")

    @functools.cache
    def run(job: str) -> tuple[JobSpec, JobResult]:
        asked = spec_of(job, history, store, str(folder / job))
        return asked, import_module(f"spark.jobs.{job}").run(spark, asked)

    return run


def written(asked: JobSpec) -> tuple[list[bytes], list[dict[str, Any]]]:
    """What is in the files, in the order of their names, and the rows."""
    paths = sorted(Path(asked.output).glob("*.parquet"))
    return [path.read_bytes() for path in paths], rows_of(asked.output)


@pytest.mark.parametrize("job", ["lag_day", "capacity", "forecast_scorecard"])
def test_it_writes_the_same_rows_each_time(
    job: str, spark: SparkSession, alone: Callable[[str], tuple[JobSpec, JobResult]]
) -> None:
    asked, result = alone(job)
    first, rows = written(asked)
    assert (result.rows, result.hours, result.warnings) == (len(rows), HOURS, ())
    assert rows and {row["job_id"] for row in rows} == {"report-1"}
    assert {row["generated_at_ms"] for row in rows} == {asked.as_of_ms}
    assert {row["window_start_ms"] for row in rows} == {DAY_START}
    (Path(asked.output) / "left by a job that was killed.parquet").write_bytes(b"PAR1 of a file")
    import_module(f"spark.jobs.{job}").run(spark, asked)
    assert written(asked)[0] == first
    if job == "capacity":
        clients = {row["group"]: (row["clients"], row["consumers_needed"]) for row in rows}
        assert clients["group-0000"][0] == 4 and clients["group-0000"][1] >= 1
        assert clients["group-0001"] == (None, None)
    if job == "forecast_scorecard":
        (whole,) = [row for row in rows if row["grain"] == "cluster"]
        groups = [row for row in rows if row["grain"] == "group"]
        assert whole["forecasts"] == sum(row["forecasts"] for row in groups)


def test_weeks_begin_on_monday_and_add_up_their_days(spark: SparkSession, tmp_path: Path) -> None:
    monday_ms = DAY_START + 4 * DAY_MS  # the reference begins on a Thursday
    files, before = [], None
    for number, start_ms in enumerate((monday_ms - 2 * HOUR_MS, monday_ms - HOUR_MS, monday_ms)):
        before = an_hour(number, start_ms, before)
        files.append(before.write(tmp_path / f"{number}.parquet"))
    hours = tuple(
        HourFiles("reference", monday_ms + (i - 2) * HOUR_MS, (path,), tuple(files[:i]))
        for i, path in enumerate(files)
    )
    window = {"from_ms": DAY_START, "to_ms": DAY_START + 7 * DAY_MS, "as_of_ms": monday_ms + HOUR_MS}
    asked = spec("lag_week", [], tmp_path, hours=hours, **window)
    result = lag_week.run(spark, asked)
    assert (result.hours, result.warnings) == (3, ())
    first, weeks = written(asked)
    assert {row["window_start_ms"] for row in weeks} == {monday_ms - 7 * DAY_MS, monday_ms}
    lag_hour.run(spark, spec("lag_hour", [], tmp_path, hours=hours, **window))
    by_hour = rows_of(tmp_path / "lag_hour")
    names = ("grain", "group", "topic", "broker_name", "queue_id")
    assert len(weeks) == len(
        {(row["window_start_ms"] >= monday_ms, *(row[n] for n in names)) for row in by_hour}
    )
    for week in weeks:
        own = [
            row
            for row in by_hour
            if all(row[name] == week[name] for name in names)
            and (row["window_start_ms"] >= monday_ms) == (week["window_start_ms"] == monday_ms)
        ]
        for name in ("produced", "consumed", "breach_ms"):
            assert week[name] == sum(row[name] for row in own), name
        for name in ("lag_max", "time_lag_max_ms"):
            assert week[name] == max(row[name] for row in own), name
        assert week["stall_ms_max"] >= max(
            row["stall_ms_max"] for row in own
        )  # it may go on over an hour's end
        length_ms = HOUR_MS if week["window_start_ms"] == monday_ms else 7 * DAY_MS
        assert week["window_end_ms"] == week["window_start_ms"] + length_ms
        # history begins two hours before Monday: what was before is no time of these rows
        assert sum(week["status_ms"]) == HOUR_MS * (1 if week["window_start_ms"] == monday_ms else 2)
    lag_week.run(spark, asked)
    assert written(asked)[0] == first


@pytest.mark.parametrize(
    ("sunday", "hours", "at_two"),
    [(dt.date(2026, 3, 29), 23, 0), (dt.date(2026, 10, 25), 25, 2)],
    ids=["clock-forward", "clock-back"],
)
def test_days_and_hours_of_week_follow_the_clock_of_the_zone(
    spark: SparkSession, tmp_path: Path, sunday: dt.date, hours: int, at_two: int
) -> None:
    """A Sunday of 23 or 25 hours and an hour on each side; in hour h of the wall clock h + 1 messages come a minute."""
    berlin = ZoneInfo("Europe/Berlin")
    midnights = [
        round(dt.datetime.combine(sunday + dt.timedelta(days), dt.time(), berlin).timestamp() * 1000)
        for days in (-1, 0, 1)
    ]
    start_ms, end_ms = midnights[1] - HOUR_MS, midnights[2] + HOUR_MS
    minutes = np.arange(start_ms, end_ms, MINUTE_MS)
    offsets = np.cumsum(
        [dt.datetime.fromtimestamp(at_ms / 1000, berlin).hour + 1 for at_ms in minutes.tolist()]
    )
    key = SeriesKey("billing", "orders", "broker-a", 0, 0)
    made = judged.queue(
        key, t_ms=minutes, high=offsets, committed=offsets, time_lag_ms=np.zeros_like(offsets)
    )
    files = []
    for at_ms in range(start_ms, end_ms, HOUR_MS):
        path = str(tmp_path / f"{at_ms}.parquet")
        chunk.write_chunk(
            chunk.encode_table(made.window(at_ms, at_ms + HOUR_MS), interval_ms=MINUTE_MS), path
        )
        files.append(HourFiles("local", at_ms, (path,)))
    asked = {
        "zone": "Europe/Berlin", "from_ms": start_ms, "to_ms": end_ms, "as_of_ms": end_ms, "hours": tuple(files),
        "interval_ms": MINUTE_MS,
    }  # fmt: skip
    rows = {}
    for run in (lag_day, lag_hour):
        job = run.__name__.rpartition(".")[2]
        assert run.run(spark, spec(job, [], tmp_path, **asked)).hours == hours + 2
        own = [row for row in rows_of(tmp_path / job) if row["grain"] == "topic"]
        rows[job] = sorted(own, key=lambda row: int(row["window_start_ms"]))
    days = rows["lag_day"]
    assert [(row["window_start_ms"], row["window_end_ms"]) for row in days] == list(
        pairwise([*midnights, end_ms])
    )
    assert [sum(row["status_ms"]) // HOUR_MS for row in days] == [1, hours, 1]
    # 300 messages a minute of each hour of a whole day; the first sample has none before it
    assert [row["produced"] for row in days] == [59 * 24, 60 * (300 + 3 * (at_two - 1)), 60]
    at_hour = [hour_of_week(row["window_start_ms"], "Europe/Berlin") for row in rows["lag_hour"]]
    two = 6 * 24 + 2
    assert at_hour == [5 * 24 + 23, 6 * 24, 6 * 24 + 1, *[two] * at_two, *range(two + 1, 7 * 24), 0]
    assert [row["produced"] for row in rows["lag_hour"][1:]] == [
        60 * (place % 24 + 1) for place in at_hour[1:]
    ]


def test_it_names_a_broken_chunk_and_computes_the_rest(
    spark: SparkSession, history: list[str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.parquet"
    data = bytearray(Path(history[1]).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2_000] = bytes(2_000)
    broken.write_bytes(bytes(data))
    asked = spec("lag_day", [history[0], str(broken)], tmp_path)
    result = import_module("spark.jobs.lag_day").run(spark, asked)
    (unread,) = result.unread
    assert (unread.path, result.warnings, result.lost_ms) == (str(broken), (), ())
    assert result.rows > 0


@pytest.mark.parametrize("job", ["lag_hour", "capacity"])
def test_it_says_of_which_periods_nothing_could_be_read(
    spark: SparkSession, history: list[str], tmp_path: Path, job: str
) -> None:
    """The volume is away: nothing is a result with no rows of a quiet day."""
    gone = str(tmp_path / "gone.parquet")
    result = import_module(f"spark.jobs.{job}").run(spark, spec(job, [gone], tmp_path))
    assert [file.path for file in result.unread] == [gone]
    assert result.rows == 0
    assert result.lost_ms == ((START_MS if job == "lag_hour" else DAY_START),)


HIGHER_ORDER = """
with chunk as (select * from parquet.`{path}` where kind = 'GROUP'),
figures as (
  select group, topic, broker_name, queue_id,
    coalesce(aggregate(dmax, 0L, (total, d) -> total + greatest(d, 0)), 0L)
      + if(prev_t_ms is null, 0L, greatest(max0 - prev_max, 0L)) as produced,
    transform(coalesce(lag, array_repeat(0, n)), one -> greatest(lag_base + one, 0L)) as waiting,
    n, min_last <= max0 - array_max(coalesce(lag, array(0))) - lag_base as nothing_lost
  from chunk
),
ordered as (select *, array_sort(waiting) as ranked from figures)
select group, topic, broker_name, queue_id, produced, array_max(waiting) as lag_max, waiting[n - 1] as lag_last
from ordered where nothing_lost
"""


def test_it_agrees_with_higher_order_functions_of_spark_sql(
    spark: SparkSession, history: list[str], tmp_path: Path
) -> None:
    asked = spec("lag_hour", history, tmp_path)
    (hour,) = asked.hours[1:2]
    import_module("spark.jobs.lag_hour").run(spark, spec("lag_hour", history, tmp_path, hours=(hour,)))
    names = ("group", "topic", "broker_name", "queue_id")
    found = {tuple(row[name] for name in names): row for row in written(asked)[1] if row["grain"] == "queue"}
    by_sql = [row.asDict() for row in spark.sql(HIGHER_ORDER.format(path=history[1])).collect()]
    compared = 0
    for row in by_sql:
        key = tuple(row[name] for name in names)
        if key in found and found[key]["partial_samples"] == 0 and found[key]["status_worst"] != "INVALID":
            assert {name: found[key][name] for name in row} == row, key
            compared += 1
        elif key not in found:
            assert (row["produced"], row["lag_max"]) == (0, 0)
    assert compared > 50
    top = pq.read_table(Path(asked.output) / "topn").to_pylist()
    worst = [row["value"] for row in sorted(top, key=lambda row: row["rank"]) if row["by"] == "time_lag"]
    topics = [row["time_lag_max_ms"] for row in written(asked)[1] if row["grain"] == "topic"]
    assert worst == sorted((float(age) for age in topics if age), reverse=True)[:50]


# --- lag_hour, against two oracles ---------------------------------------------------------------------------


def hour_spec(folder: Path, files: list[str], **changes: Any) -> JobSpec:
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


def test_an_hour_agrees_with_sql_over_its_file_in_order_and_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = generated()
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    result = lag_hour.run(spark, hour_spec(tmp_path, files))
    assert (result.hours, result.warnings, result.unread, result.spark_version) == (2, (), (), "4.3.0")
    first = written(hour_spec(tmp_path, files))[0]
    table = rows_of(result.output)
    assert result.rows == len(table)
    assert list(table[0]) == lag_hour.COLUMNS
    names = ("window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
    found = {tuple(row[name] for name in names): row for row in table}
    assert list(found) == sorted(found) and len(found) == len(table)  # in the order of ORDER, no key twice
    expected = lag_oracle.rows(files[:1], START, START + HOUR, STEP)
    shown = ("produced", "consumed", "lost", "rewinds", "samples", "lag_max", "lag_last", "breach_ms")
    for key, figures in expected.items():
        if (START, *key) in found:
            assert {name: found[START, *key][name] for name in shown} == {
                name: figures[name] for name in shown
            }, key
    assert len([key for key in found if key[0] == START]) > 8
    lag_hour.run(spark, hour_spec(tmp_path, files[::-1]))
    assert written(hour_spec(tmp_path, files))[0] == first


def test_a_window_without_samples_makes_an_empty_report(spark: SparkSession, tmp_path: Path) -> None:
    result = lag_hour.run(spark, hour_spec(tmp_path, [], hours=()))
    assert (result.rows, result.hours, result.warnings) == (0, 0, ())
    assert not (tmp_path / "out").exists()
    future = lag_hour.run(spark, hour_spec(tmp_path, [], as_of_ms=START))
    assert (future.rows, future.hours) == (0, 0)
    later = hour_spec(
        tmp_path,
        [],
        from_ms=START + 20 * HOUR,
        to_ms=START + 21 * HOUR,
        hours=(HourFiles("local", START + 20 * HOUR, (generated().write_chunk(tmp_path),)),),
        as_of_ms=START + 21 * HOUR,
    )
    result = lag_hour.run(spark, later)
    assert (result.rows, result.hours, rows_of(result.output)) == (0, 1, [])


# --- Jobs over store files -----------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """What a broker of RocketMQ 5.3.3 left."""
    return unpack_golden("5.3.3", tmp_path / "golden")


def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "5.3.3" / "expected.json").read_text())
    return found


def store_spec(store: Path | str, folder: Path, job: str, **changes: Any) -> JobSpec:
    stored = [one["storeTimestamp"] for one in expected()["messages"]]
    day = min(stored) - min(stored) % DAY_MS
    values: dict[str, Any] = {
        "job": job,
        "job_id": "report-1",
        "from_ms": day,
        "to_ms": day + DAY_MS,
        "hours": (),
        "output": str(folder / "out"),
        "as_of_ms": day + DAY_MS,
        "stores": (StoreFolder("local", "broker-a", str(store)),),
    }
    return JobSpec(**{**values, **changes})


def test_it_counts_what_apache_rocketmq_stored(alone: Callable[[str], tuple[JobSpec, JobResult]]) -> None:
    _, result = alone("topic_traffic")
    assert result.warnings == ()
    found = {row["topic"]: row for row in rows_of(result.output) if row["grain"] == "topic"}
    messages = expected()["messages"]
    count, size = Counter(one["topic"] for one in messages), Counter[str]()
    for one in messages:
        size[one["topic"]] += one["storeSize"]
    assert {topic: row["messages"] for topic, row in found.items()} == count
    assert {topic: row["size_bytes"] for topic, row in found.items()} == size
    assert found["%DLQ%GoldenStoreGroup"]["kind"] == "DLQ"
    assert found["GoldenStore"]["kind"] == "NORMAL"
    assert (found["GoldenStore"]["undispatched"], found["GoldenStore"]["wrong_units"]) == (0, 0)
    # the log began in this day: what came before it is not known
    assert 0 < found["GoldenStore"]["coverage_pct"] < 100
    assert found["GoldenStore"]["max_gap_ms"] == found["GoldenStore"]["log_from_ms"] % DAY_MS
    hours = [
        row for row in rows_of(result.output) if row["grain"] == "hour" and row["topic"] == "GoldenStore"
    ]
    assert sum(row["messages"] for row in hours) == count["GoldenStore"]


def test_a_log_is_kept_since_its_oldest_record_whatever_the_window(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    """A window that begins later is covered from its beginning on, also while no message comes."""
    oldest_ms = min(one["storeTimestamp"] for one in expected()["messages"])
    from_ms = oldest_ms - oldest_ms % DAY_MS + DAY_MS
    asked = store_spec(store, tmp_path, "topic_traffic", from_ms=from_ms, to_ms=from_ms + DAY_MS)
    assert [tuple(row) for row in coverage(spark, asked).collect()] == [("local", oldest_ms)]


def test_it_tells_why_letters_are_dead(
    spark: SparkSession, store: Path, tmp_path: Path, alone: Callable[[str], tuple[JobSpec, JobResult]]
) -> None:
    _, result = alone("dead_letter")
    (letter,) = [one for one in expected()["messages"] if one["topic"].startswith("%DLQ%")]
    (group,) = [row for row in rows_of(result.output) if row["grain"] == "group"]
    assert (group["group"], group["letters"], group["arrived"], group["peak_per_h"]) == (
        "GoldenStoreGroup",
        1,
        1,
        1,
    )
    assert group["oldest_ms"] == letter["storeTimestamp"]
    assert group["age_p50_ms"] == group["window_end_ms"] - letter["storeTimestamp"]
    assert group["life_p50_ms"] == letter["storeTimestamp"] - letter["bornTimestamp"]
    (cause,) = [row for row in rows_of(result.output) if row["grain"] == "cause"]
    assert (cause["topic"], cause["cause"]) == (letter["properties"]["RETRY_TOPIC"], "given up")
    later = dead_letter.run(
        spark,
        store_spec(
            store,
            tmp_path,
            "dead_letter",
            from_ms=group["window_start_ms"] + DAY_MS,
            to_ms=group["window_start_ms"] + 2 * DAY_MS,
            as_of_ms=group["window_start_ms"] + 2 * DAY_MS,
        ),
    )
    (group,) = [row for row in rows_of(later.output) if row["grain"] == "group"]
    assert (group["letters"], group["arrived"], group["peak_per_h"]) == (1, 0, 0)


def test_it_reads_damaged_and_cut_files_as_far_as_they_go(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    logs = [Path(path) for path in log_files(str(store / "commitlog"))]
    whole = [one for path in logs for one in records(str(path), pytest.fail)]
    assert len(whole) == len(expected()["messages"])
    cut = whole[-1].commit_log_offset + 50 - int(logs[-1].name)
    logs[-1].write_bytes(logs[-1].read_bytes()[:cut])  # a copy that was made while the broker wrote
    damaged = bytearray(logs[0].read_bytes())
    victim = whole[10]
    damaged[victim.commit_log_offset + 4] ^= 0xFF
    logs[0].write_bytes(bytes(damaged))
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    result = topic_traffic.run(spark, store_spec(store, tmp_path, "topic_traffic"))
    assert result.warnings == (
        f"{logs[0]}: no record at offset {victim.commit_log_offset}, read up to there",
        f"{logs[-1]}: ends inside a record at offset {whole[-1].commit_log_offset}",
    )
    second = int(logs[1].name)
    kept = [
        one
        for one in whole[:-1]
        if one.commit_log_offset < victim.commit_log_offset or one.commit_log_offset >= second
    ]
    assert sum(row["messages"] for row in rows_of(result.output) if row["grain"] == "topic") == len(kept)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_it_says_what_is_no_store(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="holds no commitlog: it is no store"):
        topic_traffic.run(spark, store_spec(tmp_path, tmp_path, "topic_traffic"))
    result = topic_traffic.run(spark, store_spec(tmp_path, tmp_path, "topic_traffic", stores=()))
    assert (result.rows, result.warnings) == (0, ())


# --- On a standalone cluster whose two workers share no folder: history and rows are on an S3 server -----------


@pytest.fixture
def cluster(tmp_path: Path, s3_server: S3Server) -> Iterator[str]:
    """A master and two workers of one core each; executors begin in their worker's own folder."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with (
        running_master(folder) as master,
        running_worker(master, folder, "first", cores=1),
        running_worker(master, folder, "second", cores=1),
    ):
        yield master


def answers(specs: list[JobSpec], folder: Path) -> list[dict[str, Any] | str]:
    """What one process answers to specs, in turn: results, or the text of an error, after which it ends."""
    found: list[dict[str, Any] | str] = []
    talk = []
    with (
        (folder / "talk").open("a") as log,
        subprocess.Popen(
            [sys.executable, "-m", "spark.process.job_server", "60"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(one.to_json() + "\n" for one in specs))
        process.stdin.flush()
        for line in process.stdout:
            kind, _, text = line.strip().partition(" ")
            talk.append(line)
            if kind in ("RESULT", "ERROR"):
                found.append(json.loads(text) if kind == "RESULT" else text)
            if len(found) == len(specs):
                break
        process.stdin.close()
    assert len(found) == len(specs), "".join(talk) + (folder / "talk").read_text()[-3_000:]
    return found


def rows_at(url: str) -> list[dict[str, Any]]:
    filesystem, folder = filesystem_of(url)
    paths = sorted(path for path in filesystem.ls(folder, detail=False) if path.endswith(".parquet"))
    rows = []
    for path in paths:
        with filesystem.open(path, "rb") as file:
            rows += pq.read_table(file).to_pylist()
    return rows


@pytest.mark.timeout(900)
def test_every_job_runs_without_a_folder_that_all_share(
    cluster: str,
    s3_server: S3Server,
    alone: Callable[[str], tuple[JobSpec, JobResult]],
    history: list[str],
    tmp_path: Path,
) -> None:
    stored = []
    for path in history:
        stored.append(f"{s3_server.url}/history/{Path(path).parent.name}-{Path(path).name}")
        write_bytes(stored[-1], Path(path).read_bytes())
    store = unpack_golden("5.3.3", tmp_path / "golden")
    for path in (path for path in store.rglob("*") if path.is_file() and path.stat().st_size):
        write_bytes(f"{s3_server.url}/store/{path.relative_to(store)}", path.read_bytes())

    def asked(job: str, output: str) -> JobSpec:
        return spec_of(job, stored, f"{s3_server.url}/store", output, master=cluster)

    # a folder that all do share, and at last the memory of each executor: what it wrote is not where the driver looks
    shared = spec_of("lag_hour", history, store, str(tmp_path / "shared"), master=cluster)
    there = [asked(job, f"{s3_server.url}/reports/{job}") for job in JOBS]
    *results, in_folder, error = answers([*there, shared, asked("lag_hour", "memory://rows")], tmp_path)
    for job, result in zip(JOBS, results, strict=True):
        _, here = alone(job)
        assert isinstance(result, dict), (job, result)
        assert (result["warnings"], here.warnings) == ([], ()), job
        rows = rows_at(f"{s3_server.url}/reports/{job}")
        assert rows == rows_of(here.output) != [], job
        assert result["rows"] == here.rows == len(rows), job
    assert isinstance(in_folder, dict)
    assert rows_of(tmp_path / "shared") == rows_of(alone("lag_hour")[0].output)
    assert isinstance(error, str)
    assert "Set REPORTS_URL to storage that the console and every Spark worker share." in error
    assert s3_server.count("COPY") == 0
