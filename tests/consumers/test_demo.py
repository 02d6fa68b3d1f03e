from __future__ import annotations

import json
from collections import Counter

from consumers.demo import (
    Shop,
    analytics_rate,
    click_rate,
    due_messages,
    notification_fails,
    sharding_key,
)

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def test_it_sends_what_is_due_and_keeps_the_rest():
    assert due_messages(10.0, 0.0, 250) == (2, 0.5)
    assert due_messages(10.0, 0.5, 250) == (3, 0.0)
    assert due_messages(0.0, 0.25, 250) == (0, 0.25)


def test_it_bursts_for_20_seconds_of_a_minute():
    assert [click_rate(ms) for ms in (0, 19_999, 20_000, 59_999, 60_000)] == [70.0, 70.0, 10.0, 10.0, 70.0]


def test_it_lets_analytics_fall_behind_and_catch_up_again():
    in_one_period = sum(click_rate(ms) for ms in range(0, 14 * 60_000, 1_000))
    out_one_period = sum(analytics_rate(ms) for ms in range(0, 14 * 60_000, 1_000))
    assert (in_one_period, out_one_period) == (25_200.0, 25_800.0)
    assert analytics_rate(0) < 30.0 < analytics_rate(600_000)


def test_it_fails_some_notifications_once_and_some_always():
    keys = [f"A-{number}" for number in range(10_000)]
    always = sum(notification_fails(key, 2) for key in keys)
    first = sum(notification_fails(key, 0) for key in keys)
    assert 200 < always < 400
    assert 400 < first < 800


def test_it_makes_the_same_shop_from_the_same_seed():
    first, second = Shop(seed=1, first_number=5), Shop(seed=1, first_number=5)
    for flow, twin in zip(first.flows(), second.flows(), strict=True):
        messages = [flow.create(NOW_MS) for _ in range(50)]
        assert [m.body for m in messages] == [twin.create(NOW_MS).body for _ in range(50)]
        assert {m.topic for m in messages} == {flow.topic}


def test_it_makes_orders_that_read_like_orders():
    message = Shop(seed=1, first_number=5).order(NOW_MS)
    body = json.loads(message.body)
    assert body["orderId"] == message.properties["KEYS"] == "A-5"
    assert (body["status"], message.properties["TAGS"]) == ("created", "created")
    assert body["at"] == "2026-01-01T00:00:00.000+00:00"


def test_it_passes_the_steps_of_each_order_in_order():
    shop = Shop(seed=1, first_number=1)
    steps: dict[str, list[str]] = {}
    for _ in range(300):
        message = shop.order(NOW_MS)
        steps.setdefault(message.properties["KEYS"], []).append(message.properties["TAGS"])
    assert Counter(tuple(seen) for seen in steps.values())["created", "paid", "shipped"] > 90
    assert all(seen == ["created", "paid", "shipped"][: len(seen)] for seen in steps.values())


def test_it_names_the_account_of_a_payment():
    assert sharding_key(Shop(seed=1, first_number=57).payment(NOW_MS)) == "acc-07"
