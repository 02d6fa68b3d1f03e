"""Follow a topic: new messages at a limited rate; those above it are skipped and counted."""

from __future__ import annotations

import dataclasses
import time

from console.brokers.queues import BrokerQueue
from console.message.search.cursor import Cursor
from console.message.search.lanes import Hit
from console.message.search.message_search import (
    Queues,
    Search,
    Source,
    begin_search,
    check_sql,
    masked_query,
    queues_now,
)
from console.message.search.query import Query
from console.text import Text

ROWS_PER_STEP_MAX = 50  # more than a person can read in a second
LOOKED_AT_MAX = 2_000  # offsets of one queue and step; a filter may have to read many for one hit
STEP_MS = 2_500  # for the pulls of one step
TAIL_MS = 30 * 60 * 1000  # then it stops: a forgotten window must not load the brokers for ever


@dataclasses.dataclass(frozen=True, slots=True)
class Arrivals:
    """The messages of one step, oldest first. ``skipped``: messages not read or not shown."""

    hits: list[Hit]
    skipped: int
    scanned: int


class Tail:
    """The last known end of every queue. One thread at a time; `step` reads the brokers once."""

    def __init__(self, source: Source, query: Query) -> None:
        onward = dataclasses.replace(query, newest=False, from_ms=None, to_ms=None, from_offset=None)
        self.query = masked_query(source, onward)
        self.source = source
        self.skipped = self.scanned = self.shown = 0
        self.silent: dict[str, Text] = {}
        self.started_s = time.monotonic()
        queues = self._queues()
        if query.sql:
            check_sql(source.admin, query, queues.places)
        self._ends = {place.queue: place.max_offset for place in queues.places}

    @property
    def queues(self) -> int:
        return len(self._ends)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.started_s >= TAIL_MS / 1000

    def step(self) -> Arrivals:
        """Return everything new since the last step, within the limits.

        Raises TopicNotFound and what `queues_now` does.
        """
        queues = self._queues()
        bounds: dict[BrokerQueue, tuple[int, int]] = {}
        skipped = 0
        for place in queues.places:
            # A queue seen for the first time is new, or back with its broker: its messages are not arrivals.
            low = min(self._ends.get(place.queue, place.max_offset), place.max_offset)
            begin = max(low, place.min_offset, place.max_offset - LOOKED_AT_MAX)
            skipped += begin - low
            self._ends[place.queue] = place.max_offset
            if begin < place.max_offset:
                bounds[place] = (begin, place.max_offset)
        search = self._read(bounds)
        figures = search.figures()
        taken = search.picked[-ROWS_PER_STEP_MAX:]
        skipped += len(search.picked) - len(taken) + figures.to_go
        self.skipped += skipped
        self.scanned += figures.scanned
        self.shown += len(taken)
        self.silent |= search.silent
        return Arrivals(taken, skipped, figures.scanned)

    def _read(self, bounds: dict[BrokerQueue, tuple[int, int]]) -> Search:
        nothing = Cursor(self.query.fingerprint, True, {})
        search = begin_search(
            self.source.admin,
            self.query,
            bounds,
            dataclasses.replace(nothing, cuts={_place(place): low for place, (low, _) in bounds.items()}),
            limit=len(bounds) * LOOKED_AT_MAX,
            deadline_s=time.monotonic() + STEP_MS / 1000,
        )
        while not search.is_done:
            search.step()
        search.keep_rest()
        return search

    def _queues(self) -> Queues:
        queues = queues_now(self.source, self.query)
        self.silent = queues.silent
        return queues


def _place(place: BrokerQueue) -> tuple[str, int]:
    return place.queue.broker_name, place.queue.queue_id
