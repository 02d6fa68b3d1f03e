"""The process of a job, from its inside: spec on standard input, what it says on standard output, how it ends.

It says `STEP text` while it works, then `RESULT {json}`, or `ERROR text` and exit code 1; whatever else stands on its
output is Spark's own talk. It never outlives the process that asked for the report.
"""

from __future__ import annotations

import ctypes
import re
import signal
import sys
from collections.abc import Callable

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.java import JavaMissing
from spark.job import JobResult, JobSpec, JobSpecError
from spark.session import SparkAway, build_session, package_shipped

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
ERROR_LENGTH_MAX = 500

Run = Callable[[SparkSession, JobSpec], JobResult]


def main(text: str, run: Run) -> int:
    """Run the spec of standard input; the exit code."""
    die_with_parent()
    try:
        spec = JobSpec.from_json(text)
        sys.stderr.write(f"job spec {msgspec.structs.replace(spec, hours=()).to_json()}\n")
        spark = build_session(
            f"tidemark {spec.job} {spec.job_id}", remote=spec.remote, master=spec.master, reuse=spec.reuse
        )
    except (JobSpecError, JavaMissing, SparkAway) as error:
        return _fail(str(error))
    except PySparkException as error:
        return _fail(f"Spark does not start: {error}")
    try:
        with package_shipped(spark):
            result = run(spark, spec)
    except PySparkException as error:
        return _fail(f"Spark could not compute the report: {error}")
    finally:
        spark.stop()
    sys.stdout.write(f"RESULT {result.to_json()}\n")
    return 0


def say(step: str) -> None:
    """Tell the reader of the report what is being done."""
    sys.stdout.write(f"STEP {step}\n")
    sys.stdout.flush()


def die_with_parent() -> None:
    """A worker that is killed must leave no Spark behind: its run is taken up again elsewhere. The JVM and its Python
    workers end when this process does.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _fail(text: str) -> int:
    """Say the cause in one line: of a failed executor the last line of its Python traceback, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid)\b", line)]
    cause = raised[-1] if raised and "Traceback" in text else lines[0]
    sys.stdout.write(f"ERROR {cause[:ERROR_LENGTH_MAX]}\n")
    return 1
