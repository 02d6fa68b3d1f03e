"""Fold a window of judged samples to figures: the one way from history to a row, a chart's number and an alert.

    rows = fold(grid, from_ms, to_ms, slo_ms)                      # queues, and the topics that they are of
    whole = merge([fold(grid, a, c, slo_ms), fold(grid, c, b, slo_ms)])      # the same as of [a, b), for every c
    spark.lag.folds.figures.of_level(whole.topics, …)                    # what pages and reports show

A sample holds from its time to the next one's, `rounds.GAP_INTERVALS` intervals at most; then it is UNKNOWN what
holds. Differences of offsets count at the later sample. So a window needs its own samples and the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.codes import CODE_OF, OK_CODE, ByteArray, LagStatus, SampleFlag
from spark.lag.folds import histogram, level
from spark.lag.folds.level import HIGHEST, NONE, Counts, Ends, Level, Minutes, Stretch, Sums
from spark.lag.folds.rounds import OFFLINE, RANKS, STALL, UNKNOWN_RANK, Rounds, rounds_of, where
from spark.lag.forecast import LOSS_HORIZON_MS_MIN
from spark.lag.grid import TOPIC_WIDTH, Grid
from spark.lag.local_time import MINUTE_MS
from spark.lag.samples import SeriesKey
from spark.lag.snapshot import BoolArray, Int64Array

# A row is behind while its oldest message waits longer than a healthy consumer takes to commit.
BEHIND_MS = 30_000
PARTS_MAX = 16  # of the messages that one round consumed: what a stall of a minute frees in a round of 5 s
WEIGHT = 1_000
# What only queues show; a topic has it from its queues.
FROM_QUEUES = ("incarnation", "timed", "in_time", "latency_ms", "runway_ms", "newest_ms", "not_count")
FARTHEST_MS = 2.0**53  # of a number of milliseconds that a float holds
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
    """Return the fold of [from_ms, to_ms); the grid may extend beyond it on both sides.

    `slo_of` a group: how long its messages may wait, milliseconds.
    """
    own = grid.between(from_ms, to_ms)
    starts = own.starts(TOPIC_WIDTH)
    rows, source = own.distinct()
    bundles = np.append(source[starts[:-1]], len(rows.keys))
    promised = {group: slo_of(group) for group in {key.group for key in rows.keys}}
    slo_ms = np.array([promised[key.group] for key in rows.keys], dtype=np.int64)
    parts = []
    for first, end in _slabs(bundles):
        place = slice(int(bundles[first]), int(bundles[end]))
        within = bundles[first : end + 1] - bundles[first]
        parts.append(_fold_slab(rows.rows(place), within, slo_ms[place], from_ms, to_ms))
    queues = level.side_by_side([part for part, _ in parts])
    together = Rounds.stacked([part for _, part in parts])
    if own.source is not None:
        queues = queues.take(source, own.keys)
        # those that are left out exist in every round
        together = replace(together, exists=together.exists + (np.diff(starts) - np.diff(bundles))[:, None])
    keys = [own.keys[row]._replace(broker_name="", queue_id=-1) for row in starts[:-1].tolist()]
    topics = level_of(together, keys, slo_ms[bundles[:-1]], from_ms, to_ms)
    return Fold(from_ms, to_ms, queues, _with_sums_of_queues(topics, queues, starts))


def merge(parts: Sequence[Fold]) -> Fold:
    """Return the fold of parts that follow each other in time, or of other groups of the same window."""
    return Fold(
        min(part.from_ms for part in parts),
        max(part.to_ms for part in parts),
        level.merge([part.queues for part in parts]),
        level.merge([part.topics for part in parts]),
    )


def _slabs(starts: Int64Array) -> list[tuple[int, int]]:
    """Cut topics into ranges of about `SLAB_ROWS` rows; one of none, if there are none."""
    ends, first = [], 0
    for at, end in enumerate(starts[1:].tolist(), 1):
        if end - starts[first] >= SLAB_ROWS or at == len(starts) - 1:
            ends.append((first, at))
            first = at
    return ends or [(0, 0)]


def _numbers(count: int) -> Int64Array:
    return np.zeros(count, dtype=np.int64)


def _fold_slab(
    grid: Grid, bundles: Int64Array, slo_ms: Int64Array, from_ms: int, to_ms: int
) -> tuple[Level, Rounds]:
    """Return the figures of the queues of some topics, and the rounds of the topics."""
    rounds = rounds_of(grid, slo_ms)
    latencies = latencies_of(rounds, from_ms)
    queues = level_of(rounds, grid.keys, slo_ms, from_ms, to_ms, latencies, _of_queues(grid, rounds, from_ms))
    return queues, rounds.together(bundles)


def _with_sums_of_queues(topics: Level, queues: Level, starts: Int64Array) -> Level:
    """Return topics with what they have from their queues."""
    first = starts[:-1]
    sums = {
        one.name: one.metadata["by"].reduceat(getattr(queues.sums, one.name), first)
        for one in fields(Sums)
        if one.name in FROM_QUEUES and len(first)
    }
    waits = Counts.of([queues.histograms["latency"].into(np.repeat(np.arange(len(first)), np.diff(starts)))])
    histograms = {**topics.histograms, "latency": waits}
    return replace(topics, sums=replace(topics.sums, **sums), histograms=histograms)


class Spread(NamedTuple):
    """Messages of a round that did not wait alike: `messages[i]` of row `rows[i]` waited `latency_ms[i]`."""

    rows: Int64Array
    latency_ms: Int64Array
    messages: Int64Array


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long consumed messages waited, rows x rounds; `messages` is 0 where that is not known, or is in `spread`."""

    latency_ms: IntArray
    messages: IntArray
    spread: Spread

    @classmethod
    def none(cls, count: int) -> Latencies:
        nothing = np.zeros((count, 0), dtype=np.int64)
        return cls(nothing, nothing, Spread(_numbers(0), _numbers(0), _numbers(0)))

    def whole(self) -> Latencies:
        """Return those of all rows as of one."""
        spread = self.spread._replace(rows=np.zeros_like(self.spread.rows))
        return Latencies(self.latency_ms.reshape(1, -1), self.messages.reshape(1, -1), spread)


def latencies_of(rounds: Rounds, from_ms: int) -> Latencies:
    """Return how long the messages waited that were consumed in the window.

    They left between two rounds, so they waited as long as the oldest message did in one of them or between: spread
    evenly where the two differ by more than an interval. Over a gap, or beside an unknown age, it is not known.
    """
    age_ms, spans = rounds.age_ms, np.diff(rounds.t_ms, prepend=rounds.t_ms[:1])
    is_timed = (rounds.consumed > 0) & rounds.is_aged
    is_timed[:, 1:] &= rounds.is_aged[:, :-1]
    is_timed[:, (rounds.t_ms < from_ms) | (spans > rounds.limit_ms)] = False
    messages = where(is_timed, rounds.consumed)
    latency_ms = np.zeros_like(age_ms)
    np.add(age_ms[:, 1:], age_ms[:, :-1], out=latency_ms[:, 1:])
    latency_ms >>= 1
    is_apart = is_timed
    is_apart[:, 1:] &= np.abs(np.diff(age_ms, axis=1)) > rounds.interval_ms
    at = np.flatnonzero(is_apart)
    if len(at):
        messages = messages * ~is_apart
    return Latencies(latency_ms, messages, _spread(rounds, at))


def _spread(rounds: Rounds, at: Int64Array) -> Spread:
    """Return the messages of some rounds, cut into parts."""
    rows = at // max(rounds.age_ms.shape[1], 1)
    messages, after = (one.reshape(-1)[at].astype(np.int64) for one in (rounds.consumed, rounds.age_ms))
    before = rounds.age_ms.reshape(-1)[at - 1].astype(np.int64)
    parts = np.minimum(np.minimum(-(-np.abs(after - before) // rounds.interval_ms), PARTS_MAX), messages)
    part = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    rows, before, after, messages, parts = (
        np.repeat(one, parts) for one in (rows, before, after, messages, parts)
    )
    share = messages * (part + 1) // parts - messages * part // parts
    return Spread(rows, before + (after - before) * (2 * part + 1) // (2 * parts), share)


def _of_queues(grid: Grid, rounds: Rounds, from_ms: int) -> dict[str, Int64Array]:
    """Return the sums that need more of each queue than its rounds, or that rounds of a whole topic no longer show.

    A message consumed in a round was stored when the first one behind it was, or shortly before; with none behind it,
    at the latest at the round.
    """
    window = slice(int(np.searchsorted(rounds.t_ms, from_ms)), None)
    is_read, flags = rounds.is_read[:, window], grid.flags[:, window]
    is_dated = (rounds.consumed[:, window] > 0) & rounds.is_aged[:, window]
    stored_ms = where(is_dated, rounds.t_ms[window] - rounds.age_ms[:, window]).max(axis=1, initial=0)
    not_count = np.where(is_read.any(axis=1), 0, NONE)
    if flags.any():
        not_count = _highest(((flags & SampleFlag.NOT_COUNT) != 0).view(np.int8), is_read)
    return {
        "runway_ms": runways(grid, rounds, from_ms),
        "newest_ms": np.where(stored_ms > 0, stored_ms, NONE),
        "not_count": not_count,
    }


def runways(grid: Grid, rounds: Rounds, from_ms: int) -> Int64Array:
    """Return for how long, at the least, retention leaves the first unread message of each queue; HIGHEST: for ever.

    (Age of the oldest message kept - age of the first unread one) / (1 - catch-up speed) in each round of the window in
    which the collector found that the queue does not keep pace; what is out of sight for a live row is so here too.
    """
    found = np.full(len(grid.keys), HIGHEST, dtype=np.int64)
    age_ms = rounds.age_ms
    is_paced = np.zeros(age_ms.shape, dtype=np.bool_)  # without a round before: as if it stood still
    is_paced[:, 1:] = grid.is_linked[:, 1:] & rounds.is_aged[:, :-1] & ~rounds.moved[:, 1:]
    closes = rounds.is_aged & (age_ms > 0) & (grid.oldest_ms >= 0) & ~keeps_pace(grid.status)
    closes[:, 1:] &= ~is_paced[:, 1:] | (age_ms[:, 1:] > age_ms[:, :-1])
    closes[:, grid.t_ms < from_ms] = False
    if not closes.any():
        return found
    spans = np.maximum(np.diff(grid.t_ms, prepend=0), 1)
    closing = np.ones(closes.shape)
    np.divide(np.diff(age_ms, axis=1), spans[1:], out=closing[:, 1:])
    closing = np.minimum(np.maximum(closing, ~is_paced), 1)
    kept_ms = grid.t_ms - grid.oldest_ms
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing closes
        left_ms = np.where(closes, np.maximum(kept_ms - age_ms, 0) / closing, np.inf)
    left_ms[left_ms > np.maximum(kept_ms, LOSS_HORIZON_MS_MIN)] = np.inf
    nearest = left_ms.min(axis=1, initial=np.inf)
    is_near = nearest < FARTHEST_MS
    found[is_near] = nearest[is_near].astype(np.int64)
    return found


def keeps_pace(status: ByteArray) -> BoolArray:
    """Return where the collector found nothing to fall behind: an age that rises from commit to commit is no trend."""
    found: BoolArray = (status == OK_CODE) | (status == CODE_OF[LagStatus.CATCHING_UP])
    return found


def level_of(
    rounds: Rounds,
    keys: Sequence[SeriesKey],
    slo_ms: Int64Array,
    from_ms: int,
    to_ms: int,
    latencies: Latencies | None = None,
    of_queues: dict[str, Int64Array] | None = None,
) -> Level:
    """Return the figures of rows (queues, topics, a group) over a window of which `rounds` has the round before."""
    count = len(keys)
    of_queues = of_queues or {
        "runway_ms": np.full(count, HIGHEST),
        "newest_ms": np.full(count, NONE, dtype=np.int64),
        "not_count": np.full(count, NONE, dtype=np.int64),
    }
    latencies = latencies or Latencies.none(count)
    first = int(np.searchsorted(rounds.t_ms, from_ms))
    window = slice(first, None)
    is_counted, is_aged = rounds.is_counted[:, window], rounds.is_aged[:, window]
    lag, age_ms, t_ms = rounds.lag[:, window], rounds.age_ms[:, window], rounds.t_ms[window]
    counted_ends = _ends(t_ms, is_counted, lag)
    return Level(
        keys,
        Sums(
            incarnation=np.array([key.incarnation for key in keys], dtype=np.int64),
            **of_queues,
            **_times(rounds, slo_ms, from_ms, to_ms),
            **_counts(rounds, first),
            **_latency_sums(latencies, slo_ms),
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
    status_ms = _status_ms(rounds.rank, held)
    status_ms[:, 0] = 0
    status_ms[:, UNKNOWN_RANK] += _dot(there, hole)
    is_late = rounds.age_ms > slo_ms[:, None]
    is_sure = is_late | (rounds.is_aged & ~rounds.is_bound)
    lasting = np.flatnonzero(held + hole)
    lasts = slice(*lasting[[0, -1]] + [0, 1]) if len(lasting) else slice(0)
    begins, ends = np.maximum(rounds.t_ms, from_ms), np.append(np.minimum(rounds.t_ms, to_ms), to_ms)[1:]
    return {
        "queues": rounds.exists[:, lasts].max(axis=1, initial=NONE).astype(np.int64),
        "exists_ms": exists_ms,
        "known_ms": _dot(rounds.is_read, held),
        "watched_ms": _dot(is_sure, held),
        "status_ms": status_ms,
        **_life(there[:, lasts], begins[lasts], ends[lasts]),
        "breach_ms": _dot(is_late, held),
        **_late_sums(rounds, held),
        "lag_area": _dot(rounds.lag, held),
    }


def _status_ms(rank: ByteArray, held: Int64Array) -> Int64Array:
    """Return for how long each row had each rank; most rows have one rank."""
    found = np.zeros((len(rank), RANKS), dtype=np.int64)
    if rank.size:
        found[np.arange(len(rank)), rank[:, 0]] = held.sum()
        rows = np.flatnonzero((rank != rank[:, :1]).any(axis=1))
        changing = rank[rows]
        for one in np.flatnonzero(np.bincount(changing.reshape(-1), minlength=RANKS)).tolist():
            found[rows, one] = _dot(changing == one, held)
    return found


def _late_sums(rounds: Rounds, held: Int64Array) -> dict[str, Int64Array]:
    """Return the weights of breaches, of the few rows that have one: integer division is the slowest step here."""
    found = {name: _numbers(len(rounds.rank)) for name in ("breach_weighted", "late_message_ms")}
    if rounds.late_lag is not None:
        rows = np.flatnonzero(rounds.late_lag.any(axis=1))
        late = rounds.late_lag[rows].astype(np.int64)
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
    """Return the weighted sum of each row; boolean matrices are mostly constant."""
    is_bool, total = matrix.dtype == np.bool_, int(weights.sum())
    if is_bool and (matrix.all() or not matrix.any()):
        return np.full(len(matrix), total if matrix.any() else 0, dtype=np.int64)
    highest = total if is_bool else total * int(matrix.max(initial=0))
    # exact as far as a float counts, and many times as fast as whole numbers
    for kind, exact in ((np.float32, 1 << 24), (np.float64, 1 << 53)):
        if highest < exact:
            whole: Int64Array = (matrix.astype(kind) @ weights.astype(kind)).astype(np.int64)
            return whole
    found: Int64Array = matrix.astype(np.int64) @ weights
    return found


def _total(matrix: IntArray) -> Int64Array:
    """Return the sum of each row; most matrices are zero."""
    found: Int64Array = matrix.sum(axis=1, dtype=np.int64) if matrix.any() else _numbers(len(matrix))
    return found


def _counts(rounds: Rounds, first: int) -> dict[str, Any]:
    """Return what counts at the rounds of the window."""
    window = slice(first, None)
    there, is_counted = rounds.exists[:, window] > 0, rounds.is_counted[:, window]
    spans = np.diff(rounds.t_ms, prepend=rounds.t_ms[:1])
    linked = np.zeros(rounds.exists.shape, dtype=np.bool_)
    linked[:, 1:] = (rounds.exists[:, 1:] > 0) & (rounds.exists[:, :-1] > 0)
    each = np.ones(there.shape[1], dtype=np.int64)
    samples = _dot(is_counted, each)
    return {
        "samples": samples,
        "partial_samples": _dot(there, each) - samples,
        "bound_samples": _dot(rounds.is_bound[:, window] & there, each),
        "lag_max": _highest(rounds.lag[:, window], there),
        "age_max_ms": _highest(rounds.age_ms[:, window], there),
        "counted_ms": _dot(linked[:, window], spans[window]),
        "rewinds": _dot(rounds.rewound[:, window], each),
        **{
            name: _total(getattr(rounds, name)[:, window])
            for name in ("produced", "consumed", "skipped", "lost")
        },
    }


def _highest(matrix: IntArray, shown: BoolArray) -> Int64Array:
    """Return the largest of each row, NONE without one."""
    values = matrix if shown.all() else np.where(shown, matrix, NONE)
    found: Int64Array = values.max(axis=1, initial=NONE).astype(np.int64)
    return found


def _latency_sums(latencies: Latencies, slo_ms: Int64Array) -> dict[str, Any]:
    ms, messages, spread = latencies.latency_ms, latencies.messages, latencies.spread
    found = {
        "timed": _total(messages),
        "in_time": _total(messages * (ms <= slo_ms[:, None])),
        "latency_ms": _total(messages.astype(np.int64) * ms),
    }
    if len(spread.rows):
        in_time = np.where(spread.latency_ms <= slo_ms[spread.rows], spread.messages, 0)
        np.add.at(found["timed"], spread.rows, spread.messages)
        np.add.at(found["in_time"], spread.rows, in_time)
        np.add.at(found["latency_ms"], spread.rows, spread.messages * spread.latency_ms)
    return found


def _ends(t_ms: Int64Array, shown: BoolArray, values: IntArray) -> Ends:
    count, width = shown.shape
    if not width:
        return Ends.none(count)
    gap = int(np.diff(t_ms).max(initial=0))
    found = Ends(
        np.full(count, t_ms[0]),
        values[:, 0].astype(np.int64),
        np.full(count, t_ms[-1]),
        values[:, -1].astype(np.int64),
        np.full(count, gap),
    )
    rows = np.flatnonzero(~shown.all(axis=1))
    if len(rows):
        own = _ends_of_some(t_ms, shown[rows], values[rows])
        for name in Ends.__slots__:
            getattr(found, name)[rows] = getattr(own, name)
    return found


def _ends_of_some(t_ms: Int64Array, shown: BoolArray, values: IntArray) -> Ends:
    """Return the ends of rows that are not shown in every round."""
    rows, width = np.arange(len(shown)), shown.shape[1]
    has = shown.any(axis=1)
    first, last = np.argmax(shown, axis=1), width - 1 - np.argmax(shown[:, ::-1], axis=1)
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
    """Return how long single queues stood still while messages waited (of several queues: see `figures`)."""
    still = rounds.is_still[:, first:]
    count, width = still.shape
    found = Stretch.none(count)
    if not width:
        return found
    found.is_whole[:] = still.all(axis=1)
    beside = np.zeros((count, width + 2), dtype=np.bool_)
    beside[:, 1:-1] = still
    edges = np.flatnonzero(beside[:, 1:] != beside[:, :-1])
    rows, edge = np.divmod(edges, width + 1)
    spans = np.diff(rounds.t_ms, prepend=rounds.t_ms[:1])[first:]
    upto = np.append(0, np.cumsum(spans))[edge]
    rows, begins, ends, lengths = rows[::2], edge[::2], edge[1::2], upto[1::2] - upto[::2]
    np.maximum.at(found.longest_ms, rows, lengths)
    for part, is_there in ((found.leading_ms, begins == 0), (found.trailing_ms, ends == width)):
        part[rows[is_there]] = lengths[is_there]
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
    own, column = np.divmod(np.flatnonzero(is_behind), is_behind.shape[1])
    minutes = rounds.t_ms[column] // MINUTE_MS
    return Minutes.of([Minutes(rows[own], minutes, rounds.consumed[rows[own], column], spans[column])])


def _histogram(values: Int64Array, shown: BoolArray) -> Counts:
    """Return how often each bucket occurs in the shown rounds of each row."""
    codes = histogram.codes_of(values)
    if shown.all():
        counts = np.full(len(codes), codes.shape[1])
    else:
        codes = np.where(shown, codes, np.uint16(0xFFFF))
        counts = shown.sum(axis=1)
    return Counts(*histogram.runs_of(np.sort(codes, axis=1), counts))


def _weighted(latencies: Latencies) -> Counts:
    spread = latencies.spread
    found = Counts(*histogram.weighed(histogram.codes_of(latencies.latency_ms), latencies.messages))
    if not len(spread.rows):
        return found
    buckets = histogram.codes_of(spread.latency_ms).astype(np.int64)
    return Counts.of([found, Counts(spread.rows, buckets, spread.messages)])


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
