"""What a filter lets through, and how sure that is."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark.lag.round.filter_ratio import FilterSample, Ratio, filtered_lag, strata, wilson


def test_it_gives_wilson_s_interval() -> None:
    found = wilson(FilterSample(30, 100))
    assert found is not None
    assert (found.value, round(found.low, 4), round(found.high, 4)) == (0.3, 0.2189, 0.3958)
    none = wilson(FilterSample(0, 50))
    assert none is not None
    assert (none.low, round(none.high, 4)) == (0.0, 0.0713)
    everything = wilson(FilterSample(50, 50))
    assert everything is not None
    assert (round(everything.low, 4), everything.high) == (0.9287, 1.0)
    assert wilson(FilterSample(0, 0)) is None


def test_it_rounds_a_lag_outwards() -> None:
    assert filtered_lag(1_001, Ratio(0.3, 0.2189, 0.3958)) == (300, 219, 397)
    assert filtered_lag(0, Ratio(0.3, 0.2, 0.4)) == (0, 0, 0)
    assert filtered_lag(None, Ratio(0.3, 0.2, 0.4)) is None
    assert filtered_lag(7, None) is None


def test_it_looks_at_every_part_of_the_range() -> None:
    assert strata(100, 1_100, 4, 10) == [(220, 10), (470, 10), (720, 10), (970, 10)]
    assert strata(100, 130, 4, 10) == [(100, 30)]
    assert strata(5, 5, 4, 10) == []


def test_it_is_not_fooled_by_drift() -> None:
    """Nine tenths of the old half match and none of the new half: the oldest entries alone would say 0.9."""
    matches = np.concatenate([np.arange(5_000) % 10 != 0, np.zeros(5_000, dtype=np.bool_)])
    sample = FilterSample(0, 0, 0)
    for start, count in strata(0, 10_000, 20, 32):
        sample += FilterSample(int(matches[start : start + count].sum()), count)
    found = wilson(sample)
    assert found is not None
    assert found.low <= 0.45 <= found.high


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 50), st.integers(1, 64))
def test_its_parts_do_not_overlap(start: int, span: int, parts: int, each: int) -> None:
    end = start
    for first, count in strata(start, start + span, parts, each):
        assert first >= end
        end = first + count
    assert end <= start + span


@given(st.integers(0, 500), st.integers(0, 500))
def test_its_interval_holds_its_ratio(matching: int, others: int) -> None:
    found = wilson(FilterSample(matching, matching + others))
    if found is not None:
        assert 0 <= found.low <= found.value <= found.high <= 1
