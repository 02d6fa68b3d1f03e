"""What a report reads of the logs of several hosts, and what it states about those it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from console.cluster.models import Cluster
from console.lag.models import HistoryFile
from console.report import services
from console.report.models import ReportRun
from console.report.runs.missing import missing
from tests.console.report.sample_rows import HOUR, TODAY

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

SEGMENT = 300_000


def log(host: str, start_ms: int, uploaded_at_ms: int) -> HistoryFile:
    return HistoryFile.objects.create(
        path=f"wal/local/{host}/{start_ms}.wal",
        kind=HistoryFile.Kind.WAL,
        cluster="local",
        host=host,
        uploaded_at_ms=uploaded_at_ms,
        ts_lo_ms=start_ms,
        ts_hi_ms=start_ms + SEGMENT,
    )


def test_it_reads_the_logs_of_all_hosts_and_names_what_is_not_uploaded(
    tmp_path: Path, settings: Settings
) -> None:
    settings.HOST_ID, settings.DATA_DIR = "host-b", tmp_path
    settings.HISTORY_URL = "s3://bucket/history"
    Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1")
    log("host-a", TODAY, uploaded_at_ms=1)
    log("host-b", TODAY, uploaded_at_ms=1)  # it took over within the segment
    log("host-b", TODAY + SEGMENT, uploaded_at_ms=0)
    log("host-a", TODAY + SEGMENT, uploaded_at_ms=0)
    run = ReportRun(id="report-1", cluster="local", job="lag_hour", from_ms=TODAY, to_ms=TODAY + HOUR)
    spec = services.job_spec(run, now_ms=TODAY + HOUR)
    (hour,) = spec.hours
    assert hour.files == [
        f"s3://bucket/history/wal/local/host-a/{TODAY}.wal",
        f"s3://bucket/history/wal/local/host-b/{TODAY}.wal",
        f"{tmp_path}/history/wal/local/host-b/{TODAY + SEGMENT}.wal",
    ]
    (line,) = missing(run, [TODAY], TODAY + HOUR)
    assert line.endswith(
        ": the log of host-a is not uploaded yet: that takes six minutes while the host runs; "
        "if it is down, start it again with its data folder"
    )
