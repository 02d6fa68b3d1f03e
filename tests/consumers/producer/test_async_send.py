"""Messages of `send_async` whose first attempt needs no task: they end as those of `send` do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import RemotingError
from brokerd.remoting.message.names import TRACE_TOPIC
from brokerd.remoting.message.queue import MessageQueue
from consumers import (
    AccessKeys,
    ClientConfig,
    Message,
    MQBrokerError,
    MQClientError,
    Producer,
    ProducerConfig,
    RemotingClientConfig,
    SendResult,
)
from tests.consumers.fake_broker import wait_until
from tests.consumers.fake_cluster import FakeCluster, route_to
from tests.consumers.producer.test_producer import SEND, sends, stored

Answer = Callable[[RemotingCommand], RemotingCommand | None]
CONFIG = ProducerConfig(retry_pause_ms=10, send_timeout_ms=400)
ANOTHER = ProducerConfig(retry_pause_ms=10, retry_another_broker_when_not_store_ok=True)


def message() -> Message:
    return Message("orders", b"body", {"UNIQ_KEY": "key-1"})


async def opened(cluster: FakeCluster, config: ProducerConfig = CONFIG) -> Producer:
    """A producer with a connection: what it sends at once is sent without a task."""
    cluster.routes["orders"] = route_to(cluster.broker.addr, queues=1)
    cluster.broker.answers[SEND] = stored
    producer = Producer("shop", cluster.broker.addr, config)
    await producer.start()
    await producer.send(message())
    cluster.broker.received.clear()
    return producer


async def test_it_is_sent_without_a_task(cluster: FakeCluster) -> None:
    async with await opened(cluster) as producer:
        before = asyncio.all_tasks()
        sent = await producer.send_async(message())
        assert asyncio.all_tasks() == before
        result = await sent
    assert (result.queue, result.queue_offset) == (MessageQueue("orders", "broker-a", 0), 5)
    assert (result.message_id, len(sends(cluster.broker))) == ("key-1", 1)


def no_place(command: RemotingCommand) -> RemotingCommand:
    return command.response(0)


def refused(code: int) -> Answer:
    return lambda command: command.response(code, "refused")


def silent(command: RemotingCommand) -> None:
    return None


@pytest.mark.parametrize(
    ("answers", "config", "attempts"),
    [
        ([stored], CONFIG, 1),
        ([lambda command: stored(command, 10)], CONFIG, 1),
        ([lambda command: stored(command, 10), stored], ANOTHER, 2),
        ([refused(14), stored], CONFIG, 2),
        ([refused(14), refused(14), refused(14)], CONFIG, 3),
        ([refused(13)], CONFIG, 1),
        ([no_place], CONFIG, 1),
        ([silent], CONFIG, 1),
    ],
    ids=["stored", "not flushed", "not flushed, again", "later", "never", "illegal", "no place", "silent"],
)
async def test_it_ends_as_a_send_that_is_waited_for(
    cluster: FakeCluster, answers: list[Answer], config: ProducerConfig, attempts: int
) -> None:
    async def outcome(begin: Callable[[Producer], asyncio.Future[SendResult]]) -> object:
        left = list(answers)
        producer = await opened(cluster, config)
        cluster.broker.answers[SEND] = lambda command: left.pop(0)(command)
        try:
            async with producer:
                result: object = await begin(producer)
        except (MQClientError, MQBrokerError, RemotingError) as error:
            result = type(error), re.sub(r"[0-9.]+ s", "", str(error))
        assert (len(sends(cluster.broker)), len(left)) == (attempts, 0)
        return result

    waited_for = await outcome(lambda producer: asyncio.ensure_future(producer.send(message())))

    async def at_once(producer: Producer) -> SendResult:
        return await (await producer.send_async(message()))

    assert await outcome(lambda producer: asyncio.ensure_future(at_once(producer))) == waited_for


async def test_it_is_signed_as_every_request(cluster: FakeCluster) -> None:
    client = ClientConfig(
        namespace_v2="emea", remoting=RemotingClientConfig(keys=AccessKeys("shop", "secret-of-shop"))
    )
    async with await opened(cluster, ProducerConfig(client=client)) as producer:
        before = asyncio.all_tasks()
        sent = await producer.send_async(message())
        assert asyncio.all_tasks() == before
        await sent
        await producer.send(message())
    at_once, waited_for = (command.ext_fields for command in sends(cluster.broker))
    assert (at_once["AccessKey"], at_once["ns"]) == ("shop", "emea")
    changing = {"Signature", "g"}
    assert {name: at_once[name] for name in at_once.keys() - changing} == {
        name: waited_for[name] for name in waited_for.keys() - changing
    }


async def test_a_repeated_message_has_its_times_in_the_header(cluster: FakeCluster) -> None:
    async with await opened(cluster) as producer:
        repeated = Message("orders", b"body", {"RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": "16"})
        await (await producer.send_async(repeated))
    (command,) = sends(cluster.broker)
    assert (command.ext_fields["j"], command.ext_fields["l"]) == ("2", "16")


async def test_it_is_sent_again_when_the_connection_breaks(cluster: FakeCluster) -> None:
    async with await opened(cluster) as producer:
        cluster.broker.answers[SEND] = silent
        sent = await producer.send_async(message())
        await wait_until(lambda: len(sends(cluster.broker)) == 1)
        cluster.broker.answers[SEND] = stored
        cluster.broker.drop_connections()
        assert (await sent).message_id == "key-1"
    assert len(sends(cluster.broker)) == 2


async def test_what_is_cancelled_keeps_its_room_until_the_broker_has_answered(cluster: FakeCluster) -> None:
    config = ProducerConfig(async_in_flight_messages_max=1, retry_pause_ms=10)
    async with await opened(cluster, config) as producer:
        answer = asyncio.Event()

        async def later(command: RemotingCommand) -> RemotingCommand:
            await answer.wait()
            return command.response(14, "refused")

        cluster.broker.answers[SEND] = later
        sent = await producer.send_async(message())
        sent.cancel()
        await asyncio.sleep(0.05)
        assert producer._sender.in_flight.messages == 1
        answer.set()
        await wait_until(lambda: producer._sender.in_flight.messages == 0)
    assert len(sends(cluster.broker)) == 1, "not sent again"


async def test_cancelling_it_ends_further_attempts(cluster: FakeCluster) -> None:
    config = ProducerConfig(retry_pause_ms=200, retry_times_when_send_failed=9)
    async with await opened(cluster, config) as producer:
        cluster.broker.answers[SEND] = silent
        sent = await producer.send_async(message())
        await wait_until(lambda: len(sends(cluster.broker)) == 1)
        cluster.broker.drop_connections()  # the next attempt is 200 ms away
        await asyncio.sleep(0.02)
        sent.cancel()
        await wait_until(lambda: producer._sender.in_flight.messages == 0)
        await asyncio.sleep(0.3)
    assert len(sends(cluster.broker)) == 1


async def test_it_is_traced(cluster: FakeCluster) -> None:
    cluster.routes[TRACE_TOPIC] = route_to(cluster.broker.addr, queues=1)
    config = ProducerConfig(enable_msg_trace=True)
    async with await opened(cluster, config) as producer:
        await (await producer.send_async(message()))
        assert producer.traces is not None
    assert producer.traces.sent_records == 2
