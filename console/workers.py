"""Beat and the three worker pools of one machine: `python -m console.workers`.

Each has its own process, so that a long replay does not delay collection, nor a report an offset reset. All are forked
from one process that has imported everything: four processes cost one start and share most of their memory. One that
ends is forked again; all end together.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

import pyarrow as pa
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

try:
    from console.celery import app, die_with_parent  # the first that reads the settings
except ImproperlyConfigured as error:
    raise SystemExit(f"The settings are wrong. {error}") from None

logger = logging.getLogger(__name__)

RESTART_PAUSE_S = 1.0  # before a process that ended is forked again


def main() -> int:
    """Fork beat and every pool, keep them running until SIGTERM or SIGINT; returns the exit code."""
    gc.disable()  # what is imported stays: to look through it for garbage takes a quarter of the start
    load()
    gc.freeze()  # a garbage collection in a child would touch, and so copy, every shared page
    gc.enable()
    workers = Workers({"beat": run_beat, **{name: pool_runner(name) for name in settings.WORKER_THREADS}})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, workers.stop)
    workers.keep_running()
    return 0


def load() -> None:
    """Import what the processes need, once and before they are forked."""
    app.loader.import_default_modules()
    app.finalize()
    pa.array([0])  # imports pandas, if only to see that this is none of it; else every pool would


def run_beat() -> None:
    """Run beat in this process."""
    app.start(["beat", "--loglevel", "INFO"])


def pool_runner(pool: str) -> Callable[[], None]:
    """Return the main function of a pool's process: a Celery worker on the queue of that name."""
    threads = str(settings.WORKER_THREADS[pool])
    arguments = [
        "worker",
        "--queues",
        pool,
        "--hostname",
        f"{pool}@%h",
        "--pool",
        "threads",
        "--concurrency",
        threads,
    ]
    arguments += ["--loglevel", "INFO", "--without-gossip", "--without-mingle"]
    return lambda: app.worker_main(["--quiet", *arguments])


class Workers:
    """The child processes. Caller: `main`. Affects: only them."""

    def __init__(self, programs: dict[str, Callable[[], None]]) -> None:
        self.programs = programs
        self.names: dict[int, str] = {}
        self.is_stopping = False

    def keep_running(self) -> None:
        """Fork all, and again what ends; return when all have ended after `stop`."""
        for name in self.programs:
            self._fork(name)
        while self.names:
            pid, status = os.wait()
            name = self.names.pop(pid)
            if self.is_stopping:
                continue
            logger.error("worker process ended name=%s status=%s", name, os.waitstatus_to_exitcode(status))
            time.sleep(RESTART_PAUSE_S)
            if not self.is_stopping:
                self._fork(name)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Stop all children (signal handler); the next worker takes up unfinished jobs."""
        self.is_stopping = True
        for pid in self.names:
            os.kill(pid, signal.SIGTERM)

    def _fork(self, name: str) -> None:
        pid = os.fork()
        if pid:
            self.names[pid] = name
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        code = 1
        try:
            self.programs[name]()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            logger.exception("worker process failed name=%s", name)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
