"""When several clients reported the same queue: its messages may have been handled twice. Pure.

The facts are claims in the history of owners: what clients reported in the same sweeps. A client that does not answer,
as one that is frozen, reports nothing; that it handles what it still holds when it goes on is not seen. An overlap
shorter than the time between two sweeps may be missed, and one that is seen may have begun or ended up to a sweep
before it is said to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from console.text import Moment, Text
from spark.lag.folds.owners import Queue, Tenure

NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Overlap:
    """Queues that the same clients reported in [from_ms, to_ms)."""

    clients: tuple[str, ...]
    queues: tuple[Queue, ...]
    from_ms: int
    to_ms: int

    @property
    def words(self) -> Text:
        """Return it as a sentence."""
        return Text(
            "%(queues)s: reported by %(clients)s at once from %(since)s to %(until)s, so messages may have been "
            "handled twice",
            queues=names_of(self.queues),
            clients=Text.of_names(self.clients, NAMED_MAX),
            since=Moment(self.from_ms),
            until=Moment(self.to_ms),
        )


def overlaps_of(claims: Iterable[Tenure]) -> list[Overlap]:
    """Return the overlaps of claims, oldest first; those of the same clients and time are one."""
    by_queue: dict[Queue, list[Tenure]] = defaultdict(list)
    for one in claims:
        by_queue[one.queue].append(one)
    found: dict[tuple[int, int, tuple[str, ...]], list[Queue]] = defaultdict(list)
    for queue, own in sorted(by_queue.items()):
        for from_ms, to_ms, clients in _pieces(own):
            found[from_ms, to_ms, clients].append(queue)
    return [
        Overlap(clients, tuple(queues), from_ms, to_ms)
        for (from_ms, to_ms, clients), queues in sorted(found.items())
    ]


def _pieces(claims: list[Tenure]) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return the times in which the same two or more clients claimed one queue."""
    edges = sorted({edge for one in claims for edge in (one.from_ms, one.to_ms)})
    pieces: list[tuple[int, int, tuple[str, ...]]] = []
    for a, b in pairwise(edges):
        clients = tuple(sorted({one.owner for one in claims if one.from_ms <= a < one.to_ms}))
        if len(clients) < 2:
            continue
        if pieces and pieces[-1][1:] == (a, clients):
            pieces[-1] = (pieces[-1][0], b, clients)
        else:
            pieces.append((a, b, clients))
    return pieces


def names_of(queues: Iterable[Queue]) -> Text:
    """Name queues of one topic."""
    return Text.of_names([f"{broker_name} · {queue_id}" for _, broker_name, queue_id in queues], NAMED_MAX)
