"""A cluster with history, and a place where jobs are not Spark but what a test says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pytest_django import Settings

from console.cluster.models import Cluster
from console.lag.models import HistoryFile
from console.report import process
from tests.console.report.fake_job import answer, write_job
from tests.console.report.sample_rows import HOUR, TODAY, figures, write_parts


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is there; asking costs half a second."""
    monkeypatch.setattr(process, "java_problem", lambda: None)


@pytest.fixture
def cluster(db: None) -> Cluster:
    """Cluster "local" with history of the hours 7 and 8 of TODAY."""
    for hour in (7, 8):
        HistoryFile.objects.create(
            path=f"kind=chunk_hour/hour={hour}.parquet",
            kind=HistoryFile.Kind.CHUNK_HOUR,
            cluster="local",
            ts_lo_ms=TODAY + hour * HOUR,
            ts_hi_ms=TODAY + (hour + 1) * HOUR,
        )
    return Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1")


class FakeSpark:
    """`python -m spark.jobs.lag_hour` copies the rows that a test gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def computes(self, *rows: dict[str, object], warnings: tuple[str, ...] = (), **more: object) -> None:
        """`more`: other fields of the result."""
        made = self.folder / "made"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        for grain in ("topic", "queue"):
            write_parts(made, *(row for row in rows if row.get("grain", "topic") == grain), grain=grain)
        self.does(
            "print('STEP computing', flush=True)\nimport shutil\n"
            f"shutil.copytree('{made}', spec['output'], dirs_exist_ok=True)\n"
            + answer(len(rows), warnings, **more)
        )

    def does(self, code: str) -> None:
        write_job(self.folder, code)


@pytest.fixture
def spark_job(tmp_path: Path, settings: Settings) -> FakeSpark:
    settings.BASE_DIR = tmp_path
    settings.DATA_DIR = tmp_path
    settings.REPORTS_DIR = tmp_path / "reports"
    settings.REPORTS_URL = f"file://{tmp_path}/reports"
    settings.SPARK_IDLE_S = 0.0
    job = FakeSpark(tmp_path)
    job.computes(figures())
    return job
