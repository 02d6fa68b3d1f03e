"""A small generated history as the collector leaves it: an hour that is over as a chunk, the running one as a log."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spark.lag.history import chunk, wal
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.sample_history import snapshot
from tests.support.judge import judged, with_judgements

HOUR = 3_600_000
STEP = 60_000
START = 10 * HOUR
AS_OF = START + 100 * STEP  # the second hour is two thirds over
QUEUES = {
    "orders": [HeadKey("orders", "broker-a", 0), HeadKey("orders", "broker-b", 0)],
    "clicks": [HeadKey("clicks", "broker-a", 1)],
    "%RETRY%billing": [HeadKey("%RETRY%billing", "broker-a", 0)],
    "idle": [HeadKey("idle", "broker-a", 0)],
}
READS = {
    "billing": ["orders", "%RETRY%billing"],
    "analytics": ["orders", "clicks"],
    "quiet": ["idle"],
}
GAP = range(30, 38)  # rounds that were not made
SILENT = range(70, 75)  # rounds in which broker-b did not answer
UNKNOWN = 12


@dataclass(frozen=True, slots=True)
class History:
    """The same rounds as snapshots and as files."""

    snapshots: list[Snapshot]

    def write_chunk(self, folder: Path) -> str:
        """The first hour."""
        over = [one for one in self.snapshots if one.ts_ms < START + HOUR]
        path = folder / "b=0-g1.parquet"
        chunk.write_chunk(chunk.compact(over, interval_ms=STEP), str(path))
        return str(path)

    def write_whole(self, folder: Path) -> str:
        """All of it as one chunk, for oracles."""
        path = folder / "whole.parquet"
        chunk.write_chunk(chunk.compact(self.snapshots, interval_ms=STEP), str(path))
        return str(path)

    def write_log(self, folder: Path) -> list[str]:
        """The second hour, a segment per five minutes."""
        paths = []
        for start in range(START + HOUR, START + 2 * HOUR, wal.SEGMENT_MS):
            own = [one for one in self.snapshots if start <= one.ts_ms < start + wal.SEGMENT_MS]
            if own:
                state = wal.SegmentState()
                frames = [wal.encode_frame(state, one) for one in own]
                path = folder / f"{start}.wal"
                path.write_bytes(wal.encode_header("local", start) + b"".join(frames))
                paths.append(str(path))
        return paths


def generated(seed: int = 7) -> History:
    """Traffic, a slow group, a rewind, a loss by retention, a gap and a silent broker; the same for the same seed."""
    chance = random.Random(seed)
    low = dict.fromkeys((head for heads in QUEUES.values() for head in heads), 0)
    high = {head: 0 if head.topic == "idle" else chance.randint(100, 200) for head in low}
    commits = {
        CommitKey(group, *head): high[head]
        for group, topics in READS.items()
        for topic in topics
        for head in QUEUES[topic]
    }
    rounds, seen = [], {}
    for number in range(120):
        for head in high:
            high[head] += 0 if head.topic == "idle" else chance.randint(0, 40)
        for key in commits:
            pace = 25 if key.group == "analytics" and number < 60 else 60
            commits[key] = min(high[key.head], commits[key] + chance.randint(0, pace))
        if number == 20:
            commits[CommitKey("billing", *QUEUES["orders"][0])] -= 50
        if number == 50:
            head = QUEUES["clicks"][0]
            low[head] = commits[CommitKey("analytics", *head)] + 10
        if number in GAP:
            continue
        seen |= {head: (low[head], high[head]) for head in high if not _is_silent(head, number)}
        seen |= {key: value for key, value in commits.items() if not _is_silent(key.head, number)}
        heads, known = {head: seen[head] for head in high}, {key: seen[key] for key in commits}
        rounds.append((number, snapshot(START + number * STEP, heads, known, number=number)))
    whole = with_judgements([one for _, one in rounds], judged(from_snapshots([one for _, one in rounds])))
    return History([_unread(one, number) for (number, _), one in zip(rounds, whole, strict=True)])


def _is_silent(head: HeadKey, number: int) -> bool:
    return head.broker_name == "broker-b" and number in SILENT


def _unread(one: Snapshot, number: int) -> Snapshot:
    """A silent broker's queues have their last offsets, and nothing is known of them."""
    is_silent = np.array([_is_silent(key.head, number) for key in one.commit_keys])
    one.status[is_silent], one.flags[is_silent], one.time_lag_ms[is_silent] = UNKNOWN, 0, -1
    one.head_status[np.array([_is_silent(key, number) for key in one.head_keys])] = UNKNOWN
    return one
