"""The rows of a chunk: what they hold, and samples to rows and back.

A chunk has one row per series and hour, sorted by (group, topic, broker_name, queue_id, incarnation); heads
(queues without a group) have group "" and come first. A day file holds the same rows, the hours of a series
side by side. A sample is a few small integers:

    kind                HEAD, GROUP, RETRY (the group's own %RETRY% topic), DLQ
    t0_ms, n            time of the first sample, number of samples; interval_ms: the collector's period
    prev_*              the last sample before the hour (null: none), it holds until the first one
    max0, min0          offsets at the first sample; min_last, max_last, committed_last at the last one
    dt_ms               times of the samples - t0_ms: int32, little-endian, side by side. Dictionary-coded: all series
                        of the same rounds share one entry
    dmax[], dmin[]      change of max and min offset since the sample before (0 first); null: never changed
    lag_base, lag[]     lag_base + lag[i] = max offset - committed offset, signed: committed offsets come back exactly.
                        `lag` null: lag_base every time; heads have no lag, their lag_base is 0
    in_flight[]         pulled - committed offset, -1 where it was not read; null: never read
    time_lag_base, time_lag[]    age of the first unread message in 0.1 s, -1 in a list where unknown
    status_base, status[]        numbers of `codes.CODE_OF`
    flags_base, flags[]          bits of `codes.SampleFlag`
    oldest_base, oldest[]        store time of the queue's oldest message in 0.1 s: base + item, `NO_OLDEST` for unknown
                                 of these four: the list null: the base every time; that null too: not known

A column that may be null may be missing in a file, which an older version of this program wrote: it is null then.
Columns that this version does not know are not read.

Lists without a change are null because an idle queue is the common case: they cost no time to write or to read.
`lag[]` is the raw difference; what can still be read, lost and invalid follow from it and are computed, never
stored. Differences that do not fit 32 bits start a new row of the same series.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark.lag.samples import (
    SAMPLE_COLUMNS,
    Figures,
    Previous,
    Samples,
    SeriesKey,
    starts_of,
)
from spark.lag.snapshot import (
    UNKNOWN_OFFSET,
    BoolArray,
    Int64Array,
    in_tenths,
)

INT32_MAX = 2**31 - 1
NO_OLDEST = -(2**31)
BASED = ("time_lag", "status", "flags", "oldest")  # a base, and a list where the figure changes
LISTS = ("dmax", "dmin", "lag", "in_flight", *BASED)
SERIES = SeriesKey._fields
# the columns of `SAMPLE_COLUMNS`, as they stand in rows
PREVIOUS = (
    *("prev_t_ms", "prev_max", "prev_min", "prev_committed", "prev_pulled"),
    *("prev_time_lag", "prev_status", "prev_flags", "prev_oldest"),
)

CHUNK_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("broker_name", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("incarnation", pa.int32(), nullable=False),
        pa.field("interval_ms", pa.int32(), nullable=False),
        pa.field("t0_ms", pa.int64(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        *[pa.field(name, pa.int64()) for name in PREVIOUS],
        *[pa.field(name, pa.int64(), nullable=False) for name in ("max0", "min0", "max_last", "min_last")],
        pa.field("committed_last", pa.int64()),
        pa.field("lag_base", pa.int64(), nullable=False),
        *[pa.field(f"{name}_base", pa.int64() if name == "oldest" else pa.int32()) for name in BASED],
        pa.field("dt_ms", pa.dictionary(pa.int32(), pa.binary()), nullable=False),
        *[pa.field(name, pa.list_(pa.field("element", pa.int32(), nullable=False))) for name in LISTS],
    ]
)


@dataclass(frozen=True, slots=True)
class Changing:
    """Hold a figure that mostly stays the same.

    The first value of each series, the series in which it changes, all values of those one after the other.
    """

    first: Figures
    changes: BoolArray
    items: Figures

    @classmethod
    def of(cls, values: Figures, starts: Int64Array) -> "Changing":
        """Return the figure of all samples, of which every series has some."""
        lowest, highest = _extent(values, starts)
        changes = lowest != highest
        return cls(values[starts[:-1]], changes, _kept(values, starts, ~changes))

    def flat(self, starts: Int64Array) -> Figures:
        """Return the figure of all samples."""
        counts = np.diff(starts)
        found = np.repeat(self.first, counts)
        found[np.repeat(self.changes, counts)] = self.items
        return found


@dataclass(frozen=True, slots=True)
class SeriesRows:
    """Samples of series whose names are columns. Series `i` owns `[starts[i], starts[i + 1])`, as in `Samples`."""

    names: pa.Table  # as `name_table` makes it
    starts: Int64Array
    t_ms: Int64Array
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array | None  # None: heads only
    pulled: Int64Array | None  # None: never read
    previous: Previous
    time_lag_ms: Changing | None  # None: heads only
    status: Changing
    flags: Changing | None  # None: heads only
    oldest_ms: Changing
    rounds_ms: Int64Array | None = None  # the times of every series, where all have the same


def name_table(keys: Sequence[SeriesKey]) -> pa.Table:
    """Return the columns of a chunk that name its series."""
    # not zip(*keys): that is an iterator a key, and the garbage collector looks at all of them
    group, topic, broker_name, queue_id, incarnation = (list(map(itemgetter(at), keys)) for at in range(5))
    groups, topics = pa.array(group, pa.string()), pa.array(topic, pa.string()).dictionary_encode()
    kinds = [
        pa.array(
            [SeriesKey(name, one, "", 0, 0).kind.value for one in topics.dictionary.to_pylist()], pa.string()
        )
        for name in ("", "a group")
    ]
    of_heads, of_groups = (one.take(topics.indices) for one in kinds)
    columns = {
        "kind": pc.if_else(pc.equal(groups, ""), of_heads, of_groups),
        "group": groups,
        "topic": topics.cast(pa.string()),
        "broker_name": pa.array(broker_name, pa.string()),
        "queue_id": pa.array(queue_id, pa.int32()),
        "incarnation": pa.array(incarnation, pa.int32()),
    }
    return pa.table(columns, schema=pa.schema([CHUNK_SCHEMA.field(name) for name in columns]))


def encode_table(samples: Samples, *, interval_ms: int) -> pa.Table:
    """Return the chunk of some samples; rows keep the samples' order."""
    if len(samples.t_ms) == 0:
        return CHUNK_SCHEMA.empty_table()
    if not samples.counts.all():
        samples = samples.window(int(samples.t_ms.min()), int(samples.t_ms.max()) + 1)  # drops empty series
    starts = samples.starts
    rows = SeriesRows(
        name_table(samples.keys),
        starts,
        samples.t_ms,
        samples.max_offset,
        samples.min_offset,
        samples.committed,
        samples.pulled,
        samples.previous,
        Changing.of(samples.time_lag_ms, starts),
        Changing.of(samples.status, starts),
        Changing.of(samples.flags, starts),
        Changing.of(samples.oldest_ms, starts),
    )
    return encode_rows(rows, interval_ms=interval_ms)


def encode_rows(samples: SeriesRows, *, interval_ms: int) -> pa.Table:
    """Return the chunk of some series, of which there is at least one sample; rows keep the series' order."""
    own_is_head = pc.equal(samples.names["group"], "").to_numpy()
    raw_lag = _raw_lag(samples, own_is_head)
    starts, extents = _row_starts(samples, raw_lag)
    at, last = starts[:-1], starts[1:] - 1
    is_whole = len(at) == samples.names.num_rows  # one row a series, unless numbers outgrow 32 bits
    series = np.arange(len(at)) if is_whole else np.searchsorted(samples.starts, at, side="right") - 1
    names = samples.names if is_whole else samples.names.take(series)
    is_head = own_is_head[series]
    counts = np.diff(starts)
    lowest, highest = extents[2]
    is_steady = lowest == highest
    fits = (lowest >= -INT32_MAX) & (highest <= INT32_MAX) & ~is_steady
    lag_base = np.where(fits, 0, lowest)
    if not (fits | is_steady).all():
        raw_lag -= np.repeat(np.where(is_steady, 0, lag_base), counts)
    committed_last = (
        np.zeros(len(at), dtype=np.int64) if samples.committed is None else samples.committed[last]
    )
    columns: dict[str, Any] = {
        **{name: names[name] for name in names.column_names},
        "interval_ms": np.full(len(at), interval_ms, dtype=np.int32),
        "t0_ms": samples.t_ms[at],
        "n": counts.astype(np.int32),
        **_row_previous(samples, at, series),
        "max0": samples.max_offset[at],
        "min0": samples.min_offset[at],
        "max_last": samples.max_offset[last],
        "min_last": samples.min_offset[last],
        "committed_last": pa.array(committed_last, mask=is_head),
        "lag_base": lag_base,
        "dt_ms": _times(samples.t_ms, starts, samples.rounds_ms if is_whole else None),
        "dmax": _deltas(samples.max_offset, starts, extents[0]),
        "dmin": _deltas(samples.min_offset, starts, extents[1]),
        "lag": _list_array(raw_lag, starts, is_steady),
        "in_flight": _in_flight(samples, starts),
        **_based(samples, None if is_whole else starts),
    }
    return pa.table(columns, schema=CHUNK_SCHEMA)


def _raw_lag(samples: SeriesRows, is_head: BoolArray) -> Int64Array:
    if samples.committed is None:
        return np.zeros(len(samples.t_ms), dtype=np.int64)
    raw_lag: Int64Array = samples.max_offset - samples.committed
    if is_head.any():
        raw_lag[np.repeat(is_head, np.diff(samples.starts))] = 0
    return raw_lag


def _row_starts(
    samples: SeriesRows, raw_lag: Int64Array
) -> tuple[Int64Array, list[tuple[Int64Array, Int64Array]]]:
    """Return where chunk rows start and end, and of each row the extents of (max offset, min offset, lag).

    A row starts at every series and wherever a difference needs more than 32 bits.
    """
    columns = (samples.max_offset, samples.min_offset, raw_lag)
    end = len(samples.t_ms)
    starts = np.append(samples.starts[:-1][np.diff(samples.starts) > 0], end)
    extents = [_extent(values, starts) for values in columns]
    wide_ms = (samples.t_ms[starts[1:] - 1] - samples.t_ms[starts[:-1]]).max()
    # No two numbers of a row differ by more than 32 bits hold: the ordinary case.
    if wide_ms <= INT32_MAX and all((high - low).max() <= INT32_MAX for low, high in extents):
        return starts, extents
    begins = np.zeros(end, dtype=np.bool_)
    begins[starts[:-1]] = True
    for values in (samples.max_offset, samples.min_offset, samples.t_ms):
        begins[1:] |= np.abs(np.diff(values)) > INT32_MAX
    starts = np.append(np.flatnonzero(begins), end).astype(np.int64)
    while True:  # halve the rows whose items do not fit; an ordinary chunk has none
        lowest, highest = _extent(raw_lag, starts)
        wide = highest - lowest > INT32_MAX
        wide |= samples.t_ms[starts[1:] - 1] - samples.t_ms[starts[:-1]] > INT32_MAX
        if not wide.any():
            return starts, [_extent(values, starts) for values in columns]
        middles = (starts[:-1][wide] + starts[1:][wide]) // 2
        starts = np.unique(np.concatenate([starts, middles]))


def _extent(values: Figures, starts: Int64Array) -> tuple[Figures, Figures]:
    """Return the smallest and the largest number of each row."""
    grid = _grid(values, starts)
    if grid is not None:
        return grid.min(axis=1), grid.max(axis=1)
    return np.minimum.reduceat(values, starts[:-1]), np.maximum.reduceat(values, starts[:-1])


def _grid(values: Figures, starts: Int64Array) -> Figures | None:
    """Return rows of one length as a matrix, which costs nothing; None when their lengths differ."""
    count = int(starts[1] - starts[0])
    if len(values) != count * (len(starts) - 1) or np.any(np.diff(starts) != count):
        return None
    return values.reshape(-1, count)


def _times(t_ms: Int64Array, starts: Int64Array, rounds_ms: Int64Array | None) -> pa.DictionaryArray:
    """Return dt_ms: series of the same rounds share an entry."""
    grid = None if rounds_ms is not None else _grid(t_ms, starts)
    if grid is not None and bool((grid == grid[0]).all()):
        rounds_ms = grid[0]
    if rounds_ms is not None:
        entry = (rounds_ms - rounds_ms[0]).astype("<i4").tobytes()
        indices = np.zeros(len(starts) - 1, dtype=np.int32)
        return pa.DictionaryArray.from_arrays(indices, pa.array([entry], pa.binary()))
    offsets = (t_ms - np.repeat(t_ms[starts[:-1]], np.diff(starts))).astype("<i4")
    entries: dict[bytes, int] = {}
    bounds = starts.tolist()
    rows = [
        entries.setdefault(offsets[start:stop].tobytes(), len(entries))
        for start, stop in zip(bounds, bounds[1:], strict=False)
    ]
    return pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), pa.array(list(entries), pa.binary()))


def _deltas(values: Int64Array, starts: Int64Array, extent: tuple[Int64Array, Int64Array]) -> pa.Array:
    """Return changes since the sample before, null for rows without any. Every change fits 32 bits."""
    lowest, highest = extent
    is_still = lowest == highest
    if is_still.all():
        return _nulls("dmax", len(is_still))
    grid = _grid(values, starts)
    if grid is not None:
        moving = grid[~is_still] if is_still.any() else grid
        items = np.empty(moving.shape, dtype=np.int32)
        items[:, 0] = 0
        np.subtract(moving[:, 1:], moving[:, :-1], out=items[:, 1:], casting="same_kind")
        return _lists(items.reshape(-1), starts, is_still)
    deltas = np.empty_like(values)
    np.subtract(values[1:], values[:-1], out=deltas[1:])
    deltas[starts[:-1]] = 0
    return _list_array(deltas, starts, is_still)


def _in_flight(samples: SeriesRows, starts: Int64Array) -> pa.Array:
    if samples.pulled is None or samples.committed is None:
        return _nulls("in_flight", len(starts) - 1)
    is_unread = _extent(samples.pulled, starts)[1] < 0
    if is_unread.all():
        return _nulls("in_flight", len(starts) - 1)
    items = np.where(samples.pulled >= 0, np.maximum(samples.pulled - samples.committed, 0), -1)
    return _list_array(np.minimum(items, INT32_MAX), starts, is_unread)


def _based(samples: SeriesRows, split: Int64Array | None) -> dict[str, pa.Array]:
    """Return the columns of `BASED`: what does not change in an hour, as mostly, takes a number and no list.

    `split`: where rows start, if they are not one a series.
    """
    found = {}
    starts = samples.starts if split is None else split
    for name, figure in (
        ("time_lag", samples.time_lag_ms),
        ("status", samples.status),
        ("flags", samples.flags),
        ("oldest", samples.oldest_ms),
    ):
        base_type = CHUNK_SCHEMA.field(f"{name}_base").type
        if figure is None:
            found[f"{name}_base"] = pa.nulls(len(starts) - 1, base_type)
            found[name] = _nulls(name, len(starts) - 1)
            continue
        if split is not None:
            figure = Changing.of(figure.flat(samples.starts), starts)
        in_file = in_tenths if name in ("time_lag", "oldest") else _as_is
        items, base = in_file(figure.items), in_file(figure.first)
        if name == "oldest" and len(items):
            own = starts_of(np.diff(starts)[figure.changes])
            base[figure.changes] = np.maximum.reduceat(items, own[:-1])
            from_base = np.maximum(items - np.repeat(base[figure.changes], np.diff(own)), -INT32_MAX)
            items = np.where(items < 0, NO_OLDEST, from_base)
        elif len(items):
            base = np.where(figure.changes, 0, base)
        found[f"{name}_base"] = pa.array(base, mask=base < 0).cast(base_type)
        found[name] = _lists(items.astype(np.int32), starts, ~figure.changes)
    return found


def _as_is(values: Figures) -> Figures:
    return values


def _nulls(name: str, count: int) -> pa.Array:
    return pa.nulls(count, CHUNK_SCHEMA.field(name).type)


def _list_array(values: Figures, starts: Int64Array, is_null: BoolArray) -> pa.Array:
    """Return a list<int32> column; a null list takes no items."""
    return _lists(_kept(values, starts, is_null).astype(np.int32), starts, is_null)


def _kept(values: Figures, starts: Int64Array, is_null: BoolArray) -> Figures:
    """Return the items of lists that are not null.

    Rows of one length are copied whole: 10 times as fast as item by item.
    """
    grid = _grid(values, starts)
    if grid is None:
        kept: Figures = values[np.repeat(~is_null, np.diff(starts))]
        return kept
    return (grid[~is_null] if is_null.any() else grid).reshape(-1)


def _lists(items: npt.NDArray[np.int32], starts: Int64Array, is_null: BoolArray) -> pa.Array:
    if is_null.all():
        return _nulls("lag", len(is_null))
    offsets = starts_of(np.where(is_null, 0, np.diff(starts)))
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(items), mask=pa.array(is_null)
    )


def _row_previous(samples: SeriesRows, at: Int64Array, series: Int64Array) -> dict[str, pa.Array]:
    """Return the sample before each row: the series' own previous, or the one in front."""
    own = at == samples.starts[series]
    front = np.maximum(at - 1, 0)
    found = {}
    for name, column in zip(PREVIOUS, SAMPLE_COLUMNS, strict=True):
        before, values = getattr(samples.previous, column)[series], getattr(samples, column)
        if values is not None and not own.all():
            values = values.flat(samples.starts) if isinstance(values, Changing) else values
            before = np.where(own, before, values[front])
        if column in ("time_lag_ms", "oldest_ms"):
            before = in_tenths(before)
        is_none = before == UNKNOWN_OFFSET if before.dtype == np.int64 else None
        found[name] = pa.array(before, mask=is_none).cast(CHUNK_SCHEMA.field(name).type)
    return found
