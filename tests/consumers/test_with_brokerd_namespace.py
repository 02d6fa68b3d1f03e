"""Producers and consumers in a namespace, against a real brokerd: what brokers have, and what applications see."""

from __future__ import annotations

import asyncio
import copy

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.names import MessageProperty
from consumers import (
    ClientConfig,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    LocalTransactionState,
    Message,
    MessageQueue,
    MessageRecord,
    MQAdmin,
    NotAssigned,
    Producer,
    ProducerConfig,
    PullConsumer,
    PullConsumerConfig,
    PushConsumer,
    PushConsumerConfig,
    SendResult,
    TransactionProducer,
    reply_to,
)
from tests.consumers.fake_broker import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example

EMEA = ClientConfig(namespace="emea")
PRODUCING = ProducerConfig(client=EMEA)
PUSHING = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET, rebalance_interval_ms=1_000, client=EMEA
)
PULLING = PullConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET, rebalance_interval_ms=1_000, client=EMEA
)


async def create_topics(brokerd: BrokerProcess, *names: str) -> None:
    async with MQAdmin(brokerd.namesrv) as admin:
        for name in names:
            await admin.create_topic(brokerd.address, TopicConfig(name, 1, 1, 6))


async def ends(brokerd: BrokerProcess, *topics: str) -> list[int]:
    async with MQAdmin(brokerd.namesrv) as admin:
        return [await admin.max_offset(brokerd.address, topic, 0) for topic in topics]


async def committed(brokerd: BrokerProcess) -> dict[tuple[str, str], dict[int, int]]:
    async with MQAdmin(brokerd.namesrv) as admin:
        return (await admin.all_consumer_offsets(brokerd.address)).offset_table


class Handler:
    """Fails each message once."""

    def __init__(self) -> None:
        self.seen: list[MessageRecord] = []
        self.contexts: list[ConsumeContext] = []

    async def __call__(self, messages: list[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        self.seen += messages
        self.contexts.append(copy.copy(context))
        context.delay_level_when_next_consume = 1
        is_first = not messages[0].reconsume_times
        return ConsumeStatus.RECONSUME_LATER if is_first else ConsumeStatus.CONSUME_SUCCESS


async def test_a_push_consumer_gets_and_repeats_what_was_sent(brokerd: BrokerProcess) -> None:
    await create_topics(brokerd, "orders", "emea%orders")
    handler = Handler()
    message = Message("orders", b"A-1")
    async with (
        Producer("shop", brokerd.namesrv, PRODUCING) as producer,
        PushConsumer("billing", brokerd.namesrv, handler, {"orders": "*"}, config=PUSHING),
    ):
        result = await producer.send(message)
        batch = await producer.send_batch([Message("orders", b"A-2"), Message("orders", b"A-3")])
        await wait_until(lambda: len(handler.seen) == 6)
    assert (message.topic, result.queue.topic, batch.queue.topic) == ("orders", "orders", "orders")
    assert sorted((m.topic, m.body, m.reconsume_times) for m in handler.seen) == [
        ("orders", body, times) for body in (b"A-1", b"A-2", b"A-3") for times in (0, 1)
    ]
    # As Java's producers do.
    assert handler.seen[0].properties[MessageProperty.INSTANCE_ID] == "emea"
    queues = {context.message_queue.topic for context in handler.contexts}
    assert ({context.group for context in handler.contexts}, queues) == (
        {"billing"},
        {"orders", "%RETRY%billing"},
    )
    assert await ends(brokerd, "orders", "emea%orders", "%RETRY%emea%billing") == [0, 3, 3]
    stored = await committed(brokerd)
    assert stored["emea%orders", "emea%billing"] == {0: 3}
    assert stored["%RETRY%emea%billing", "emea%billing"] == {0: 3}


async def test_a_pull_consumer_has_queues_without_the_prefix(brokerd: BrokerProcess) -> None:
    await create_topics(brokerd, "emea%orders")
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer("shop", brokerd.namesrv, PRODUCING) as producer:
        assert await producer.publish_queues("orders") == [queue]
        for number in range(4):
            await producer.send(Message("orders", b"%d" % number), queue=queue)
    async with PullConsumer("audit", brokerd.namesrv, config=PULLING) as consumer:
        assert await consumer.queues("orders") == [queue]
        with pytest.raises(NotAssigned, match="topic orders "):
            consumer.position(queue)
        await consumer.assign([queue])
        assert consumer.assignment == [queue]
        await consumer.seek(queue, 2)
        messages = await consumer.poll()
        assert [(m.topic, m.body) for m in messages] == [("orders", b"2"), ("orders", b"3")]
        consumer.pause([queue])
        assert consumer.paused == [queue]
        consumer.resume([queue])
        assert consumer.position(queue) == 4
        await consumer.commit({queue: 3})
        assert await consumer.committed(queue) == 3
        assert await consumer.begin_offsets([queue]) == {queue: 0}
        assert await consumer.end_offsets([queue]) == {queue: 4}
        assert await consumer.offsets_for_times({queue: 0}) == {queue: 0}
        await consumer.commit()
    assert (await committed(brokerd))["emea%orders", "emea%audit"] == {0: 4}
    async with PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=PULLING) as consumer:
        await wait_until(lambda: consumer.assignment == [queue])
        consumer.unsubscribe("orders")
        await wait_until(lambda: consumer.assignment == [])


async def test_a_transaction_ends_and_is_checked(brokerd: BrokerProcess) -> None:
    await create_topics(brokerd, "emea%orders")
    async with MQAdmin(brokerd.namesrv) as admin:
        soon = {"transactionTimeOut": "300", "transactionCheckInterval": "300"}
        await admin.update_broker_config(brokerd.address, soon)
    checked: list[MessageRecord] = []

    async def check(message: MessageRecord) -> LocalTransactionState:
        checked.append(message)
        return LocalTransactionState.COMMIT

    async def commit(half: SendResult) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    async def forget(half: SendResult) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async with TransactionProducer("shop", brokerd.namesrv, check, PRODUCING) as producer:
        done = await producer.send_in_transaction(Message("orders", b"A-1"), commit)
        assert done.is_confirmed
        await producer.send_in_transaction(Message("orders", b"A-2"), forget)
        async with asyncio.timeout(60):
            while await ends(brokerd, "emea%orders") != [2]:
                await asyncio.sleep(0.05)
    assert {(message.topic, message.body) for message in checked} == {("orders", b"A-2")}


async def test_a_request_has_its_reply(brokerd: BrokerProcess) -> None:
    await create_topics(brokerd, "emea%prices")
    async with (
        Producer("prices", brokerd.namesrv, PRODUCING) as replying,
        Producer("shop", brokerd.namesrv, PRODUCING) as shop,
    ):

        async def answer(messages: list[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
            for message in messages:
                await replying.send(reply_to(message, b"price of " + message.body))
            return ConsumeStatus.CONSUME_SUCCESS

        async with PushConsumer("prices", brokerd.namesrv, answer, {"prices": "*"}, config=PUSHING):
            reply = await shop.request(Message("prices", b"A-1"), timeout_ms=20_000)
    assert reply.body == b"price of A-1"


async def test_the_example_runs(brokerd: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    await example("consumers.md", "Namespaces")(brokerd.namesrv)
    assert capsys.readouterr().out == "orders A-1\n"
