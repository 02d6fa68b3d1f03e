"""A small generated history as the collector leaves it: an hour that is over as a chunk, the running one as a log."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from spark.lag import chunk, wal
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.history import snapshot
from tests.spark.lag_oracle import Sample

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
GAP = range(30, 38)  # rounds nobody made
SILENT = range(70, 75)  # rounds in which broker-b did not answer


@dataclass(frozen=True, slots=True)
class History:
    """The same rounds three times: as snapshots, as flat samples for oracles, and as files."""

    snapshots: list[Snapshot]
    samples: list[Sample]

    def write_chunk(self, folder: Path) -> str:
        """The first hour."""
        over = [one for one in self.snapshots if one.ts_ms < START + HOUR]
        path = folder / "b=0-g1.parquet"
        chunk.write_chunk(chunk.compact(over, interval_ms=STEP), str(path))
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
    snapshots, samples = [], []
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
        at = START + number * STEP
        seen = [head for head in high if not (head.broker_name == "broker-b" and number in SILENT)]
        known = {key: value for key, value in commits.items() if key.head in seen}
        snapshots.append(snapshot(at, {head: (low[head], high[head]) for head in seen}, known, number=number))
        samples += [
            Sample(at, *key[:4], low[key.head], high[key.head], value) for key, value in known.items()
        ]
    return History(snapshots, samples)
