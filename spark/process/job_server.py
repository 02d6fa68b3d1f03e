"""Runs one job after another: `python -m spark.process.job_server IDLE_S`, a spec per line of standard input.

What takes seconds before a job begins (imports, a JVM, its Python workers) is there for the next one. To a spec that it
can run it says `TAKEN`, and then what `process.job_process` says. It ends when it had nothing to do for IDLE_S seconds
(0: after its first job), after a job that failed or left it too large, and at once when its input does: nobody wants a
report then.
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
AFTER_RESULT_S = 2.0  # from saying a result to being done: who asked may close the input in between


def run_of(spec: JobSpec) -> Run:
    """What runs the spec's job; its imports are made on the side, while the JVM starts. Raises JobSpecError for a job
    that there is not.
    """
    if spec.job not in JOBS:
        raise JobSpecError(f"there is no job {spec.job!r}; there are: {', '.join(JOBS)}")
    name = f"spark.jobs.{spec.job}"
    threading.Thread(target=importlib.import_module, args=(name,), daemon=True).start()
    return lambda spark, spec: cast(JobResult, importlib.import_module(name).run(spark, spec))


def main(idle_s: float) -> int:
    """Run specs until it is time to end; the exit code is 1 after a job that failed."""
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
    """Hand over what comes in. After the end of the input nobody waits for the job that is at work: a run whose worker
    was killed is taken up again elsewhere. The JVM ends with this process.
    """
    for line in sys.stdin:
        specs.put(line)
    specs.put(END)
    if not at_work.acquire(timeout=AFTER_RESULT_S):
        os._exit(1)
    at_work.release()


def _memory_mb() -> int:
    """What this process and all below it have in memory; 0 where /proc does not tell."""
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
