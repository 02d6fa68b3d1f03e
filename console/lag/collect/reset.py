"""Detect committed offsets that were set: until a member commits they are a target, no progress (lag.md 1.3).

A 5.x broker shows the target of a reset at once, whether its members have received it or not; an offline group stays
there until it comes back. Moves of this console are recorded before they are applied (`note_moves`), so that the first
round that sees one can recognise it; those of other tools are recognised as far as possible (`queue_rows`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from console.lag.models import OffsetMove
from console.lag.round.columns import NULL
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import QueueKey, RoundSeries
from spark.lag.snapshot import BoolArray

# A job takes seconds; a broker that was away is read again within minutes.
KEPT_MS = 10 * 60_000
# The clocks of two hosts may differ.
SEEN_EARLY_MS = 30_000


class Move(NamedTuple):
    """Hold a committed offset that this console set, and when that was recorded."""

    before: int | None
    target: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class SetHere:
    """Mark the queues of a round that are where this console put them.

    `moved` are those that it moved ahead since the last reading, wherever their members have got to since.
    """

    marks: BoolArray
    moved: BoolArray


def note_moves(
    cluster: str, group: str, queues: Iterable[tuple[str, str, int, int | None, int]], *, now_ms: int
) -> None:
    """Record (topic, broker name, queue id, before, target) of offsets that are about to be set."""
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
    moves: Mapping[QueueKey, Move], series: RoundSeries, previous: KeyedColumns[QueueKey]
) -> SetHere:
    """Return which committed offsets of a round are the target of a move.

    A queue whose members went on, or had reached the same offset long before, is not marked.
    """
    keys, committed = series.groups.keys, series.groups.committed
    marks, moved = np.zeros(len(keys), dtype=np.bool_), np.zeros(len(keys), dtype=np.bool_)
    if not moves:
        return SetHere(marks, moved)
    places = {key: at for at, key in enumerate(keys) if key in moves}
    was = previous.places_of(list(places))
    before = previous.taken("committed_offset", was, NULL).tolist()
    changed_ms = previous.taken("last_commit_ms", was, NULL).tolist()
    set_ms = previous.taken("reset_at_ms", was, NULL).tolist()
    for (key, at), stood, last_ms, seen_ms in zip(places.items(), before, changed_ms, set_ms, strict=True):
        move = moves[key]
        # A move explains one rise: when a group reads past the same offset again later, that is consumption.
        if stood != NULL and stood < move.target <= committed[at] and seen_ms < move.at_ms:
            moved[at] = True
        if committed[at] == move.target:
            is_new = stood != move.target or last_ms >= move.at_ms - SEEN_EARLY_MS
            marks[at] = is_new or stood == NULL
    return SetHere(marks, moved)
