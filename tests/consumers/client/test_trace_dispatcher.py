"""The dispatcher of traces: batches, bounds, and what becomes of records that cannot be sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.trace import SubBeforeTrace, decode_traces, encode_trace
from consumers.client import trace_dispatcher
from consumers.client.trace_dispatcher import (
    BATCH_RECORDS,
    BODY_BYTES_MAX,
    KEYS_LENGTH_MAX,
    MESSAGE_RECORDS_MAX,
    PENDING_RECORDS_MAX,
    TraceDispatcher,
)
from consumers.errors import MQClientError
from tests.consumers.fake_broker import wait_until


class Taking:
    """A producer that keeps what it is given; `error` is raised by each send, `held` keeps it waiting."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.error: Exception | None = None
        self.held: asyncio.Event | None = None
        self.is_closed = False

    async def start(self) -> None: ...

    async def close(self) -> None:
        self.is_closed = True

    async def send(self, message: Message) -> object:
        if self.held is not None:
            await self.held.wait()
        if self.error is not None:
            raise self.error
        self.messages.append(message)
        return None


@pytest.fixture
def producer() -> Taking:
    return Taking()


@pytest.fixture
async def dispatcher(producer: Taking) -> AsyncIterator[TraceDispatcher]:
    made = TraceDispatcher(producer, "traces")
    await made.start()
    yield made
    await made.close()


def trace(number: int, keys: str | None = None) -> SubBeforeTrace:
    return SubBeforeTrace(1, "r", "billing", f"Q{number}", f"ID{number}", 0, keys)


async def test_a_full_batch_is_sent_at_once_in_one_message(
    dispatcher: TraceDispatcher, producer: Taking
) -> None:
    records = [trace(number, "A-1 A-2") for number in range(BATCH_RECORDS)]
    for record in records:
        dispatcher.append(record)
    await wait_until(lambda: bool(producer.messages))
    (message,) = producer.messages
    assert list(decode_traces(message.body.decode())) == records
    assert message.topic == "traces"
    assert message.properties["KEYS"].split() == ["ID0", "A-1", "A-2", *(f"ID{n}" for n in range(1, 10))]
    assert dispatcher.sent_records == BATCH_RECORDS


async def test_less_than_a_batch_is_sent_after_the_interval(
    dispatcher: TraceDispatcher, producer: Taking, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher.append(trace(1))
    await asyncio.sleep(0)
    assert not producer.messages
    await dispatcher.close()
    assert producer.messages and producer.is_closed
    monkeypatch.setattr(trace_dispatcher, "FLUSH_INTERVAL_MS", 1)
    again = TraceDispatcher(producer, "traces")
    await again.start()
    again.append(trace(2))
    await wait_until(lambda: len(producer.messages) == 2)
    await again.close()


async def test_what_finds_no_room_is_counted_and_logged_once(
    dispatcher: TraceDispatcher, producer: Taking, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(PENDING_RECORDS_MAX + 3):
        dispatcher.append(trace(number))
    assert dispatcher.dropped_records == 3
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    await dispatcher.close()
    assert dispatcher.sent_records == PENDING_RECORDS_MAX
    dispatcher.append(trace(1))
    assert dispatcher.dropped_records == 4


async def test_a_failed_send_is_counted_and_logged_and_the_next_goes_on(
    dispatcher: TraceDispatcher, producer: Taking, caplog: pytest.LogCaptureFixture
) -> None:
    producer.error = MQClientError("no route")
    for number in range(BATCH_RECORDS):
        dispatcher.append(trace(number))
    await wait_until(lambda: dispatcher.failed_records == BATCH_RECORDS)
    assert "traces not sent topic=traces records=10: no route" in caplog.text
    producer.error = None
    dispatcher.append(trace(1))
    await dispatcher.close()
    assert (dispatcher.sent_records, dispatcher.failed_records, len(producer.messages)) == (1, 10, 1)


async def test_closing_gives_up_what_a_broker_does_not_take(
    dispatcher: TraceDispatcher,
    producer: Taking,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(trace_dispatcher, "CLOSE_WAIT_MS", 20)
    producer.held = asyncio.Event()
    for number in range(MESSAGE_RECORDS_MAX + 5):
        dispatcher.append(trace(number))
    await dispatcher.close()
    assert (dispatcher.failed_records, dispatcher.dropped_records) == (MESSAGE_RECORDS_MAX, 5)
    assert "traces dropped at the end topic=traces records=5" in caplog.text
    assert producer.is_closed


async def test_bodies_and_keys_of_messages_are_bounded(dispatcher: TraceDispatcher, producer: Taking) -> None:
    long_keys = [trace(number, f"{number}-" + "k" * (KEYS_LENGTH_MAX // 3)) for number in range(7)]
    too_long = trace(7, "é" * BODY_BYTES_MAX)
    for record in [*long_keys, too_long, trace(8)]:
        dispatcher.append(record)
    await dispatcher.close()
    found = [list(decode_traces(each.body.decode())) for each in producer.messages]
    assert [record for each in found for record in each] == [*long_keys, too_long, trace(8)]
    assert all(len(each.properties["KEYS"]) <= KEYS_LENGTH_MAX for each in producer.messages)
    bodies = [each.body for each in producer.messages]
    assert [body for body in bodies if len(body) > BODY_BYTES_MAX] == [encode_trace(too_long).encode()]
    assert producer.messages[bodies.index(encode_trace(too_long).encode())].properties["KEYS"] == "ID7"
