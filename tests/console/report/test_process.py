"""The job's process as the console sees it, on real processes that do what a Spark job may do wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import PropertyMock, patch

import pytest
from pytest_django import Settings

from console.report import process
from console.report.process import JobProcess, JobResult, ReportFailed
from tests.console.report.fake_job import answer, write_job

SPEC = '{"job_id": "report-1", "output": "/out"}'


class Follower:
    """Whoever waits for the job."""

    def __init__(self, *, leave_after: int | None = None) -> None:
        self.steps: list[str] = []
        self.beats = 0
        self.leave_after = leave_after

    def step(self, text: str) -> None:
        self.steps.append(text)

    def beat(self) -> None:
        self.beats += 1
        if self.leave_after is not None and self.beats >= self.leave_after:
            raise RuntimeError("no longer wanted")


@pytest.fixture
def jobs(tmp_path: Path, settings: Settings) -> Path:
    settings.BASE_DIR = tmp_path
    settings.SPARK_IDLE_S = 0.0
    return tmp_path


def run(follower: Follower | None = None, *, timeout_s: float = 60, spec: str = SPEC) -> JobResult:
    follower = follower or Follower()
    return process.run_job(spec, on_step=follower.step, on_beat=follower.beat, timeout_s=timeout_s)


def test_it_follows_steps_and_takes_the_result(jobs: Path) -> None:
    write_job(jobs, "print('STEP computing')\nprint('WARN of Spark itself')\n" + answer(3, ("a: torn",)))
    follower = Follower()
    assert run(follower) == JobResult("report-1", "/out", 3, 1, 5, "4.3.0", ["a: torn"])
    assert follower.steps == ["computing"]


def test_it_passes_a_spec_larger_than_a_pipe(jobs: Path) -> None:
    write_job(jobs, "print('noise ' * 50_000)\nprint('STEP', len(spec['pad']))\n" + answer(0))
    follower = Follower()
    run(follower, spec='{"job_id": "r", "output": "o", "pad": "%s"}' % ("x" * 2_000_000))
    assert follower.steps == ["2000000"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('ERROR no such window')\nsys.exit(1)", "no such window"),
        ("sys.exit(0)", "The Spark job ended with code 0: it wrote nothing"),
        ("os._exit(9)", "The Spark job ended with code 9: it wrote nothing"),
        ("1 / 0", "The Spark job ended with code 1: ZeroDivisionError: division by zero"),
        ("os.kill(os.getpid(), 9)", "The Spark job ended with code -9: it wrote nothing"),
        ("print('RESULT {')", "The Spark job's answer cannot be read: Input data was truncated."),
    ],
)
def test_it_says_why_a_job_failed(jobs: Path, code: str, reason: str) -> None:
    write_job(jobs, code)
    with pytest.raises(ReportFailed) as failure:
        run()
    assert str(failure.value) == reason


def test_it_says_why_a_job_did_not_even_read(jobs: Path) -> None:
    write_job(jobs, "print('ERROR nothing works here'); sys.exit(1)", preamble="import sys\n")
    with pytest.raises(ReportFailed, match="nothing works here"):
        run(spec="x" * 2_000_000)


def test_it_stops_a_job_that_takes_too_long(jobs: Path, tmp_path: Path) -> None:
    write_job(jobs, f"open('{tmp_path}/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)")
    with pytest.raises(ReportFailed) as failure:
        run(timeout_s=3)
    assert str(failure.value) == "The Spark job was stopped after 0.05 minutes; choose a shorter window."
    assert_gone(tmp_path / "pid")


def test_it_stops_a_job_that_talks_and_never_ends(jobs: Path) -> None:
    write_job(jobs, "while True: print('Error: still trying'); time.sleep(0.01)")
    with pytest.raises(ReportFailed, match="stopped after"):
        run(timeout_s=2)


def test_it_asks_every_second_whether_to_go_on(jobs: Path, tmp_path: Path) -> None:
    write_job(jobs, f"open('{tmp_path}/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)")
    follower = Follower(leave_after=3)
    with pytest.raises(RuntimeError, match="no longer wanted"):
        run(follower)
    assert follower.beats == 3
    assert_gone(tmp_path / "pid")


def assert_gone(pid_file: Path) -> None:
    pid = pid_file.read_text() if pid_file.exists() else ""
    if pid:  # a busy machine may not even have come to writing it
        assert not Path(f"/proc/{pid}").exists()


SERVER = """
import json, os, sys
for line in sys.stdin:
    spec = json.loads(line)
    print("TAKEN\\nSTEP", os.getpid(), flush=True)
    if spec["job_id"] == "bad":
        print("ERROR", "of this one", flush=True)
"""


@pytest.fixture
def server(jobs: Path, settings: Settings) -> Iterator[Path]:
    """A process that stays for the next job."""
    settings.SPARK_IDLE_S = 60.0
    body = textwrap.indent("else:" + textwrap.indent(answer(1), "    "), "    ")
    write_job(jobs, SERVER + body, preamble="")
    yield jobs
    process.end_kept()


def pid_of(job_id: str = "good") -> int:
    """The process that the job ran in."""
    follower = Follower()
    run(follower, spec=json.dumps({"job_id": job_id, "output": "/out"}))
    return int(follower.steps[0])


def test_it_keeps_a_process_for_the_next_job(server: Path) -> None:
    first = pid_of()
    assert pid_of() == first
    process.end_kept()
    assert not Path(f"/proc/{first}").exists()
    assert pid_of() != first


def test_it_starts_anew_after_a_failure_and_in_the_place_of_one_that_ended(server: Path) -> None:
    first = pid_of()
    with pytest.raises(ReportFailed, match="^of this one$"):
        pid_of("bad")
    second = pid_of()
    assert second != first and not Path(f"/proc/{first}").exists()
    os.kill(second, signal.SIGKILL)
    while process._kept._process is not None and process._kept._process.is_running:
        time.sleep(0.01)
    assert pid_of() not in (first, second)


def test_it_starts_anew_when_the_kept_one_ends_as_the_spec_comes(server: Path) -> None:
    first = pid_of()
    kept = process._kept.take()
    assert kept is not None
    kept.end()
    process._kept._process = kept
    kept_runs = PropertyMock(return_value=True)  # it still seemed to run when it was looked at
    with patch.object(JobProcess, "is_running", kept_runs):
        assert pid_of() != first
    assert kept_runs.called


def test_it_keeps_none_that_holds_executors_of_a_cluster(server: Path, settings: Settings) -> None:
    settings.SPARK_MASTER = "spark://127.0.0.1:7077"
    first = pid_of()
    assert not Path(f"/proc/{first}").exists()
    assert process._kept.take() is None


LOCK_HOLDER = "import sys; from console.report.process import a_place; from pathlib import Path\n"
LOCK_HOLDER += "with a_place(Path(sys.argv[1]), 1) as free: print(free, flush=True); sys.stdin.read()"


def test_it_lets_one_spark_run_at_a_time_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", LOCK_HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None and holder.stdout.readline() == "True\n"
    with process.a_place(tmp_path, 1) as is_free:
        assert not is_free
    holder.kill()
    holder.communicate()
    with process.a_place(tmp_path, 1) as is_free:
        assert is_free


def test_it_asks_for_java_in_a_process_of_its_own(jobs: Path) -> None:
    write_job(jobs, "sys.stdout.write('no Java here')", preamble="import sys\n", name="java")
    process._java_problem_of.cache_clear()
    assert process.java_problem() == "no Java here"
    process._java_problem_of.cache_clear()
    write_job(jobs, "", preamble="", name="java")
    assert process.java_problem() is None
    process._java_problem_of.cache_clear()
