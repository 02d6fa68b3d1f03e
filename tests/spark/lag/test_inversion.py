"""Store times from the history of max offsets: exact intervals, bounds, and never further off than an
interval.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.inversion import store_time, store_times
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey
from tests.spark.lag.history import rounds, snapshot

TIMES = np.array([0, 5_000, 10_000, 15_000])
HEADS = np.array([100, 100, 110, 111])


@pytest.mark.parametrize(
    ("offset", "estimate", "after", "until"),
    [
        (100, 5_250, 5_000, 10_000),
        (109, 9_750, 5_000, 10_000),
        (110, 12_500, 10_000, 15_000),
    ],
)
def test_it_interpolates_in_the_interval_of_arrival(
    offset: int, estimate: int, after: int, until: int
) -> None:
    found = store_time(TIMES, HEADS, offset)
    assert (found.estimate_ms.item(), found.after_ms.item(), found.until_ms.item()) == (
        estimate,
        after,
        until,
    )
    assert not found.censored.item()


def test_it_never_extrapolates_beyond_the_history() -> None:
    found = store_time(TIMES, HEADS, 99)
    assert found.censored.item()
    assert (found.estimate_ms.item(), found.after_ms.item()) == (0, -1)


def test_it_uses_the_last_write_before_the_history() -> None:
    newest = store_time(TIMES, HEADS, 99, written_ms=-7_000)
    assert (newest.estimate_ms.item(), newest.censored.item()) == (-7_000, False)
    older = store_time(TIMES, HEADS, 98, written_ms=-7_000)
    assert (older.estimate_ms.item(), older.censored.item()) == (-7_000, True)


def test_it_bounds_by_the_whole_gap_when_a_broker_was_silent() -> None:
    found = store_time(np.array([0, 60_000]), np.array([0, 10]), 9)
    assert (found.after_ms.item(), found.until_ms.item()) == (0, 60_000)


def test_it_answers_many_series_at_once_each_from_its_own_history() -> None:
    first, second = HeadKey("a", "b", 0), HeadKey("a", "b", 1)
    history = rounds(
        {first: [(0, 100), (0, 100), (0, 110), (0, 111)], second: [(0, 5), (0, 6), (0, 8), (0, 1000)]}, {}
    )
    samples = from_snapshots(history)
    asked = store_times(samples, np.array([3, 3, 2, 6, 7, 7]), np.array([110, 99, 109, 5, 4, 999]))
    assert asked.estimate_ms.tolist() == [12_500, 0, 9_750, 2_500, 0, 14_997]
    assert asked.censored.tolist() == [False, True, False, False, True, False]


def test_it_counts_the_sample_before_the_window_as_history() -> None:
    head = HeadKey("a", "b", 0)
    samples = from_snapshots([snapshot(5_000, {head: (0, 20)}, {})], snapshot(0, {head: (0, 10)}, {}))
    asked = store_times(samples, np.array([0, 0]), np.array([10, 9]))
    assert asked.estimate_ms.tolist() == [250, 0]
    assert asked.censored.tolist() == [False, True]


def test_it_survives_a_head_that_went_back() -> None:
    found = store_time(np.array([0, 5_000, 10_000, 15_000]), np.array([100, 120, 115, 130]), 118)
    assert (found.after_ms.item(), found.until_ms.item()) == (0, 5_000)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 60_000), min_size=2, max_size=80),
    st.lists(st.integers(1, 9_000), min_size=2, max_size=30),
)
def test_it_is_never_further_from_the_truth_than_one_interval(stored: list[int], gaps: list[int]) -> None:
    stored.sort()
    times = np.cumsum(gaps)
    heads = np.searchsorted(stored, times, side="right")
    key, commit = HeadKey("t", "b", 0), CommitKey("g", "t", "b", 0)
    history = [snapshot(int(t), {key: (0, int(m))}, {commit: 0}) for t, m in zip(times, heads, strict=True)]
    samples = from_snapshots(history).select(lambda one: one.group == "g")
    for row, head in enumerate(heads.tolist()):
        for offset in range(head):
            many = store_times(samples, np.array([row]), np.array([offset]))
            one = store_time(times, heads, offset)
            assert many.estimate_ms.item() == one.estimate_ms.item()
            if many.censored.item():
                assert stored[offset] <= times[0] == many.estimate_ms.item()
                continue
            after, until = many.after_ms.item(), many.until_ms.item()
            assert after < stored[offset] <= until
            assert abs(many.estimate_ms.item() - stored[offset]) <= until - after
            assert (after, until) in set(zip(times.tolist(), times[1:].tolist(), strict=False))
