"""The process of a job, from its inside: a spec on standard input, what it says on standard output, how it ends.

It writes `STEP name count` while it works, then `RESULT {json}` or `ERROR text`; whatever else stands on its output is
Spark's own talk. Run by hand (`python -m spark.jobs.<job> < spec.json`) it exits with code 1 after an error and never
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
    """The Spark of the jobs of this process, built when the first one asks; Spark SQL on top of it when the first one
    needs that.
    """

    def __init__(self) -> None:
        self._spark: SparkSession | SparkContext | None = None
        self._where: tuple[str, str, bool] | None = None
        self._shipped = ExitStack()

    def fits(self, text: str) -> bool:
        """Whether the job of a spec can run here: not when it asks for another place, or Spark has gone away since the
        last one. Only a new process can build another session.
        """
        if self._spark is None:
            return True
        try:
            return _where(JobSpec.from_json(text)) == self._where and is_alive(self._spark)
        except JobSpecError:
            return True

    def of(self, spec: JobSpec) -> SparkSession | SparkContext:
        """Raises what `build_session` does."""
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
        """Whether it started a JVM on this machine, for itself."""
        return self._where is not None and not any(self._where)

    def stop(self) -> None:
        """End it, and a JVM of our own with it."""
        self._shipped.close()
        if self._spark is not None and is_alive(self._spark):
            end(self._spark)


def _where(spec: JobSpec) -> tuple[str, str, bool]:
    return spec.remote, spec.master, spec.reuse


def main(text: str, run: Run) -> int:
    """Run the spec of standard input; the exit code."""
    die_with_parent()
    session = KeptSession()
    is_done = run_spec(text, lambda spec: run, session)
    session.stop()
    return 0 if is_done else 1


def run_spec(text: str, run_of: Callable[[JobSpec], Run], session: KeptSession) -> bool:
    """Run a spec by what `run_of` gives for it, and say the result or the error; whether it is a result."""
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
    _say("RESULT", result.to_json())
    return True


def say(step: str, count: int) -> None:
    """Announce what is computed now, by its name in `console.report.process.STEPS`, and how many of it."""
    _say("STEP", f"{step} {count}")


def _say(kind: str, text: str) -> None:
    sys.stdout.write(f"{kind} {text}\n")
    sys.stdout.flush()


def die_with_parent() -> None:
    """A worker that is killed must leave no Spark behind: its run is taken up again elsewhere. The JVM and its Python
    workers end when this process does.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _fail(text: str) -> bool:
    """Say the cause in one line: of a failed executor the last line of its Python traceback, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid)\b", line)]
    cause = raised[-1] if raised and "Traceback" in text else lines[0]
    if cause.startswith("ModuleNotFoundError"):
        cause += f". {EXECUTORS_PYTHON}"
    _say("ERROR", cause[:ERROR_LENGTH_MAX])
    return False
