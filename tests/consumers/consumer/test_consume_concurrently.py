from __future__ import annotations

import asyncio

import pytest

from brokerd.remoting.message.queue import MessageQueue
from consumers.config import MessageModel, PushConsumerConfig
from consumers.consumer.consume_concurrently import (
    ConcurrentConsumeService,
    split_batches,
    split_by_ack_index,
)
from consumers.consumer.consume_message import (
    ConsumeOutcome,
    ConsumeReturnType,
    ConsumeStatus,
    MessageHandler,
)
from consumers.consumer.offset_store import OffsetTable
from consumers.consumer.process_queue import ProcessQueue
from consumers.errors import BrokerUnavailable
from tests.consumers.fake_broker import wait_until
from tests.consumers.records import record

QUEUE = MessageQueue("orders", "broker-a", 0)
OK = ConsumeOutcome(True, ConsumeReturnType.SUCCESS, 0)
LATER = ConsumeOutcome(False, ConsumeReturnType.FAILED, 0)


class Bench:
    """A service with its handler, a queue, and what would go back to the broker."""

    def __init__(self, handler, **settings) -> None:
        self.offsets = OffsetTable()
        self.sent_back: list[tuple[int, str, int]] = []
        self.refuses_back = False
        self.now_ms = 0
        self.queue = ProcessQueue(QUEUE, now_ms=0)
        self.service = ConcurrentConsumeService(
            MessageHandler(handler, "billing", self.clock),
            PushConsumerConfig(**settings),
            self.offsets,
            self.send_back,
            self.clock,
        )

    def clock(self) -> int:
        return self.now_ms

    async def send_back(self, message, broker_name, delay_level) -> None:
        if self.refuses_back:
            raise BrokerUnavailable("127.0.0.1:1", "away")
        self.sent_back.append((message.queue_offset, broker_name, delay_level))

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
        made = Bench(handler, **settings)
        made.service.start()
        benches.append(made)
        return made

    yield create
    for made in benches:
        await made.service.close(0)


def test_it_splits_what_was_pulled_into_batches():
    batches = split_batches([record(offset) for offset in range(5)], 2)
    assert [[m.queue_offset for m in batch] for batch in batches] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("outcome", "ack_index", "done", "again"),
    [
        (OK, None, [0, 1, 2], []),
        (OK, 0, [0], [1, 2]),
        (OK, -1, [], [0, 1, 2]),
        (OK, 9, [0, 1, 2], []),
        (LATER, None, [], [0, 1, 2]),
        (LATER, 1, [], [0, 1, 2]),
    ],
)
def test_it_decides_what_is_done(outcome, ack_index, done, again):
    parts = split_by_ack_index([record(0), record(1), record(2)], outcome, ack_index)
    assert tuple([m.queue_offset for m in part] for part in parts) == (done, again)


async def test_it_consumes_and_commits(bench):
    seen = []

    async def handle(messages, context):
        seen.append([m.queue_offset for m in messages])
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle, consume_message_batch_max_size=2)
    made.submit(5, 6, 7)
    await wait_until(lambda: made.committed == 8)
    assert sorted(seen) == [[5, 6], [7]]


async def test_it_runs_plain_functions_in_a_thread(bench):
    made = bench(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    made.submit(5)
    await wait_until(lambda: made.committed == 6)


async def test_it_does_not_commit_past_a_message_that_still_runs(bench):
    release = asyncio.Event()

    async def handle(messages, context):
        if messages[0].queue_offset == 5:
            await release.wait()
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle)
    made.submit(5, 6, 7)
    await wait_until(lambda: made.queue.cached_count == 1)
    assert made.committed == 5
    release.set()
    await wait_until(lambda: made.committed == 8)


@pytest.mark.parametrize("answer", [ConsumeStatus.RECONSUME_LATER, None, ValueError("bad order")])
async def test_it_sends_back_what_failed(bench, answer):
    async def handle(messages, context):
        context.delay_level_when_next_consume = 2
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = bench(handle)
    made.submit(5)
    await wait_until(lambda: made.committed == 6)
    assert made.sent_back == [(5, "broker-a", 2)]


async def test_it_keeps_what_the_broker_did_not_take_back(bench, monkeypatch):
    monkeypatch.setattr("consumers.consumer.consume_concurrently.CONSUME_AGAIN_DELAY_MS", 20)
    seen = []

    async def handle(messages, context):
        seen.append((messages[0].queue_offset, messages[0].reconsume_times))
        return ConsumeStatus.CONSUME_SUCCESS if messages[0].reconsume_times else ConsumeStatus.RECONSUME_LATER

    made = bench(handle)
    made.refuses_back = True
    made.submit(5)
    await wait_until(lambda: made.committed == 6)
    assert seen == [(5, 0), (5, 1)]


async def test_it_drops_a_broadcast_message_that_failed(bench):
    async def handle(messages, context):
        return ConsumeStatus.RECONSUME_LATER

    made = bench(handle, message_model=MessageModel.BROADCASTING)
    made.submit(5)
    await wait_until(lambda: made.committed == 6)
    assert made.sent_back == []


async def test_it_ignores_results_of_a_queue_that_is_not_ours_any_more(bench):
    started, release = asyncio.Event(), asyncio.Event()

    async def handle(messages, context):
        started.set()
        await release.wait()
        return ConsumeStatus.RECONSUME_LATER

    made = bench(handle)
    made.submit(5)
    await started.wait()
    made.queue.drop()
    release.set()
    await made.service.close(1_000)
    assert (made.committed, made.sent_back) == (None, [])


async def test_it_sends_back_a_message_whose_handler_hangs(bench):
    async def handle(messages, context):
        await asyncio.sleep(3600)

    made = bench(handle, consume_timeout_ms=1_000)
    made.submit(5, 6)
    await wait_until(lambda: len(made.queue._consume_started_ms) == 2)
    made.now_ms = 1_001
    await made.service.clean_expired(made.queue)
    assert made.sent_back == [(5, "broker-a", 3), (6, "broker-a", 3)]
    assert made.committed == 7


async def test_it_lets_a_running_handler_end_when_it_closes(bench):
    started = asyncio.Event()

    async def handle(messages, context):
        started.set()
        await asyncio.sleep(0.05)
        return ConsumeStatus.CONSUME_SUCCESS

    made = bench(handle)
    made.submit(5)
    await started.wait()
    await made.service.close(1_000)
    assert made.committed == 6


async def test_it_cancels_a_handler_that_does_not_end(bench):
    started = asyncio.Event()

    async def handle(messages, context):
        started.set()
        await asyncio.sleep(3600)

    made = bench(handle)
    made.submit(5)
    await started.wait()
    await made.service.close(10)
    assert made.committed is None
