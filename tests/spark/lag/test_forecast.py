"""What becomes of a backlog: from trends and rates, never invented."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.lag.forecast import (
    BandRule,
    Direction,
    Drain,
    HourPattern,
    consumers_needed,
    drain,
    drain_forecast,
    hour_pattern,
    slowest,
    trend,
)
from spark.lag.local_time import hour_of_week
from spark.lag.snapshot import Int64Array
from tests.support.plain_forecast import TimeToLoss, time_to_loss

HOUR = 3_600_000
MONDAY = 4 * 24 * HOUR  # 1970-01-05 00:00 UTC


def arrays(
    high: list[int], committed: list[int], every_s: int = 30
) -> tuple[Int64Array, Int64Array, Int64Array]:
    times = np.arange(len(high), dtype=np.int64) * every_s * 1000
    return times, np.array(high, dtype=np.int64), np.array(committed, dtype=np.int64)


def test_it_reads_a_trend_behind_the_commits() -> None:
    # 10/s come, 20/s are handled, and the group commits every half minute: only every sixth round shows the truth
    times = np.arange(0, 300_000, 5_000, dtype=np.int64)
    high = 5_000 + times // 100
    committed = times // 30_000 * 600
    found = trend(times, high - committed, committed)
    assert (found.pace, found.direction) == (-0.01, Direction.SHRINKING)
    assert (found.first, found.last, found.span_ms) == (3_500, 2_300, 120_000)
    assert trend(times, high - committed // 2, committed // 2).direction is Direction.STEADY
    assert trend(times, high - committed // 3, committed // 3).direction is Direction.GROWING


def test_a_trend_turns_within_a_minute_and_a_half() -> None:
    times = np.arange(0, 600_000, 5_000, dtype=np.int64)
    high = times * 8 // 1000
    committed = np.maximum(0, times - 300_000) * 20 // 1000  # nothing for five minutes, then 20/s
    words = [
        trend(times[:end], (high - committed)[:end], committed[:end]).direction
        for end in range(1, len(times))
    ]
    assert words[59] is Direction.GROWING
    assert set(words[78:]) == {Direction.SHRINKING}


def test_it_drains_at_the_pace_of_the_window() -> None:
    # 600 wait, 100 fewer every 30 s
    found = drain(*arrays([1000] * 5, [0, 100, 200, 300, 400]))
    assert (found.ms, found.never, found.window_ms) == (180_000, False, 90_000)
    assert drain(*arrays([10, 20], [10, 20])) == Drain(0, False)
    assert drain(*arrays([10, 20, 40, 60, 80], [0, 5, 8, 10, 11])) == Drain(None, True, window_ms=90_000)
    assert drain(*arrays([100], [10])) == Drain(None, False)
    # at this pace it takes more than a year
    assert drain(*arrays([10**9] * 9, [0, 0, 0, 0, 0, 1, 1, 1, 1])).never


def test_it_gives_a_band_from_slow_and_fast_minutes() -> None:
    paces = [60, 60, 120, 240, 300, 240, 120, 60, 240, 120]  # messages of ten minutes
    committed = np.concatenate([[0], np.cumsum(paces)]).tolist()
    found = drain(*arrays([10_000] * 11, committed, every_s=60), band=BandRule(20, 0, 0, 0))
    lag = 10_000 - committed[-1]
    assert (found.low_ms, found.high_ms) == (round(lag / 240 * 60_000), round(lag / 60 * 60_000))
    assert found.ms is not None and found.low_ms is not None and found.high_ms is not None
    assert found.low_ms < found.ms < found.high_ms
    slow_is_never = drain(*arrays([5_000 + 130 * i for i in range(11)], committed, every_s=60))
    assert slow_is_never.low_ms is not None
    assert slow_is_never.high_ms is None


def test_a_band_is_wider_for_uneven_minutes_and_far_ends() -> None:
    even = arrays([10_000] * 11, [100 * i for i in range(11)], every_s=60)  # 9,000 wait: 90 minutes
    assert drain(*even, band=BandRule(10, 0.5, 0, 0)).low_ms == 60 * 60_000
    found = drain(
        *even, band=BandRule(10, 0.5, 2, 0.5)
    )  # even minutes; nine windows ahead: three times as wide
    assert (found.ms, found.low_ms, found.high_ms) == (90 * 60_000, 20 * 60_000, 405 * 60_000)
    paces = np.concatenate([[0], np.cumsum([50, 150] * 5)]).tolist()
    found = drain(*arrays([10_000] * 11, paces, every_s=60), band=BandRule(10, 0.5, 2, 0))
    assert (found.ms, found.high_ms) == (
        5_400_000,
        18_900_000,
    )  # apart by the whole pace: 1 + 0.5 + 2 * 1.0


def test_it_forgets_how_long_it_stood_still() -> None:
    heads = [1_000 + 100 * i for i in range(10)]
    committed = [1_000] * 7 + [1_150, 1_300, 1_450]  # nothing for six minutes, then 150 a minute
    found = drain(*arrays(heads, committed, every_s=60))
    # 450 wait, 50 fewer every minute; over the whole time it only grew
    assert (found.ms, found.never, found.window_ms) == (540_000, False, 120_000)


def test_it_waits_for_the_last_queue() -> None:
    assert slowest([]) == Drain(None, False)
    assert slowest([Drain(5, False), Drain(None, False)]) == Drain(None, False)
    assert slowest([Drain(5, False), Drain(None, True), Drain(None, False)]).never
    assert slowest([Drain(0, False), Drain(5, False, 4, 6, 10)]) == Drain(5, False, 4, 6, 10)


def test_it_knows_the_hour_of_the_week() -> None:
    assert [hour_of_week(at) for at in (MONDAY, MONDAY + HOUR - 1, MONDAY - 1)] == [0, 0, 167]
    assert hour_of_week(1_760_000_400_000) == 3 * 24 + 9  # Thursday 2025-10-09 09:00 UTC


def test_it_learns_a_week_and_forecasts_through_a_trough() -> None:
    hours = np.arange(MONDAY, MONDAY + 3 * 7 * 24 * HOUR, HOUR, dtype=np.int64)
    of_day = hours // HOUR % 24
    produced = np.where(of_day < 6, 10.0, 100.0)
    produced[5] = 1e6  # one mad hour does not move a median
    pattern = hour_pattern(hours, produced, np.full(len(hours), 60.0), np.ones(len(hours), dtype=np.bool_))
    assert (pattern.produce_rate[5], pattern.produce_rate[12]) == (10.0, 100.0)
    assert (pattern.capacity, pattern.weeks) == (60.0, 3)
    at_ms = MONDAY + 22 * HOUR  # by day 60/s cannot keep up with 100/s; from midnight 50/s are gained
    # 90,000 wait, 288,000 more by midnight
    assert drain_forecast(90_000, at_ms, pattern) == Drain(2 * HOUR + 7_560_000, False)
    assert drain_forecast(0, at_ms, pattern) == Drain(0, False)
    assert drain_forecast(None, at_ms, pattern) == Drain(None, False)
    assert drain_forecast(10**9, at_ms, pattern).never


def test_it_does_not_forecast_through_hours_it_never_saw() -> None:
    rates = np.full(168, 10.0)
    rates[1] = math.nan
    pattern = HourPattern(rates, 60.0, 1)
    assert drain_forecast(50 * 3600, MONDAY, pattern) == Drain(HOUR, False)
    assert drain_forecast(50 * 3600 + 1, MONDAY, pattern) == Drain(None, False)
    assert drain_forecast(5, MONDAY, HourPattern(rates, None, 1)) == Drain(None, False)


def test_it_says_when_retention_reaches_the_consumer() -> None:
    assert time_to_loss(HOUR, 0.0) == TimeToLoss(HOUR, False)
    assert time_to_loss(HOUR, 0.5) == TimeToLoss(2 * HOUR, False)
    assert time_to_loss(HOUR, 1.0) == TimeToLoss(None, True)
    assert time_to_loss(HOUR, 1.0, edge_speed=3.0) == TimeToLoss(HOUR // 2, False)
    assert time_to_loss(-5, 0.0, lower_bound=True) == TimeToLoss(0, False, True)
    assert time_to_loss(None, 0.5) == TimeToLoss(None, False)
    # The pace is not known yet: not before a group that stands still would lose messages.
    assert time_to_loss(HOUR, None) == TimeToLoss(HOUR, False, True)


def test_a_loss_farther_away_than_messages_are_kept_is_not_in_sight() -> None:
    kept_ms = 72 * HOUR
    assert time_to_loss(kept_ms - HOUR, 0.0, kept_ms=kept_ms) == TimeToLoss(kept_ms - HOUR, False)
    # A young backlog that is read too slowly: whichever pace its last batches had.
    for speed in (0.2, 0.5, 0.84, 0.99):
        assert time_to_loss(kept_ms - HOUR, speed, kept_ms=kept_ms) == TimeToLoss(None, True)
    assert time_to_loss(HOUR, 0.98, kept_ms=kept_ms, lower_bound=True) == TimeToLoss(50 * HOUR, False, True)
    # A disk that keeps an hour only: a loss within the day is in sight whatever the pace.
    assert time_to_loss(HOUR, 0.9, kept_ms=HOUR) == TimeToLoss(10 * HOUR, False)
    assert time_to_loss(HOUR, 0.96, kept_ms=HOUR) == TimeToLoss(None, True)


@pytest.mark.parametrize(
    ("consumers", "produce", "consume", "lag", "queues", "expected"),
    [
        (2, 100.0, 50.0, 0, 16, 4),
        (2, 100.0, 50.0, 90_000, 16, 8),
        (2, 100.0, 50.0, 90_000, 6, 6),  # more than queues would idle
        (2, 0.0, 50.0, 0, 6, 1),
        (0, 100.0, 50.0, 0, 6, None),
        (2, 100.0, 0.0, 0, 6, None),
        (2, None, 50.0, 0, 6, None),
        (2, 100.0, 50.0, None, 6, None),
    ],
)
def test_it_counts_the_consumers_needed(
    consumers: int, produce: float | None, consume: float, lag: int | None, queues: int, expected: int | None
) -> None:
    assert consumers_needed(consumers, produce, consume, lag, queues) == expected


@given(
    st.lists(st.integers(0, 500), min_size=2, max_size=30),
    st.lists(st.integers(0, 500), min_size=2, max_size=30),
)
def test_its_band_holds_its_figure(produced: list[int], consumed: list[int]) -> None:
    count = min(len(produced), len(consumed))
    high = np.cumsum(produced[:count]) + 1_000
    committed = np.minimum(np.cumsum(consumed[:count]), high)
    found = drain(np.arange(count, dtype=np.int64) * 30_000, high, committed)
    assert found.ms is None or not found.never
    if found.ms is not None:
        assert (found.low_ms or 0) <= found.ms <= (found.high_ms or 2**62)
