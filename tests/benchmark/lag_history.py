"""Lag history on disk: `python -m tests.benchmark.lag_history [--groups 1000]` prints JSON.

    G6   a snapshot made durable by the product's log: milliseconds of all rounds, those included that begin a segment,
         beside what the same disk takes for the same bytes in the same minute; bytes a series
    G8   bytes a sample of the hour's chunk
    G9   an hour of rounds to a chunk, on one core: seconds for 48 M samples

Reference data: `tests.support.lag_reference`, 1,000 groups x 200 queues every 15 s (48 M group samples an hour, and
9.6 M of heads). Each goal stands beside the naive way, measured in the same run on a part of the data and scaled.
Seconds of G9 are the process's CPU time: it runs on one core, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark.lag.history import chunk, compaction, wal
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Int64Array, Snapshot
from tests.support.lag_reference import SIZES, Reference, Size

TARGET_SAMPLES = 48_000_000
# figures of a snapshot, and the columns of samples that they are
FROM_HEADS = {
    "max_offset": "max_offset",
    "min_offset": "min_offset",
    "head_status": "status",
    "oldest_ms": "oldest_ms",
}
FROM_GROUPS = {name: name for name in ("committed", "pulled", "time_lag_ms", "status", "flags")}


def rounds_of(size: Size) -> list[Snapshot]:
    """The next hour as the collector's snapshots: keys are the same lists in every round, as they are there."""
    reference = Reference(replace(size, silent_broker_hour=None))
    head_keys: list[HeadKey] = []
    commit_keys: list[CommitKey] = []
    figures: dict[str, list[Any]] = {name: [] for name in (*FROM_HEADS, *FROM_GROUPS)}
    for heads, groups in reference.hour():
        head_keys += [HeadKey(*key[1:]) for key in heads.keys]
        commit_keys += [CommitKey(*key) for key in groups.keys]
        for names, samples in ((FROM_HEADS, heads), (FROM_GROUPS, groups)):
            for name, column in names.items():
                figures[name].append(getattr(samples, column).reshape(-1, size.rounds))
    times = groups.t_ms[: size.rounds]
    by_round = {name: np.ascontiguousarray(np.concatenate(one).T) for name, one in figures.items()}
    return [
        Snapshot(
            int(times[at]),
            at,
            head_keys=head_keys,
            commit_keys=commit_keys,
            **{name: values[at] for name, values in by_round.items()},
        )
        for at in range(size.rounds)
    ]


def cpu_s(work: Callable[[], object], repeat: int = 3) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def hour_compaction(snapshots: list[Snapshot]) -> dict[str, Any]:
    samples = len(snapshots) * len(snapshots[0].commit_keys)
    sinks: list[io.BytesIO] = []

    before = replace(snapshots[0], ts_ms=snapshots[0].ts_ms - 15_000)

    def write() -> None:
        sinks[:] = [io.BytesIO()]
        compaction.write_hour(snapshots, sinks[0], interval_ms=15_000, previous=before)

    seconds = cpu_s(write)
    part = cut(snapshots, 50_000)
    part_samples = len(part) * len(part[0].commit_keys)
    naive = cpu_s(lambda: chunk.compact(part, interval_ms=15_000), 1)
    size_bytes = len(sinks[0].getvalue())
    return {
        "G9_seconds_per_48M": round(seconds * TARGET_SAMPLES / samples, 2),
        "G9_goal": 2.5,
        "G9_naive_sort_all_samples_seconds_per_48M": round(naive * TARGET_SAMPLES / part_samples, 1),
        "samples": samples,
        "head_samples_beside": len(snapshots) * len(snapshots[0].head_keys),
        "G8_bytes_per_group_sample": round(size_bytes / samples, 3),
        "G8_bytes_per_sample_with_heads": round(
            size_bytes / (samples + len(snapshots) * len(snapshots[0].head_keys)), 3
        ),
        "G8_goal": 0.9,
        "G8_naive_rows_bytes_per_sample": round(naive_bytes(part) / part_samples, 1),
        "G8_tb_per_year_at_15s": round(size_bytes * 24 * 365 / 1e12 * TARGET_SAMPLES / samples, 3),
    }


def whole_hour(samples: int, hour_ms: int) -> dict[str, Any]:
    """What the hourly task does with the log that `durable` wrote: read it, make the file, read that back."""
    from console.lag.history import archive

    begin, begin_cpu = time.perf_counter(), time.process_time()
    made = archive.compact_hour("reference", hour_ms, interval_ms=15_000, now_ms=hour_ms + 2 * 3_600_000)
    assert made is not None
    seconds = time.process_time() - begin_cpu
    return {
        "G9_task_from_log_to_manifest_cpu_seconds_per_48M": round(seconds * TARGET_SAMPLES / samples, 2),
        "G9_task_wall_seconds": round(time.perf_counter() - begin, 2),
    }


def cut(snapshots: list[Snapshot], commits: int) -> list[Snapshot]:
    keys = snapshots[0].commit_keys[:commits]
    wanted = {key.head for key in keys}
    at = [number for number, key in enumerate(snapshots[0].head_keys) if key in wanted]
    heads = [snapshots[0].head_keys[number] for number in at]
    return [
        replace(
            one,
            head_keys=heads,
            commit_keys=keys,
            **{name: getattr(one, name)[at] for name in FROM_HEADS},
            **{name: getattr(one, name)[:commits] for name in FROM_GROUPS},
        )
        for one in snapshots
    ]


def naive_bytes(snapshots: list[Snapshot]) -> int:
    """Time-ordered rows with default settings, as a first design would write them: time, series, max, committed."""
    sample = from_snapshots(snapshots).select(lambda key: bool(key.group))
    order = np.argsort(sample.t_ms, kind="stable")
    series: Int64Array = sample.series[order]
    table = pa.table(
        {
            "ts": sample.t_ms[order],
            "sid": series.astype(np.int32),
            "max_offset": sample.max_offset[order],
            "committed": sample.committed[order],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return len(sink.getvalue())


def durable(snapshots: list[Snapshot]) -> dict[str, Any]:
    """Append every round with the product's log. Behind the last one the disk alone is asked: as many bytes each time,
    written and synced by nobody but a loop. Not between the rounds: files that grow leave the journal busy, and the
    log's next sync would wait for the benchmark.
    """
    from console.lag.history.log import HistoryLog

    log = HistoryLog("reference")
    encode, whole, disk, small, cpu, ahead = [], [], [], [], [], []
    synced: list[float] = []
    written: list[int] = []
    sizes: list[int] = []
    with tempfile.TemporaryDirectory(dir=os.environ["TIDEMARK_DATA"]) as folder, _timed_sync(synced, written):
        log.append(
            replace(snapshots[0], ts_ms=snapshots[0].ts_ms - wal.SEGMENT_MS)
        )  # names every series once
        log.prepare(snapshots[0].ts_ms)
        synced.clear()
        gc.disable()  # as `console.lag.services.collect` does for a round
        for one in snapshots:
            written.clear()
            begin, begin_cpu = time.perf_counter(), time.process_time()
            log.append(one)
            whole.append((time.perf_counter() - begin) * 1000)
            cpu.append((time.process_time() - begin_cpu) * 1000)
            sizes.append(sum(written))
            encode.append(whole[-1] - synced[-1])
            begin, own_syncs = time.perf_counter(), len(synced)
            log.prepare(one.ts_ms + 15_000)  # as the collector does after a round, while nobody waits
            if len(synced) > own_syncs:
                ahead.append((time.perf_counter() - begin) * 1000)
                del synced[own_syncs:]
        gc.enable()
        for size in sizes:
            disk.append(_appended(Path(folder, "disk"), os.urandom(size)))
            small.append(_appended(Path(folder, "small"), os.urandom(4096)))
        naive = [_parquet_file(Path(folder, str(number)), one) for number, one in enumerate(snapshots[:10])]
    series = len(snapshots[0].commit_keys) + len(snapshots[0].head_keys)
    return {
        "G6_ms": _spread(whole),
        "G6_goal_ms_p99": 10,
        "G6_of_it_cpu_ms": _spread(cpu),
        "G6_of_it_waiting_for_the_disk_ms": _spread(synced[: len(whole)]),
        "G6_of_it_the_rest_ms": _spread(encode),
        "G6_disk_alone_same_bytes_ms": _spread(disk),
        "G6_disk_alone_4_KiB_ms": _spread(small),
        "G6_p99_by_disk_alone": round(_p99(whole) / _p99(disk), 2),
        "G6_rounds_that_name_every_series": sum(size > 2 * statistics.median(sizes) for size in sizes),
        "G6_written_ahead_between_rounds_ms": {"times": len(ahead), **_spread(ahead)},
        "G6_bytes_per_series": round(_log_bytes(log.folder) / len(sizes) / series, 2),
        "G6_goal_bytes_per_series": 3,
        "G6_naive_parquet_file_each_ms_p50": round(statistics.median(naive), 1),
        "series": series,
    }


def _log_bytes(folder: Path) -> int:
    """Bytes of a log's segments, names that were written ahead too, room that no round has taken yet not."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in folder.glob("*.*"))


@contextmanager
def _timed_sync(taken: list[float], written: list[int]) -> Iterator[None]:
    """Note how long each sync of a log takes, and the bytes it writes."""
    sync, write = os.fdatasync, os.write

    def timed(descriptor: int) -> None:
        begin = time.perf_counter()
        sync(descriptor)
        taken.append((time.perf_counter() - begin) * 1000)

    def counted(descriptor: int, data: Any) -> int:
        written.append(write(descriptor, data))
        return written[-1]

    os.fdatasync, os.write = timed, counted
    try:
        yield
    finally:
        os.fdatasync, os.write = sync, write


def _appended(path: Path, data: bytes) -> float:
    begin = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, data)
    os.fsync(descriptor)
    os.close(descriptor)
    return (time.perf_counter() - begin) * 1000


def _parquet_file(path: Path, one: Snapshot) -> float:
    begin = time.perf_counter()
    with path.open("wb") as file:
        pq.write_table(pa.table({"committed": one.committed, "pulled": one.pulled}), file)
        file.flush()
        os.fsync(file.fileno())
    return (time.perf_counter() - begin) * 1000


def _spread(taken: list[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(taken), 1), "p99": _p99(taken)}


def _p99(taken: list[float]) -> float:
    return round(float(np.percentile(taken, 99)), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=1_000)
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    snapshots = rounds_of(replace(SIZES["full"], groups=arguments.groups))
    with tempfile.TemporaryDirectory() as data:
        os.environ.update(TIDEMARK_DATA=data, DJANGO_SETTINGS_MODULE="console.settings")
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        found = {**hour_compaction(snapshots), **durable(snapshots)}
        found |= whole_hour(found["samples"], snapshots[0].ts_ms)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
