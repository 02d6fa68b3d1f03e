from __future__ import annotations

import json
from collections import Counter

from consumers.demo.shop import DEPOT_WITHOUT_ADDRESS, Shop, click_rate, found_settled, order_key, settled
from consumers.producer.transaction_producer import LocalTransactionState
from tests.consumers.records import record

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def test_it_bursts_for_20_seconds_of_a_minute():
    assert [click_rate(ms) for ms in (0, 19_999, 20_000, 59_999, 60_000)] == [70.0, 70.0, 10.0, 10.0, 70.0]


def test_it_makes_the_same_shop_from_the_same_seed():
    first, second = Shop(seed=1, first_number=5), Shop(seed=1, first_number=5)
    for flow, twin in zip(first.flows(), second.flows(), strict=True):
        messages = [flow.create(NOW_MS) for _ in range(50)]
        assert [m.body for m in messages] == [twin.create(NOW_MS).body for _ in range(50)]
        assert {m.topic for m in messages} == {flow.topic}


def test_its_topics_say_what_messages_they_take():
    types = {flow.topic: flow.message_type for flow in Shop(seed=1, first_number=1).flows()}
    assert types == {
        **dict.fromkeys(("orders", "clicks"), "NORMAL"),
        **dict.fromkeys(("payments", "parcels", "stock"), "FIFO"),
        "reminders": "DELAY",
        "payment-settled": "TRANSACTION",
    }


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


def test_it_names_what_keeps_a_message_in_order():
    shop = Shop(seed=1, first_number=57)
    flows = {flow.topic: flow for flow in shop.flows()}
    assert order_key(flows["payments"], shop.payment(NOW_MS)) == "acc-07"
    assert order_key(flows["parcels"], shop.parcel(NOW_MS)).startswith("depot-")


def test_it_leaves_out_one_address_always_of_the_same_depot():
    for seed in range(20):
        shop = Shop(seed, first_number=1)
        parcels = [json.loads(shop.parcel(NOW_MS).body) for _ in range(200)]
        assert [body["depot"] for body in parcels if body["address"] is None] == [DEPOT_WITHOUT_ADDRESS]


def test_it_moves_most_stock_in_one_warehouse():
    shop = Shop(seed=1, first_number=1)
    moved = Counter(json.loads(shop.stock_movement(NOW_MS).body)["warehouse"] for _ in range(1_000))
    assert 650 < moved["berlin"] < 750
    assert len(moved) == 5


def test_it_delays_reminders_by_a_minute():
    assert Shop(seed=1, first_number=1).reminder(NOW_MS).properties["DELAY"] == "5"


async def test_most_settlements_succeed_and_a_check_finds_those_that_ended_unseen():
    shop = Shop(seed=1, first_number=1)
    keys = [shop.settlement(NOW_MS).keys for _ in range(2_000)]
    assert len(set(keys)) == 2_000
    states = Counter(settled(key) for key in keys)
    assert all(60 < states[state] < 140 for state in LocalTransactionState if state.name != "COMMIT")
    for key in keys[:200]:
        state = await found_settled(record(0, properties={"KEYS": key}))
        is_rolled_back = settled(key) is LocalTransactionState.ROLLBACK
        assert state is (LocalTransactionState.ROLLBACK if is_rolled_back else LocalTransactionState.COMMIT)
