"""What a restart of the collector costs: `python -m tests.benchmark.lag_restart`.

At the reference size (1,000 groups x 200 queues, 15 s) a new collector takes over the last 15 minutes of the log and
six hours of chunks, hour by hour. The log is made and read in full; of the chunks one hour of a quarter of the groups
is measured, and counted 4 x 6 times. The naive way beside it: every reading of a chunk in a Python loop. Prints a JSON
object of processor seconds.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from spark.lag.history import chunk, wal
from spark.lag.round.window import LagWindow
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.support.lag_reference import HOUR_MS, SIZES, START_MS, write_history

LOGGED_MS, SEEDED_MS = 15 * 60_000, 6 * HOUR_MS  # as in `console.lag.collect.collector`, which needs Django
INTERVAL_MS = 15_000
HEADS, GROUPS_EACH = 40_000, 5
PARTS = 4  # a quarter of the groups is written
HOURS = SEEDED_MS // HOUR_MS


def rounds(count: int) -> list[Snapshot]:
    heads = [HeadKey(f"topic-{at // 200:03d}", f"broker-{at % 10}", at % 200) for at in range(HEADS)]
    commits = [
        CommitKey(f"{head.topic}-group-{group}", *head) for head in heads for group in range(GROUPS_EACH)
    ]
    found = []
    for number in range(count):
        high = 1_000 + number * 50 + np.arange(HEADS) % 7
        committed = np.repeat(high, GROUPS_EACH) - 20
        pulled = np.full(len(commits), -1)
        found.append(
            Snapshot(
                number * INTERVAL_MS, number, (), heads, high, np.zeros_like(high), commits, committed, pulled
            )
        )
    return found


def log_seconds() -> float:
    state = wal.SegmentState()
    frames = [wal.encode_frame(state, one) for one in rounds(LOGGED_MS // INTERVAL_MS)]
    data = wal.encode_header("reference", 0) + b"".join(frames)
    window = LagWindow(INTERVAL_MS)
    began = time.process_time()
    for one in wal.read_segment(data).snapshots:
        window.append(one.read_part())
    return time.process_time() - began


def hour_seconds(folder: Path) -> tuple[float, float]:
    """Processor seconds of (load and seed, the naive loop) for an hour of a quarter of the groups."""
    paths = [str(folder / row.path) for row in write_history(SIZES["quarter"], folder, 1)]
    began = time.process_time()
    samples = chunk.load_samples(paths, START_MS, START_MS + HOUR_MS, group="")
    LagWindow(INTERVAL_MS).seed(samples)
    ours = time.process_time() - began
    began = time.process_time()
    naive: dict[object, list[tuple[int, int]]] = {}
    for key, place in samples.slices():
        known = naive.setdefault(key, [])
        for t_ms, high in zip(samples.t_ms[place].tolist(), samples.max_offset[place].tolist(), strict=True):
            if not known or t_ms // 60_000 != known[-1][0] // 60_000:
                known.append((t_ms, high))
    return ours, time.process_time() - began


def main() -> None:
    log_s = log_seconds()
    with tempfile.TemporaryDirectory(prefix="tidemark-benchmark-") as folder:
        ours_s, naive_s = hour_seconds(Path(folder))
    seeded_s = ours_s * PARTS * HOURS
    found = {
        "queues": HEADS,
        "series_of_groups": HEADS * GROUPS_EACH,
        "log_s": round(log_s, 1),
        "chunks_s": round(seeded_s, 1),
        "sum_s": round(log_s + seeded_s, 1),
        "naive_loops_of_a_day_s": round(naive_s * PARTS * 24, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps({"restart of the collector": found}))


if __name__ == "__main__":
    main()
