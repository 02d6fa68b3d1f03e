"""The first message at or after a time, of brokers that answer the nearest one as RocketMQ before 5.1.1 does."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.brokers.mqadmin import BrokerUnavailable, MessageQueue, MQAdmin
from console.brokers.queues import BrokerQueue
from console.brokers.time_search import answers_first, first_at_or_after


class NearestBroker:
    """`ConsumeQueue.getOffsetInQueueByTime` of 4.9.7 over messages stored at these times, the first at ``base``."""

    def __init__(self, times: list[int], base: int = 0) -> None:
        self.times, self.base, self.pulls = times, base, 0

    @property
    def place(self) -> BrokerQueue:
        return BrokerQueue(
            MessageQueue("orders", "broker-a", 0), "a:1", self.base, self.base + len(self.times)
        )

    async def search_offset(self, addr: str, topic: str, queue_id: int, time_ms: int) -> int:
        low, high, left, right = 0, len(self.times) - 1, -1, -1
        while high >= low:
            middle = (low + high) // 2
            if self.times[middle] == time_ms:
                return self.base + middle
            if self.times[middle] > time_ms:
                high, right = middle - 1, middle
            else:
                low, left = middle + 1, middle
        if left == -1 or right == -1:
            return self.base + max(left, right, 0)
        nearer_right = abs(time_ms - self.times[left]) > abs(time_ms - self.times[right])
        return self.base + (right if nearer_right else left)

    async def pull(self, addr: str, topic: str, queue_id: int, offset: int, count: int) -> Any:
        self.pulls += 1
        times = self.times[offset - self.base :][:1]
        return SimpleNamespace(messages=[SimpleNamespace(store_timestamp_ms=one) for one in times])


def first(broker: NearestBroker, time_ms: int, version: str = "V4_9_7") -> int:
    return asyncio.run(first_at_or_after(cast(MQAdmin, broker), broker.place, time_ms, version))


@pytest.mark.parametrize(
    ("time_ms", "expected", "pulls"),
    [
        (0, 5, 1),  # before all: the first
        (100, 5, 1),
        (120, 6, 2),  # its older neighbour is nearer
        (180, 6, 3),  # its younger one is
        (200, 6, 3),  # three in the same millisecond: the first of them
        (900, 9, 2),
        (901, 10, 1),  # after all: the end, not the newest
        (10_000, 10, 1),
    ],
)
def test_it_steps_from_the_nearest_message_to_the_first(time_ms: int, expected: int, pulls: int) -> None:
    broker = NearestBroker([100, 200, 200, 200, 900], base=5)
    assert first(broker, time_ms) == expected
    assert broker.pulls <= pulls + 1


def test_it_agrees_with_a_plain_search_whatever_the_times_are() -> None:
    seed = 7
    random.seed(seed)
    for _ in range(300):
        times = sorted(random.choices(range(60), k=random.randint(1, 40)))
        broker = NearestBroker(times, base=random.randint(0, 9))
        for time_ms in range(-2, 63):
            assert first(broker, time_ms) == broker.base + bisect_left(times, time_ms), (times, time_ms)


def test_an_empty_queue_and_messages_that_cannot_be_read() -> None:
    assert first(NearestBroker([], base=4), 50) == 4
    gone = NearestBroker([100, 200, 300], base=4)

    async def no_message(*_: Any) -> Any:
        return SimpleNamespace(messages=[])

    gone.pull = no_message  # type: ignore[method-assign]
    with pytest.raises(BrokerUnavailable, match="no message of orders · broker-a · 0 can be read at 5"):
        first(gone, 250)


def test_it_believes_releases_that_answer_the_first() -> None:
    broker = NearestBroker([100, 200, 300])
    assert (first(broker, 230, "V5_1_1"), broker.pulls) == (1, 0)
    assert [answers_first(one) for one in ("V4_9_7", "V5_1_0", "V5_1_1", "V5_3_3", "V6_0_0", "")] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]
