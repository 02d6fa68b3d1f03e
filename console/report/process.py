"""The process of a Spark job, seen from the console: started, followed line by line, ended in time.

The job says `STEP text` while it works and ends with `RESULT {json}` or `ERROR text`; everything else on its output is
Spark's own talk and is kept only to explain a failure.
"""

from __future__ import annotations

import fcntl
import functools
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
from django.conf import settings

JAVA_LOOKED_UP_EVERY_S = 60
JAVA_LOOKUP_TIMEOUT_S = 30
LINES_KEPT = 40  # enough of a Java stack trace to see its cause
LINES_WAITING_MAX = 1_000
ERROR_LENGTH_MAX = 500
BEAT_S = 1.0  # how often the caller is asked whether to go on while the job is silent
END_WITHIN_S = 10


class ReportFailed(Exception):
    """The job ended without a result; the text says why and what to do, for the page."""


class JobResult(msgspec.Struct, frozen=True):
    """The job's answer (`spark.job.JobResult`, which only the job's own process may import)."""

    job_id: str
    output: str
    rows: int
    hours: int
    elapsed_ms: int
    spark_version: str
    warnings: list[str]


@dataclass(slots=True)
class Said:
    """What the job has said so far."""

    result: JobResult | None = None
    error: str = ""
    talk: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))

    def take(self, line: str) -> str:
        """Note a line; the step it announces, or ""."""
        kind, _, text = line.rstrip("\n").partition(" ")
        if kind == "STEP":
            return text
        if kind == "RESULT":
            self.result = _result(text)
        elif kind == "ERROR":
            self.error = text[:ERROR_LENGTH_MAX]
        else:
            self.talk.append(line)
        return ""

    @property
    def cause(self) -> str:
        """The line of a failed job's talk that most likely says why."""
        causes = [line.strip() for line in self.talk if "Error" in line or "Exception" in line]
        lines = causes or [line.strip() for line in self.talk if line.strip()]
        return lines[-1][:ERROR_LENGTH_MAX] if lines else "it said nothing"


@contextmanager
def only_one(folder: Path) -> Iterator[bool]:
    """Whether this process may start Spark now: one at a time on a machine, each takes every core and a gigabyte.

    The lock dies with its holder, however that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "spark.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def run_job(
    job: str, spec: str, *, on_step: Callable[[str], None], on_beat: Callable[[], None], timeout_s: float
) -> JobResult:
    """Run `python -m spark.<job>` to its end. Raises ReportFailed.

    `on_beat` is called about once a second; whatever it raises ends the job and goes to the caller.
    """
    deadline = time.monotonic() + timeout_s
    said = Said()
    process = subprocess.Popen(
        [sys.executable, "-m", f"spark.{job}"],
        cwd=settings.BASE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        for line in _lines(process, spec):
            step = said.take(line)
            if step:
                on_step(step)
            on_beat()
            if time.monotonic() > deadline:
                raise ReportFailed(
                    f"The Spark job was stopped after {timeout_s / 60:g} minutes; ask for a shorter window."
                )
        code = process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired as error:
        raise ReportFailed("The Spark job closed its output and did not end; run it again.") from error
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if said.result is None or code != 0:
        raise ReportFailed(said.error or f"The Spark job ended with code {code}: {said.cause}")
    return said.result


def _lines(process: subprocess.Popen[str], spec: str) -> Iterator[str]:
    """The job's lines as they come, and an empty one for every second without; ends with its output."""
    assert process.stdin is not None and process.stdout is not None
    waiting: queue.Queue[str | None] = queue.Queue(LINES_WAITING_MAX)
    for work in (
        threading.Thread(target=_read, args=(process.stdout, waiting), daemon=True),
        threading.Thread(target=_write, args=(process.stdin, spec), daemon=True),
    ):
        work.start()
    while True:
        try:
            line = waiting.get(timeout=BEAT_S)
        except queue.Empty:
            line = ""
        if line is None:
            return
        yield line


def _read(output: IO[str], waiting: queue.Queue[str | None]) -> None:
    with output:
        for line in output:
            waiting.put(line)
    waiting.put(None)


def _write(stdin: IO[str], spec: str) -> None:
    try:
        with stdin:
            stdin.write(spec)
    except BrokenPipeError:
        return  # the job ended before it read; what it said instead tells why


def _result(text: str) -> JobResult | None:
    try:
        return msgspec.json.decode(text, type=JobResult)
    except msgspec.DecodeError as error:
        raise ReportFailed(f"The Spark job's answer is not understood: {error}.") from error


@functools.lru_cache(maxsize=1)
def _java_problem_of(minute: int) -> str | None:
    try:
        asked = subprocess.run(
            [sys.executable, "-m", "spark.java"],
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
            timeout=JAVA_LOOKUP_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"Java was not found out about within {JAVA_LOOKUP_TIMEOUT_S} s: this machine is very busy."
    return asked.stdout.strip() or None


def java_problem() -> str | None:
    """What is wrong with Java on this machine, looked up once a minute: somebody may just have installed it."""
    return _java_problem_of(int(time.monotonic() // JAVA_LOOKED_UP_EVERY_S))
