"""Folds of windows: cut anywhere they merge to the same, and say what is true of small histories."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag import figures
from spark.lag.fold import Fold, fold, merge
from spark.lag.grid import carried, grid_of
from spark.lag.samples import SeriesKey
from tests.spark.lag.judged import START, STEP, made

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


@settings(max_examples=150, deadline=None)
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
