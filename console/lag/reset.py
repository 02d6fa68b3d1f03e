"""Committed offsets that somebody set: until a member commits, such a figure is a target and no progress (lag.md 1.3).

A 5.x broker shows the target of a reset at once, whether its members have heard of it or not; a group that is offline
stands there until it comes back. Ours are written down by who applies them (`note_moves`); somebody else's are seen
when an offset falls, or jumps further than the group ever read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from console.lag.columns import NULL
from console.lag.keyed_columns import KeyedColumns
from console.lag.models import OffsetMove
from console.lag.round_series import QueueKey, RoundSeries
from spark.lag.snapshot import BoolArray

KEPT_MS = 10 * 60_000  # a job takes seconds; a broker that was away is read again within minutes
SEEN_EARLY_MS = 30_000  # a round may see the target before the answer of the broker is written down


class Move(NamedTuple):
    """A committed offset that a change of ours set, and when it was written down."""

    before: int | None
    target: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class SetHere:
    """Which queues of a round stand where a change of ours put them; `rises` of those that it moved ahead in this
    round, by so many messages.
    """

    marks: BoolArray
    rises: Mapping[int, int]


def note_moves(
    cluster: str, group: str, queues: Iterable[tuple[str, str, int, int | None, int]], *, now_ms: int
) -> None:
    """Write down (topic, broker name, queue id, before, target) of offsets that were just set."""
    rows = [list(one) for one in queues]
    if rows:
        OffsetMove.objects.create(cluster=cluster, group=group, at_ms=now_ms, queues=rows)
    OffsetMove.objects.filter(cluster=cluster, at_ms__lt=now_ms - KEPT_MS).delete()


def recent_moves(cluster: str, *, now_ms: int) -> dict[QueueKey, Move]:
    """Return the newest move of each queue of the last minutes."""
    found = OffsetMove.objects.filter(cluster=cluster, at_ms__gt=now_ms - KEPT_MS).order_by("at_ms", "pk")
    return {
        QueueKey(row.group, topic, broker_name, queue_id): Move(before, target, row.at_ms)
        for row in found
        for topic, broker_name, queue_id, before, target in row.queues
    }


def set_here(
    moves: Mapping[QueueKey, Move], series: RoundSeries, previous: KeyedColumns[QueueKey], now_ms: int
) -> SetHere:
    """Return what of a round's committed offsets is the target of a move. A queue whose members went on, or had come to
    the same place long before, is not.
    """
    keys, committed = series.groups.keys, series.groups.committed
    marks = np.zeros(len(keys), dtype=np.bool_)
    rises: dict[int, int] = {}
    if not moves:
        return SetHere(marks, rises)
    places = {key: at for at, key in enumerate(keys) if key in moves}
    was = previous.places_of(list(places))
    before = previous.taken("committed_offset", was, NULL).tolist()
    moved_ms = previous.taken("last_commit_ms", was, NULL).tolist()
    for (key, at), stood, last_ms in zip(places.items(), before, moved_ms, strict=True):
        move = moves[key]
        if committed[at] != move.target:
            continue
        moves_now = stood not in (NULL, move.target)
        if moves_now or last_ms >= move.at_ms - SEEN_EARLY_MS or stood == NULL:
            marks[at] = True
        if moves_now and move.target > stood and now_ms >= move.at_ms - SEEN_EARLY_MS:
            rises[at] = move.target - stood
    return SetHere(marks, rises)
