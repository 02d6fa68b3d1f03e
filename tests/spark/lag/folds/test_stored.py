"""Folds come back from tables as they were, and windows are put side by side only where one goes on from the other."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.codes import ABSENT
from spark.lag.folds.level import Level
from spark.lag.folds.stored import Edges, fold_of, tables_of
from spark.lag.folds.window import fold
from spark.lag.grid import Grid, grid_of
from spark.lag.samples import SeriesKey
from tests.spark.lag.judged import START, STEP, made, queue, together


def as_lists(level: Level) -> dict[str, Any]:
    found: dict[str, Any] = {"keys": list(level.keys)}
    parts = {name: getattr(level, name) for name in ("sums", "counted", "aged", "still", "minutes")}
    for part, own in {**parts, **level.histograms}.items():
        found |= {f"{part}_{one.name}": getattr(own, one.name).tolist() for one in fields(own)}
    return found


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1))
def test_a_fold_comes_back_from_its_tables(seed: int, share: float) -> None:
    history = made(seed)
    to_ms = START + int(share * (history.t_ms[-1] - START)) + 1
    grid = grid_of(history.samples, STEP)
    whole = fold(grid, START, to_ms, lambda group: 60_000)
    edges = edges_of(grid)
    queues, topics = tables_of(whole, edges)
    found, again = fold_of(queues, topics, (whole.queues.keys, whole.topics.keys), START, to_ms)
    assert as_lists(found.queues) == as_lists(whole.queues)
    assert as_lists(found.topics) == as_lists(whole.topics)
    assert [getattr(again, name).tolist() for name in ("before_ms", "last_ms", "lives")] == [
        getattr(edges, name).tolist() for name in ("before_ms", "last_ms", "lives")
    ]


def test_tables_have_one_schema_however_narrow_the_numbers_are() -> None:
    """A file takes tables of one schema; an hour with many messages has wider numbers in its topics."""
    grid = grid_of(made(1).samples, STEP)
    whole = fold(grid, START, START + 60 * STEP, lambda group: 60_000)
    schemas = set()
    for width in (np.int32, np.int64):
        minutes = replace(whole.queues.minutes, consumed=whole.queues.minutes.consumed.astype(width))
        level = replace(whole.queues, minutes=minutes)
        schemas |= {table.schema for table in tables_of(replace(whole, queues=level), edges_of(grid))}
    assert len(schemas) == 1


def edges_of(grid: Grid) -> Edges:
    return Edges.of(grid, START, is_regular=True)


KEYS = [SeriesKey("a", "orders", "broker-a", number, 0) for number in range(3)]
MIDDLE = START + 10 * STEP


def edges(numbers: tuple[int, ...], from_ms: int, *, gone: tuple[int, ...] = (), skips: int = 0) -> Edges:
    """Ten rounds and, from the middle on, the one before them."""
    first = 9 + skips if from_ms == MIDDLE else 0
    t_ms = START + np.arange(first, first + 10, dtype=np.int64) * STEP
    series = [
        queue(KEYS[number], t_ms=t_ms, high=[9] * 10, committed=[9] * 10, time_lag_ms=[0] * 10)
        for number in numbers
    ]
    samples = together(*series)
    for row, number in enumerate(numbers):
        if number in gone:
            samples.status[10 * row + 9] = ABSENT
    return Edges.of(grid_of(samples, STEP), from_ms, is_regular=True)


def test_a_window_follows_where_every_living_queue_goes_on() -> None:
    before = edges((0, 1), START)
    assert edges((0, 1), MIDDLE).follows(before)
    assert edges((0, 1, 2), MIDDLE).follows(before)
    assert edges((0,), MIDDLE).follows(edges((0, 1), START, gone=(1,)))


def test_a_window_does_not_follow_what_it_lacks_or_what_was_longer_ago() -> None:
    before = edges((0, 1), START)
    assert not edges((0,), MIDDLE).follows(before)
    assert not edges((0, 2), MIDDLE).follows(before)
    assert not edges((0, 1), MIDDLE, skips=1).follows(before)
    assert not edges((0, 1), START).follows(before)
    irregular = edges((0, 1), MIDDLE)
    irregular.before_ms[1] = -1
    assert not irregular.follows(before)
