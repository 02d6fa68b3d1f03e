"""Goals of the Spark reports (lag.md 5): `python -m tests.benchmark.spark_reports [kernel] [hour] [day] [week] …`.

    kernel    what the rows of the hour cost without Spark, in one process
    hour      G1: the hourly report over one hour of the reference data, warm, result written
    day       G2: the daily report, of the folds that the hourly one stores and of samples alone; with fewer than 24
              hours or series the whole day is extrapolated, and marked so
    week      the weekly report the same way, extrapolated from the hours at hand
    capacity  the capacity report of the hours at hand within 2 GB
    task      G4: a run as the worker makes it, from taking it up to its rows in the database; the first has no JVM
    year      G3: the year, its last quarter and month of as many groups from kept daily rows, made without Spark
    episodes  the episodes report within 2 GB, with as many as a run takes over, made without Spark
    forecast  G13: drain forecasts of a replayed day against what came

CPU seconds (of this process and all below it) stand beside the clock's: on a busy machine only those can be compared.
A task's are not told: its processes are not those of this one.
`--size full` is the reference size (48 M samples an hour), `quarter` fits in five minutes; `--history` keeps the data
between calls. The naive way, in the same run: for hour and day the same samples as time-ordered rows, through Spark SQL
window functions and percentiles (with `--naive-groups` groups, because it takes minutes or all of the memory for more;
its samples per second are compared); for a task a process and a JVM a run; for forecasts a straight line from the
backlog's beginning. Prints a JSON object per part; what was not measured at the reference size but multiplied up says
`extrapolated`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from spark.job import HourFiles, JobResult, JobSpec
from spark.jobs import capacity, forecast_scorecard, lag_day, lag_hour, lag_week
from spark.lag.folds.line import late_queue_lines
from spark.lag.folds.replay import backlogs, forecasts
from spark.lag.local_time import HOUR_MS
from spark.output.lag_rows import hour_rows
from spark.process.session import build_session, package_shipped
from spark.sources.work import HistoryReader, work_items
from tests.support.lag_reference import SIZES, START_MS, Reference, Size, write_history

PARTS = ["kernel", "hour", "day", "week", "capacity", "task", "year", "episodes", "forecast"]
HOUR_OF_REFERENCE = 1_000 * 200 * 240
HOURS_OF = {"day": 24, "week": 7 * 24}
RunJob = Callable[[SparkSession, JobSpec], JobResult]
NAIVE = """
with deltas as (
  select *, greatest(high - greatest(committed, low), 0) as lag, high - lag(high) over w as dhigh,
    committed - lag(committed) over w as dc
  from samples window w as (partition by group, topic, broker, queue order by t)
),
rounds as (
  select group, topic, t, sum(lag) as lag, sum(greatest(dhigh, 0)) as produced, sum(greatest(dc, 0)) as consumed
  from deltas group by group, topic, t
)
select group, topic, count(*) as samples, max(lag) as lag_max, percentile_approx(lag, array(0.5, 0.95, 0.99)) as lag_p,
  sum(produced) as produced, sum(consumed) as consumed
from rounds group by group, topic
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=PARTS)
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--hours", type=int, default=2, help="of reference data")
    parser.add_argument("--history", type=Path)
    parser.add_argument("--naive-groups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-benchmark-") as scratch:
        folder = asked.history or Path(scratch) / "history"
        _make(asked.size, folder, asked.hours)
        files = _history(SIZES[asked.size], folder, asked.hours)
        for found in measure(asked, files, Path(scratch), folder):
            print(json.dumps(found), flush=True)


def measure(
    asked: argparse.Namespace, files: list[str], scratch: Path, folder: Path
) -> Iterator[dict[str, Any]]:
    """What was measured, part by part: a run that is stopped has said what it knows."""
    size = SIZES[asked.size]
    per_hour = size.groups * size.queues * size.rounds
    yield {"size": asked.size, "samples_an_hour": per_hour, "cores": os.cpu_count(), "load": os.getloadavg()}
    if "kernel" in asked.parts:
        yield {"G1 kernel alone": _kernel(files, size)}
    if "task" in asked.parts:
        yield {"G4 task to report": _task(files, size, scratch, folder)}
    if "year" in asked.parts:
        yield {"G3 year report": _report_task("year", str(size.groups))}
    if "episodes" in asked.parts:
        yield {"episodes report": _report_task("episodes")}
    if {"hour", "day", "week", "capacity", "forecast"} & set(asked.parts):
        spark = build_session("tidemark benchmark", master="local[*]")
        with package_shipped(spark):
            if "hour" in asked.parts:
                yield {"G1 hourly report": _hour(spark, files, size, scratch, asked)}
                yield {"G1 naive": _naive(spark, size, asked.naive_groups, 1, scratch, HOUR_OF_REFERENCE)}
            if "day" in asked.parts:
                yield {
                    "G2 day report": {"goal_s": 30, **_sums(spark, lag_day.run, "day", files, size, scratch)}
                }
                groups = max(1, asked.naive_groups // len(files))
                yield {"G2 naive": _naive(spark, size, groups, len(files), scratch, HOUR_OF_REFERENCE * 24)}
            if "week" in asked.parts:
                yield {"week report": _sums(spark, lag_week.run, "week", files, size, scratch)}
            if "capacity" in asked.parts:
                yield {"capacity report": _capacity(spark, files, size, scratch)}
            if "forecast" in asked.parts:
                yield {"G13 forecasts": _forecast(spark, scratch)}
        spark.stop()


def _make(size: str, folder: Path, hours: int) -> None:
    """In a process of its own: what it takes of memory is not the report's."""
    if not (folder / "manifest.json").exists():
        command = [sys.executable, "-m", "tests.support.lag_reference", str(folder)]
        subprocess.run([*command, "--size", size, "--hours", str(hours)], check=True, capture_output=True)


def _history(size: Size, folder: Path, hours: int) -> list[str]:
    if not (folder / "manifest.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_history(size, folder, hours)
    rows = json.loads((folder / "manifest.json").read_text())
    return [str(folder / row["path"]) for row in rows[:hours]]


def _spec(
    job: str, files: list[str], size: Size, output: Path, *, only_last: bool = False, **changes: Any
) -> JobSpec:
    numbers = range(len(files))[-1:] if only_last else range(len(files))
    values: dict[str, Any] = {
        "job": job,
        "job_id": "benchmark",
        "from_ms": START_MS - START_MS % (24 * HOUR_MS),
        "to_ms": START_MS - START_MS % (24 * HOUR_MS) + 48 * HOUR_MS,
        "hours": tuple(
            HourFiles("reference", START_MS + i * HOUR_MS, (files[i],), content=f"hour {i}") for i in numbers
        ),
        "output": str(output),
        "as_of_ms": START_MS + len(files) * HOUR_MS,
        "interval_ms": size.interval_ms,
    }
    return JobSpec(**{**values, **changes})


def _kernel(files: list[str], size: Size) -> dict[str, Any]:
    """CPU seconds of one process: files read, rows made, nothing written."""
    items = work_items(_spec("lag_hour", files, size, Path("/nowhere"), only_last=True), period_ms=HOUR_MS)

    def rows() -> int:
        return sum(table.num_rows for item in items for table in hour_rows(item, []))

    rows()
    spent = min(_process_s(rows) for _ in range(3))
    samples = size.groups * size.queues * size.rounds
    return {
        "samples": samples,
        "cpu_s": round(spent, 3),
        "ns_a_sample": round(spent / samples * 1e9, 1),
        "load": os.getloadavg(),
    }


def _process_s(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _without_samples(spec: JobSpec) -> JobSpec:
    """The same files, asked for an hour that is not in them: what a run costs whatever it finds."""
    later_ms = 24 * HOUR_MS
    hours = tuple(
        msgspec.structs.replace(hour, hour_ms=hour.hour_ms + later_ms, older=()) for hour in spec.hours
    )
    return msgspec.structs.replace(
        spec, hours=hours, to_ms=spec.to_ms + later_ms, as_of_ms=spec.as_of_ms + later_ms
    )


def _hour(
    spark: SparkSession, files: list[str], size: Size, scratch: Path, asked: argparse.Namespace
) -> dict[str, Any]:
    spec = _spec("lag_hour", files, size, scratch / "hour", only_last=True)
    taken = []
    for number in range(
        asked.rounds + 1
    ):  # the folds of each run go elsewhere: none finds those of the run before
        one = msgspec.structs.replace(spec, folds=str(scratch / f"hour-folds-{number}"))
        taken.append(_timed(partial(lag_hour.run, spark, one)))
    seconds = [one.wall_s for one in taken]
    nothing = [_timed(lambda: lag_hour.run(spark, _without_samples(spec))) for _ in range(asked.rounds)]
    samples = size.groups * size.queues * size.rounds
    found: dict[str, Any] = {
        "goal_s": 2,
        "samples": samples,
        "first_s": round(seconds[0], 2),
        "warm_s": [round(one, 2) for one in seconds[1:]],
        "warm_cpu_s": [round(one.cpu_s, 2) for one in taken[1:]],
        "without_samples_s": [round(one.wall_s, 2) for one in nothing],
        "without_samples_cpu_s": [round(one.cpu_s, 2) for one in nothing],
        "load": os.getloadavg(),
        "samples_per_s": round(samples / min(seconds[1:])),
        "columns": len(lag_hour.COLUMNS),
        "rss_peak_mb": _rss_mb(),
    }
    if samples < HOUR_OF_REFERENCE:
        found["extrapolated_s_for_48_M_samples"] = round(min(seconds[1:]) * HOUR_OF_REFERENCE / samples, 2)
    return found


def _naive(
    spark: SparkSession, size: Size, groups: int, hours: int, scratch: Path, reference: int
) -> dict[str, Any]:
    """Rows of samples through window functions, the second time; `reference`: samples to multiply up to."""
    path = _time_ordered(size, groups, hours, scratch / f"naive-{hours}.parquet")

    def once() -> None:
        spark.read.parquet(path).createOrReplaceTempView("samples")
        spark.sql(NAIVE).write.mode("overwrite").parquet(str(scratch / "naive"))

    once()
    taken, cpu_s = _timed(once)
    samples = groups * size.queues * size.rounds * hours
    return {
        "samples": samples,
        "warm_s": round(taken, 2),
        "warm_cpu_s": round(cpu_s, 2),
        "samples_per_s": round(samples / taken),
        "columns": "7, without time lag, states, breach and latency",
        f"extrapolated_s_for_{reference / 1e6:.0f}_M_samples": round(taken * reference / samples, 1),
    }


def _time_ordered(size: Size, groups: int, hours: int, path: Path) -> str:
    """The same samples the way a plain collector would keep them: a row per sample, by time."""
    part = Size(groups, size.queues, size.interval_ms, size.brokers)
    reference = Reference(part)
    blocks = [samples for _ in range(hours) for _, samples in reference.hour()]
    names = [key for block in blocks for key in block.keys]
    counts = np.concatenate([block.counts for block in blocks])
    t_ms = np.concatenate([block.t_ms for block in blocks])
    order = np.argsort(t_ms, kind="stable")
    series = np.repeat(np.arange(len(names)), counts)[order]
    columns: dict[str, Any] = {"t": t_ms[order]}
    for name, place in (("group", 0), ("topic", 1), ("broker", 2), ("queue", 3)):
        columns[name] = pa.array([key[place] for key in names]).take(pa.array(series))
    for name, column in (("high", "max_offset"), ("low", "min_offset"), ("committed", "committed")):
        columns[name] = np.concatenate([getattr(block, column) for block in blocks])[order]
    pq.write_table(pa.table(columns), path, compression="snappy", row_group_size=1_000_000)
    return str(path)


def _sums(
    spark: SparkSession, run: RunJob, word: str, files: list[str], size: Size, scratch: Path
) -> dict[str, Any]:
    """The report of a day or a week: of the folds that the hourly one stores, and of samples."""
    folds = scratch / f"folds-{word}"
    for number in range(len(files)):
        hour = _spec("lag_hour", files, size, scratch / f"hour-of-{word}", folds=str(folds))
        lag_hour.run(spark, msgspec.structs.replace(hour, hours=hour.hours[number : number + 1]))
    samples = size.groups * size.queues * size.rounds * len(files)
    spec = _spec(f"lag_{word}", files, size, scratch / word, folds=str(folds))
    times = partial(_sum_times, spark, run, samples=samples, hours=HOURS_OF[word])
    return {
        "hours": len(files),
        "samples": samples,
        "stored_folds_bytes_a_sample": round(
            sum(path.stat().st_size for path in folds.rglob("*.parquet")) / samples, 3
        ),
        "of_stored_folds": times(spec),
        "of_samples": times(msgspec.structs.replace(spec, folds="")),
        "load": os.getloadavg(),
        "columns": len(lag_hour.COLUMNS),
        "rss_peak_mb": _rss_mb(),
    }


def _sum_times(
    spark: SparkSession, run: RunJob, spec: JobSpec, *, samples: int, hours: int
) -> dict[str, Any]:
    rows = run(spark, spec).rows
    seconds, cpu_s = _timed(lambda: run(spark, spec))
    whole = HOUR_OF_REFERENCE * hours
    return {
        "rows": rows,
        "warm_s": round(seconds, 2),
        "warm_cpu_s": round(cpu_s, 2),
        "samples_per_s": round(samples / seconds),
        f"extrapolated_s_for_{hours}_hours_of_48_M_samples": round(seconds * whole / samples, 1),
        "extrapolated_cpu_s_for_them": round(cpu_s * whole / samples, 1),
    }


def _capacity(spark: SparkSession, files: list[str], size: Size, scratch: Path) -> dict[str, Any]:
    spec = _spec("capacity", files, size, scratch / "capacity")
    rows = capacity.run(spark, spec).rows
    taken = _timed(lambda: capacity.run(spark, spec))
    return {
        "goal_rss_mb": 2_048,
        "rss_peak_mb": _rss_mb(),
        "rows": rows,
        "samples": size.groups * size.queues * size.rounds * len(files),
        "warm_s": round(taken.wall_s, 2),
        "warm_cpu_s": round(taken.cpu_s, 2),
        "load": os.getloadavg(),
    }


def _task(files: list[str], size: Size, scratch: Path, folder: Path) -> dict[str, Any]:
    """Runs as the console makes them, rows in its database included; the naive way: a process and a JVM per run."""
    spec = _spec("lag_hour", files, size, scratch / "task", only_last=True)
    command = [sys.executable, "-m", "spark.jobs.lag_hour"]
    naive = _timed(
        lambda: subprocess.run(command, input=spec.to_json(), text=True, check=True, capture_output=True)
    )
    return {
        "goal_cold_s": 9,
        "goal_warm_s": 2.5,
        "samples": size.groups * size.queues * size.rounds,
        "load": os.getloadavg(),
        "naive_own_jvm_without_publishing_s": round(naive.wall_s, 2),
        **_report_task("hour", str(folder), str(len(files)), str(size.interval_ms)),
    }


def _report_task(*given: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmark.report_task", *given]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def _forecast(spark: SparkSession, scratch: Path) -> dict[str, Any]:
    size = Size(40, 20, brokers=4)
    files = _history(size, scratch / "forecast-history", 12)
    spec = _spec("forecast_scorecard", files, size, scratch / "forecast")
    seconds = _timed(lambda: forecast_scorecard.run(spark, spec)).wall_s
    (path,) = Path(spec.output).glob("*.parquet")
    rows = [row for row in pq.read_table(path).to_pylist() if row["grain"] == "cluster"]
    names = (
        "backlogs", "backlogs_banded", "backlogs_covered_pct", "forecasts", "judged", "covered_pct", "mape_pct",
        "said_never", "unseen",
    )  # fmt: skip
    days = [{name: row[name] for name in names} for row in rows]
    return {
        "goal_covered_pct": 80,
        "seconds": round(seconds, 2),
        "days": days,
        "naive_straight_line": _straight_lines(spec),
    }


def _straight_lines(spec: JobSpec) -> dict[str, Any]:
    """The same moments, each forecast by how fast the backlog fell since it began: no band."""
    errors, silent = [], 0
    for item in work_items(spec, period_ms=24 * HOUR_MS):
        for windows in HistoryReader(item).blocks():
            for line in late_queue_lines(window.grid for window in windows).values():
                for backlog in backlogs(line):
                    for one in forecasts(line, backlog):
                        at = int(np.searchsorted(line.t_ms, one.at_ms))
                        fallen = int(line.lag[backlog.first] - line.lag[at])
                        if one.actual_ms and fallen > 0:
                            said = int(line.lag[at]) * (one.at_ms - int(line.t_ms[backlog.first])) / fallen
                            errors.append(abs(said - one.actual_ms) / one.actual_ms)
                        silent += one.actual_ms is not None and fallen <= 0
    mape = round(100 * float(np.mean(errors)), 2) if errors else None
    return {"judged": len(errors), "mape_pct": mape, "said_nothing": silent}


class Taken(NamedTuple):
    """By the clock, and by the processors of this process and all below it."""

    wall_s: float
    cpu_s: float


def _timed(work: Callable[[], object]) -> Taken:
    started, spent = time.perf_counter(), _cpu_s()
    work()
    return Taken(time.perf_counter() - started, _cpu_s() - spent)


def _cpu_s() -> float:
    """Of this process, all below it and all of them that have ended; a warm server is nobody's child and not in it."""
    ticks = 0
    for pid in _family():
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _family() -> set[int]:
    """This process and all below it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    family = {os.getpid()}
    while True:
        grown = family | {pid for pid, parent in parents.items() if parent in family}
        if grown == family:
            return family
        family = grown


def _rss_mb() -> dict[str, int]:
    """Peak memory of this process, and the sum over it and everything below it now (JVM, Python workers)."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    peaks = 0
    for pid in _family():
        with suppress(OSError):
            text = Path(f"/proc/{pid}/status").read_text()
            peaks += sum(
                int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmHWM")
            )
    return {
        "driver_python": own,
        "whole_family_sum_of_peaks": peaks,
    }


if __name__ == "__main__":
    main()
