"""How many searches, tails and exports one person may run at once: each holds a thread and asks brokers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

PER_PERSON_MAX = 4  # two windows, each with a search and a tail
TOGETHER_MAX = 32  # of one web process


class TooManySearches(Exception):
    """The person, or everybody together, runs as many as they may."""


class SearchQuota:
    """Counts in this process. Caller: any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def place(self, person: str) -> Iterator[None]:
        """Hold one place while the block runs; raises TooManySearches."""
        with self._lock:
            if self._running[person] >= PER_PERSON_MAX:
                raise TooManySearches(
                    f"You run {PER_PERSON_MAX} searches, tails or exports already: stop one of them first."
                )
            if self._running.total() >= TOGETHER_MAX:
                raise TooManySearches(f"{TOGETHER_MAX} searches run at the moment; try again in a minute.")
            self._running[person] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[person] -= 1
                if not self._running[person]:
                    del self._running[person]

    def running(self, person: str) -> int:
        """How many the person runs now."""
        return self._running[person]


quota = SearchQuota()
