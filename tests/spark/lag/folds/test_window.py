"""Folds of windows: cut anywhere they merge to the same, and say what is true of small histories."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.folds import figures
from spark.lag.folds.window import Fold, fold, merge
from spark.lag.grid import MATRICES, Grid, carried, grid_of
from spark.lag.history import chunk
from spark.lag.history.chunk_join import decode_grid
from spark.lag.samples import Samples, SeriesKey
from tests.spark.lag.judged import SCALES, START, STEP, made, queue, steady, together

MINUTE = 60_000
KEY = SeriesKey("billing", "orders", "broker-a", 0, 0)
OTHER = SeriesKey("billing", "orders", "broker-b", 0, 0)


def slo(group: str) -> int:
    return 90_000 if group == "a" else MINUTE


def columns(found: Fold) -> list[dict[str, Any]]:
    """Every figure of both grains, and the histograms."""
    rows = []
    for one, more in ((found.topics, figures.of_topics(found)), (found.queues, {})):
        slo_ms = np.array([slo(key.group) for key in one.keys], dtype=np.int64)
        made_of = {**figures.of_level(one, STEP, slo_ms, np.full(len(one), 0.99)), **more}
        shown = {name: column.to_pylist() for name, column in made_of.items()}
        for name, counts in one.histograms.items():
            starts = counts.starts(len(one)).tolist()
            shown[name] = [
                list(zip(counts.buckets[a:b].tolist(), counts.counts[a:b].tolist(), strict=True))
                for a, b in zip(starts, starts[1:], strict=False)
            ]
        shown["name"] = [key[:4] for key in one.keys]
        rows += [{name: shown[name][at] for name in shown} for at in range(len(one))]
    return rows


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    window=st.tuples(st.floats(-0.1, 1.1), st.floats(-0.1, 1.1)),
    cuts=st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_a_window_cut_anywhere_merges_to_the_same_row(
    seed: int, window: tuple[float, float], cuts: list[float]
) -> None:
    history = made(seed)
    grid = grid_of(history.samples, STEP)
    first, length = START, int(history.t_ms[-1]) - START
    from_ms, to_ms = (first + int(length * share) for share in sorted(window))
    edges = sorted({from_ms, to_ms, *(from_ms + int((to_ms - from_ms) * cut) for cut in cuts)})
    whole = fold(grid, from_ms, to_ms, slo)
    parts = [fold(grid, a, b, slo) for a, b in zip(edges, edges[1:], strict=False)] or [whole]
    assert columns(merge(parts)) == columns(whole)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_it_is_the_same_however_history_was_cut_into_files(seed: int, cuts: list[float]) -> None:
    history = made(seed)
    from_ms, to_ms = START, int(history.t_ms[-1]) + 60_000
    whole = fold(grid_of(history.samples, STEP), from_ms, to_ms, slo)
    edges = sorted({from_ms, to_ms, *(from_ms + int((to_ms - from_ms) * cut) for cut in cuts)})
    parts, before = [], None
    for a, b in zip(edges, edges[1:], strict=False):
        own = history.samples.window(a, b)
        grid = grid_of(own if before is None else carried(own, before), STEP)
        parts.append(fold(grid, a, b, slo))
        before = grid if grid.status.size else before
    assert [row for row in columns(merge(parts)) if row["coverage_pct"] is not None] == columns(whole)


def compact(samples: Samples, from_ms: int, to_ms: int) -> Grid:
    """The grid that reports read out of a file; numbers too wide for a row of 32 bits are in several."""
    table = chunk.encode_table(samples.window(from_ms, to_ms), interval_ms=STEP)
    found = decode_grid(table, STEP, from_ms, to_ms, is_compact=True)
    assert (found is None) == (table.num_rows > len(samples.keys))
    return grid_of(chunk.decode_table(table), STEP) if found is None else found


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), begin=st.integers(0, 30))
def test_a_compact_grid_folds_to_the_same_row(seed: int, begin: int) -> None:
    history = steady(seed, scales=SCALES)
    from_ms, to_ms = START + begin * STEP, int(history.t_ms[-1]) + 1
    plain = grid_of(history.samples.window(from_ms, to_ms), STEP)
    found = compact(history.samples, from_ms, to_ms)
    assert columns(fold(found, from_ms, to_ms + MINUTE, slo)) == columns(
        fold(plain, from_ms, to_ms + MINUTE, slo)
    )
    whole = found.whole()
    assert whole.keys == plain.keys
    for name in MATRICES:
        assert getattr(whole, name).tolist() == getattr(plain, name).tolist(), name


def test_a_compact_grid_has_one_row_for_the_quiet_queues_of_a_topic() -> None:
    times = [START, START + STEP]
    busy = [
        queue(
            KEY,
            t_ms=times,
            high=[7_000_000_000, 7_000_000_003],
            committed=[6_999_999_990] * 2,
            low=6_999_000_000,
            time_lag_ms=[100, 200],
        )
    ]
    quiet = [
        queue(
            KEY._replace(topic=topic, queue_id=number),
            t_ms=times,
            high=[9] * 2,
            committed=[9] * 2,
            time_lag_ms=[0] * 2,
        )
        for topic, number in (("orders", 1), ("orders", 2), ("refunds", 0), ("refunds", 1))
    ]
    found = compact(together(*busy, *quiet), START, START + 2 * STEP)
    assert found.source is not None
    assert found.source.tolist() == [0, 1, 1, 2, 2]
    assert (found.max_offset - found.committed).tolist() == [[10, 13], [0, 0], [0, 0]]
    assert found.max_offset.dtype == np.int32


def test_offsets_too_far_apart_for_32_bits_are_decoded_whole() -> None:
    wide = queue(
        KEY,
        t_ms=[START, START + STEP],
        high=[4_000_000_000, 4_000_000_001],
        committed=[0, 1],
        time_lag_ms=[100, 100],
    )
    found = compact(wide, START, START + 2 * STEP)
    assert found.source is None
    assert (found.max_offset - found.committed).tolist() == [[4_000_000_000, 4_000_000_000]]
    never = queue(
        KEY,
        t_ms=[START, START + STEP],
        high=[4_000_000_000, 4_000_000_001],
        committed=[-1, -1],
        time_lag_ms=[-1, -1],
    )
    assert compact(never, START, START + 2 * STEP).committed.tolist() == [[-1, -1]]
