"""A group-topic over many hours: what each round of it looked like, as arrays side by side.

Episodes, capacity and forecasts are read off this line. Rounds in which nobody was asked are not in it: the time
between two points says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from spark.lag.forecast import DRAIN_MS_MAX
from spark.lag.rollup import GAP_INTERVALS
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array
from spark.lag.status import QUIET_MS, TIME_LAG_ALLOWED_MS
from spark.progress import standing_ms
from spark.rounds import QUEUE_WIDTH, TOPIC_WIDTH, Bundles, FloatArray, Matrix, Rounds
from spark.runway import time_to_loss_ms

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Timeline:
    """One group's topic. `gap_ms` is the time since the round before; counts belong to that interval.

    `standing` queues have waited without progress for a minute; `waiting` queues have messages. `worst` is the number
    of the queue with the oldest message in `queue_names`; `committed` and `max_offset` are that queue's.
    """

    t_ms: Int64Array
    complete: BoolArray
    lag: Int64Array
    time_lag_ms: Int64Array
    gap_ms: Int64Array
    produced: Int64Array
    consumed: Int64Array
    waiting: Int64Array
    standing: Int64Array
    below_min: Int64Array
    lost: Int64Array
    rewound: Int64Array
    worst: Int64Array
    committed: Int64Array
    max_offset: Int64Array
    queue_names: tuple[str, ...]
    incarnation: int
    runway_ms: int | None  # least of the hours; None: never

    @property
    def counted_ms(self) -> int:
        """How much time the intervals have that count."""
        return int(self.gap_ms.sum())


class Key(NamedTuple):
    """Whose line it is; of a group's topic without queue."""

    group: str
    topic: str
    broker_name: str = ""
    queue_id: int = -1


def queue_key(key: SeriesKey) -> Key:
    """A queue of a group, whatever its incarnation."""
    return Key(key.group, key.topic, key.broker_name, key.queue_id)


def topic_lines(matrices: Iterable[Matrix]) -> dict[Key, Timeline]:
    """The line of every group-topic from the matrices of consecutive hours; %RETRY% topics have lines of their own."""
    parts: dict[Key, list[Timeline]] = {}
    for matrix in matrices:
        if len(matrix.times):
            for key, part in _hour(matrix, Bundles.of(matrix.keys, TOPIC_WIDTH)):
                parts.setdefault(Key(key.group, key.topic), []).append(part)
    return {key: joined(found) for key, found in parts.items()}


def late_queue_lines(matrices: Iterable[Matrix]) -> dict[Key, Timeline]:
    """The line of every queue in which a message ever waited longer than a commit takes: few of very many."""
    kept = list(matrices)
    late: set[Key] = set()
    for matrix in kept:
        if len(matrix.times):
            rows = np.flatnonzero((matrix.time_lag_ms > TIME_LAG_ALLOWED_MS).any(axis=1))
            late |= {queue_key(matrix.keys[row]) for row in rows.tolist()}
    parts: dict[Key, list[Timeline]] = {}
    for matrix in kept:
        own = [number for number, key in enumerate(matrix.keys) if queue_key(key) in late]
        if own and len(matrix.times):
            rows = np.array(own, dtype=np.int64)
            part_of = matrix.take(rows)
            for key, part in _hour(part_of, Bundles.of(part_of.keys, QUEUE_WIDTH)):
                parts.setdefault(queue_key(key), []).append(part)
    return {key: joined(found) for key, found in parts.items()}


def joined(parts: list[Timeline]) -> Timeline:
    """Put the hours of a line behind each other; queues may come and go."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(dict.fromkeys(name for part in parts for name in part.queue_names))
    place = {name: number for number, name in enumerate(names)}
    arrays = {}
    for field in fields(Timeline):
        if field.name not in ("queue_names", "incarnation", "worst", "runway_ms"):
            arrays[field.name] = np.concatenate([getattr(part, field.name) for part in parts])
    worst = [np.array([place[name] for name in part.queue_names])[part.worst] for part in parts]
    return Timeline(
        **arrays,
        worst=np.concatenate(worst),
        queue_names=names,
        incarnation=max(part.incarnation for part in parts),
        runway_ms=min((part.runway_ms for part in parts if part.runway_ms is not None), default=None),
    )


def _hour(matrix: Matrix, bundles: Bundles) -> Iterable[tuple[SeriesKey, Timeline]]:
    rounds = Rounds.of(matrix, bundles)
    still = standing_ms(matrix) > QUIET_MS
    waiting = bundles.sums(matrix.lag > 0)
    standing = bundles.sums(still)
    below = bundles.sums(matrix.present & (matrix.committed < matrix.min_offset))
    lost, rewound = bundles.sums(matrix.lost), bundles.sums(matrix.rewound)
    runway = time_to_loss_ms(matrix, bundles)
    limit = GAP_INTERVALS * matrix.interval_ms
    for number, (first, last) in enumerate(
        zip(bundles.starts[:-1].tolist(), bundles.starts[1:].tolist(), strict=True)
    ):
        seen = np.flatnonzero(rounds.seen[number])
        if len(seen) == 0:
            continue
        key = matrix.keys[first]
        worst = np.argmax(matrix.time_lag_ms[first:last][:, seen], axis=0)
        gap = rounds.gap_ms[number, seen]
        yield (
            key,
            Timeline(
                matrix.times[seen],
                rounds.complete[number, seen],
                rounds.lag[number, seen],
                rounds.time_lag_ms[number, seen],
                np.where(gap <= limit, gap, 0),
                rounds.produced[number, seen],
                rounds.consumed[number, seen],
                waiting[number, seen],
                standing[number, seen],
                below[number, seen],
                lost[number, seen],
                rewound[number, seen],
                worst,
                matrix.committed[first:last][worst, seen],
                matrix.max_offset[first:last][worst, seen],
                tuple(f"{one.broker_name} · {one.queue_id}" for one in matrix.keys[first:last]),
                max(one.incarnation for one in matrix.keys[first:last]),
                int(runway[number]) if runway[number] <= DRAIN_MS_MAX else None,
            ),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive rounds [first, last] of a line; `cut` when a gap in the data ended or began it."""

    first: int
    last: int
    cut: bool


def runs(line: Timeline, holds: BoolArray, limit_ms: int) -> list[Run]:
    """The stretches in which something holds, apart where nobody looked for longer than the limit."""
    if not holds.any():
        return []
    hole = np.diff(line.t_ms, prepend=line.t_ms[0]) > limit_ms
    begins = holds & np.append(True, ~holds[:-1] | hole[1:])
    ends = holds & np.append(~holds[1:] | hole[1:], True)
    found = []
    for first, last in zip(np.flatnonzero(begins).tolist(), np.flatnonzero(ends).tolist(), strict=True):
        cut_before = bool(first and hole[first] and holds[first - 1])
        cut_after = bool(last + 1 < len(holds) and hole[last + 1] and holds[last + 1])
        found.append(Run(first, last, cut_before or cut_after))
    return found


def minute_rates(line: Timeline, counts: Int64Array, wanted: BoolArray) -> FloatArray:
    """Messages per second of every minute in which all rounds are wanted, ascending."""
    minutes = line.t_ms // MINUTE_MS
    starts = np.flatnonzero(np.diff(minutes, prepend=minutes[0] - 1))
    span = np.add.reduceat(line.gap_ms, starts)
    total = np.add.reduceat(counts, starts)
    usable = np.logical_and.reduceat(wanted, starts) & (span > 0)
    rates: FloatArray = np.sort(total[usable] * 1000 / span[usable])
    return rates


def nearest_rank(ordered: FloatArray, share: int) -> float | None:
    """The discrete percentile of ascending values; None of none."""
    if len(ordered) == 0:
        return None
    return float(ordered[max(-(-share * len(ordered) // 100) - 1, 0)])
