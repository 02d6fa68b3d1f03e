"""Rounds of a chart: the same whether every queue was read in every round or not, and no peak is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.lag.past.chart_rounds import Rounds, decimate, rounds_of, thinned
from spark.lag.folds.rounds import rounds_of as folded
from spark.lag.folds.rounds import whole
from spark.lag.grid import grid_of
from spark.lag.history import chunk
from spark.lag.samples import Samples
from tests.spark.lag.judged import STEP, made
from tests.support.lag_reference import SIZES, Reference


def group_of(silent_broker_hour: int | None) -> Samples:
    """Two hours of a group's 8 queues."""
    reference = Reference(replace(SIZES["small"], silent_broker_hour=silent_broker_hour))
    hours = [chunk.merge([groups for _, groups in reference.hour()]) for _ in range(2)]
    return chunk.merge(hours).select(lambda key: key.group == "group-0003").read_part()


@pytest.mark.parametrize("silent_broker_hour", [None, 1])
def test_it_adds_queues_up_round_by_round(silent_broker_hour: int | None) -> None:
    samples = group_of(silent_broker_hour)
    from_ms = int(samples.t_ms.min()) + 3_600_000
    found = rounds_of(grid_of(samples, 15_000), from_ms)
    assert found.t_ms.tolist() == sorted({at for at in samples.t_ms.tolist() if at >= from_ms})
    assert found.missing.max() == (0 if silent_broker_hour is None else 4)
    known = (samples.status != 12) & (samples.status != 11)
    lag = np.maximum(samples.max_offset - np.maximum(samples.committed, samples.min_offset), 0)
    for place, at in enumerate(found.t_ms.tolist()):
        own = (samples.t_ms == at) & known
        assert found.lag[place] == lag[own].sum()
        assert found.age_ms[place] == samples.time_lag_ms[own].max()
        assert found.missing[place] == 8 - own.sum()
        assert found.bounded[place] == (samples.flags[own] & 1).max()
    assert (found.age_low_ms <= found.age_ms).all()
    assert (found.age_ms <= found.age_high_ms).all()
    assert set(found.in_flight.tolist()) == {-1}


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_chart_shows_what_reports_fold_of_the_whole_group(seed: int) -> None:
    samples = made(seed).samples.select(lambda key: key.group == "a").read_part()
    grid = grid_of(samples, STEP)
    found, group = rounds_of(grid, 0), folded(grid).together(whole(len(grid.keys)))
    kept = np.flatnonzero(np.isin(group.t_ms, found.t_ms))
    assert group.t_ms[kept].tolist() == found.t_ms.tolist()
    assert found.lag.tolist() == group.lag[0][kept].tolist()
    assert found.age_ms.tolist() == group.age_ms[0][kept].tolist()
    assert found.bounded.tolist() == group.is_bound[0][kept].astype(int).tolist()
    assert (found.missing == 0).tolist() == group.is_counted[0][kept].tolist()
    in_flight = np.full(len(grid.t_ms), -1) if group.in_flight is None else group.in_flight[0]
    assert found.in_flight.tolist() == in_flight[kept].tolist()


def test_rounds_in_which_no_queue_was_read_are_a_gap() -> None:
    samples = group_of(None)
    times = np.unique(samples.t_ms)
    samples.status[(samples.t_ms >= times[100]) & (samples.t_ms < times[110])] = 12
    found = rounds_of(grid_of(samples, 15_000), 0)
    assert len(found.t_ms) == len(times) - 10
    assert times[105] not in found.t_ms.tolist()


def test_it_says_what_is_in_flight_where_every_queue_told() -> None:
    samples = group_of(None)
    samples.pulled[:] = samples.committed + 2
    samples.pulled[0] = -1
    found = rounds_of(grid_of(samples, 15_000), 0)
    assert found.in_flight[0] == -1
    second = samples.t_ms == found.t_ms[1]
    waits = samples.max_offset - np.maximum(samples.committed, samples.min_offset)
    assert found.in_flight[1] == np.clip(waits[second], 0, 2).sum()


def test_it_draws_the_smallest_and_the_largest_of_every_step() -> None:
    chance = np.random.default_rng(3)
    times = np.sort(chance.choice(100_000, 3_000, replace=False)).astype(np.int64)
    lag, age = chance.integers(0, 9, (2, 3_000))
    kept = decimate(times, (lag, age), 0, 100_000, 400).tolist()
    wanted = {0, 2_999}
    for step in range(100):
        own = np.flatnonzero(times * 100 // 100_000 == step)
        for values in (lag, age):
            wanted |= {int(own[values[own].argmin()]), int(own[values[own].argmax()])}
    assert kept == sorted(wanted)
    assert decimate(times[:400], (lag[:400], age[:400]), 0, 100_000, 400).tolist() == list(range(400))


def test_it_keeps_both_sides_of_a_gap() -> None:
    times = np.array([0, 10, 20, 30, 40, 5_000, 5_010, 5_020, 5_030, 5_040], dtype=np.int64)
    still = np.zeros(10, dtype=np.int64)
    rounds = Rounds(times, *[still] * 7)
    assert thinned(rounds, 2_000).t_ms.tolist() == [0, 40, 5_000, 5_040]
    assert thinned(rounds.between(0, 1), 2_000).t_ms.tolist() == [0]
