"""Where jobs run: a warm server that is found again, a standalone cluster without a worker, nobody at all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark.job import HourFiles, JobSpec
from spark.process.session import SparkAway, require_answer
from tests.spark.history_files import AS_OF, HOUR, START, STEP, generated
from tests.spark.work_of import rows_of
from tests.support.spark_cluster import PATIENCE_S, running_master, running_worker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def spec(folder: Path, **changes: object) -> JobSpec:
    history = generated()
    return JobSpec(
        job="lag_hour",
        job_id="report-1",
        from_ms=START,
        to_ms=START + HOUR,
        hours=(HourFiles("local", START, (history.write_chunk(folder),)),),
        output=str(folder / "out"),
        as_of_ms=AS_OF,
        interval_ms=STEP,
        **changes,  # type: ignore[arg-type]
    )


def lag_hour(asked: JobSpec, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *(command or ("-m", "spark.jobs.lag_hour"))],
        input=asked.to_json(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        env={**os.environ, **environ},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("standalone")


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """A standalone master without a worker, a process of its own."""
    with running_master(folder) as address:
        yield address


def test_it_says_that_a_master_has_no_worker(master: str, tmp_path: Path) -> None:
    """In a process of its own: whoever waits for an executor holds this process's only Spark."""
    code = (
        "import sys; from spark.process import session; session.EXECUTOR_WITHIN_S = 1; "
        "from spark.jobs import lag_hour; from spark.process.job_process import main; "
        "sys.exit(main(sys.stdin.read(), lag_hour.run))"
    )
    done = lag_hour(spec(tmp_path, master=master), "-c", code, SPARK_LOCAL_IP="127.0.0.1")
    assert done.returncode == 1, done.stdout + done.stderr[-3_000:]
    said = done.stdout.splitlines()[-1]
    assert said == f"ERROR {master} gave no executor within 1 s: no worker is up or all are busy."
    assert not (tmp_path / "out").exists()


STANDS_STILL = """
import sys, time
from pathlib import Path
from spark.process import executor_watch
from spark.process.job_process import main

def run(context, spec):
    def stand_still(started):
        Path(started).touch()
        time.sleep(600)
    context.parallelize([f"{spec.output}.started"], 1).foreach(stand_still)

executor_watch.LOST_AFTER_S = 1
sys.exit(main(sys.stdin.read(), run))
"""


def test_it_says_that_the_workers_are_gone_in_the_middle_of_a_job(
    master: str, folder: Path, tmp_path: Path
) -> None:
    """Spark itself would wait for another worker for ever."""
    asked = spec(tmp_path, master=master)
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", STANDS_STILL]
    with (
        running_worker(master, folder, "mortal") as worker,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
        ) as job,
    ):
        assert job.stdin is not None
        job.stdin.write(asked.to_json())
        job.stdin.close()
        job.stdin = None  # communicate() would flush it
        deadline = time.monotonic() + PATIENCE_S
        while not Path(f"{asked.output}.started").exists() and job.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        worker.kill()
        said, talk = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 1, said + talk[-3_000:]
    assert said.splitlines()[-1] == (
        f"ERROR {master} took every executor away and gave none for 1 s: its workers are gone. "
        "Start them and run the report again."
    )


def test_a_warm_server_is_found_again(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    environ = {"SPARK_LOCAL_CONNECT_DISCOVERY": str(note)}
    first = lag_hour(spec(tmp_path, reuse=True), **environ)
    try:
        assert first.returncode == 0, first.stdout + first.stderr[-3_000:]
        result = json.loads(first.stdout.splitlines()[-1].removeprefix("RESULT "))
        assert (result["hours"], result["warnings"]) == (1, [])
        rows, pid = rows_of(result["output"]), json.loads(note.read_text())["pid"]
        again = lag_hour(spec(tmp_path, reuse=True), **environ)
        assert again.returncode == 0, again.stdout
        assert json.loads(note.read_text())["pid"] == pid  # the same JVM, still warm
        assert rows_of(result["output"]) == rows != []
    finally:
        stop = [sys.executable, "-m", "pyspark.sql.connect.local_server", "--stop"]
        subprocess.run(stop, env={**os.environ, **environ}, check=True)


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_it_says_that_nobody_answers(scheme: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"{scheme}://127.0.0.1:{free.getsockname()[1]}"
    where = {"master": url} if scheme == "spark" else {"remote": url}
    done = lag_hour(spec(tmp_path, **where))
    assert done.returncode == 1
    assert done.stdout.startswith(f"ERROR No Spark answers at {url} (127.0.0.1:")
    assert "Connection refused" in done.stdout and "correct SPARK_MASTER" in done.stdout


def test_it_asks_every_master_of_a_list() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        require_answer(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(SparkAway, match="127.0.0.1:1: .*; 127.0.0.1:2: "):
        require_answer("spark://127.0.0.1:1,127.0.0.1:2")
    require_answer("local[4]")
