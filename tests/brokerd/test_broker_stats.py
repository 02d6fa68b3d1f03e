from __future__ import annotations

from brokerd.broker_stats import BrokerStats, Sample, append_sample, snapshot


def test_it_makes_a_rate_of_the_oldest_and_newest_sample() -> None:
    assert snapshot([]) == (0, 0.0, 0.0)
    assert snapshot([Sample(0, 5, 1)]) == (0, 0.0, 0.0)
    assert snapshot([Sample(0, 10, 2), Sample(5_000, 20, 3), Sample(10_000, 50, 6)]) == (40, 4.0, 10.0)


def test_it_samples_each_window_at_its_interval() -> None:
    stats = BrokerStats("C", 0)
    item = stats.item("TOPIC_PUT_NUMS", "T")
    for second in range(25):
        item.add(2)
        stats.sample(second * 1000)
    assert [s.at_ms for s in item.minute] == [0, 10_000, 20_000]
    assert [len(item.hour), len(item.day)] == [1, 1]
    assert stats.topic_put_tps("T") == 2.0


def test_it_keeps_two_samples_of_an_idle_item_and_none_older_than_the_window() -> None:
    samples: list[Sample] = []
    for at_ms, value in ((0, 1), (10, 5), (20, 5), (30, 5), (60, 5), (61, 5), (75, 6)):
        append_sample(samples, Sample(at_ms, value, value), 60)
    assert samples == [Sample(61, 5, 5), Sample(75, 6, 6)]


def test_it_tells_rates_as_java_prints_them() -> None:
    stats = BrokerStats("C", 0)
    assert stats.rates("put") == "0.0 "
    for second in range(62):
        stats.broker_put.add(3)
        stats.get_miss_times += 1
        stats.sample(second * 1000)
    assert stats.rates("put") == "3.0 3.0 "
    assert stats.rates("get_total") == "1.0 1.0 "


def test_it_rolls_the_day_at_local_midnight() -> None:
    stats = BrokerStats("C", 0)
    stats.broker_put.add(7)
    stats.sample(86_400_000)
    stats.broker_put.add(1)
    stats.sample(2 * 86_400_000)
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
