"""What lag history takes on disk where it runs: `python -m tests.benchmark.lag_storage var` prints JSON.

    G8   bytes a sample of the history in a data folder (the `--data` of `manage.py up`), whoever is running on it: the
         log, hour files and day files apart, whole files with header, names, footer and page index; and the log once
         more as the hour files that will be made of it

A sample is one queue in one round: of a group (its committed offset and lag), or the queue's own (max and min offset).
Nothing is changed in the folder.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.lag.history import compaction, wal
from spark.lag.snapshot import Snapshot
from tests.support.lag_reference import HOUR_MS

NAIVE_BYTES = 24  # time, names as dictionary codes, max offset, committed offset: a row of a first design


@dataclass(slots=True)
class Sum:
    """What some files hold."""

    files: int = 0
    bytes: int = 0
    beside_data_bytes: int = 0  # footers, page indexes, headers, names
    group_samples: int = 0
    head_samples: int = 0

    def told(self) -> dict[str, Any]:
        samples = self.group_samples + self.head_samples
        return {
            "files": self.files,
            "bytes": self.bytes,
            "group_samples": self.group_samples,
            "head_samples": self.head_samples,
            "bytes_per_sample": round(self.bytes / samples, 3) if samples else None,
            "bytes_per_group_sample": round(self.bytes / self.group_samples, 3)
            if self.group_samples
            else None,
            "of_them_beside_the_data_pct": round(100 * self.beside_data_bytes / self.bytes, 1)
            if self.bytes
            else None,
        }


def chunk_sum(source: io.BytesIO, total: Sum) -> None:
    """Add a chunk file."""
    with pq.ParquetFile(source) as file:
        table = file.read(columns=["group", "n"])
        metadata = file.metadata
        columns = [
            metadata.row_group(number).column(place).total_compressed_size
            for number in range(metadata.num_row_groups)
            for place in range(metadata.num_columns)
        ]
    counts = table["n"].to_numpy()
    is_head = pc.equal(table["group"], "").to_numpy()
    size = source.getbuffer().nbytes
    total.files += 1
    total.bytes += size
    total.beside_data_bytes += size - sum(columns)
    total.head_samples += int(counts[is_head].sum(dtype=np.int64))
    total.group_samples += int(counts[~is_head].sum(dtype=np.int64))


def log_sum(path: Path, total: Sum) -> list[Snapshot]:
    """Add a log segment; return its rounds. Names are counted as beside the data: every segment says them again."""
    data = path.read_bytes()
    if len(data) < wal.SEGMENT_HEADER.size:
        return []
    segment = wal.read_segment(data)
    total.files += 1
    total.bytes += segment.state.position
    total.beside_data_bytes += wal.decode_header(data)[2] + len(segment.state.names)
    total.group_samples += sum(len(one.commit_keys) for one in segment.snapshots)
    total.head_samples += sum(len(one.head_keys) for one in segment.snapshots)
    return segment.snapshots


def look(folder: Path) -> dict[str, Any]:
    """Return what is in the history of a data folder."""
    sums: dict[str, Sum] = {"log": Sum(), "hour_files": Sum(), "day_files": Sum(), "log_as_hour_files": Sum()}
    hours: dict[tuple[str, int], list[Snapshot]] = {}
    unread: Counter[str] = Counter()
    for path in sorted((folder / "history").rglob("*.wal")):
        try:
            rounds = log_sum(path, sums["log"])
        except wal.WalError as error:
            unread[str(error)] += 1
            continue
        for one in rounds:
            hours.setdefault((path.parent.name, one.ts_ms - one.ts_ms % HOUR_MS), []).append(one)
    for (_, hour_ms), rounds in hours.items():
        sink = io.BytesIO()
        interval_ms = int(np.median(np.diff([one.ts_ms for one in rounds]))) if len(rounds) > 1 else HOUR_MS
        assert all(hour_ms <= one.ts_ms < hour_ms + HOUR_MS for one in rounds)
        compaction.write_hour(rounds, sink, interval_ms=interval_ms)
        chunk_sum(io.BytesIO(sink.getvalue()), sums["log_as_hour_files"])
    for path in sorted((folder / "history").rglob("*.parquet")):
        if "quarantine" not in path.parts:
            kind = "day_files" if "kind=chunk_day" in path.parts else "hour_files"
            chunk_sum(io.BytesIO(path.read_bytes()), sums[kind])
    return {
        "rounds_in_the_log": sum(len(rounds) for rounds in hours.values()),
        **{name: one.told() for name, one in sums.items()},
        "not_read": dict(unread),
        "G8_goal_bytes_per_sample": 0.9,
        "naive_row_bytes": NAIVE_BYTES,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    json.dump(look(parser.parse_args().folder), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
