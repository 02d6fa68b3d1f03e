"""Cases of a test that mostly wait, side by side: together they take as long as the longest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

Case = TypeVar("Case")
Result = TypeVar("Result")


class ParallelCases(Generic[Case, Result]):
    """`with ParallelCases(run, cases) as begun:` all have begun, each in a thread; the end waits for all of them."""

    def __init__(self, run: Callable[[Case], Result], cases: Iterable[Case]) -> None:
        self._run = run
        self._pool = ThreadPoolExecutor(thread_name_prefix="case")
        self._begun: dict[Case, Future[Result]] = {case: self._pool.submit(run, case) for case in cases}

    def __enter__(self) -> ParallelCases[Case, Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def finish(self, case: Case) -> Result:
        """Return what the case does, or raise; one that is wanted again runs again, alone."""
        begun = self._begun.pop(case, None)
        return self._run(case) if begun is None else begun.result()
