"""A job's process from outside: it refuses in one line without starting a JVM, and never outlives who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark.process import job_process
from spark.process.session import session_settings

PATIENCE_S = 60
SPEC_WITHOUT_HOURS = (
    '{"job":"lag_hour","job_id":"r","from_ms":0,"to_ms":3600000,"hours":[],"output":"/nowhere","as_of_ms":0}'
)


def lag_hour(spec: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark.jobs.lag_hour"]
    return subprocess.run(
        command, input=spec, capture_output=True, text=True, timeout=60, env={**os.environ, **environ}
    )


def test_it_refuses_a_bad_spec_in_one_line() -> None:
    done = lag_hour("{}")
    assert done.returncode == 1
    assert done.stdout == "ERROR not a job spec: Object missing required field `job`\n"


def test_it_says_what_to_install_without_java(tmp_path: Path) -> None:
    done = lag_hour(SPEC_WITHOUT_HOURS, JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith("ERROR Spark reports need Java, and ")
    assert "apt-get install openjdk-17-jre-headless" in done.stdout


def test_it_says_whose_python_lacks_a_package(capsys: pytest.CaptureFixture[str]) -> None:
    """As a cluster's executor says it: by a traceback in the text of Spark's own error."""
    job_process._fail(
        "Spark could not: Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'\n"
    )
    assert capsys.readouterr().out.startswith(
        "ERROR ModuleNotFoundError: No module named 'x'. The Python that runs"
    )


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "spark.process.job_server", "60"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_the_server_ends_when_nobody_can_ask_it_any_more(server: subprocess.Popen[str]) -> None:
    said, _ = server.communicate("", timeout=60)
    assert (said, server.returncode) == ("", 0)


def test_the_server_ends_after_a_job_that_failed(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(SPEC_WITHOUT_HOURS.replace("lag_hour", "os") + "\n")
    server.stdin.flush()  # and stays open: somebody waits for the answer
    said = server.stdout.read()
    assert said.startswith("TAKEN\nERROR there is no job 'os'; there are: capacity, dead_letter, ")
    assert server.wait(60) == 1


PARENT = """
import subprocess, sys, time
code = "import time; from spark.process.job_process import die_with_parent; "
code += "die_with_parent(); print('up', flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_it_dies_with_whoever_started_it() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    job = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + PATIENCE_S
    while is_running(job):
        assert time.monotonic() < deadline, "the job outlived its parent"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_listens_on_this_machine_only_when_it_runs_here() -> None:
    for master in ("", "local[4]"):
        settings = session_settings(master=master)
        assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
        assert settings["spark.ui.enabled"] == "false"
    # a cluster's executors must reach the driver
    assert "spark.driver.bindAddress" not in session_settings(master="spark://spark:7077")
    assert "spark.ui.enabled" not in session_settings(remote="sc://spark:15002")
    assert session_settings(remote="sc://spark:15002")["spark.sql.session.timeZone"] == "UTC"
