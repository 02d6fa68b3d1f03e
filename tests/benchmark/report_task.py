"""G4 as the product does it: a waiting run → Spark in a process of its own → rows published, run after run.

`python -m tests.benchmark.report_task HISTORY FILES INTERVAL_MS`, called by `tests.benchmark.spark_reports task`: in a
new folder with a new SQLite database, without Redis. Prints JSON: seconds of each run from being taken up to its rows
being committed, and of it what the files of single queues and what the rows of groups and topics took; the first has no
JVM, the others have.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

RUNS = 4
HOUR_MS = 3_600_000


def main(history: Path, files: int, interval_ms: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tidemark-benchmark-") as folder:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "TIDEMARK_DATA": folder,
            "HISTORY_URL": history.as_uri(),
            "REDIS_URL": "redis://127.0.0.1:1/0",
            "LOG_LEVEL": "ERROR",
        }
        for name in ("DATABASE_URL", "METRICS_DATABASE_URL", "SPARK_MASTER", "SPARK_REMOTE"):
            os.environ.pop(name, None)
        import django

        django.setup()
        print(json.dumps(_measured(history, files, interval_ms)))


def _measured(history: Path, files: int, interval_ms: int) -> dict[str, Any]:
    """Imports wait for Django's settings."""
    from django.core.management import call_command

    from console.cluster.models import Cluster
    from console.lag.models import HistoryFile
    from console.report import process, services
    from console.report.models import LagRow, QueueRowFile, ReportRun
    from console.report.rows import queue_files
    from console.report.rules import Window

    for database in ("default", "metrics"):
        call_command("migrate", database=database, verbosity=0)
    Cluster.objects.create(name="reference", namesrv_addrs="127.0.0.1:1", poll_interval_s=interval_ms // 1000)
    manifest = json.loads((history / "manifest.json").read_text())[:files]
    known = {field.name for field in HistoryFile._meta.concrete_fields} - {"id"}
    for row in manifest:
        HistoryFile.objects.create(**{name: value for name, value in row.items() if name in known})
    start_ms = max(row["ts_lo_ms"] for row in manifest)
    spans: dict[str, float] = {}

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            found = work(*given, **named)
            spans[name] = round(time.perf_counter() - began, 3)
            return found

        return measured

    rows, files = timed("rows_s", services.replace_rows), timed("files_s", queue_files.note)
    taken = []
    for _ in range(RUNS):
        now_ms = start_ms + HOUR_MS
        run = services.request_run(
            job="lag_hour", cluster="reference", window=Window(start_ms, now_ms), actor=None, now_ms=now_ms
        )
        began = time.perf_counter()
        with patch.object(services, "replace_rows", rows), patch.object(queue_files, "note", files):
            services.run_report(run.id, now_ms=now_ms)
        taken.append(
            {"published_s": round(time.perf_counter() - began, 2), **spans, "load": os.getloadavg()[0]}
        )
        done = ReportRun.objects.get(pk=run.id)
        assert done.state == ReportRun.State.SUCCEEDED, done.error
    process.end_kept()
    queues = sum(QueueRowFile.objects.filter(state="live").values_list("rows", flat=True))
    return {"rows": LagRow.objects.count() + queues, "first": taken[0], "next": taken[1:]}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3]))
