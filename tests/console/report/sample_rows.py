"""Report rows and runs to test with."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from console.report.kept_rows import queue_files
from console.report.kept_rows.output import Output, output_url
from console.report.models import LagRow, QueueRowFile, ReportRun, of_period

HOUR = 3_600_000
DAY = 24 * HOUR
TODAY = 20_000 * DAY  # 2024-10-04 00:00 UTC
NOW = TODAY + 9 * HOUR + 5 * 60_000


def run(run_id: str = "report-1", **fields: Any) -> ReportRun:
    values: dict[str, Any] = {
        "job": "lag_hour",
        "cluster": "local",
        "from_ms": TODAY,
        "to_ms": TODAY + 9 * HOUR,
        "state": ReportRun.State.SUCCEEDED,
        "spark_version": "4.3.0",
        "requested_at_ms": NOW - 60_000,
        "started_at_ms": NOW - 59_000,
        "finished_at_ms": NOW - 50_000,
    }
    return ReportRun.objects.create(id=run_id, **{**values, **fields})


def figures(**fields: Any) -> dict[str, Any]:
    """A row as the job writes it: an hour of group billing on topic orders."""
    values: dict[str, Any] = {
        "grain": "topic",
        "cluster": "local",
        "kind": "GROUP",
        "group": "billing",
        "topic": "orders",
        "broker_name": "",
        "queue_id": -1,
        "window_start_ms": TODAY + 8 * HOUR,
        "window_end_ms": TODAY + 9 * HOUR,
        "interval_ms": 5_000,
        "slo_ms": 60_000,
        "queues": 2,
        **{f"lag_{name}": 40 for name in ("last", "p50", "p95", "p99", "max")},
        **{f"time_lag_{name}_ms": 4_000 for name in ("last", "p50", "p95", "p99", "max")},
        "time_lag_censored": 0,
        "produced": 1_000,
        "consumed": 990,
        "in_rate": 0.28,
        "out_rate": 0.27,
        "breach_ms": 0,
        "lost": 0,
        "rewinds": 0,
        "samples": 719,
        "partial_samples": 1,
        "expected_samples": 720,
        "coverage_pct": 99.86,
        "max_gap_ms": 10_000,
        "worst_queue": "broker-a · 1",
    }
    return {**values, **fields}


def row(of: ReportRun, **fields: Any) -> LagRow:
    return LagRow.objects.create(run=of, generated_at_ms=NOW, code_version="0.1.0", **figures(**fields))


def queue(**fields: Any) -> dict[str, Any]:
    """A row of a single queue as the job writes it."""
    return figures(**{"grain": "queue", "broker_name": "broker-a", "queue_id": 1, **fields})


def write_parts(folder: Path, *rows: dict[str, Any], grain: str = "queue") -> list[Path]:
    """Files of rows as the job leaves them: one for each window, sorted; every column in each."""
    columns = sorted({name for row in rows for name in row})
    paths = []
    for number, start_ms in enumerate(sorted({row["window_start_ms"] for row in rows})):
        own = [
            {name: row.get(name) for name in columns} for row in rows if row["window_start_ms"] == start_ms
        ]
        own.sort(key=lambda row: (row["group"], row["topic"], row["broker_name"], row["queue_id"]))
        paths.append(folder / f"part-{number:05}-{grain}-000.parquet")
        pq.write_table(pa.Table.from_pylist(own), paths[-1], row_group_size=2, write_page_checksum=True)
    return paths


def publish(of: ReportRun, *rows: dict[str, Any], at_ms: int = NOW) -> list[QueueRowFile]:
    """Rows of single queues, published as a run's."""
    output = Output(output_url(of))
    output.files.makedirs(output.folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        paths = {f"{output.folder}/{path.name}": path for path in write_parts(Path(folder), *rows)}
        for target, path in paths.items():
            output.files.put_file(str(path), target)
    parts = [part for part in output.parts() if part.path in paths]  # other tests may have had the folder
    files = queue_files.note(of, output, parts, at_ms)
    for start_ms in {row["window_start_ms"] for row in rows}:
        own = [file for file in files if file.window_start_ms == start_ms]
        queue_files.publish(own, of_period(of, start_ms), at_ms)
    return files
