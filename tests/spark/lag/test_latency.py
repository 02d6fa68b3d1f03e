"""Latency by message: literal cases, a simulated truth, Little's law, and invariance under splitting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag import chunk, inversion, latency, rollup
from spark.lag.latency import Departures, Distribution
from spark.lag.samples import Samples, from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Int64Array
from tests.spark.lag.history import rounds
from tests.spark.lag.simulated import truth

HEAD, COMMIT = HeadKey("orders", "broker-a", 0), CommitKey("billing", "orders", "broker-a", 0)
STEP = 5_000


def departures(samples: Samples, interval_ms: int = STEP) -> Departures:
    found = rollup.figures(samples, interval_ms=interval_ms)
    return latency.departures(samples, found.consumed, samples.t_ms - found.gap_ms)


def of(high: list[int], committed: list[int], slo_ms: int = 60_000) -> Distribution:
    history = rounds({HEAD: [(0, one) for one in high]}, {COMMIT: committed})
    samples = from_snapshots(history).select(lambda key: bool(key.group))
    return latency.distribution(departures(samples), slo_ms=slo_ms)


def test_it_weighs_by_message() -> None:
    # 0..9 stored in (0, 5 s], nothing after; 2 confirmed by 10 s, 8 more by 20 s
    found = of([0, 10, 10, 10, 10], [0, 0, 2, 2, 10], slo_ms=10_000)
    assert (found.messages, found.within_slo, found.censored) == (10, 2, 0)
    # confirmed at 7.5 s and 17.5 s; the middle ones were stored at 0.75 s and 3.25 s
    assert found.mean_ms == pytest.approx((2 * 7_250 + 8 * 14_250) / 10, abs=800)
    assert (found.p50_ms, found.p99_ms) == (found.max_ms, found.max_ms)
    assert int(found.histogram.sum()) == 10


def test_it_knows_nothing_without_a_message() -> None:
    found = of([5, 5, 5], [5, 5, 5])
    assert (found.messages, found.p50_ms, found.mean_ms, int(found.histogram.sum())) == (0, None, None, 0)


def test_it_does_not_count_skips_and_rewinds() -> None:
    skipped = of([100_000] * 8, [0, 10, 20, 30, 40, 90_000, 90_010, 90_020])
    assert skipped.messages == 60
    rewound = of([100] * 5, [50, 60, 10, 20, 30])
    assert rewound.messages == 30
    assert of([100] * 3, [50, 60, 70]).censored == 20  # stored before history began: at least so long


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1_000, 5_000, 15_000]))
def test_its_time_lag_is_within_one_interval_of_the_truth(seed: int, interval_ms: int) -> None:
    real = truth(seed, messages=600)
    times = np.arange(0, int(real.stored_ms[-1]) + 60_000, interval_ms, dtype=np.int64)
    samples = real.samples(times)
    ages, censored = rollup.time_lags(samples, samples.committed, samples.max_offset > samples.committed)
    assert not censored.any()
    wanted = np.array([real.time_lag_ms(at) for at in times.tolist()])
    assert np.abs(ages - wanted).max() <= interval_ms


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1_000, 5_000]))
def test_it_agrees_with_little_and_with_the_truth(seed: int, interval_ms: int) -> None:
    real = truth(seed, messages=600)
    end = int(real.confirmed_ms[-1]) + 2 * interval_ms
    times = np.arange(0, end, interval_ms, dtype=np.int64)
    samples = real.samples(times)
    batches = departures(samples, interval_ms)
    found = latency.distribution(batches, slo_ms=60_000)
    lag = samples.max_offset - samples.committed
    little = latency.mean_residence(times, lag, int(batches.messages.sum()))
    mean = float((real.confirmed_ms - real.stored_ms).mean())
    assert found.messages == 600
    assert found.mean_ms is not None
    assert little is not None
    assert abs(found.mean_ms - mean) <= interval_ms
    assert abs(little - mean) <= interval_ms
    assert found.max_ms is not None
    assert found.max_ms <= int((real.confirmed_ms - real.stored_ms).max()) + interval_ms


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 300), max_size=3))
def test_it_does_not_depend_on_how_history_is_cut(seed: int, cuts: list[int]) -> None:
    real = truth(seed, messages=300)
    times = np.arange(0, int(real.stored_ms[-1]) + STEP, STEP, dtype=np.int64)
    whole = real.samples(times)
    bounds = [0, *sorted({int(times[min(cut, len(times) - 1)]) for cut in cuts}), int(times[-1]) + 1]
    parts = [whole.window(low, high) for low, high in zip(bounds, bounds[1:], strict=False) if low < high]
    tables = [chunk.encode_table(part, interval_ms=STEP) for part in parts]
    joined = chunk.merge([chunk.decode_table(table) for table in tables])
    one, other = departures(whole), departures(joined)
    assert np.array_equal(one.latency_ms, other.latency_ms)
    assert np.array_equal(one.messages, other.messages)
    consumed = sum(int(rollup.figures(part, interval_ms=STEP).consumed.sum()) for part in parts)
    assert consumed == int(one.messages.sum())  # the sample before a part makes its first interval exact


def test_it_finds_the_store_time_of_each_message() -> None:
    real = truth(3)
    times = np.arange(0, int(real.stored_ms[-1]) + STEP, STEP, dtype=np.int64)
    samples = real.samples(times)
    last = np.full(len(real.stored_ms), len(times) - 1, dtype=np.int64)
    offsets: Int64Array = np.arange(len(real.stored_ms), dtype=np.int64)
    found = inversion.store_times(samples, last, offsets)
    assert np.abs(found.estimate_ms - real.stored_ms).max() <= STEP
    assert np.all((found.after_ms <= real.stored_ms) & (real.stored_ms <= found.until_ms))
