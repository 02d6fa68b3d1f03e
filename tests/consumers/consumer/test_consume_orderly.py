from __future__ import annotations

import asyncio

import pytest

from brokerd.remoting.message.queue import MessageQueue
from consumers.config import PushConsumerConfig
from consumers.consumer.consume_message import ConsumeStatus, MessageHandler
from consumers.consumer.consume_orderly import (
    AfterFailure,
    OrderlyConsumeService,
    after_failure,
    suspend_time_ms,
)
from consumers.consumer.offset_store import OffsetTable
from consumers.consumer.process_queue import ProcessQueue
from consumers.errors import BrokerUnavailable
from tests.consumers.fake_broker import wait_until
from tests.consumers.records import record

QUEUE = MessageQueue("payments", "broker-a", 0)


class Bench:
    def __init__(self, handler, **settings) -> None:
        self.offsets = OffsetTable()
        self.given_up: list[int] = []
        self.refuses = False
        self.locks = [True]
        self.queue = ProcessQueue(QUEUE, now_ms=0)
        self.queue.lock_ms = 0
        self.service = OrderlyConsumeService(
            MessageHandler(handler, "ledger", lambda: 0),
            PushConsumerConfig(**({"suspend_current_queue_time_ms": 10} | settings)),
            self.offsets,
            self.lock,
            self.give_up,
            lambda: 0,
        )

    async def lock(self, queue) -> bool:
        is_locked = self.locks.pop(0)
        queue.lock_ms = 0 if is_locked else None
        return is_locked

    async def give_up(self, message) -> None:
        if self.refuses:
            raise BrokerUnavailable("127.0.0.1:1", "away")
        self.given_up.append(message.queue_offset)

    def submit(self, *offsets: int) -> None:
        messages = [record(offset) for offset in offsets]
        self.queue.put_messages(messages)
        self.service.submit(self.queue, messages)

    @property
    def committed(self) -> int | None:
        return self.offsets.read_memory(QUEUE)


@pytest.fixture
async def bench():
    benches = []

    def create(handler, **settings) -> Bench:
        benches.append(Bench(handler, **settings))
        return benches[-1]

    yield create
    for made in benches:
        await made.service.close(0)


@pytest.mark.parametrize(
    ("requested_ms", "expected_ms"), [(None, 1_000), (0, 10), (50, 50), (60_000, 30_000)]
)
def test_it_waits_within_bounds(requested_ms, expected_ms):
    assert suspend_time_ms(requested_ms, 1_000) == expected_ms


def test_it_gives_up_at_the_limit():
    assert after_failure(record(1, reconsume_times=1), 2) is AfterFailure.CONSUME_AGAIN
    assert after_failure(record(1, reconsume_times=2), 2) is AfterFailure.GIVE_UP


async def test_it_consumes_in_order_one_at_a_time(bench):
    seen, running = [], 0

    async def handle(messages, context):
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.001)
        seen.extend(m.queue_offset for m in messages)
        running -= 1
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle)
    made.submit(1, 2, 3)
    made.submit(4, 5)
    await wait_until(lambda: made.committed == 6)
    assert seen == [1, 2, 3, 4, 5]


async def test_it_repeats_a_failed_message_before_the_next(bench):
    seen = []

    async def handle(messages, context):
        seen.append((messages[0].queue_offset, messages[0].reconsume_times))
        fails = messages[0].queue_offset == 1 and messages[0].reconsume_times < 2
        return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if fails else ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle)
    made.submit(1, 2)
    await wait_until(lambda: made.committed == 3)
    assert seen == [(1, 0), (1, 1), (1, 2), (2, 0)]


async def test_it_gives_up_after_the_last_repetition_and_goes_on(bench):
    async def handle(messages, context):
        if messages[0].queue_offset == 1:
            raise ValueError("bad payment")
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle, max_reconsume_times=1)
    made.submit(1, 2)
    await wait_until(lambda: made.committed == 3)
    assert made.given_up == [1]


async def test_it_keeps_a_message_it_could_not_give_up(bench):
    seen = []

    async def handle(messages, context):
        seen.append(messages[0].reconsume_times)
        made.refuses = len(seen) < 3
        return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    made = bench(handle, max_reconsume_times=0)
    made.submit(1)
    await wait_until(lambda: made.committed == 2)
    assert (seen, made.given_up) == ([0, 1, 2], [1])


async def test_it_waits_for_the_lock(bench, monkeypatch):
    monkeypatch.setattr("consumers.consumer.consume_orderly.LOCK_AGAIN_DELAY_MS", 5)
    monkeypatch.setattr("consumers.consumer.consume_orderly.NOT_LOCKED_DELAY_MS", 5)

    async def handle(messages, context):
        assert made.locks == []
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle)
    made.queue.lock_ms = None
    made.locks = [False, False, True]
    made.submit(1)
    await wait_until(lambda: made.committed == 2)


async def test_it_ends_after_the_running_batch_when_the_queue_is_given_up(bench):
    started = asyncio.Event()

    async def handle(messages, context):
        started.set()
        await asyncio.sleep(0.02)
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle)
    made.submit(1, 2)
    await started.wait()
    assert not await made.service.wait_idle(made.queue, 1)
    made.queue.end(now_ms=0)
    assert await made.service.wait_idle(made.queue, 1_000)
    assert made.committed == 2


async def test_it_ignores_the_result_of_a_dropped_queue(bench):
    started = asyncio.Event()

    async def handle(messages, context):
        started.set()
        await asyncio.sleep(0.01)
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle)
    made.submit(1)
    await started.wait()
    made.queue.drop()
    assert await made.service.wait_idle(made.queue, 1_000)
    assert made.committed is None
