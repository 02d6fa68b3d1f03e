from __future__ import annotations

import pytest

from brokerd.broker_stats import BrokerStats, PutTimes, Sample, append_sample, snapshot


def test_it_makes_a_rate_of_the_oldest_and_newest_sample() -> None:
    assert snapshot([]) == (0, 0.0, 0.0)
    assert snapshot([Sample(0, 5, 1)]) == (0, 0.0, 0.0)
    assert snapshot([Sample(0, 10, 2), Sample(5_000, 20, 3), Sample(10_000, 50, 6)]) == (40, 4.0, 10.0)


def test_it_samples_each_window_at_its_interval() -> None:
    stats = BrokerStats("C", 0)
    item = stats.item("TOPIC_PUT_NUMS", "T")
    for second in range(25):
        item.add(2)
        stats.sample(second * 1000, second * 1000)
    assert [s.at_ms for s in item.minute] == [-10_000, 0, 10_000, 20_000]
    assert [len(item.hour), len(item.day)] == [2, 2]
    assert stats.topic_put_tps("T") == 42 / 30


def test_it_counts_what_came_before_the_first_sample() -> None:
    stats = BrokerStats("C", 0)
    item = stats.item("TOPIC_PUT_NUMS", "T")
    item.add(20)
    stats.sample(5_000, 5_000)
    item.add(3)
    stats.sample(20_000, 20_000)
    assert [snapshot(each).sum for each in (item.minute, item.hour, item.day)] == [23, 20, 20]


def test_it_drops_the_counters_of_deleted_topics_and_groups() -> None:
    stats = BrokerStats("C", 0)
    for key in ("T@g", "T@bigg", "U@g"):
        stats.item("GROUP_GET_NUMS", key)
    stats.item("TOPIC_PUT_NUMS", "T")
    stats.remove_group("g")
    stats.remove("T")
    assert list(stats.items) == [
        ("BROKER_PUT_NUMS", "C"),
        ("BROKER_GET_NUMS", "C"),
        ("GROUP_GET_NUMS", "T@bigg"),
    ]


def test_it_keeps_two_samples_of_an_idle_item_and_none_older_than_the_window() -> None:
    samples: list[Sample] = []
    for at_ms, value in ((0, 1), (10, 5), (20, 5), (30, 5), (60, 5), (61, 5), (75, 6)):
        append_sample(samples, Sample(at_ms, value, value), 60)
    assert samples == [Sample(61, 5, 5), Sample(75, 6, 6)]


def test_it_tells_rates_as_java_prints_them() -> None:
    stats = BrokerStats("C", 0)
    assert stats.rates("put") == "0.0 0.0 0.0"
    for second in range(601):
        stats.put_times.add(3, 0)
        stats.get_miss_times += 1
        stats.sample(second * 1000, second * 1000)
        if second == 5:
            assert (stats.rates("put"), stats.rates("get_total")) == ("3.0  ", "1.0 0.0 0.0")
        if second == 61:  # blanks as in a capture of a young broker of 5.3.3
            assert (stats.rates("put"), stats.rates("get_total")) == ("3.0 3.0 ", "1.0 1.0 0.0")
    assert (stats.rates("put"), stats.rates("get_total")) == ("3.0 3.0 3.0", "1.0 1.0 1.0")


def test_it_rolls_the_day_at_local_midnight() -> None:
    stats = BrokerStats("C", 0)
    stats.broker_put.add(7)
    stats.sample(86_400_000, 86_400_000)
    stats.broker_put.add(1)
    stats.sample(2 * 86_400_000, 2 * 86_400_000)
    assert (stats.put_yesterday_morning, stats.put_today_morning, stats.broker_put.value) == (7, 8, 8)


def test_it_counts_no_more_items_than_its_limit() -> None:
    stats = BrokerStats("C", 0)
    for i in range(100_001):
        stats.item("GROUP_GET_NUMS", str(i)).add(1)
    assert len(stats.items) == 100_000


def test_it_forgets_a_deleted_topic() -> None:
    stats = BrokerStats("C", 0)
    stats.item("TOPIC_PUT_NUMS", "T").add(1)
    stats.item("TOPIC_PUT_NUMS", "U").add(1)
    stats.remove("T")
    assert (stats.find("TOPIC_PUT_NUMS", "T"), stats.find("TOPIC_PUT_NUMS", "U") is None) == (None, False)


def test_it_tells_the_puts_of_the_last_whole_minute() -> None:
    times = PutTimes(0)
    for took_ms in (
        0,
        0,
        1,
        9,
        10,
        49,
        50,
        99,
        100,
        199,
        200,
        499,
        500,
        999,
        1_000,
        1_999,
        2_000,
        9_999,
        10_000,
    ):
        times.add(1, took_ms)
    times.add(4, -5)  # the clock was set back
    times.roll(59_999)
    assert (times.distribution_text().count(":0 "), times.percentile_text(0.99)) == (13, "0.00")
    times.roll(60_000)
    times.add(7, 3)  # the next minute's
    assert times.distribution_text() == (
        "[<=0ms]:6 [0~10ms]:2 [10~50ms]:2 [50~100ms]:2 [100~200ms]:2 [200~500ms]:2 [500ms~1s]:2 [1~2s]:2 "
        "[2~3s]:1 [3~4s]:0 [4~5s]:0 [5~10s]:1 [10s~]:1 "
    )
    assert (times.total, times.longest_ms) == (30, 10_000)
    times.roll(120_000)
    assert "[0~10ms]:7 " in times.distribution_text()


@pytest.mark.parametrize(
    ("puts", "p99", "p999"),
    [
        ({0: 100}, "0.99", "0.99"),  # within the step up to 1 ms
        ({0: 98, 4: 2}, "3.50", "3.50"),
        ({3: 1_000, 150: 1}, "2.99", "3.00"),
        ({30: 10}, "29.80", "29.80"),  # steps of 2 ms from 20 ms on
        ({20_000: 5}, "10000.00", "10000.00"),
    ],
)
def test_it_estimates_percentiles_as_java_does(puts: dict[int, int], p99: str, p999: str) -> None:
    times = PutTimes(0)
    for took_ms, count in puts.items():
        times.add(count, took_ms)
    times.roll(60_000)
    assert (times.percentile_text(0.99), times.percentile_text(0.999)) == (p99, p999)


def test_it_remembers_the_longest_turn_for_ten_seconds() -> None:
    stats = BrokerStats("C", 0)
    stats.turn_longest_ms = 7
    assert stats.log_held_ms() == 7
    for second in range(10):
        stats.sample(second * 1000, second * 1000)
    assert stats.log_held_ms() == 7
    stats.sample(10_000, 10_000)
    assert stats.log_held_ms() == 0
