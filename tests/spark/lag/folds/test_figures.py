"""Figures of reports as literal cases: ages, forecasts and skew of small histories."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark.lag.codes import LagStatus, SampleFlag
from spark.lag.folds import figures
from spark.lag.folds.window import fold
from spark.lag.grid import grid_of
from spark.lag.samples import SeriesKey
from tests.spark.lag.judged import START, STEP, queue, together

KEY = SeriesKey("billing", "orders", "broker-a", 0, 0)
Columns = dict[str, list[Any]]


def shown(*queues: Any, rounds: int) -> tuple[Columns, Columns]:
    """The figures of the topic, and of its queues."""
    found = fold(grid_of(together(*queues), STEP), START, START + rounds * STEP, lambda group: 60_000)
    of_topics, of_queues = (
        figures.of_level(one, STEP, np.full(len(one), 60_000), np.full(len(one), 0.99))
        for one in (found.topics, found.queues)
    )
    topics, queues_ = {**of_topics, **figures.of_topics(found)}, of_queues
    return tuple({name: column.to_pylist() for name, column in own.items()} for own in (topics, queues_))  # type: ignore[return-value]


def made(number: int, committed: list[int], time_lag_ms: list[int], **more: Any) -> Any:
    count = len(committed)
    return queue(
        KEY._replace(queue_id=number),
        t_ms=START + STEP * np.arange(count),
        high=[1_000] * count,
        committed=committed,
        time_lag_ms=time_lag_ms,
        **more,
    )


def test_the_newest_consumed_message_ages_while_nothing_is_consumed() -> None:
    topics, queues = shown(
        made(0, [10, 20, 30, 30], [9_000, 8_000, 7_000, 12_000]),
        made(1, [50, 50, 50, 50], [1_000, 6_000, 11_000, 16_000]),
        rounds=4,
    )
    # stored 7 s before the third round, and the fourth is 5 s later
    assert (queues["last_consumed_age_ms"], topics["last_consumed_age_ms"]) == ([12_000, None], [12_000])


def test_a_topic_is_as_known_as_the_queue_that_was_read_last() -> None:
    silent = made(
        0, [10, 20, 20, 20], [9_000, 8_000, -1, -1], status=[LagStatus.OK] * 2 + [LagStatus.UNKNOWN] * 2
    )
    topics, queues = shown(silent, made(1, [50, 60, 70, 70], [9_000, 8_000, 7_000, 12_000]), rounds=4)
    assert (queues["last_consumed_age_ms"], topics["last_consumed_age_ms"]) == ([8_000, 12_000], [12_000])


def test_a_backlog_drains_by_its_age_and_speed() -> None:
    # 4 s of age gained in 10 s: speed 1.4, the 6 s left take 15
    _, queues = shown(
        made(0, [10, 20, 30], [10_000, 8_000, 6_000]),
        made(1, [10, 20, 30], [10_000, 10_000, 10_000]),
        made(2, [10, 20, 1_000], [10_000, 10_000, 0]),
        made(3, [10, 20, 30], [-1, -1, -1]),
        rounds=3,
    )
    assert queues["drain_by_speed_ms"] == [15_000, None, 0, None]


def test_skew_says_whether_one_queue_has_it_all() -> None:
    hot = [made(number, [1_000, 1_000], [0, 0]) for number in range(3)]
    topics, queues = shown(*hot, made(3, [600, 600], [90_000, 95_000]), rounds=2)
    assert (topics["skew_cv"], topics["effective_queues"], topics["skew_gini"]) == (
        [round(3**0.5, 6)],
        [1],
        [0.75],
    )
    assert topics["time_lag_spread_ms"] == [95_000]
    assert "time_lag_spread_ms" not in queues
    even = [made(number, [600, 600], [age, age]) for number, age in enumerate((1_000, 2_000, 4_000, 9_000))]
    topics, _ = shown(*even, rounds=2)
    # the median of four is between the second and the third
    assert (topics["skew_cv"], topics["time_lag_spread_ms"]) == ([0], [6_000])


def test_offsets_that_are_no_count_are_flagged_where_they_were_read() -> None:
    unread = made(2, [10, 10], [-1, -1], status=LagStatus.UNKNOWN)
    topics, queues = shown(
        made(0, [10, 20], [0, 0], flags=[0, SampleFlag.NOT_COUNT]),
        made(1, [10, 20], [0, 0]),
        unread,
        rounds=2,
    )
    assert (queues["offset_is_not_count"], topics["offset_is_not_count"]) == ([True, False, None], [True])
