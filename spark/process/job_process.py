"""The process of a job: a spec on standard input, progress and result on standard output, exit code.

It writes `STEP name count` while it works, then `RESULT {json}` or `ERROR text`; other output is
that of Spark. Run by hand (`python -m spark.jobs.<job> < spec.json`) it exits with code 1 after an error and never
outlives the process that started it. The console has `spark.process.job_server`, which runs one job after another.
"""

from __future__ import annotations

import ctypes
import re
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.job import JobFailed, JobResult, JobSpec, JobSpecError
from spark.process import class_archive
from spark.process.executor_watch import ExecutorWatch
from spark.process.java import JavaMissing
from spark.process.session import (
    SparkAway,
    build_context,
    build_session,
    context_of,
    end,
    is_alive,
    package_shipped,
    session_of,
)

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
ERROR_LENGTH_MAX = 500
EXECUTORS_PYTHON = (
    "The Python that runs Spark's executors lacks it: set PYSPARK_PYTHON, beside the worker, to one that has the "
    "packages of requirements.txt on every machine of the cluster."
)

# What a job is given: a session, or of WITHOUT_SQL a context.
Run = Callable[[Any, JobSpec], JobResult]
# Their tasks write files and nothing of them passes through Spark SQL, whose start would be half of a first run.
WITHOUT_SQL = ("lag_day", "lag_hour", "lag_week")


class KeptSession:
    """The Spark of the jobs of this process, built for the first job; Spark SQL for the first one that needs it."""

    def __init__(self) -> None:
        self._spark: SparkSession | SparkContext | None = None
        self._where: tuple[str, str, bool] | None = None
        self._shipped = ExitStack()

    def fits(self, text: str) -> bool:
        """Return whether the job of a spec can run here.

        Not with another place, or when Spark has gone away since the last job: only a new process can build
        another session.
        """
        if self._spark is None:
            return True
        try:
            return _where(JobSpec.from_json(text)) == self._where and is_alive(self._spark)
        except JobSpecError:
            return True

    def of(self, spec: JobSpec) -> SparkSession | SparkContext:
        """Return the context of a spec. Raises what `build_session` raises."""
        if self._spark is None:
            self._where = _where(spec)
            self._spark = self._built(spec)
            self._shipped.enter_context(package_shipped(self._spark))
        if isinstance(self._spark, SparkContext) and spec.job not in WITHOUT_SQL:
            self._spark = session_of(self._spark)
        return self._spark

    @staticmethod
    def _built(spec: JobSpec) -> SparkSession | SparkContext:
        remote, master, reuse = _where(spec)
        name, java_options = f"tidemark {spec.job} {spec.job_id}", class_archive.java_option()
        if reuse or remote:
            return build_session(name, remote=remote, master=master, reuse=reuse, java_options=java_options)
        return build_context(name, master=master, java_options=java_options)

    @property
    def has_own_jvm(self) -> bool:
        """Return whether it started its own JVM on this machine."""
        return self._where is not None and not any(self._where)

    def stop(self) -> None:
        """Stop Spark, and its own JVM with it."""
        self._shipped.close()
        if self._spark is not None and is_alive(self._spark):
            end(self._spark)


def _where(spec: JobSpec) -> tuple[str, str, bool]:
    return spec.remote, spec.master, spec.reuse


def main(text: str, run: Run) -> int:
    """Run the spec of standard input and return the exit code."""
    die_with_parent()
    session = KeptSession()
    is_done = run_spec(text, lambda spec: run, session)
    session.stop()
    return 0 if is_done else 1


def run_spec(text: str, run_of: Callable[[JobSpec], Run], session: KeptSession) -> bool:
    """Run a spec with the job that `run_of` returns, print result or error, and return whether it succeeded."""
    try:
        spec = JobSpec.from_json(text)
        sys.stderr.write(f"job spec {msgspec.structs.replace(spec, hours=()).to_json()}\n")
        run = run_of(spec)
        spark = session.of(spec)
    except (JobSpecError, JavaMissing, SparkAway) as error:
        return _fail(str(error))
    except PySparkException as error:
        return _fail(f"Spark does not start: {error}")
    watch = ExecutorWatch(context_of(spark))
    try:
        with watch:
            result = run(spark, spec)
    except JobFailed as error:
        return _fail(str(error))
    except (PySparkException, Py4JError) as error:
        return _fail(watch.lost or f"Spark could not compute the report: {error}")
    _write_line("RESULT", result.to_json())
    return True


def report_step(step: str, count: int) -> None:
    """Print the step that begins, by its name in `console.report.process.STEPS`, and its count."""
    _write_line("STEP", f"{step} {count}")


def _write_line(kind: str, text: str) -> None:
    sys.stdout.write(f"{kind} {text}\n")
    sys.stdout.flush()


def die_with_parent() -> None:
    """End this process with its parent: the run of a killed worker is repeated elsewhere.

    The JVM and its Python workers end with this process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _fail(text: str) -> bool:
    """Print the cause in one line: of a failed executor the last line of its Python traceback, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid)\b", line)]
    cause = raised[-1] if raised and "Traceback" in text else lines[0]
    if cause.startswith("ModuleNotFoundError"):
        cause += f". {EXECUTORS_PYTHON}"
    _write_line("ERROR", cause[:ERROR_LENGTH_MAX])
    return False
