"""Folds of windows: cut anywhere they merge to the same, and say what is true of small histories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag import figures
from spark.lag import fold as folding
from spark.lag.fold import Fold, fold, merge
from spark.lag.forecast import time_to_loss
from spark.lag.grid import carried, grid_of
from spark.lag.samples import SeriesKey
from tests.spark.lag.judged import START, STEP, made, queue, together

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


def test_time_to_loss_is_that_of_the_live_page_in_its_worst_round() -> None:
    """Ages by the round: 0 s, 20 s, 22 s, 21 s; the oldest message kept is ten minutes old."""
    ages = [0, 20_000, 22_000, 21_000]
    t_ms = [START + STEP * number for number in range(4)]
    made_of = queue(
        KEY,
        t_ms=t_ms,
        high=[9, 90, 99, 120],
        committed=[9] * 4,
        time_lag_ms=ages,
        oldest_ms=START - 10 * MINUTE,
    )
    found = fold(grid_of(made_of, STEP), START, START + MINUTE, slo)
    # from 20 s to 22 s in 5 s: 0.6 s a second are caught up; an age that grows faster than time is a standstill
    wanted = [
        time_to_loss(10 * MINUTE + STEP - 20_000, 0.0),
        time_to_loss(10 * MINUTE + 2 * STEP - 22_000, 0.6),
        time_to_loss(10 * MINUTE + 3 * STEP - 21_000, 1.2),
    ]
    assert [one.ms for one in wanted] == [585_000, 1_470_000, None]
    assert found.queues.sums.runway_ms.tolist() == found.topics.sums.runway_ms.tolist() == [585_000]


def test_latency_is_spread_between_the_ages_of_two_rounds() -> None:
    """60 messages left while the oldest one's age fell from 30 s to 0 s; 10 more while it stayed near 2 s."""
    made_of = queue(
        KEY,
        t_ms=[START + STEP * number for number in range(4)],
        high=[100, 100, 110, 120],
        committed=[40, 100, 110, 120],
        time_lag_ms=[30_000, 0, 2_000, 2_000],
    )
    sums = fold(grid_of(made_of, STEP), START, START + MINUTE, lambda group: 15_000).queues.sums
    assert (int(sums.timed[0]), int(sums.consumed[0])) == (80, 80)
    # six parts of ten: 27.5, 22.5, 17.5, 12.5, 7.5 and 2.5 s; then 1 s and 2 s
    assert int(sums.in_time[0]) == 30 + 20
    assert int(sums.latency_ms[0]) == 10 * (27_500 + 22_500 + 17_500 + 12_500 + 7_500 + 2_500 + 1_000 + 2_000)


def test_queues_that_do_nothing_are_as_if_each_was_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics of quiet queues only, of some, and of one that is quiet and one that is not."""
    t_ms = [START + STEP * number for number in range(30)]
    parts = []
    for group in ("a", "b", "c", "d"):
        for number in range(4):
            busy = (group == "b" and number > 1) or (group == "d" and number == 0)
            high = [500 + 7 * at * busy for at in range(30)]
            key = SeriesKey(group, "orders", "broker-a", number, 0)
            lag = 3 * busy
            parts.append(
                queue(key, t_ms=t_ms, high=high, committed=[one - lag for one in high], time_lag_ms=100 * lag)
            )
    grid = grid_of(together(*parts), STEP)
    found = columns(fold(grid, START, START + MINUTE, slo))
    kept, source = folding._kept(grid, grid.starts(2))
    assert (len(kept), len(source)) == (6, 16)
    everything = np.arange(16)
    monkeypatch.setattr(folding, "_kept", lambda grid, starts: (everything, everything))
    assert found == columns(fold(grid, START, START + MINUTE, slo))
