from __future__ import annotations

from consumers.demo.groups import (
    FAILURES,
    analytics_rate,
    notification_failure,
    stock_rate,
)
from consumers.demo.shop import click_rate


def test_it_lets_analytics_fall_behind_and_catch_up_again():
    in_one_period = sum(click_rate(ms) for ms in range(0, 14 * 60_000, 1_000))
    out_one_period = sum(analytics_rate(ms) for ms in range(0, 14 * 60_000, 1_000))
    assert (in_one_period, out_one_period) == (25_200.0, 25_800.0)
    assert analytics_rate(0) < 30.0 < analytics_rate(600_000)


def test_it_lets_the_hot_stock_queue_fall_behind_and_catch_up_again():
    out_one_period = sum(stock_rate(ms) for ms in range(0, 14 * 60_000, 1_000))
    assert stock_rate(0) < 5.6 < stock_rate(600_000)
    assert out_one_period > 5.6 * 14 * 60


def test_it_fails_some_notifications_once_and_some_always():
    keys = [f"A-{number}" for number in range(10_000)]
    always = sum(bool(notification_failure(key, 2)) for key in keys)
    first = sum(bool(notification_failure(key, 0)) for key in keys)
    assert 200 < always < 400
    assert 400 < first < 800


def test_it_gives_an_order_the_same_failure_every_time():
    failing = [key for key in (f"A-{number}" for number in range(10_000)) if notification_failure(key, 2)]
    assert all(notification_failure(key, 0) == notification_failure(key, 2) for key in failing)
    assert {notification_failure(key, 2) for key in failing} == set(FAILURES)
