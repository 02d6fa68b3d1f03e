"""Fold a group's past by who owned its queues: a window is cut where an owner changes, and queues of one owner add up.

In a piece between two changes each queue has one owner, so a piece is folded with the owner in the topic's place
(`folds.window`), and the pieces merge as windows that follow each other do. What came or went between two rounds
belongs to the owner at the later one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from spark.lag.folds.level import Level
from spark.lag.folds.window import fold
from spark.lag.grid import Grid

UNKNOWN_OWNER = ""
Queue = tuple[str, str, int]  # topic, broker name, queue id


class Tenure(NamedTuple):
    """One owner of one queue in [from_ms, to_ms). Tenures of one queue do not overlap."""

    queue: Queue
    owner: str
    from_ms: int
    to_ms: int


def cuts_of(tenures: Sequence[Tenure], from_ms: int, to_ms: int) -> list[int]:
    """Return the times inside a window at which an owner changes."""
    edges = {edge for one in tenures for edge in (one.from_ms, one.to_ms)}
    return sorted(edge for edge in edges if from_ms < edge < to_ms)


def owners_at(tenures: Sequence[Tenure], at_ms: int) -> dict[Queue, str]:
    """Return who owned each queue at a moment; of the others no owner is known."""
    return {one.queue: one.owner for one in tenures if one.from_ms <= at_ms < one.to_ms}


def fold_by_owner(
    grid: Grid, tenures: Sequence[Tenure], from_ms: int, to_ms: int, *, slo_ms: int, steps: Sequence[int] = ()
) -> list[tuple[int, Level]]:
    """Return (from, level of owners) of the pieces of [from_ms, to_ms) between changes and `steps`.

    A row's key has the owner in the topic's place, `UNKNOWN_OWNER` for queues of which no owner was known.
    """
    inside = {step for step in steps if from_ms < step < to_ms}
    edges = [from_ms, *sorted(inside | set(cuts_of(tenures, from_ms, to_ms))), to_ms]
    return [
        (a, fold(_by_owner(grid.between(a, b), owners_at(tenures, a)), a, b, lambda _: slo_ms).topics)
        for a, b in pairwise(edges)
    ]


def _by_owner(grid: Grid, owners: Mapping[Queue, str]) -> Grid:
    """Put the owner in the topic's place of every key; the topic goes to the broker's, so that keys stay apart."""
    keys = [
        key._replace(
            topic=owners.get((key.topic, key.broker_name, key.queue_id), UNKNOWN_OWNER),
            broker_name=f"{key.topic}\n{key.broker_name}",
        )
        for key in grid.keys
    ]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return replace(grid.take(np.array(order, dtype=np.int64)), keys=[keys[row] for row in order])
