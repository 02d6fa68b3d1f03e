"""The whole way once, with real Spark in a process of its own: history on disk → run → rows, Parquet, page."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pytest_django import Settings

from console.cluster.models import Cluster
from console.lag.models import GroupSlo, HistoryFile
from console.report import process, selectors, services
from console.report.kept_rows import queue_files
from console.report.models import LagRow, ReportRun
from console.report.rules import Window
from spark.lag.history import wal
from tests.spark import lag_oracle
from tests.spark.history_files import AS_OF, HOUR, START, STEP, generated

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.django_db(databases=["default", "metrics"]),
]


COMPARED = (
    "produced",
    "consumed",
    "lost",
    "rewinds",
    "samples",
    "lag_max",
    "lag_last",
    "coverage_pct",
    "status_ms",
)


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    process.end_kept()


@pytest.fixture
def history(tmp_path: Path, settings: Settings) -> str:
    """An hour as a chunk under HISTORY_URL, the running one as a log in the data folder; the manifest names both. The
    path is that of a chunk with all of it, which no one else reads.
    """
    settings.DATA_DIR = tmp_path
    settings.REPORTS_DIR = tmp_path / "reports"
    settings.REPORTS_URL = f"file://{tmp_path}/reports"
    settings.HISTORY_URL = f"file://{tmp_path}/chunks"
    Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1", poll_interval_s=STEP // 1000)
    made = generated(seed=11)
    (tmp_path / "chunks").mkdir()
    (tmp_path / "history" / "wal" / "local").mkdir(parents=True)
    chunk = Path(made.write_chunk(tmp_path / "chunks"))
    manifest(chunk.name, HistoryFile.Kind.CHUNK_HOUR, START, HOUR)
    for path in made.write_log(tmp_path / "history" / "wal" / "local"):
        start = int(Path(path).stem)
        manifest(f"wal/local/{start}.wal", HistoryFile.Kind.WAL, start, wal.SEGMENT_MS)
    return made.write_whole(tmp_path)


def children(pid: int) -> list[int]:
    """The processes that it started and that still run."""
    names = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(name) for name in names if Path(f"/proc/{name}/cmdline").read_bytes()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """A volume that is not mounted."""
    folder.rename(f"{folder}.away")
    yield
    Path(f"{folder}.away").rename(folder)


def manifest(path: str, kind: str, start_ms: int, length_ms: int) -> None:
    HistoryFile.objects.create(
        path=path, kind=kind, cluster="local", ts_lo_ms=start_ms, ts_hi_ms=start_ms + length_ms
    )


def test_it_turns_history_into_rows_and_parquet(
    history: str, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a warm server asked for that cannot come up (its note has no place): the run starts its own Spark, which
    stays for the next report.
    """
    (tmp_path / "blocked").write_text("a file where a folder is needed")
    settings.SPARK_LOCAL_CONNECT_REUSE = True
    monkeypatch.setenv("SPARK_LOCAL_CONNECT_DISCOVERY", str(tmp_path / "blocked" / "note.json"))
    GroupSlo.objects.create(cluster="local", group="quiet", slo_ms=5_000, target=0.9)
    window = Window(START - HOUR, START + 2 * HOUR)  # the first hour has no history
    asked = services.request_run(job="lag_hour", cluster="local", window=window, actor=None, now_ms=AS_OF)
    services.run_report(asked.id, now_ms=AS_OF)
    run = selectors.run(asked.id)
    assert (run.state, run.error) == (ReportRun.State.SUCCEEDED, "")
    assert [warning.partition(": ")[2] for warning in run.warnings] == ["no history"]
    expected = {
        (from_ms, *key): figures
        for from_ms, to_ms in ((START, START + HOUR), (START + HOUR, AS_OF))
        for key, figures in lag_oracle.rows([history], from_ms, to_ms, STEP).items()
        if key[0] == "topic" or figures["lag_max"] or figures["produced"] or figures["consumed"]
    }
    names = ("window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
    files = run.queue_row_files.filter(state="live")
    queues = selectors.row_page(selectors.rows_of_grain("queue", "local", job="lag_hour"), per_page=500).rows
    assert sum(file.rows for file in files) == len(queues) > 0
    found = {tuple(getattr(row, name) for name in names): row for row in (*LagRow.objects.all(), *queues)}
    assert set(found) == set(expected)
    assert run.row_count == len(expected)
    for key, figures in expected.items():
        shown = [name for name in COMPARED if name in figures]
        assert {name: getattr(found[key], name) for name in shown} == {
            name: figures[name] for name in shown
        }, key
    assert {row.group: row.slo_ms for row in LagRow.objects.all()} == {
        "analytics": 60_000,
        "billing": 60_000,
        "quiet": 5_000,
    }
    paths = list(Path(run.output).glob("*.parquet"))
    assert paths[0].parent.parent.parent.parent.parent.name == "reports"
    assert {Path(queue_files.location(file)) for file in files} <= set(paths)
    assert sum(pq.read_metadata(path).num_rows for path in paths) == len(expected)
    summary = selectors.summary(selectors.rows("local"))
    assert (summary.from_ms, summary.to_ms) == (START, AS_OF)
    rows_before = list(LagRow.objects.order_by("pk").values())
    with away(tmp_path / "chunks"), away(tmp_path / "history"):
        asked = services.request_run(job="lag_hour", cluster="local", window=window, actor=None, now_ms=AS_OF)
        services.run_report(asked.id, now_ms=AS_OF)
    run = selectors.run(asked.id)
    assert run.state == ReportRun.State.FAILED
    assert run.error.startswith("None of the 13 history files of local could be read; earlier rows are kept.")
    assert list(LagRow.objects.order_by("pk").values()) == rows_before
    kept = process._kept._process
    asked = services.request_run(job="lag_day", cluster="local", window=window, actor=None, now_ms=AS_OF)
    services.run_report(asked.id, now_ms=AS_OF)
    assert selectors.run(asked.id).state == ReportRun.State.SUCCEEDED
    assert kept is not None and process._kept._process is kept
    (java,) = (pid for pid in children(kept._process.pid) if "org.apache.spark" in command_of(pid))
    os.kill(java, signal.SIGKILL)
    while java in children(kept._process.pid):
        time.sleep(0.01)
    # it gives the next report to a new process
    job_output = list(kept.lines(json.dumps(selectors.run(asked.id).spec)))
    assert (kept.code(), "TAKEN\n" in job_output) == (0, False), "".join(job_output)
    days = LagRow.objects.filter(job="lag_day")
    assert {row.group for row in days} == {"analytics", "billing", "quiet"}
