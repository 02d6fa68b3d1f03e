"""Figures of a consumer's topics: the last minute, and failures of the last hour."""

from __future__ import annotations

from brokerd.remoting.body.client import ConsumeStatus as ConsumeStatistics
from brokerd.remoting.message.queue import MessageQueue
from consumers.consumer.consume_message import (
    ConsumeContext,
    ConsumeStatisticsTable,
    ConsumeStatus,
    MessageHandler,
)
from tests.consumers.records import record

MINUTE_MS = 60_000


def test_rates_are_those_of_the_last_minute() -> None:
    table = ConsumeStatisticsTable()
    table.count("orders", 30, True, 10, 1_000_000)
    table.count("orders", 30, True, 20, 1_000_500)
    table.count("orders", 6, False, 30, 1_001_000)
    table.count_pulled("orders", 64, 8, 1_001_000)
    table.count_pulled("orders", 56, 4, 1_001_900)
    expected = ConsumeStatistics(
        pull_rt=6.0,
        pull_tps=2.0,
        consume_rt=20.0,
        consume_ok_tps=1.0,
        consume_failed_tps=0.1,
        consume_failed_msgs=6,
    )
    assert table.table(1_059_000) == {"orders": expected}
    assert table.table(1_060_000)["orders"].consume_ok_tps == 0.0
    assert table.table(1_060_000)["orders"].consume_failed_tps == 0.1
    assert table.table(1_061_000)["orders"] == ConsumeStatistics(consume_failed_msgs=6)


def test_failures_are_those_of_the_last_hour() -> None:
    table = ConsumeStatisticsTable()
    table.count("orders", 1, False, 1, 10 * MINUTE_MS)
    table.count("orders", 2, False, 1, 40 * MINUTE_MS)
    assert table.table(69 * MINUTE_MS)["orders"].consume_failed_msgs == 3
    assert table.table(70 * MINUTE_MS)["orders"].consume_failed_msgs == 2
    assert table.table(100 * MINUTE_MS)["orders"].consume_failed_msgs == 0


async def test_a_call_counts_for_the_topic_of_its_queue() -> None:
    async def handle(messages, context) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    handler = MessageHandler(handle, "billing", lambda: 1_000)
    again = ConsumeContext("billing", MessageQueue("%RETRY%billing", "broker-a", 0))
    await handler.call([record(1, topic="orders")], again, 0)
    await handler.call([record(2)], again, 0, is_delivery=False)
    assert {topic: each.consume_ok_tps for topic, each in handler.statistics.table(1_000).items()} == {
        "%RETRY%billing": 1 / 60
    }
