"""Cancel a job whose cluster took every executor away: Spark itself waits for new ones for ever."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark import SparkContext

from spark.process.session import has_executor, is_local

LOOK_EVERY_S = 1.0
LOST_AFTER_S = 60.0  # a worker that is started again, or another application that ends, gives new ones
ENDS_WITHIN_S = 5.0


class ExecutorWatch:
    """Watch the executors of a running job and cancel it after LOST_AFTER_S without one.

    `lost` is the reason then, and "" before. Without a context, or on this machine, nothing is watched.
    """

    def __init__(self, context: SparkContext | None) -> None:
        self._context = None if context is None or is_local(str(context.master)) else context
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="executor-watch", daemon=True)
        self.lost = ""

    def __enter__(self) -> Self:
        if self._context is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(ENDS_WITHIN_S)

    def _watch(self) -> None:
        assert self._context is not None
        had_at = time.monotonic()
        while not self._is_over.wait(LOOK_EVERY_S):
            try:
                if has_executor(self._context):
                    had_at = time.monotonic()
                elif time.monotonic() - had_at > LOST_AFTER_S:
                    self.lost = (
                        f"{self._context.master} took every executor away and gave none for {LOST_AFTER_S:.0f} s: "
                        "its workers are gone. Start them and run the report again."
                    )
                    self._context.cancelAllJobs()
            except (Py4JError, OSError):
                return  # the driver is gone: the job fails by itself
