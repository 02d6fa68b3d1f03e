"""Reports as a worker runs them, in a new folder with a new SQLite database, without Redis. Prints JSON.

    python -m tests.benchmark.report_task hour HISTORY FILES INTERVAL_MS

G4: a waiting run → Spark in a process of its own → rows published, run after run. Seconds of each run from its claim to
the commit of its rows, and of it what the files of single queues and what the rows of groups and topics took; the first
has no JVM, the others have.

    python -m tests.benchmark.report_task year GROUPS

G3: the year of so many groups, its last quarter and its last month from their kept daily rows, as the run of December
makes them. The naive way reads the rows of the year whole, as objects, and computes nothing.

    python -m tests.benchmark.report_task episodes

The episodes report over as many episodes of a day as a run takes over, and over them again: seconds, and the most
memory that the process ever had. The naive way reads the episodes as objects, and makes no rows.

`tests.benchmark.spark_reports` runs them: its parts `task`, `year` and `episodes`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

RUNS = 4
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
YEAR_MS = 1_735_689_600_000  # 2025-01-01T00:00Z
DAYS, DECEMBER = 365, 31


def main(part: str, *given: str) -> None:
    with tempfile.TemporaryDirectory(prefix="tidemark-benchmark-") as folder:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "TIDEMARK_DATA": folder,
            "HISTORY_URL": Path(given[0]).resolve().as_uri() if part == "hour" else Path(folder).as_uri(),
            "REDIS_URL": "redis://127.0.0.1:1/0",
            "LOG_LEVEL": "ERROR",
        }
        for name in ("DATABASE_URL", "METRICS_DATABASE_URL", "SPARK_MASTER", "SPARK_REMOTE"):
            os.environ.pop(name, None)
        import django

        django.setup()
        from django.core.management import call_command

        for database in ("default", "metrics"):
            call_command("migrate", database=database, verbosity=0)
        if part == "hour":
            print(json.dumps(_hours(Path(given[0]).resolve(), int(given[1]), int(given[2]))))
        elif part == "episodes":
            print(json.dumps(_episodes()))
        else:
            print(json.dumps(_year(int(given[0]))))


def _hours(history: Path, files: int, interval_ms: int) -> dict[str, Any]:
    """Imports wait for Django's settings."""
    from console.cluster.models import Cluster
    from console.lag.models import HistoryFile
    from console.report import process, services
    from console.report.kept_rows import queue_files
    from console.report.models import LagRow, QueueRowFile, ReportRun
    from console.report.rules import Window

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


def _year(groups: int) -> dict[str, Any]:
    """Imports wait for Django's settings."""
    from console.cluster.models import Cluster
    from console.report import services
    from console.report.models import LagRow, ReportRow, ReportRun
    from console.report.rules import Window

    Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1")
    _keep_days(groups)
    end_ms, now_ms = YEAR_MS + DAYS * DAY_MS, YEAR_MS + (DAYS + 1) * DAY_MS
    window = Window(end_ms - DECEMBER * DAY_MS, end_ms)
    run = services.request_run(job="lag_trend", cluster="local", window=window, actor=None, now_ms=now_ms)
    began, spent = time.perf_counter(), time.process_time()
    services.run_report(run.id, now_ms=now_ms)
    taken = {
        "published_s": round(time.perf_counter() - began, 2),
        "cpu_s": round(time.process_time() - spent, 2),
    }
    done = ReportRun.objects.get(pk=run.id)
    assert done.state == ReportRun.State.SUCCEEDED, done.error
    made = dict(Counter(ReportRow.objects.values_list("grain", flat=True)))
    assert made == dict.fromkeys(("month", "quarter", "year"), groups), made
    spent = time.process_time()
    daily = sum(1 for _ in LagRow.objects.iterator(chunk_size=5_000))
    return {
        "goal_s": 60,
        "groups": groups,
        "daily_rows": daily,
        "rows": made,
        **taken,
        "naive_read_only_as_objects_cpu_s": round(time.process_time() - spent, 2),
        "load": os.getloadavg()[0],
    }


def _episodes() -> dict[str, Any]:
    """Imports wait for Django's settings."""
    from console.cluster.models import Cluster
    from console.lag import episodes
    from console.lag.models import Episode
    from console.report import services
    from console.report.models import ReportRow, ReportRun
    from console.report.rules import Window
    from console.report.runs.kept_episodes import EPISODES_MAX as count

    Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1")
    kinds = ("breach", "stall", "offline", "lost")
    for first in range(0, count, 10_000):
        Episode.objects.bulk_create(
            Episode(
                id=f"{number:016x}",
                cluster="local",
                group=f"group-{number % 1_000:04}",
                topic="orders",
                kind=kinds[number % 4],
                state="OVER",
                start_ms=YEAR_MS + number * DAY_MS // count,
                end_ms=YEAR_MS + number * DAY_MS // count + 60_000,
                seen_ms=YEAR_MS + number * DAY_MS // count + 90_000,
                bad_ms=60_000,
                slo_ms=60_000,
                target=0.99,
                peak_lag=number,
                worst_queue="orders broker-a 7",
            )
            for number in range(first, min(first + 10_000, count))
        )
    began = time.perf_counter()
    read = len(list(episodes.between("local", YEAR_MS, YEAR_MS + DAY_MS)))
    naive_s = round(time.perf_counter() - began, 2)
    taken = []
    for _ in range(2):
        began, now_ms = time.perf_counter(), YEAR_MS + 2 * DAY_MS
        window = Window(YEAR_MS, YEAR_MS + DAY_MS)
        run = services.request_run(job="episodes", cluster="local", window=window, actor=None, now_ms=now_ms)
        services.run_report(run.id, now_ms=now_ms)
        taken.append(round(time.perf_counter() - began, 2))
        done = ReportRun.objects.get(pk=run.id)
        assert done.state == ReportRun.State.SUCCEEDED, done.error
        assert ReportRow.objects.count() == read == count
    return {
        "goal_mb": 2_000,
        "episodes": count,
        "published_s": taken,
        "rss_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024,
        "naive_read_only_as_objects_s": naive_s,
        "load": os.getloadavg()[0],
    }


def _keep_days(groups: int) -> None:
    """Write the daily rows of a year, each with other figures."""
    from console.report.models import LagRow
    from tests.console.report import sample_rows

    known = {field.name for field in LagRow._meta.concrete_fields}
    own = sample_rows.run(job="lag_day")
    for day in range(DAYS):
        start_ms = YEAR_MS + day * DAY_MS
        rows = []
        for group in range(groups):
            values = sample_rows.figures(
                group=f"group-{group:04}",
                job="lag_day",
                zone="UTC",
                window_start_ms=start_ms,
                window_end_ms=start_ms + DAY_MS,
                counted_ms=DAY_MS,
                watched_ms=DAY_MS,
                produced=1_000 + group + day,
                consumed=1_000 + group,
                lag_max=group * day % 997,
                time_lag_p95_ms=group * day % 9_973,
                consumed_within_slo=990 + group,
                late_message_ms=group,
            )
            own_values = {name: value for name, value in values.items() if name in known}
            rows.append(LagRow(run=own, generated_at_ms=start_ms + DAY_MS, **own_values))
        LagRow.objects.bulk_create(rows, batch_size=500)


if __name__ == "__main__":
    main(*sys.argv[1:])
