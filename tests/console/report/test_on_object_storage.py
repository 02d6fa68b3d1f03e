"""A report whose history and rows are on an S3 server, with a storage that is throttled, and one that refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from console.cluster.models import Cluster
from console.lag.history import stored_location
from console.lag.models import HistoryFile
from console.report import process, selectors, services
from console.report.models import LagRow, QueueRowFile, ReportRun
from console.report.rules import Window
from spark.lag import files, wal
from tests.spark.history_files import AS_OF, HOUR, START, STEP, generated
from tests.support.s3_server import S3Server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.django_db(databases=["default", "metrics"]),
]
WINDOW = Window(START, START + 2 * HOUR)


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    process.end_kept()


@pytest.fixture
def history(s3_server: S3Server, tmp_path: Path, settings: Settings) -> S3Server:
    """An hour as a chunk and the running one as the uploaded log of another host; nothing of it on this one's disk."""
    settings.DATA_DIR = tmp_path
    settings.REPORTS_DIR = tmp_path / "reports"
    settings.REPORTS_URL = f"{s3_server.url}/reports"
    settings.HISTORY_URL = f"{s3_server.url}/history"
    Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1", poll_interval_s=STEP // 1000)
    made = generated(seed=11)
    made_here = tmp_path / "made"
    made_here.mkdir()
    store(made.write_chunk(made_here), "hour.parquet", HistoryFile.Kind.CHUNK_HOUR, START, HOUR)
    for path in made.write_log(made_here):
        start = int(Path(path).stem)
        store(path, f"wal/local/host-a/{start}.wal", HistoryFile.Kind.WAL, start, wal.SEGMENT_MS)
    return s3_server


def store(local: str, path: str, kind: str, start_ms: int, length_ms: int) -> None:
    size, digest = files.write_bytes(stored_location(path), Path(local).read_bytes())
    HistoryFile.objects.create(
        path=path,
        kind=kind,
        cluster="local",
        host="host-a" if kind == "wal" else "",
        uploaded_at_ms=1 if kind == "wal" else 0,
        bytes=size,
        sha256=digest,
        ts_lo_ms=start_ms,
        ts_hi_ms=start_ms + length_ms,
    )


def run() -> ReportRun:
    asked = services.request_run(job="lag_hour", cluster="local", window=WINDOW, actor=None, now_ms=AS_OF)
    services.run_report(asked.id, now_ms=AS_OF)
    return selectors.run(asked.id)


def test_a_report_is_made_and_read_there(history: S3Server) -> None:
    with (
        history.fault("GET", "throttle", times=2, key="hour.parquet"),
        history.fault("PUT", "throttle", times=1),
    ):
        done = run()
    assert (done.state, done.error, done.warnings) == (ReportRun.State.SUCCEEDED, "", [])
    assert {row.window_start_ms for row in LagRow.objects.all()} == {START, START + HOUR}
    listed = QueueRowFile.objects.filter(state="live")
    queues = selectors.row_page(selectors.rows_of_grain("queue", "local", job="lag_hour"), per_page=500).rows
    assert len(queues) == sum(file.rows for file in listed) > 0
    assert history.count("COPY") == 0
    rows = list(LagRow.objects.order_by("pk").values())
    with (
        history.fault("GET", "deny", key="/history/tidemark/history"),
        history.fault("HEAD", "deny", key="/history/tidemark/history"),
    ):
        failed = run()
    assert failed.state == ReportRun.State.FAILED
    assert failed.error.startswith(
        "None of the 13 history files of local could be read, and the rows of before stay."
    )
    assert "check its address, credentials and network" in failed.error
    assert list(LagRow.objects.order_by("pk").values()) == rows
