"""Every job on a standalone cluster whose two workers share no folder: history and rows are on an S3 server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark.job import HourFiles, JobSpec, StoreFolder
from spark.lag.history import files
from spark.lag.local_time import HOUR_MS
from spark.process.job_server import JOBS
from tests.brokerd.store.stores import GOLDEN, unpack_golden
from tests.spark.work_of import rows_of
from tests.support.lag_reference import SIZES, START_MS, write_history
from tests.support.s3_server import S3Server
from tests.support.spark_cluster import SHORT_LIVED, running_master, running_worker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
HOURS = 2
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
DAY_START = START_MS - START_MS % DAY_MS


@pytest.fixture
def cluster(tmp_path: Path, s3_server: S3Server) -> Iterator[str]:
    """A master and two workers of one core each; executors begin in their worker's own folder."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with (
        running_master(folder) as master,
        running_worker(master, folder, "first", cores=1),
        running_worker(master, folder, "second", cores=1),
    ):
        yield master


def lag_spec(job: str, paths: list[str], output: str, **changes: Any) -> JobSpec:
    days = job in ("lag_day", "capacity", "forecast_scorecard")
    from_ms, span_ms = (DAY_START, DAY_MS) if days else (START_MS, HOURS * HOUR_MS)
    if job == "lag_week":
        from_ms, span_ms = START_MS - (START_MS + 3 * DAY_MS) % WEEK_MS, WEEK_MS
    values: dict[str, Any] = {
        "job": job,
        "job_id": "report-1",
        "from_ms": from_ms,
        "to_ms": from_ms + span_ms,
        "hours": tuple(
            HourFiles("reference", START_MS + i * HOUR_MS, (path,), tuple(paths[:i]))
            for i, path in enumerate(paths)
        ),
        "output": output,
        "as_of_ms": START_MS + HOURS * HOUR_MS,
        "interval_ms": 15_000,
    }
    return JobSpec(**{**values, **changes})


def store_spec(job: str, store: Path, output: str, **changes: Any) -> JobSpec:
    stored = [
        one["storeTimestamp"]
        for one in json.loads((GOLDEN / "5.3.3" / "expected.json").read_text())["messages"]
    ]
    day = min(stored) - min(stored) % DAY_MS
    folder = StoreFolder("local", "broker-a", str(store))
    values = {
        "from_ms": day,
        "to_ms": day + DAY_MS,
        "as_of_ms": day + DAY_MS,
        "hours": (),
        "stores": (folder,),
    }
    return JobSpec(job=job, job_id="report-1", output=output, **{**values, **changes})  # type: ignore[arg-type]


def answers(specs: list[JobSpec], folder: Path) -> list[dict[str, Any] | str]:
    """What one process says to specs, one after another: results, or the text of an error, after which it ends."""
    found: list[dict[str, Any] | str] = []
    talk = []
    with (
        (folder / "talk").open("a") as log,
        subprocess.Popen(
            [sys.executable, "-m", "spark.process.job_server", "60"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={
                **os.environ,
                **SHORT_LIVED,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
            },
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(one.to_json() + "\n" for one in specs))
        process.stdin.flush()
        for line in process.stdout:
            kind, _, text = line.strip().partition(" ")
            talk.append(line)
            if kind in ("RESULT", "ERROR"):
                found.append(json.loads(text) if kind == "RESULT" else text)
            if len(found) == len(specs):
                break
        process.stdin.close()
    assert len(found) == len(specs), "".join(talk) + (folder / "talk").read_text()[-3_000:]
    return found


def rows_at(url: str) -> list[dict[str, Any]]:
    filesystem, folder = files.filesystem_of(url)
    paths = sorted(path for path in filesystem.ls(folder, detail=False) if path.endswith(".parquet"))
    rows = []
    for path in paths:
        with filesystem.open(path, "rb") as file:
            rows += pq.read_table(file).to_pylist()
    return rows


def test_every_job_runs_without_a_folder_that_all_share(
    cluster: str, s3_server: S3Server, tmp_path: Path
) -> None:
    local = [str(tmp_path / row.path) for row in write_history(SIZES["small"], tmp_path, HOURS)]
    stored = []
    for path in local:
        stored.append(f"{s3_server.url}/history/{Path(path).parent.name}-{Path(path).name}")
        files.write_bytes(stored[-1], Path(path).read_bytes())
    store = unpack_golden("5.3.3", tmp_path / "golden")

    def specs(output: str, paths: list[str], **changes: Any) -> list[JobSpec]:
        return [
            store_spec(job, store, f"{output}/{job}", **changes)
            if job in ("dead_letter", "topic_traffic")
            else lag_spec(job, paths, f"{output}/{job}", **changes)
            for job in JOBS
        ]

    # a folder that all do share, and at last the memory of each executor: what it wrote is not where the driver looks
    shared = lag_spec("lag_hour", local, str(tmp_path / "shared"), master=cluster)
    lost = lag_spec("lag_hour", stored, "memory://rows", master=cluster)
    asked = [*specs(f"{s3_server.url}/reports", stored, master=cluster), shared, lost]
    *there, in_folder, error = answers(asked, tmp_path)
    here = answers(specs(str(tmp_path / "alone"), local, master="local[2]"), tmp_path)
    for job, one, alone in zip(JOBS, there, here, strict=True):
        assert isinstance(one, dict) and isinstance(alone, dict), (job, one, alone)
        assert one["warnings"] == [], job
        rows = rows_at(f"{s3_server.url}/reports/{job}")
        assert rows == rows_of(tmp_path / "alone" / job) != [], job
        assert one["rows"] == len(rows), job
    assert isinstance(in_folder, dict)
    assert rows_of(tmp_path / "shared") == rows_of(tmp_path / "alone" / "lag_hour")
    assert isinstance(error, str)
    assert "Set REPORTS_URL to storage that the console and every Spark worker share." in error
    assert s3_server.count("COPY") == 0
