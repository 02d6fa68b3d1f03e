"""Lag history on disk: `python -m tests.benchmark.lag_history [--groups 1000]` prints JSON.

    G6   a snapshot made durable: encode, append, fsync (milliseconds, bytes a series)
    G8   bytes a sample of the hour's chunk
    G9   an hour of rounds to a chunk, on one core: seconds for 48 M samples

Reference data: `tests.support.lag_reference`, 1,000 groups x 200 queues every 15 s (48 M group samples an hour, and
9.6 M of heads). Each goal stands beside the naive way, measured in the same run on a part of the data and scaled.
Seconds of G9 are the process's CPU time: it runs on one core, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark.lag import chunk, compaction, wal
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Int64Array, Snapshot
from tests.support.lag_reference import SIZES, Reference, Size

TARGET_SAMPLES = 48_000_000


def rounds_of(size: Size) -> list[Snapshot]:
    """The next hour as the collector's snapshots: keys are the same lists in every round, as they are there."""
    reference = Reference(replace(size, silent_broker_hour=None))
    head_keys: list[HeadKey] = []
    commit_keys: list[CommitKey] = []
    high, low, committed = [], [], []
    for heads, groups in reference.hour():
        head_keys += [HeadKey(*key[1:]) for key in heads.keys]
        commit_keys += [CommitKey(*key) for key in groups.keys]
        high.append(heads.max_offset.reshape(-1, size.rounds))
        low.append(heads.min_offset.reshape(-1, size.rounds))
        committed.append(groups.committed.reshape(-1, size.rounds))
    times = groups.t_ms[: size.rounds]
    highs, lows, commits = (np.ascontiguousarray(np.concatenate(one).T) for one in (high, low, committed))
    unread = np.full(len(commit_keys), -1, dtype=np.int64)
    return [
        Snapshot(int(times[at]), at, (), head_keys, highs[at], lows[at], commit_keys, commits[at], unread)
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

    def write() -> None:
        sinks.append(io.BytesIO())
        compaction.write_hour(snapshots, sinks[-1], interval_ms=15_000)

    seconds = cpu_s(write)
    part = cut(snapshots, 50_000)
    part_samples = len(part) * len(part[0].commit_keys)
    naive = cpu_s(lambda: chunk.compact(part, interval_ms=15_000), 1)
    size_bytes = len(sinks[-1].getvalue())
    return {
        "G9_seconds_per_48M": round(seconds * TARGET_SAMPLES / samples, 2),
        "G9_goal": 2.0,
        "G9_naive_sort_all_samples_seconds_per_48M": round(naive * TARGET_SAMPLES / part_samples, 1),
        "samples": samples,
        "head_samples_beside": len(snapshots) * len(snapshots[0].head_keys),
        "G8_bytes_per_group_sample": round(size_bytes / samples, 3),
        "G8_bytes_per_sample_with_heads": round(
            size_bytes / (samples + len(snapshots) * len(snapshots[0].head_keys)), 3
        ),
        "G8_goal": 0.6,
        "G8_naive_rows_bytes_per_sample": round(naive_bytes(part) / part_samples, 1),
        "G8_tb_per_year_at_15s": round(size_bytes * 24 * 365 / 1e12 * TARGET_SAMPLES / samples, 3),
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
            max_offset=one.max_offset[at],
            min_offset=one.min_offset[at],
            commit_keys=keys,
            committed=one.committed[:commits],
            pulled=one.pulled[:commits],
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
    """Append every round to a log as `console.lag.history` does, a new segment every five minutes."""
    keyframes, others, naive = [], [], []
    size_bytes = 0
    with tempfile.TemporaryDirectory() as folder:
        descriptor, state, start_ms = -1, wal.SegmentState(), -1
        for one in snapshots:
            begin = time.perf_counter()
            segment_ms = one.ts_ms - one.ts_ms % wal.SEGMENT_MS
            is_new = segment_ms != start_ms
            frame = b""
            if is_new:
                start_ms, state = segment_ms, state.successor()
                path = Path(folder, f"{start_ms}.wal")
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
                frame = wal.encode_header("reference", start_ms)
            frame += wal.encode_frame(state, one)
            os.write(descriptor, frame)
            os.fsync(descriptor)
            (keyframes if is_new else others).append((time.perf_counter() - begin) * 1000)
            size_bytes += 0 if is_new else len(frame)
        for number, one in enumerate(snapshots[:10]):
            begin = time.perf_counter()
            columns = {"committed": one.committed, "pulled": one.pulled}
            with Path(folder, f"{number}.parquet").open("wb") as file:
                pq.write_table(pa.table(columns), file)
                file.flush()
                os.fsync(file.fileno())
            naive.append((time.perf_counter() - begin) * 1000)
    series = len(snapshots[0].commit_keys) + len(snapshots[0].head_keys)
    return {
        "G6_ms_p50": round(statistics.median(others), 1),
        "G6_ms_p99": round(float(np.percentile(others, 99)), 1),
        "G6_goal_ms_p99": 10,
        "G6_first_round_of_a_segment_ms_p50": round(statistics.median(keyframes), 1),
        "G6_bytes_per_series": round(size_bytes / len(others) / series, 2),
        "G6_goal_bytes_per_series": 3,
        "G6_naive_parquet_file_each_ms_p50": round(statistics.median(naive), 1),
        "series": series,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=1_000)
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    snapshots = rounds_of(replace(SIZES["full"], groups=arguments.groups))
    json.dump({**hour_compaction(snapshots), **durable(snapshots)}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
