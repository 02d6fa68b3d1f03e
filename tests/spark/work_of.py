"""Jobs without Spark: what a task would do with its work items, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spark.job import HourFiles, JobSpec
from spark.lag.history import chunk
from spark.lag.local_time import HOUR_MS
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey
from spark.notes import Note
from spark.output.lag_rows import hour_rows as hours_of
from spark.output.lag_rows import period_rows as periods_of
from spark.output.part_files import ItemRows
from spark.sources.work import work_items
from tests.spark.lag.sample_history import rounds
from tests.support.judge import judged


def spec(files: Sequence[str], start_ms: int, hours: int, **changes: Any) -> JobSpec:
    """Hours that all have the same files."""
    values: dict[str, Any] = {
        "job": "lag_hour",
        "job_id": "report-1",
        "from_ms": start_ms,
        "to_ms": start_ms + hours * HOUR_MS,
        "hours": tuple(HourFiles("local", start_ms + i * HOUR_MS, tuple(files)) for i in range(hours)),
        "output": "/nowhere",
        "as_of_ms": start_ms + hours * HOUR_MS,
        "interval_ms": 60_000,
    }
    return JobSpec(**{**values, **changes})


def hour_rows(asked: JobSpec) -> tuple[list[dict[str, Any]], list[str]]:
    """(rows, warnings) of the hourly job."""
    return _made(asked, HOUR_MS, hours_of)


def day_rows(asked: JobSpec) -> tuple[list[dict[str, Any]], list[str]]:
    """(rows, warnings) of the daily job."""
    return _made(asked, 24 * HOUR_MS, periods_of)


def _made(asked: JobSpec, period_ms: int, rows_of: ItemRows) -> tuple[list[dict[str, Any]], list[str]]:
    notes: list[Note] = []
    items = work_items(asked, period_ms=period_ms)
    rows = [row for item in items for table in rows_of(item, notes) for row in table.to_pylist()]
    return rows, [f"{note.path}: {note.text}" if note.path else note.text for note in notes]


def rows_of(output: str | Path) -> list[dict[str, Any]]:
    """The rows of a report, its files in the order of their names."""
    paths = sorted(Path(output).glob("*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def queue_chunk(
    path: Path, heads: list[int], commits: list[int], *, step_ms: int = 60_000, start_ms: int = 0
) -> str:
    """A chunk of one queue that one group reads, a sample per step."""
    head = HeadKey("orders", "broker-a", 0)
    made = rounds(
        {head: [(0, high) for high in heads]},
        {CommitKey("billing", *head): list(commits)},
        start_ms=start_ms,
        interval_ms=step_ms,
    )
    samples = judged(from_snapshots(made))
    chunk.write_chunk(chunk.encode_table(samples, interval_ms=step_ms), str(path))
    return str(path)
