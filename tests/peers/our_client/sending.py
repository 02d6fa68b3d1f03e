"""Ways to send with our producer; scenarios that the Java peers have too bear the names they have there."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from consumers import (
    CompressionType,
    ConsumeContext,
    ConsumeStatus,
    LocalTransactionState,
    Message,
    MessageNotSent,
    MessageQueue,
    MessageRecord,
    MQBrokerError,
    NoReply,
    Producer,
    ProducerConfig,
    PushConsumer,
    SendResult,
    SendStatus,
    TransactionProducer,
    reply_to,
)
from tests.peers.our_client.world import (
    Place,
    Reader,
    config,
    create_topic,
    expected,
    numbered,
    read_all,
    send_numbered,
    until,
)
from tests.support.apache_server import OLD_APACHE, server_kind

no_timers = pytest.mark.skipif(server_kind() == OLD_APACHE, reason="4.9.7 has no arbitrary times")
COMMIT, ROLLBACK, UNKNOWN = (
    LocalTransactionState.COMMIT,
    LocalTransactionState.ROLLBACK,
    LocalTransactionState.UNKNOWN,
)


@pytest.mark.parametrize("mode", ["batch", "oneway"])
async def test_it_accepts_batches_and_one_way_sends(broker: Place, mode: str) -> None:
    topic = f"Mode-{mode}"
    await create_topic(broker, topic)
    messages = [numbered(topic, number, size=200) for number in range(400)]
    async with Producer("senders", broker.namesrv) as producer:
        if mode == "batch":
            for start in range(0, 400, 20):
                await producer.send_batch(messages[start : start + 20])
        else:
            for message in messages:
                await producer.send_oneway(message)
        await check_sent(broker, topic)


@pytest.mark.parametrize("mode", ["async", "sync"])
async def test_it_accepts_every_way_of_sending(broker: Place, mode: str) -> None:
    topic = f"Way-{mode}"
    await create_topic(broker, topic)
    messages = [numbered(topic, number, size=200) for number in range(400)]
    async with Producer("senders", broker.namesrv) as producer:
        if mode == "async":
            results = await asyncio.gather(*[await producer.send_async(message) for message in messages])
        else:
            results = [await producer.send(message) for message in messages]
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    await check_sent(broker, topic)


async def check_sent(broker: Place, topic: str) -> None:
    found = await read_all(broker, topic, 400)
    assert Counter(message.keys for message in found) == dict.fromkeys(expected(400), 1)
    assert {len(message.body) for message in found} == {200}


@pytest.mark.parametrize("kind", CompressionType)
async def test_it_compresses_large_bodies(broker: Place, kind: CompressionType) -> None:
    topic = f"Large-{kind}"
    await create_topic(broker, topic)
    async with Producer("senders", broker.namesrv, ProducerConfig(compress_type=kind)) as producer:
        for number in range(5):
            await producer.send(numbered(topic, number, size=20_000))
    found = await read_all(broker, topic, 5)
    assert {message.body for message in found} == {
        f"body-{n} ".encode().ljust(20_000, b".") for n in range(5)
    }
    assert all(message.store_size_bytes < 1_000 for message in found), "stored as they were sent"


async def test_it_chooses_queues_by_selector_and_by_key(broker: Place) -> None:
    await create_topic(broker, "Chosen")

    def last(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[-1]

    async with Producer("senders", broker.namesrv) as producer:
        results = [await producer.send(numbered("Chosen", n), selector=last) for n in range(3)]
        assert {result.queue.queue_id for result in results} == {3}
        keyed = [await producer.send(numbered("Chosen", n), sharding_key="A-1") for n in range(10)]
        (queue,) = {result.queue for result in keyed}
        offsets = [result.queue_offset for result in keyed]
        assert offsets == list(range(offsets[0], offsets[0] + 10))
        named = await producer.send(
            numbered("Chosen", 99), queue=MessageQueue("Chosen", queue.broker_name, 1)
        )
        assert named.queue.queue_id == 1


async def test_it_serves_delay_levels(broker: Place) -> None:
    await create_topic(broker, "Later")
    reader = Reader()
    async with (
        PushConsumer("later", broker.namesrv, reader, {"Later": "*"}, config=config()),
        Producer("senders", broker.namesrv) as producer,
    ):
        began_s = time.monotonic()
        for number in range(3):
            await producer.send(
                Message("Later", b"x", {"KEYS": f"k{number}", "DELAY": "2"})
            )  # level 2 is 5 s
        await until(lambda: set(reader.keys) == expected(3))
    assert time.monotonic() - began_s >= 5
    assert len(reader.keys) == 3


@no_timers
async def test_messages_come_at_their_time_unless_recalled(broker: Place) -> None:
    await create_topic(broker, "Timed")
    reader = Reader()
    async with (
        PushConsumer("timed", broker.namesrv, reader, {"Timed": "*"}, config=config()),
        Producer("senders", broker.namesrv) as producer,
    ):
        deliver_at_ms = time.time_ns() // 1_000_000 + 4_000
        results = [
            await producer.send(numbered("Timed", 0), deliver_at_ms=deliver_at_ms),
            await producer.send(numbered("Timed", 1), deliver_at_ms=deliver_at_ms),
            await producer.send(numbered("Timed", 2), delay_ms=4_000),
            await producer.send(numbered("Timed", 3), delay_ms=4_000),
        ]
        for result in results[::2]:
            assert await producer.recall("Timed", result.recall_handle) == result.message_id
        with pytest.raises(ValueError, match="recall"):
            await producer.recall("Timed", "no handle")
        await until(lambda: set(reader.keys) == {"k1", "k3"})
        # Its time is over: the broker delivers to the second.
        assert time.time_ns() // 1_000_000 >= deliver_at_ms - 1_000
    assert sorted(reader.keys) == ["k1", "k3"]


async def test_a_request_returns_its_reply(broker: Place) -> None:
    await create_topic(broker, "Asked")
    async with (
        Producer("repliers", broker.namesrv) as replying,
        Producer("requesters", broker.namesrv) as requesting,
    ):

        async def answer(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
            for message in messages:
                # More than 4,096 bytes: compressed by the replier, unpacked by the requester.
                await replying.send(reply_to(message, (b"re: " + message.decoded_body()).ljust(6_000, b".")))
            return ConsumeStatus.CONSUME_SUCCESS

        async with PushConsumer("repliers", broker.namesrv, answer, {"Asked": "*"}, config=config()):
            replies = await asyncio.gather(
                *(requesting.request(numbered("Asked", n), timeout_ms=60_000) for n in range(10))
            )
    assert [reply.body for reply in replies] == [
        f"re: body-{n} ".encode().ljust(6_000, b".") for n in range(10)
    ]


async def test_a_reply_to_a_requester_that_is_gone_fails(broker: Place) -> None:
    await create_topic(broker, "Late")
    async with Producer("late", broker.namesrv) as requesting:
        with pytest.raises(NoReply, match="Late"):
            await requesting.request(numbered("Late", 0), timeout_ms=1_000)
    (request,) = await read_all(broker, "Late", 1)
    async with Producer("late", broker.namesrv) as replying:
        with pytest.raises((MessageNotSent, MQBrokerError), match="push reply message fail, channel of <"):
            await replying.send(reply_to(request, b"too late"))


class Bank:
    """Outcomes by the message's key: at once, and when the broker asks."""

    def __init__(
        self, at_once: dict[str, LocalTransactionState], later: dict[str, LocalTransactionState]
    ) -> None:
        self.at_once, self.later = at_once, later
        self.checks: list[tuple[str, str]] = []

    async def check(self, message: MessageRecord) -> LocalTransactionState:
        self.checks.append((message.keys, message.properties["REAL_TOPIC"]))
        return self.later[message.keys]

    async def send_all(self, producer: TransactionProducer, topic: str) -> None:
        for key, state in self.at_once.items():

            async def execute(
                half: SendResult, state: LocalTransactionState = state
            ) -> LocalTransactionState:
                return state

            result = await producer.send_in_transaction(
                Message(topic, b"paid", {"KEYS": key, "TAGS": "tag"}), execute
            )
            assert (result.state, result.is_confirmed) == (state, state is not UNKNOWN)


async def test_committed_messages_are_consumed_and_others_are_not(broker: Place) -> None:
    await create_topic(broker, "Paid")
    reader = Reader()
    bank = Bank({f"k{n}": (COMMIT, ROLLBACK)[n % 2] for n in range(40)}, {})
    async with (
        PushConsumer("paid", broker.namesrv, reader, {"Paid": "*"}, config=config()),
        TransactionProducer("banks", broker.namesrv, bank.check) as producer,
    ):
        await bank.send_all(producer, "Paid")
        await until(lambda: set(reader.keys) >= {f"k{n}" for n in range(0, 40, 2)})
        await asyncio.sleep(3)  # over a round of checks
    assert sorted(reader.keys) == sorted(f"k{n}" for n in range(0, 40, 2)), "none rolled back, none twice"
    assert {message.tags for message in reader.messages} == {"tag"}
    assert bank.checks == []


async def test_checks_decide_what_the_producer_left_open(broker: Place) -> None:
    await create_topic(broker, "Open")
    reader = Reader()
    bank = Bank(dict.fromkeys(("k0", "k1", "k2"), UNKNOWN), {"k0": COMMIT, "k1": ROLLBACK, "k2": UNKNOWN})
    async with (
        PushConsumer("open", broker.namesrv, reader, {"Open": "*"}, config=config()),
        TransactionProducer("open-banks", broker.namesrv, bank.check) as producer,
    ):
        await bank.send_all(producer, "Open")
        await until(lambda: bank.checks.count(("k2", "Open")) >= 3)
        await until(lambda: "k0" in reader.keys)
    assert reader.keys == ["k0"]
    assert bank.checks.count(("k0", "Open")) == bank.checks.count(("k1", "Open")) == 1


@pytest.mark.parametrize("who", ["producer", "consumer"])
async def test_it_traces_what_it_does(broker: Place, who: str) -> None:
    topic, traces = f"Watched-{who}", f"Traces-{who}"
    await create_topic(broker, topic)
    await create_topic(broker, traces)
    reader, is_producer = Reader(), who == "producer"
    sending = ProducerConfig(enable_msg_trace=is_producer, trace_topic=traces)
    consuming = config(enable_msg_trace=not is_producer, trace_topic=traces)
    async with (
        PushConsumer(f"watched-{who}", broker.namesrv, reader, {topic: "*"}, config=consuming) as consumer,
        Producer("senders", broker.namesrv, sending) as producer,
    ):
        await send_numbered(producer, topic, 10)
        await until(lambda: set(reader.keys) == expected(10))
    dispatcher = producer.traces if is_producer else consumer.traces
    assert dispatcher is not None
    assert dispatcher.failed_records == dispatcher.dropped_records == 0
    text = b"".join(message.body for message in await read_all(broker, traces, 1)).decode()
    kinds = ["Pub\x01"] if is_producer else ["SubBefore\x01", "SubAfter\x01"]
    assert all(kind in text for kind in kinds)
