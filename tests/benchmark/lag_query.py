"""Questions to lag history: `python -m tests.benchmark.lag_query` prints JSON.

    G10  a group of 20 queues at full resolution from day files: 24 h and 30 days; a group of 200 queues, 24 h
         (milliseconds, p50 and p99 over different groups; footers of the files known, as in a running console);
         and what a page asks for of the same group: a chart of 600 points, ages and bounds looked up
    G11  error of time lags as the collector's round makes them, in intervals, against messages whose store times are
         known

The day is made by the product from `tests.support.lag_reference`, hour by hour; the 30 days are that day with
its times moved. The naive ways stand beside: the same day in time order, and the age of the last consumed message.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.lag.history import chunk, compaction
from spark.lag.history.compaction import MergeInput
from spark.lag.round.round_arrays import age_of
from spark.lag.round.window import LagWindow
from spark.lag.snapshot import CommitKey, HeadKey
from tests.spark.lag.sample_history import snapshot
from tests.spark.lag.simulated import truth
from tests.support.lag_reference import HOUR_MS, START_MS, Reference, Size

DAY_MS = 24 * HOUR_MS
DAYS = 30
STEP_MS = 15_000


def write_day(size: Size, folder: Path) -> Path:
    """Make 24 hour files and merge them."""
    start_ms = START_MS - START_MS % DAY_MS
    reference = Reference(size, start_ms)
    inputs = []
    for hour in range(24):
        path = folder / f"hour-{hour}.parquet"
        heads, groups = zip(*reference.hour(), strict=True)
        chunk.write_blocks([*heads, *groups], str(path), interval_ms=size.interval_ms)
        inputs.append(
            MergeInput(chunk.opened(str(path)), start_ms + hour * HOUR_MS, start_ms + (hour + 1) * HOUR_MS)
        )
    day = folder / "day-0.parquet"
    compaction.DayMerge(inputs).write_bucket(str(day))
    return day


def move_days(day: Path, count: int) -> list[str]:
    """Write the same day again with later times."""
    paths = [str(day)]
    for number in range(1, count):
        path = str(day.with_name(f"day-{number}.parquet"))
        with chunk.ChunkWriter(path, whole_groups=True) as writer:
            table = chunk.read_chunk(str(day))
            for name in ("t0_ms", "prev_t_ms"):
                at = table.schema.get_field_index(name)
                table = table.set_column(at, table.schema.field(name), pc.add(table[name], number * DAY_MS))
            writer.write(table)
        paths.append(path)
    return paths


def milliseconds(
    work: Callable[[str], object], groups: Sequence[str], *, warm_up: int = 3
) -> dict[str, float]:
    for group in groups[:warm_up]:
        work(group)
    taken, cpu = [], []
    for group in groups:
        started, started_cpu = time.perf_counter(), time.process_time()
        work(group)
        cpu.append((time.process_time() - started_cpu) * 1000)
        taken.append((time.perf_counter() - started) * 1000)
    return {
        "p50_ms": round(float(np.median(taken)), 1),
        "p99_ms": round(float(np.percentile(taken, 99)), 1),
        "cpu_p50_ms": round(float(np.median(cpu)), 1),
        "cpu_p99_ms": round(float(np.percentile(cpu, 99)), 1),
    }


def queries(folder: Path, groups: int) -> dict[str, Any]:
    start_ms = START_MS - START_MS % DAY_MS
    small = Size(groups, 20)
    day = write_day(small, folder)
    gc.collect()
    gc.freeze()  # what made the files is in no console
    names = [f"group-{number:04}" for number in range(0, groups, max(1, groups // 50))]

    def one_day(group: str) -> int:
        return len(chunk.load_samples([str(day)], start_ms, start_ms + DAY_MS, group=group).t_ms)

    found: dict[str, Any] = {
        "series": groups * 20,
        "day_file_mb": round(day.stat().st_size / 1e6, 1),
        "samples": one_day(names[1]),
        "G10_20_queues_24h": {**milliseconds(one_day, names), "goal_p99_ms": 20},
        "naive_time_ordered_24h": milliseconds(time_ordered(day, folder), names[:5]),
    }
    paths = move_days(day, DAYS)
    end_ms = start_ms + DAYS * DAY_MS

    def month(group: str) -> int:
        return len(chunk.load_samples(paths, start_ms, end_ms, group=group).t_ms)

    found["G10_20_queues_30d"] = {**milliseconds(month, names[:20]), "goal_p99_ms": 100}
    found |= charts(paths, names[20:40], start_ms)
    (folder / "wide").mkdir()
    wide = write_day(Size(20, 200), folder / "wide")

    def many_queues(group: str) -> int:
        return len(chunk.load_samples([str(wide)], start_ms, start_ms + DAY_MS, group=group).t_ms)

    found["G10_200_queues_24h"] = {**milliseconds(many_queues, names[:1] * 20), "goal_p99_ms": 100}
    return found


def charts(paths: Sequence[str], groups: Sequence[str], start_ms: int) -> dict[str, Any]:
    """What the page of a group asks for, with the manifest in a database."""
    from console.lag.models import HistoryFile
    from console.lag.past import history_reads

    for number, path in enumerate(paths):
        HistoryFile.objects.create(
            path=Path(path).name,
            kind=HistoryFile.Kind.CHUNK_DAY,
            cluster="reference",
            ts_lo_ms=start_ms + number * DAY_MS,
            ts_hi_ms=start_ms + (number + 1) * DAY_MS,
        )
    end_ms = start_ms + len(paths) * DAY_MS

    def chart(days: int) -> Callable[[str], object]:
        return lambda group: history_reads.lag_series(
            "reference", group, end_ms - days * DAY_MS, end_ms, 600, interval_ms=STEP_MS
        )

    return {
        "chart_24h": milliseconds(chart(1), groups),
        "chart_30d_first_time": milliseconds(chart(30), groups[:8], warm_up=0),
        "chart_30d_again": milliseconds(chart(30), groups[:8]),
    }


def time_ordered(day: Path, folder: Path) -> Callable[[str], int]:
    """Write the day as rows in time order and return how a group is found in it."""
    path = folder / "rows.parquet"
    samples = chunk.decode_table(chunk.read_chunk(str(day)))
    groups = np.array([int(key.group[-4:] or -1) if key.group else -1 for key in samples.keys])
    order = np.argsort(samples.t_ms, kind="stable")
    series = samples.series[order]
    table = pa.table(
        {
            "t_ms": samples.t_ms[order],
            "group": groups[series].astype(np.int32),
            "sid": series.astype(np.int32),
            "max_offset": samples.max_offset[order],
            "committed": samples.committed[order],
        }
    )
    pq.write_table(table, path)

    def find(group: str) -> int:
        found = pq.read_table(path, filters=[("group", "=", int(group[-4:]))])
        return int(found.num_rows)

    return find


def accuracy(seeds: int) -> dict[str, Any]:
    """Time lags every 15 s of queues whose every message is known."""
    errors, last_consumed, bounds, untrue = [], [], 0, 0
    head, commit = HeadKey("orders", "broker-a", 0), CommitKey("billing", "orders", "broker-a", 0)
    for seed in range(seeds):
        real = truth(seed, messages=2_000)
        times = np.arange(0, int(real.stored_ms[-1]) + 60_000, STEP_MS, dtype=np.int64)
        samples = real.samples(times)
        window = LagWindow(STEP_MS)
        ages, is_bound = np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=np.bool_)
        for at, (t_ms, high, committed) in enumerate(
            zip(times.tolist(), samples.max_offset.tolist(), samples.committed.tolist(), strict=True)
        ):
            window.append(snapshot(t_ms, {head: (0, high)}, {commit: committed}, number=at))
            if high > committed:
                ages[at], is_bound[at] = age_of(window, head, committed)
        wanted = np.array([real.time_lag_ms(at) for at in times.tolist()])
        errors.append(np.abs(ages - wanted)[~is_bound])
        bounds += int(is_bound.sum())
        untrue += int((ages > wanted)[is_bound].sum())
        before = np.maximum(samples.committed - 1, 0)
        last_consumed.append(np.abs(times - real.stored_ms[before] - wanted))
    error = np.concatenate(errors) / STEP_MS
    naive = np.concatenate(last_consumed) / STEP_MS
    return {
        "rounds": len(error),
        "lower_bounds": bounds,
        "lower_bounds_above_the_truth": untrue,
        "G11_worst_in_intervals": round(float(error.max()), 3),
        "G11_goal_worst": 1,
        "G11_p99_in_intervals": round(float(np.percentile(error, 99)), 3),
        "G11_goal_p99": 0.667,
        "naive_age_of_last_consumed_p99_in_intervals": round(float(np.percentile(naive, 99)), 1),
        "broker_reads": 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=250)
    parser.add_argument("--seeds", type=int, default=40)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            TIDEMARK_DATA=folder, HISTORY_URL=f"file://{folder}", DJANGO_SETTINGS_MODULE="console.settings"
        )
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        found = {**queries(Path(folder), arguments.groups), **accuracy(arguments.seeds)}
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
