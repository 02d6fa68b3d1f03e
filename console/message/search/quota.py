"""How many searches, tails and exports may run at once: each holds a thread and reads from brokers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from console.text import Text
from console.web.quota import place as shared_place

PER_PERSON_MAX = 4  # two windows, each with a search and a tail
TOGETHER_MAX = 32  # of one web process


class TooManySearches(Exception):
    """The person, or all together, already run as many searches as allowed."""


class SearchQuota:
    """Count the searches of this process, and each person's in all processes together.

    Any thread that may wait for Redis can take a `place`; leaving it does not wait.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def place(self, person: str) -> Iterator[None]:
        """Hold one place while the block runs; raise TooManySearches."""
        too_many = Text(
            "You are running %(number)s searches, tails or exports, the most for one person. Stop one or "
            "wait until it ends, then try again.",
            number=PER_PERSON_MAX,
        )
        with self._lock:
            if self._running[person] >= PER_PERSON_MAX:
                raise TooManySearches(too_many)
            if self._running.total() >= TOGETHER_MAX:
                raise TooManySearches(
                    Text(
                        "%(number)s searches are running, the most of this console. Try again in a minute.",
                        number=TOGETHER_MAX,
                    )
                )
            self._running[person] += 1
        try:
            with shared_place(f"searches:{person}", most=PER_PERSON_MAX) as has_place:
                if not has_place:
                    raise TooManySearches(too_many)
                yield
        finally:
            with self._lock:
                self._running[person] -= 1
                if not self._running[person]:
                    del self._running[person]

    def running(self, person: str) -> int:
        """Return how many searches the person runs now."""
        return self._running[person]


quota = SearchQuota()
