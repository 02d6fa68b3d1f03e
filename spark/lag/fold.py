"""Fold a window of judged samples to figures: the one way from history to a row, a chart's number and an alert.

    rows = fold(grid, from_ms, to_ms, slo_ms)                      # queues, and the topics that they are of
    whole = merge([fold(grid, a, c, slo_ms), fold(grid, c, b, slo_ms)])      # the same as of [a, b), for every c
    spark.lag.figures.of_level(whole.topics, …)                    # what pages and reports show

A sample holds from its time to the next one's, `rounds.GAP_INTERVALS` intervals at most; then it is UNKNOWN what
holds. Differences of offsets count at the later sample. So a window needs its own samples and the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spark.lag import histogram, level
from spark.lag.codes import OK_CODE
from spark.lag.grid import TOPIC_WIDTH, Grid
from spark.lag.level import HIGHEST, NONE, Counts, Ends, Level, Minutes, Stretch, Sums
from spark.lag.rounds import OFFLINE, RANKS, STALL, UNKNOWN_RANK, Rounds, rounds_of
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array

MINUTE_MS = 60_000
# A row is behind while its oldest message waits longer than a healthy consumer takes to commit.
BEHIND_MS = 30_000
PARTS_MAX = 16  # of the messages that one round consumed: what a stall of a minute frees in a round of 5 s
WEIGHT = 1_000
ADDED = ("timed", "in_time", "latency_ms")
FARTHEST_MS = 2.0**53  # of a number of milliseconds that a float holds
EXACT_MS = 1 << 24  # 4.6 hours: whole numbers up to here are exact in 32 bits
SLAB_ROWS = 512  # queues folded together: their matrices stay in the cache

IntArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Fold:
    """The queues of whole groups, and their group-topics, in one window."""

    from_ms: int
    to_ms: int
    queues: Level
    topics: Level


def fold(grid: Grid, from_ms: int, to_ms: int, slo_of: Callable[[str], int]) -> Fold:
    """Return the fold of [from_ms, to_ms); the grid may reach further on both sides. `slo_of` a group: how long its
    messages may wait, milliseconds.
    """
    own = grid.between(from_ms, to_ms)
    parts = [
        _fold(own.rows(first, end), from_ms, to_ms, slo_of) for first, end in _slabs(own.starts(TOPIC_WIDTH))
    ]
    if len(parts) == 1:
        return parts[0]
    return merge(parts) if parts else _fold(own, from_ms, to_ms, slo_of)


def merge(parts: Sequence[Fold]) -> Fold:
    """Return the fold of parts that follow each other in time, or of other groups of the same window."""
    return Fold(
        min(part.from_ms for part in parts),
        max(part.to_ms for part in parts),
        level.merge([part.queues for part in parts]),
        level.merge([part.topics for part in parts]),
    )


def _slabs(starts: Int64Array) -> list[tuple[int, int]]:
    """Cut topics into ranges of about `SLAB_ROWS` queues."""
    ends, first = [], 0
    for end in starts[1:].tolist():
        if end - first >= SLAB_ROWS or end == starts[-1]:
            ends.append((first, end))
            first = end
    return ends


def _numbers(count: int) -> Int64Array:
    return np.zeros(count, dtype=np.int64)


def _fold(grid: Grid, from_ms: int, to_ms: int, slo_of: Callable[[str], int]) -> Fold:
    """Return the fold of some topics. Half of the queues do nothing at all: one of them is folded for all."""
    promised = {group: slo_of(group) for group in {key.group for key in grid.keys}}
    starts = grid.starts(TOPIC_WIDTH)
    kept, source = _kept(grid, starts)
    own = grid if len(kept) == len(grid.keys) else grid.take(kept)
    slo_ms = np.array([promised[key.group] for key in own.keys], dtype=np.int64)
    rounds = rounds_of(own, slo_ms)
    runway = runways(own, rounds, from_ms)
    queues = level_of(rounds, own.keys, slo_ms, from_ms, to_ms, latencies_of(rounds, from_ms), runway)
    if own is not grid:
        queues = queues.take(source, grid.keys)
    first = starts[:-1]
    topic = np.repeat(np.arange(len(first)), np.diff(starts))
    bundles = np.searchsorted(kept, starts)
    together = rounds.together(bundles)
    if own is not grid:  # those that are left out exist in every round
        together = replace(together, exists=together.exists + (np.diff(starts) - np.diff(bundles))[:, None])
    keys = [grid.keys[row]._replace(broker_name="", queue_id=-1) for row in first.tolist()]
    topics = level_of(together, keys, slo_ms[bundles[:-1]], from_ms, to_ms)
    sums = {name: np.add.reduceat(getattr(queues.sums, name), first) for name in ADDED if len(first)}
    if len(first):
        sums["incarnation"] = np.maximum.reduceat(queues.sums.incarnation, first)
        sums["runway_ms"] = np.minimum.reduceat(queues.sums.runway_ms, first)
    waits = Counts.of([queues.histograms["latency"].into(topic)])
    topics = replace(
        topics, sums=replace(topics.sums, **sums), histograms={**topics.histograms, "latency": waits}
    )
    return Fold(from_ms, to_ms, queues, topics)


def _kept(grid: Grid, starts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the queues to fold, and which of them each queue is like: the first of each topic, and all that ever had
    messages waiting or coming, or were not just OK.
    """
    count, width = grid.status.shape
    everything = np.arange(count)
    if not width or (grid.pulled >= 0).any():
        return everything, everything
    is_quiet = (grid.status == OK_CODE).all(axis=1)
    is_quiet &= ~grid.flags.any(axis=1) & ~grid.time_lag_ms.any(axis=1) & grid.is_linked[:, 1:].all(axis=1)
    at = np.flatnonzero(is_quiet)
    high, committed = grid.max_offset[at], grid.committed[at]
    is_quiet[at] = (high == high[:, :1]).all(axis=1) & (high == committed).all(axis=1)
    quiet = np.flatnonzero(is_quiet)
    if len(quiet) < 2:
        return everything, everything
    is_kept = ~is_quiet
    is_kept[starts[:-1]] = True
    is_kept[quiet[0]] = True
    place = np.cumsum(is_kept) - 1
    return np.flatnonzero(is_kept), np.where(is_kept, place, place[quiet[0]])


@dataclass(frozen=True, slots=True)
class Latencies:
    """Batches of consumed messages and how long they waited: `messages[i]` of row `rows[i]`, all of them known."""

    rows: Int64Array
    latency_ms: Int64Array
    messages: Int64Array

    def into(self, rows: Int64Array) -> Latencies:
        """Return them of other rows: row i becomes rows[i]."""
        return Latencies(rows[self.rows], self.latency_ms, self.messages)


def latencies_of(rounds: Rounds, from_ms: int) -> Latencies:
    """Return how long the messages waited that were consumed in the window.

    They left between two rounds, so they waited as long as the oldest message did in one of them or between: spread
    evenly where the two differ by more than an interval. Over a gap, or beside an unknown age, it is not known.
    """
    spans = np.diff(rounds.t_ms, prepend=rounds.t_ms[:1])
    is_timed = (rounds.consumed > 0) & rounds.is_aged
    is_timed[:, 1:] &= rounds.is_aged[:, :-1]
    is_timed[:, (rounds.t_ms < from_ms) | (spans > rounds.limit_ms)] = False
    at = np.flatnonzero(is_timed)
    age_ms, width = rounds.age_ms.reshape(-1), rounds.age_ms.shape[1]
    after, before = age_ms[at], age_ms[at - 1]
    rows, messages = at // max(width, 1), rounds.consumed.reshape(-1)[at]
    is_apart = np.abs(after - before) > rounds.interval_ms
    even = Latencies(rows, (before + after) // 2, messages)
    if not is_apart.any():
        return even
    own = np.flatnonzero(is_apart)
    rows, before, after, messages = rows[own], before[own], after[own], messages[own]
    parts = np.minimum(np.minimum(-(-np.abs(after - before) // rounds.interval_ms), PARTS_MAX), messages)
    part = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    rows, before, after, messages, parts = (
        np.repeat(one, parts) for one in (rows, before, after, messages, parts)
    )
    share = messages * (part + 1) // parts - messages * part // parts
    spread = before + (after - before) * (2 * part + 1) // (2 * parts)
    rest = ~is_apart
    return Latencies(
        np.concatenate([even.rows[rest], rows]),
        np.concatenate([even.latency_ms[rest], spread]),
        np.concatenate([even.messages[rest], share]),
    )


def runways(grid: Grid, rounds: Rounds, from_ms: int) -> Int64Array:
    """Return for how long, at the least, retention leaves the first unread message of each queue; HIGHEST: for ever.

    (Age of the oldest message kept - age of the first unread one) / (1 - catch-up speed) in each round of the window.
    """
    found = np.full(len(grid.keys), HIGHEST, dtype=np.int64)
    is_known = rounds.is_aged & (rounds.age_ms > 0) & (grid.oldest_ms >= 0)
    is_known[:, grid.t_ms < from_ms] = False
    rows = np.flatnonzero(is_known.any(axis=1))
    if not len(rows):
        return found
    age, own = rounds.age_ms[rows], is_known[rows]
    room = np.maximum(grid.t_ms - grid.oldest_ms[rows] - age, 0)
    closing = np.ones(age.shape)  # without a round before: as if it stood still
    spans = np.maximum(np.diff(grid.t_ms), 1)
    is_paced = grid.is_linked[rows, 1:] & rounds.is_aged[rows, :-1] & ~rounds.moved[rows, 1:]
    closing[:, 1:] = np.where(is_paced, np.clip((age[:, 1:] - age[:, :-1]) / spans, 0, 1), 1)
    with np.errstate(divide="ignore"):
        left = np.where(own & (closing > 0), room / closing, np.inf)
    nearest = left.min(axis=1)
    is_near = nearest < FARTHEST_MS
    found[rows] = np.where(is_near, np.where(is_near, nearest, 0).astype(np.int64), HIGHEST)
    return found


def level_of(
    rounds: Rounds,
    keys: Sequence[SeriesKey],
    slo_ms: Int64Array,
    from_ms: int,
    to_ms: int,
    latencies: Latencies | None = None,
    runway: Int64Array | None = None,
) -> Level:
    """Return the figures of rows (queues, topics, a group) over a window of which `rounds` has the round before."""
    count = len(keys)
    latencies = latencies or Latencies(_numbers(0), _numbers(0), _numbers(0))
    first = int(np.searchsorted(rounds.t_ms, from_ms))
    window = slice(first, None)
    is_counted, is_aged = rounds.is_counted[:, window], rounds.is_aged[:, window]
    lag, age_ms, t_ms = rounds.lag[:, window], rounds.age_ms[:, window], rounds.t_ms[window]
    counted_ends = _ends(t_ms, is_counted, lag)
    return Level(
        keys,
        Sums(
            incarnation=np.array([key.incarnation for key in keys], dtype=np.int64),
            runway_ms=np.full(count, HIGHEST) if runway is None else runway,
            **_times(rounds, slo_ms, from_ms, to_ms),
            **_counts(rounds, first),
            **_latency_sums(latencies, slo_ms, count),
        ),
        counted_ends,
        _ends(t_ms, is_aged, age_ms),
        _stretches(rounds, first),
        _minutes(rounds, first),
        {
            "lag": _histogram(lag, is_counted),
            "time_lag": _histogram(age_ms, is_aged),
            "latency": _weighted(latencies),
            **_pulled(rounds, window),
        },
    )


def _times(rounds: Rounds, slo_ms: Int64Array, from_ms: int, to_ms: int) -> dict[str, Any]:
    """Return what each moment of the window adds to: each round holds, and then is unknown, for some of it."""
    held, hole = rounds.spans(from_ms, to_ms)
    there = rounds.exists > 0
    exists_ms = _dot(there, held + hole)
    status_ms = np.zeros((len(there), RANKS), dtype=np.int64)
    for rank in np.flatnonzero(np.bincount(rounds.rank.reshape(-1), minlength=RANKS)).tolist():
        status_ms[:, rank] = _dot(rounds.rank == rank, held)
    status_ms[:, 0] = 0
    status_ms[:, UNKNOWN_RANK] += _dot(there, hole)
    is_late = rounds.age_ms > slo_ms[:, None]
    is_sure = is_late | (rounds.is_aged & ~rounds.is_bound)
    lasts = (held + hole) > 0
    begins, ends = np.maximum(rounds.t_ms, from_ms), np.append(np.minimum(rounds.t_ms, to_ms), to_ms)[1:]
    is_shown = there & lasts
    return {
        "queues": _highest(rounds.exists, np.broadcast_to(lasts, there.shape)),
        "exists_ms": exists_ms,
        "known_ms": _dot(rounds.is_read, held),
        "watched_ms": _dot(is_sure, held),
        "status_ms": status_ms,
        **_life(is_shown, begins, ends),
        "breach_ms": _dot(is_late, held),
        **_late_sums(rounds, held),
        "lag_area": _dot(rounds.lag, held),
    }


def _late_sums(rounds: Rounds, held: Int64Array) -> dict[str, Int64Array]:
    """Return what breaches weigh. Few rows have some, and to divide whole numbers takes longer than all the rest."""
    found = {name: _numbers(len(rounds.rank)) for name in ("breach_weighted", "late_message_ms")}
    if rounds.late_lag is not None:
        rows = np.flatnonzero(rounds.late_lag.any(axis=1))
        late = rounds.late_lag[rows]
        found["late_message_ms"][rows] = late @ held
        found["breach_weighted"][rows] = (late * WEIGHT // np.maximum(rounds.lag[rows], 1)) @ held
    return found


def _life(shown: BoolArray, begins: Int64Array, ends: Int64Array) -> dict[str, Int64Array]:
    """Return from when to when each row exists."""
    if shown.size and shown.all():
        own = {"exists_from_ms": begins.min(), "exists_to_ms": ends.max()}
        return {name: np.full(len(shown), value, dtype=np.int64) for name, value in own.items()}
    return {
        "exists_from_ms": np.where(shown, begins, HIGHEST).min(axis=1, initial=HIGHEST),
        "exists_to_ms": np.where(shown, ends, NONE).max(axis=1, initial=NONE),
    }


def _dot(matrix: IntArray, weights: Int64Array) -> Int64Array:
    """Return the weighted sum of each row. Rows that are the same all along are most of the truths."""
    if matrix.dtype == np.bool_:
        if matrix.all():
            return np.full(len(matrix), weights.sum(), dtype=np.int64)
        # exact as far as a float counts, and many times as fast as whole numbers
        kind = np.float32 if weights.sum() < EXACT_MS else np.float64
        whole: Int64Array = np.rint(matrix.astype(kind) @ weights.astype(kind)).astype(np.int64)
        return whole
    found: Int64Array = (matrix @ weights).astype(np.int64)
    return found


def _counts(rounds: Rounds, first: int) -> dict[str, Any]:
    """Return what counts at the rounds of the window."""
    window = slice(first, None)
    there, is_counted = rounds.exists[:, window] > 0, rounds.is_counted[:, window]
    spans = np.diff(rounds.t_ms, prepend=rounds.t_ms[:1])
    linked = np.zeros(rounds.exists.shape, dtype=np.bool_)
    linked[:, 1:] = (rounds.exists[:, 1:] > 0) & (rounds.exists[:, :-1] > 0)
    samples = is_counted.sum(axis=1)
    return {
        "samples": samples,
        "partial_samples": there.sum(axis=1) - samples,
        "bound_samples": (rounds.is_bound[:, window] & there).sum(axis=1),
        "lag_max": _highest(rounds.lag[:, window], there),
        "age_max_ms": _highest(rounds.age_ms[:, window], there),
        "counted_ms": _dot(linked[:, window], spans[window]),
        "rewinds": rounds.rewound[:, window].sum(axis=1),
        **{
            name: getattr(rounds, name)[:, window].sum(axis=1)
            for name in ("produced", "consumed", "skipped", "lost")
        },
    }


def _highest(matrix: IntArray, shown: BoolArray) -> Int64Array:
    """Return the largest of each row, NONE without one."""
    values = matrix if shown.all() else np.where(shown, matrix, NONE)
    found: Int64Array = values.max(axis=1, initial=NONE).astype(np.int64)
    return found


def _latency_sums(latencies: Latencies, slo_ms: Int64Array, count: int) -> dict[str, Any]:
    rows, messages = latencies.rows, latencies.messages
    in_time = np.where(latencies.latency_ms <= slo_ms[rows], messages, 0)
    found = {"timed": messages, "in_time": in_time, "latency_ms": messages * latencies.latency_ms}
    return {name: _by_row(rows, values, count) for name, values in found.items()}


def _by_row(rows: Int64Array, values: Int64Array, count: int) -> Int64Array:
    """Return the sum of the values of each row; rows ascend, and once more (`latencies_of`)."""
    total = np.zeros(count, dtype=np.int64)
    again = np.flatnonzero(rows[1:] < rows[:-1]) + 1
    for part, own in zip(np.split(values, again), np.split(rows, again), strict=True):
        upto = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(part)])
        starts = np.searchsorted(own, np.arange(count + 1))
        total += upto[starts[1:]] - upto[starts[:-1]]
    return total


def _ends(t_ms: Int64Array, shown: BoolArray, values: Int64Array) -> Ends:
    count, width = shown.shape
    if not width:
        return Ends.none(count)
    if shown.all():
        gap = int(np.diff(t_ms).max(initial=0))
        times = (np.full(count, t_ms[0]), values[:, 0], np.full(count, t_ms[-1]), values[:, -1])
        return Ends(times[0], times[1].copy(), times[2], times[3].copy(), np.full(count, gap))
    has = shown.any(axis=1)
    first, last = np.argmax(shown, axis=1), width - 1 - np.argmax(shown[:, ::-1], axis=1)
    rows = np.arange(count)
    seen = np.maximum.accumulate(np.where(shown, t_ms, NONE), axis=1)
    gaps = np.where(shown[:, 1:] & (seen[:, :-1] >= 0), t_ms[1:] - seen[:, :-1], 0)
    return Ends(
        np.where(has, t_ms[first], NONE),
        np.where(has, values[rows, first], NONE),
        np.where(has, t_ms[last], NONE),
        np.where(has, values[rows, last], NONE),
        gaps.max(axis=1, initial=0),
    )


def _stretches(rounds: Rounds, first: int) -> Stretch:
    """Return how long rows stood still while messages waited; of several queues it says nothing (see `figures`)."""
    found = Stretch.none(len(rounds.rank))
    width = rounds.rank.shape[1] - first
    if not width:
        return found
    found.is_whole[:] = False
    spans = np.diff(rounds.t_ms, prepend=rounds.t_ms[:1])[first:]
    rows = np.flatnonzero(rounds.is_still[:, first:].any(axis=1))
    if len(rows):
        still = rounds.is_still[rows, first:]
        upto = np.cumsum(np.where(still, spans, 0), axis=1)
        run = upto - np.maximum.accumulate(np.where(still, 0, upto), axis=1)
        found.longest_ms[rows] = run.max(axis=1)
        found.trailing_ms[rows] = run[:, -1]
        is_whole = still.all(axis=1)
        found.is_whole[rows] = is_whole
        begins = upto[np.arange(len(rows)), np.argmin(still, axis=1)]
        found.leading_ms[rows] = np.where(is_whole, upto[:, -1], begins)
    return found


def _minutes(rounds: Rounds, first: int) -> Minutes:
    """Return what was consumed while rows were behind and nothing stood still: how fast they handle messages."""
    nothing = _numbers(0)
    late = rounds.is_aged & (rounds.age_ms > BEHIND_MS) & (rounds.states & (STALL | OFFLINE) == 0)
    rows = np.flatnonzero(late[:, first:].any(axis=1))
    if not len(rows):
        return Minutes(nothing, nothing, nothing, nothing)
    spans = np.diff(rounds.t_ms, prepend=rounds.t_ms[:1])
    is_behind = late[rows]
    is_behind[:, 1:] &= late[rows, :-1]
    is_behind[:, :1] = False
    is_behind[:, (spans > rounds.limit_ms) | (np.arange(len(spans)) < first)] = False
    own, column = np.nonzero(is_behind)
    minutes = rounds.t_ms[column] // MINUTE_MS
    return Minutes.of([Minutes(rows[own], minutes, rounds.consumed[rows[own], column], spans[column])])


def _histogram(values: Int64Array, shown: BoolArray) -> Counts:
    """Return how often each bucket was met in the shown rounds of each row."""
    codes = histogram.codes_of(values)
    if shown.all():
        counts = np.full(len(codes), codes.shape[1])
    else:
        codes = np.where(shown, codes, np.uint16(0xFFFF))
        counts = shown.sum(axis=1)
    return Counts(*histogram.runs_of(np.sort(codes, axis=1), counts))


def _weighted(latencies: Latencies) -> Counts:
    buckets = histogram.codes_of(latencies.latency_ms).astype(np.int64)
    return Counts.of([Counts(latencies.rows, buckets, latencies.messages)])


def _pulled(rounds: Rounds, window: slice) -> dict[str, Counts]:
    """Return what was pulled and not confirmed, and what was not pulled, where it was read of every queue."""
    if rounds.in_flight is None:
        return {"in_flight": Counts.of([]), "ready": Counts.of([])}
    flying = rounds.in_flight[:, window]
    shown = rounds.is_counted[:, window] & (flying >= 0)
    own = np.maximum(flying, 0)
    return {
        "in_flight": _histogram(own, shown),
        "ready": _histogram(np.maximum(rounds.lag[:, window] - own, 0), shown),
    }
