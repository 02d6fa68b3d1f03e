"""Hold lag history in memory: one flat array per figure, samples of a series side by side, series by key.

This form suits array code: every rule is a whole-array expression with the series' boundaries taken from
`starts`. Chunks (Parquet) and snapshots (write-ahead log) are both read into it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.codes import ABSENT, NO_FLAGS, OK_CODE, UNKNOWN_CODE, ByteArray
from spark.lag.snapshot import (
    UNKNOWN_OFFSET,
    UNKNOWN_TIME,
    BoolArray,
    CommitKey,
    HeadKey,
    Int64Array,
    Snapshot,
    no_codes,
    no_offsets,
)

RETRY_TOPIC_PREFIX = "%RETRY%"
DEAD_LETTER_TOPIC_PREFIX = "%DLQ%"
Figures = npt.NDArray[Any]  # whole numbers, or codes of a byte
SAMPLE_COLUMNS = (
    *("t_ms", "max_offset", "min_offset", "committed", "pulled"),
    *("time_lag_ms", "status", "flags", "oldest_ms"),
)
# The value of a sample where nothing was kept; a head that was read is OK.
DEFAULTS = {"time_lag_ms": UNKNOWN_TIME, "status": UNKNOWN_CODE, "flags": NO_FLAGS, "oldest_ms": UNKNOWN_TIME}


class SeriesKind(StrEnum):
    """The subject of a series; retry and dead-letter topics are never added into a group's lag silently."""

    HEAD = "HEAD"  # a queue, without a group
    GROUP = "GROUP"  # a queue as a group consumes it
    RETRY = "RETRY"  # the same for the group's own %RETRY% topic
    DLQ = "DLQ"  # a queue of a %DLQ% topic


class SeriesKey(NamedTuple):
    """A series of history; `group` is empty for heads. The sort order puts a group's topic side by side."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    incarnation: int

    @property
    def kind(self) -> SeriesKind:
        """Return the kind, which follows from the names alone."""
        if self.group:
            return SeriesKind.RETRY if self.topic.startswith(RETRY_TOPIC_PREFIX) else SeriesKind.GROUP
        return SeriesKind.DLQ if self.topic.startswith(DEAD_LETTER_TOPIC_PREFIX) else SeriesKind.HEAD


def column_type(name: str) -> type[np.generic]:
    """Return the type of one of `SAMPLE_COLUMNS`."""
    return np.uint8 if name in ("status", "flags") else np.int64


def default_column(name: str, is_head: BoolArray) -> Figures:
    """Return the values of samples for which one of `DEFAULTS` was not kept."""
    found = np.full(len(is_head), DEFAULTS[name], dtype=column_type(name))
    if name == "status":
        found[is_head] = OK_CODE
    return found


def _heads_among(keys: Sequence[SeriesKey]) -> BoolArray:
    return np.fromiter((not key.group for key in keys), dtype=np.bool_, count=len(keys))


@dataclass(frozen=True, slots=True)
class Previous:
    """The last sample before the window, one per series: it holds until the window's first one.

    `t_ms` is `UNKNOWN_OFFSET` where there is none. The columns are those of `Samples`.
    """

    t_ms: Int64Array
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array
    pulled: Int64Array = field(default_factory=no_offsets)
    time_lag_ms: Int64Array = field(default_factory=no_offsets)
    status: ByteArray = field(default_factory=no_codes)
    flags: ByteArray = field(default_factory=no_codes)
    oldest_ms: Int64Array = field(default_factory=no_offsets)

    def __post_init__(self) -> None:
        for name, default in {"pulled": UNKNOWN_OFFSET, **DEFAULTS}.items():
            if len(getattr(self, name)) != len(self.t_ms):
                column = np.full(len(self.t_ms), default, dtype=column_type(name))
                object.__setattr__(self, name, column)

    @classmethod
    def none(cls, count: int) -> "Previous":
        """Return `count` unknown samples."""
        t_ms, max_offset, min_offset, committed = np.full((4, count), UNKNOWN_OFFSET, dtype=np.int64)
        return cls(t_ms, max_offset, min_offset, committed)

    def take(self, rows: Int64Array) -> "Previous":
        """Return the previous samples of some series."""
        return Previous(*(getattr(self, name)[rows] for name in SAMPLE_COLUMNS))

    def put(self, rows: Int64Array | BoolArray, samples: "Samples | Previous", places: Int64Array) -> None:
        """Set those of some series to samples at some places."""
        for name in SAMPLE_COLUMNS:
            getattr(self, name)[rows] = getattr(samples, name)[places]


@dataclass(frozen=True, slots=True)
class Samples:
    """All samples of some series. Series `i` owns `[starts[i], starts[i + 1])`, in ascending time.

    `t_ms` is the round's time, the same for every series of a round. `committed` and `pulled` are
    `UNKNOWN_OFFSET` for heads and where they were not read; `oldest_ms` of a group's series is its queue's. What is
    judged (`time_lag_ms` and behind) may be left out: see `Snapshot`.
    """

    keys: Sequence[SeriesKey]
    starts: Int64Array  # one more than keys
    t_ms: Int64Array
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array
    pulled: Int64Array
    previous: Previous
    time_lag_ms: Int64Array = field(default_factory=no_offsets)
    status: ByteArray = field(default_factory=no_codes)
    flags: ByteArray = field(default_factory=no_codes)
    oldest_ms: Int64Array = field(default_factory=no_offsets)

    def __post_init__(self) -> None:
        for name in DEFAULTS:
            if len(getattr(self, name)) != len(self.t_ms):
                is_head = np.repeat(_heads_among(self.keys), self.counts)
                object.__setattr__(self, name, default_column(name, is_head))

    @property
    def counts(self) -> Int64Array:
        """Return the number of samples of each series."""
        return np.diff(self.starts)

    @property
    def series(self) -> Int64Array:
        """Return the series number of every sample."""
        return np.repeat(np.arange(len(self.keys), dtype=np.int64), self.counts)

    @property
    def first(self) -> BoolArray:
        """Return a mask of the first sample of each series."""
        mask = np.zeros(len(self.t_ms), dtype=np.bool_)
        mask[self.starts[:-1][self.counts > 0]] = True
        return mask

    def slices(self) -> Iterator[tuple[SeriesKey, slice]]:
        """Yield each series with its place in the arrays."""
        for key, (start, stop) in zip(self.keys, pairwise(self.starts.tolist()), strict=True):
            yield key, slice(start, stop)

    def select(self, wanted: Callable[[SeriesKey], bool]) -> "Samples":
        """Return only the series that `wanted` names."""
        rows = np.array([i for i, key in enumerate(self.keys) if wanted(key)], dtype=np.int64)
        if len(rows) == len(self.keys):
            return self
        mask = np.zeros(len(self.keys), dtype=np.bool_)
        mask[rows] = True
        kept = np.repeat(mask, self.counts)
        return self._kept(rows, kept, self.counts[rows], self.previous.take(rows))

    def read_part(self) -> "Samples":
        """Return only what was read: no carried offsets, no tombstones, of groups only committed offsets."""
        is_head = np.repeat(_heads_among(self.keys), self.counts)
        kept = (self.status != UNKNOWN_CODE) & (self.status != ABSENT)
        kept &= is_head | (self.committed != UNKNOWN_OFFSET)
        if kept.all():
            return self
        counts = segment_sums(kept.astype(np.int64), self.starts)
        rows = np.flatnonzero(counts).astype(np.int64)
        return self._kept(rows, kept, counts[rows], self.previous.take(rows))

    def window(self, from_ms: int, to_ms: int) -> "Samples":
        """Return the samples of [from_ms, to_ms); the last before becomes `previous`. Drop empty series."""
        if len(self.t_ms) and self.t_ms.min() >= from_ms and self.t_ms.max() < to_ms and self.counts.all():
            return self
        kept = (self.t_ms >= from_ms) & (self.t_ms < to_ms)
        counts = segment_sums(kept.astype(np.int64), self.starts)
        before = segment_sums((self.t_ms < from_ms).astype(np.int64), self.starts)
        rows = np.flatnonzero(counts).astype(np.int64)
        previous = self.previous.take(rows)
        last = self.starts[:-1][rows] + before[rows] - 1
        seen = before[rows] > 0
        previous.put(seen, self, last[seen])
        return self._kept(rows, kept, counts[rows], previous)

    def _kept(self, rows: Int64Array, kept: BoolArray, counts: Int64Array, previous: Previous) -> "Samples":
        columns = [getattr(self, name)[kept] for name in SAMPLE_COLUMNS]
        return samples_of([self.keys[row] for row in rows.tolist()], starts_of(counts), columns, previous)


def starts_of(counts: Int64Array) -> Int64Array:
    """Return where each series starts, and the end, from the series' lengths."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def segment_sums(values: Int64Array, starts: Int64Array) -> Int64Array:
    """Return the sum of each series' samples; 0 for an empty series."""
    totals = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=totals[1:])
    sums: Int64Array = totals[starts[1:]] - totals[starts[:-1]]
    return sums


def samples_of(
    keys: Sequence[SeriesKey], starts: Int64Array, columns: Sequence[Any], previous: Previous
) -> Samples:
    """Return samples from columns in the order of `SAMPLE_COLUMNS`; what is judged may be left out at the end."""
    judged = dict(zip(SAMPLE_COLUMNS[5:], columns[5:], strict=False))
    t_ms, max_offset, min_offset, committed, pulled = columns[:5]
    return Samples(keys, starts, t_ms, max_offset, min_offset, committed, pulled, previous, **judged)


def empty_samples() -> Samples:
    """Return samples of no series."""
    empty = np.empty(0, dtype=np.int64)
    return Samples([], starts_of(empty), empty, empty, empty, empty, empty, Previous.none(0))


def from_snapshots(snapshots: Iterable[Snapshot], previous: Snapshot | None = None) -> Samples:
    """Transpose time-ordered rounds into series. Later snapshots of the same time replace earlier ones.

    A commit whose queue was not read in the same round gives no sample: without max offset there is no lag.
    `previous` is the last round before the first one.
    """
    rounds = sorted({one.ts_ms: one for one in snapshots}.values(), key=lambda one: one.ts_ms)
    index: dict[SeriesKey, int] = {}
    parts: list[tuple[Figures, ...]] = []
    places: _Places | None = None
    for snapshot in rounds:
        if places is None or not places.fit(snapshot):
            places = _Places.of(snapshot, index)
        parts.append(_round_samples(snapshot, places))
    if not parts:
        return empty_samples()
    series, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    samples = assemble(list(index), series, columns, Previous.none(len(index)))
    if previous is not None:
        _fill_previous(samples, previous)
    return samples


def assemble(
    keys: Sequence[SeriesKey], series: Int64Array, columns: Sequence[Any], previous: Previous
) -> Samples:
    """Sort samples given in any order by (series key, time); of several at the same time the last one stays.

    `columns` are `SAMPLE_COLUMNS`; `series` numbers the keys.
    """
    order = sorted(range(len(keys)), key=lambda i: keys[i])
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    placed = rank[series]
    by_time = _order(placed, columns[0], len(keys))
    placed = placed[by_time]
    sorted_columns = [column[by_time] for column in columns]
    last = np.ones(len(placed), dtype=np.bool_)
    last[:-1] = (placed[1:] != placed[:-1]) | (sorted_columns[0][1:] != sorted_columns[0][:-1])
    counts = np.bincount(placed[last], minlength=len(keys)).astype(np.int64)
    rows = np.array(order, dtype=np.int64)
    unique = [column[last] for column in sorted_columns]
    return samples_of([keys[i] for i in order], starts_of(counts), unique, previous.take(rows))


def join_in_time(
    keys: Sequence[SeriesKey], parts: Sequence[Samples], rows: Sequence[Int64Array], previous: Previous
) -> Samples:
    """Join parts of which each ends before the next begins; `rows[p]` numbers the keys of part p.

    Every sample's place follows from counts alone: nothing is sorted but the keys.
    """
    if all(part.keys == parts[0].keys for part in parts):
        side_by_side = _side_by_side(parts)
        if side_by_side is not None:
            own_keys = parts[0].keys
            counts = sum((part.counts for part in parts), np.zeros(len(own_keys), dtype=np.int64))
            return samples_of(own_keys, starts_of(counts), side_by_side, previous.take(rows[0]))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    counts = np.zeros(len(keys), dtype=np.int64)
    for part, own in zip(parts, rows, strict=True):
        counts[rank[own]] += part.counts
    starts = starts_of(counts)
    free = starts[:-1].copy()
    columns = [np.empty(int(starts[-1]), dtype=column_type(name)) for name in SAMPLE_COLUMNS]
    for part, own in zip(parts, rows, strict=True):
        at = rank[own]
        places = np.repeat(free[at] - part.starts[:-1], part.counts) + np.arange(len(part.t_ms))
        free[at] += part.counts
        for column, name in zip(columns, SAMPLE_COLUMNS, strict=True):
            column[places] = getattr(part, name)
    return samples_of(
        [keys[i] for i in order], starts, columns, previous.take(np.array(order, dtype=np.int64))
    )


def _side_by_side(parts: Sequence[Samples]) -> list[Figures] | None:
    """Return the columns of parts with the same series, in which every series has equally many samples.

    Whole rows are copied. None for other parts.
    """
    lengths = [part.counts[:1].tolist() for part in parts]
    if not all(
        length and bool((part.counts == length[0]).all()) for part, length in zip(parts, lengths, strict=True)
    ):
        return None
    return [
        np.concatenate(
            [getattr(part, name).reshape(-1, length[0]) for part, length in zip(parts, lengths, strict=True)],
            axis=1,
        ).reshape(-1)
        for name in SAMPLE_COLUMNS
    ]


def _order(placed: Int64Array, t_ms: Int64Array, count: int) -> Int64Array:
    """Return the stable order by (series, time): equal times stay in the order given.

    Rounds come in time order, then sorting by series is enough, and for 65,536 series NumPy sorts 16-bit numbers by
    radix: 2.9 M samples take 0.1 s instead of 1.4 s.
    """
    if np.all(t_ms[1:] >= t_ms[:-1]):
        narrow = placed.astype(np.uint16) if count <= 2**16 else placed
        return np.argsort(narrow, kind="stable").astype(np.int64)
    return np.lexsort((t_ms, placed)).astype(np.int64)


@dataclass(slots=True)
class _Places:
    """The samples of rounds with one set of keys: rounds mostly have the keys of the round before.

    Measured: an hour of 2,000 series in 720 rounds takes 0.3 s instead of 2.1 s with the lookups done once.
    """

    head_keys: Sequence[HeadKey]
    commit_keys: Sequence[CommitKey]
    rows: Int64Array  # of the heads, for every sample
    series: Int64Array
    known: Int64Array  # of the commits that have a head

    @classmethod
    def of(cls, snapshot: Snapshot, index: dict[SeriesKey, int]) -> "_Places":
        """Number the series of a round; new ones are added to `index`."""
        heads = {key: row for row, key in enumerate(snapshot.head_keys)}
        rows = list(heads.values())
        series = [index.setdefault(SeriesKey("", *head), len(index)) for head in heads]
        known = []
        for number, commit in enumerate(snapshot.commit_keys):
            found = heads.get(commit.head)
            if found is not None:
                rows.append(found)
                series.append(index.setdefault(SeriesKey(*commit), len(index)))
                known.append(number)
        numbers = (np.array(one, dtype=np.int64) for one in (rows, series, known))
        return cls(snapshot.head_keys, snapshot.commit_keys, *numbers)

    def fit(self, snapshot: Snapshot) -> bool:
        """Whether another round has the same keys in the same order."""
        return self.head_keys == snapshot.head_keys and self.commit_keys == snapshot.commit_keys


def _round_samples(snapshot: Snapshot, places: _Places) -> tuple[Figures, ...]:
    """Return the series of one round, and its figures in the order of `SAMPLE_COLUMNS`."""
    nothing = np.full(len(places.head_keys), UNKNOWN_OFFSET, dtype=np.int64)
    known = places.known
    return (
        places.series,
        np.full(len(places.rows), snapshot.ts_ms, dtype=np.int64),
        snapshot.max_offset[places.rows],
        snapshot.min_offset[places.rows],
        np.concatenate([nothing, snapshot.committed[known]]),
        np.concatenate([nothing, snapshot.pulled[known]]),
        np.concatenate([nothing, snapshot.time_lag_ms[known]]),
        np.concatenate([snapshot.head_status, snapshot.status[known]]),
        np.concatenate([np.zeros(len(nothing), dtype=np.uint8), snapshot.flags[known]]),
        snapshot.oldest_ms[places.rows],
    )


def _fill_previous(samples: Samples, snapshot: Snapshot) -> None:
    before = from_snapshots([snapshot])
    places = {key: at for at, key in enumerate(before.keys)}
    found = np.array([places.get(key, -1) for key in samples.keys], dtype=np.int64)
    known = found >= 0
    samples.previous.put(known, before, before.starts[:-1][found[known]])
