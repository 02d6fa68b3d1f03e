"""Control the process of Spark jobs: start it, follow its output, keep it for the next job or end it.

It writes `TAKEN` for a spec, `STEP text` while it works, and finally `RESULT {json}` or `ERROR text`; all other
output is Spark's own and is kept only to explain a failure. After a result it may stay for a while (see
`job_server`): the next report then needs no new JVM. A process that failed, took too long or is no longer wanted
is killed.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
from django.conf import settings

from console.text import Text

JAVA_LOOKED_UP_EVERY_S = 60
JAVA_LOOKUP_TIMEOUT_S = 30
LINES_KEPT = 40  # enough of a Java stack trace to see its cause
LINES_WAITING_MAX = 1_000
ERROR_LENGTH_MAX = 500
# The steps of a job (`spark.process.job_process.report_step`).
STEPS: dict[str, Callable[[int], Text]] = {
    "hours": lambda number: Text("computing %(number)s hour(s)", number=number),
    "stores": lambda number: Text("reading %(number)s store(s)", number=number),
    "dead_letters": lambda number: Text("reading the dead letters of %(number)s store(s)", number=number),
}
BEAT_S = 1.0  # how often the caller can stop a silent job
END_WITHIN_S = 10


class ReportFailed(Exception):
    """The job ended without a result; the text gives the reason and what to do, for the page."""


class HourFiles(msgspec.Struct, frozen=True):
    """An hour of a cluster with its history files, those of the time before it, and a checksum of its content."""

    cluster: str
    hour_ms: int
    files: Sequence[str]
    older: Sequence[str]
    content: str


class Promise(msgspec.Struct, frozen=True):
    """A version of a group's promise, in force from `from_ms`."""

    slo_ms: int
    target: float
    from_ms: int


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a job depends on (`spark.job.JobSpec`, which only the job's own process may import)."""

    job: str
    job_id: str
    from_ms: int
    to_ms: int
    zone: str
    as_of_ms: int
    hours: Sequence[HourFiles]
    stores: Sequence[Mapping[str, str]]
    output: str
    slo_ms: int
    slo_target: float
    slos: Mapping[str, Sequence[Promise]]
    interval_ms: int
    lookback_ms: int
    recovery_ms: int
    clients: Mapping[str, int]
    client_changes: Mapping[str, Sequence[tuple[int, int]]]
    filter_samples: Mapping[str, Sequence[tuple[int, int, int]]]
    code_version: str
    folds: str
    remote: str
    master: str
    reuse: bool


class UnreadFile(msgspec.Struct, frozen=True):
    """A history file that the job could not read, and why."""

    path: str
    reason: str


class JobResult(msgspec.Struct, frozen=True):
    """The job's answer (`spark.job.JobResult`, which only the job's own process may import)."""

    job_id: str
    output: str
    rows: int
    hours: int
    elapsed_ms: int
    spark_version: str
    warnings: list[str]
    unread: list[UnreadFile] = []
    lost_ms: list[int] = []  # starts of periods of which nothing could be read


@dataclass(slots=True)
class JobOutput:
    """The job's output so far."""

    result: JobResult | None = None
    error: str = ""
    is_taken: bool = False
    talk: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))

    def take(self, line: str) -> Text:
        """Record a line; return the step that it announces, or an empty text."""
        kind, _, text = line.rstrip("\n").partition(" ")
        if kind == "STEP":
            return _step(text)
        if kind == "TAKEN":
            self.is_taken = True
        elif kind == "RESULT":
            self.result = _result(text)
        elif kind == "ERROR":
            self.error = text[:ERROR_LENGTH_MAX]
        else:
            self.talk.append(line)
        return Text()

    @property
    def is_all(self) -> bool:
        """Return whether the job has reported its end."""
        return self.result is not None or self.error != ""

    @property
    def cause(self) -> str:
        """The line of a failed job's output that most likely gives the reason; "" without output."""
        causes = [line.strip() for line in self.talk if "Error" in line or "Exception" in line]
        lines = causes or [line.strip() for line in self.talk if line.strip()]
        return lines[-1][:ERROR_LENGTH_MAX] if lines else ""


@contextmanager
def a_place(folder: Path, count: int) -> Iterator[bool]:
    """Yield whether this process may have Spark compute now: so many at a time on a machine.

    A place is a lock that is released when its holder ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        with (folder / f"spark-{number}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield True
            return
    yield False


class JobProcess:
    """A process that takes specs. A thread of its own reads its output from start to end."""

    def __init__(self, idle_s: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spark.process.job_server", f"{idle_s:g}"],
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin = self._process.stdin
        self._waiting: queue.Queue[str | None] = queue.Queue(LINES_WAITING_MAX)
        threading.Thread(target=_read, args=(self._process.stdout, self._waiting), daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def lines(self, spec: str) -> Iterator[str]:
        """Send a spec; yield output lines to the end, an empty one for every silent second."""
        threading.Thread(target=_write, args=(self._stdin, spec), daemon=True).start()
        while True:
            try:
                line = self._waiting.get(timeout=BEAT_S)
            except queue.Empty:
                line = ""
            if line is None:
                return
            yield line

    def code(self) -> int:
        """Return its exit code. Raises ReportFailed if it closed its output and does not end."""
        try:
            return self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise ReportFailed(
                Text("The Spark job closed its output and did not end; run it again.")
            ) from error

    def end(self) -> None:
        """Let it end by itself for a moment, so that Spark removes its temporary files."""
        with suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            self._stdin.close()


class _Kept:
    """The process that waits for the next job, if any: only one, however many jobs run at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: JobProcess | None = None

    def take(self) -> JobProcess | None:
        """Take the waiting process; None if there is none that still runs."""
        with self._lock:
            found, self._process = self._process, None
        return found if found is not None and found.is_running else None

    def put(self, process: JobProcess) -> None:
        with self._lock:
            before, self._process = self._process, process
        if before is not None:
            before.end()

    def end(self) -> None:
        found = self.take()
        if found is not None:
            found.end()


_kept = _Kept()
end_kept = _kept.end
atexit.register(end_kept)


def run_job(
    spec: str, *, on_step: Callable[[Text], None], on_beat: Callable[[], None], timeout_s: float
) -> JobResult:
    """Run a spec to its end, in the waiting process or a new one. Raises ReportFailed.

    `on_beat` is called about once a second; an exception from it ends the job and reaches the caller.
    """
    deadline = time.monotonic() + timeout_s
    idle_s = settings.SPARK_IDLE_S if not settings.SPARK_MASTER.startswith("spark://") else 0.0

    def follow(process: JobProcess) -> JobOutput:
        job_output = JobOutput()
        for line in process.lines(spec):
            step = job_output.take(line)
            if step:
                on_step(step)
            on_beat()
            if job_output.is_all:
                break
            if time.monotonic() > deadline:
                raise ReportFailed(
                    Text(
                        "The Spark job was stopped after %(number)s minutes; choose a shorter window.",
                        number=f"{timeout_s / 60:g}",
                    )
                )
        return job_output

    process = _kept.take()
    try:
        job_output = follow(process) if process is not None else JobOutput()
        if process is None or not (job_output.is_taken or job_output.is_all):
            process = JobProcess(idle_s)  # the waiting one had just reached its idle limit
            job_output = follow(process)
        if job_output.result is None:
            raise ReportFailed(_why(job_output, process))
    except BaseException:
        if process is not None:
            process.kill()
        raise
    if idle_s:
        _kept.put(process)
    else:
        process.end()
    return job_output.result


def _read(output: IO[str], waiting: queue.Queue[str | None]) -> None:
    with output:
        for line in output:
            waiting.put(line)
    waiting.put(None)


def _write(stdin: IO[str], spec: str) -> None:
    try:
        stdin.write(spec + "\n")
        stdin.flush()
    except (OSError, ValueError):  # broken, or closed already
        return  # the job ended before it read; its output gives the reason


def _step(announced: str) -> Text:
    """Return what a job is doing, from `name count` as it writes it; any other line is shown as it is."""
    name, _, count = announced.partition(" ")
    return STEPS[name](int(count)) if name in STEPS else Text.foreign(announced)


def _why(job_output: JobOutput, process: JobProcess) -> Text:
    """Return why a job ended without a result: its error, or the likeliest line of its output."""
    if job_output.error:
        return Text.foreign(job_output.error)
    cause = Text.foreign(job_output.cause) or Text("it wrote nothing")
    return Text("The Spark job ended with code %(code)s: %(why)s", code=str(process.code()), why=cause)


def _result(text: str) -> JobResult | None:
    try:
        return msgspec.json.decode(text, type=JobResult)
    except msgspec.DecodeError as error:
        raise ReportFailed(Text("The Spark job's answer cannot be read: %(why)s.", why=str(error))) from error


@functools.lru_cache(maxsize=1)
def _java_problem_of(minute: int) -> Text | None:
    try:
        probe = subprocess.run(
            [sys.executable, "-m", "spark.process.java"],
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
            timeout=JAVA_LOOKUP_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return Text(
            "The check for Java did not finish within %(number)s s: this machine is very busy.",
            number=JAVA_LOOKUP_TIMEOUT_S,
        )
    return Text.foreign(probe.stdout.strip()) or None


def java_problem() -> Text | None:
    """Return what is wrong with Java on this machine, checked once a minute (it may be installed meanwhile)."""
    return _java_problem_of(int(time.monotonic() // JAVA_LOOKED_UP_EVERY_S))
