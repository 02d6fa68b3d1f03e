"""The rate of handlers, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import pytest

from consumers.consumer.consume_rate import ConsumeRate
from tests.consumers.consumer.brokers_in_memory import JumpingLoop

Result = TypeVar("Result")


def simulated(coroutine: Coroutine[None, None, Result]) -> Result:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(coroutine)


async def times_of(rate: ConsumeRate, workers: int, takes: int, messages: int = 1) -> list[float]:
    """Seconds at which each of `takes` begins, of that many workers side by side."""
    loop = asyncio.get_running_loop()
    begun_s, began = loop.time(), list[float]()

    async def work() -> None:
        while len(began) < takes:
            await rate.wait()
            if len(began) < takes:
                rate.count(messages)
                began.append(round(loop.time() - begun_s, 3))

    await asyncio.gather(*(work() for _ in range(workers)))
    return began


@pytest.mark.parametrize("workers", [1, 7])
def test_any_number_of_workers_begins_evenly(workers: int) -> None:
    assert simulated(times_of(ConsumeRate(4.0), workers, 6)) == [0, 0.25, 0.5, 0.75, 1.0, 1.25]


def test_a_batch_counts_by_its_messages() -> None:
    assert simulated(times_of(ConsumeRate(4.0), 2, 3, messages=10)) == [0, 2.5, 5.0]


def test_without_a_limit_none_waits() -> None:
    assert simulated(times_of(ConsumeRate(), 2, 3)) == [0, 0, 0]


@pytest.mark.parametrize("limit", [None, 1_000.0])
def test_a_changed_limit_counts_within_a_second_for_those_who_wait(limit: float | None) -> None:
    async def changed() -> float:
        loop, rate = asyncio.get_running_loop(), ConsumeRate(0.001)
        rate.count(1)
        assert not rate.is_free
        begun_s = loop.time()
        loop.call_later(5.5, rate.limit, limit)
        await rate.wait()
        assert rate.is_free
        return loop.time() - begun_s

    assert 5.5 <= simulated(changed()) <= 6.5


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_it_refuses_what_is_no_rate(limit: float) -> None:
    rate = ConsumeRate(2.0)
    with pytest.raises(ValueError, match="above 0 messages a second"):
        rate.limit(limit)
    assert rate.messages_per_s == 2.0
