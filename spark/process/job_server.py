"""Run one job after another: `python -m spark.process.job_server IDLE_S`, a spec per line of standard input.

What takes seconds before a job begins (imports, a JVM, its Python workers) is ready for the next one. The answer to a
spec that it can run is `TAKEN`, then the output of `process.job_process`. It ends when it had nothing to do for IDLE_S
seconds (0: after its first job), after a job that failed or left it too large, and at once with its input: no report
is expected then.
"""

from __future__ import annotations

import importlib
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import cast

from spark.job import JobResult, JobSpec, JobSpecError
from spark.process import class_archive
from spark.process.job_process import KeptSession, Run, run_spec

JOBS = ("capacity", "dead_letter", "forecast_scorecard", "lag_day", "lag_hour", "lag_week", "topic_traffic")
END = ""
FIRST_WITHIN_S = 60.0
MEMORY_MAX_MB = 2_500  # of this process and all below it, between two jobs
AFTER_RESULT_S = 2.0  # between a result and the next spec: the caller may close the input in between


def run_of(spec: JobSpec) -> Run:
    """Return the function of the spec's job, imported while the JVM starts.

    Raises JobSpecError for an unknown job.
    """
    if spec.job not in JOBS:
        raise JobSpecError(f"there is no job {spec.job!r}; there are: {', '.join(JOBS)}")
    name = f"spark.jobs.{spec.job}"
    threading.Thread(target=importlib.import_module, args=(name,), daemon=True).start()
    return lambda spark, spec: cast(JobResult, importlib.import_module(name).run(spark, spec))


def main(idle_s: float) -> int:
    """Run specs until the server ends; return exit code 1 after a failed job."""
    specs: queue.SimpleQueue[str] = queue.SimpleQueue()
    at_work = threading.Lock()
    threading.Thread(target=_read, args=(specs, at_work), daemon=True).start()
    session = KeptSession()
    is_done, is_idle, wait_s = True, False, max(idle_s, FIRST_WITHIN_S)
    while is_done:
        try:
            text = specs.get(timeout=wait_s)
        except queue.Empty:
            is_idle = True
            break
        if text == END or not session.fits(text):
            break
        with at_work:
            sys.stdout.write("TAKEN\n")
            sys.stdout.flush()
            is_done = run_spec(text, run_of, session)
        wait_s = idle_s
        if not idle_s or _memory_mb() > MEMORY_MAX_MB:
            break
    session.stop()
    if is_idle and session.has_own_jvm and not class_archive.java_option():
        # not of this process, whose end is waited for
        nowhere = subprocess.DEVNULL
        command = [sys.executable, "-m", "spark.process.class_archive"]
        subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    return 0 if is_done else 1


def _read(specs: queue.SimpleQueue[str], at_work: threading.Lock) -> None:
    """Queue the lines of the input.

    After its end the running job is abandoned: the run of a killed worker is repeated elsewhere. The JVM ends
    with this process.
    """
    for line in sys.stdin:
        specs.put(line)
    specs.put(END)
    if not at_work.acquire(timeout=AFTER_RESULT_S):
        os._exit(1)
    at_work.release()


def _memory_mb() -> int:
    """Return the memory of this process and its children; 0 without /proc."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            pages[int(folder.name)] = int((folder / "statm").read_text().split()[1])
    family = {os.getpid()}
    while True:
        grown = family | {pid for pid, parent in parents.items() if parent in family}
        if grown == family:
            return sum(pages.get(pid, 0) for pid in family) * os.sysconf("SC_PAGE_SIZE") >> 20
        family = grown


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
