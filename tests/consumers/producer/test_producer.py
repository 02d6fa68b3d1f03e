from __future__ import annotations

import asyncio
import zlib

import lz4.frame
import pytest
import zstandard

from brokerd.remoting.body.route import BrokerData, QueueData, TopicRouteData
from brokerd.remoting.message.batch import decode_batch
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.properties import decode_properties
from brokerd.remoting.message.queue import MessageQueue
from consumers.config import CompressionType, InvalidClientConfig, ProducerConfig
from consumers.errors import (
    ClientClosed,
    MessageNotSent,
    MQBrokerError,
    RemotingTimeout,
    TooManyRequests,
    TopicRouteNotFound,
)
from consumers.producer.outgoing import MessageTooLarge
from consumers.producer.producer import Producer
from consumers.producer.send_result import SendStatus
from tests.consumers.fake_broker import FakeBroker, wait_until
from tests.consumers.fake_cluster import route_to
from tests.support.documented import example

SEND, BATCH = 310, 320


def stored(command, code: int = 0, **fields: str):
    place = {
        "msgId": "7F00000100002A9F0000000000000007",
        "queueId": command.ext_fields["e"],
        "queueOffset": "5",
    }
    return command.response(code, ext_fields=place | fields)


@pytest.fixture
async def producer(cluster):
    cluster.routes["orders"] = route_to(cluster.broker.addr)
    cluster.broker.answers[SEND] = stored
    cluster.broker.answers[BATCH] = stored
    async with Producer("shop", cluster.broker.addr, ProducerConfig(retry_pause_ms=10)) as made:
        yield made


def sends(broker: FakeBroker, code: int = SEND):
    return [command for command in broker.received if command.code == code]


async def test_it_sends(cluster, producer):
    message = Message("orders", b"body", {"KEYS": "A-1"})
    result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    assert (result.queue.broker_name, result.queue_offset) == ("broker-a", 5)
    assert result.offset_message_id == "7F00000100002A9F0000000000000007"
    assert len(result.message_id) in (32, 56)
    (command,) = sends(cluster.broker)
    fields = command.ext_fields
    assert (fields["a"], fields["b"], fields["c"], fields["d"], fields["f"]) == (
        "shop",
        "orders",
        "TBW102",
        "4",
        "0",
    )
    assert decode_properties(fields["i"]) == {"KEYS": "A-1", "UNIQ_KEY": result.message_id}
    assert command.body == b"body"


async def test_it_gives_every_message_its_own_key(producer):
    ids = {(await producer.send(Message("orders", b"x", {}))).message_id for _ in range(50)}
    assert len(ids) == 50


async def test_it_spreads_messages_over_the_queues(cluster, producer):
    for _ in range(8):
        await producer.send(Message("orders", b"x", {}))
    assert sorted(command.ext_fields["e"] for command in sends(cluster.broker)) == list("00112233")


async def test_first_sends_that_wait_for_one_route_share_its_turns(cluster, producer):
    await asyncio.gather(*(producer.send(Message("orders", b"x", {})) for _ in range(40)))
    assert sorted(command.ext_fields["e"] for command in sends(cluster.broker)) == sorted("0123" * 10)


async def test_it_keeps_the_messages_of_a_sharding_key_together(cluster, producer):
    for _ in range(5):
        await producer.send(Message("orders", b"x", {}), sharding_key="acc-7")
    assert len({command.ext_fields["e"] for command in sends(cluster.broker)}) == 1


async def test_it_compresses_from_4096_bytes(cluster, producer):
    await producer.send(Message("orders", b"x" * 4095, {}))
    await producer.send(Message("orders", b"x" * 4096, {}))
    plain, compressed = sends(cluster.broker)
    assert (plain.ext_fields["f"], plain.body) == ("0", b"x" * 4095)
    assert (compressed.ext_fields["f"], zlib.decompress(compressed.body)) == (
        "769",
        b"x" * 4096,
    )  # 1 | 3 << 8


async def test_it_refuses_what_the_broker_would_refuse(cluster, producer):
    with pytest.raises(ValueError, match="no body"):
        await producer.send(Message("orders", b""))
    with pytest.raises(MessageTooLarge):
        await producer.send(Message("orders", b"x" * (4 * 1024 * 1024 + 1), {}))
    with pytest.raises(ValueError):
        await producer.send(Message("no such topic name", b"x", {}))
    assert sends(cluster.broker) == []


@pytest.mark.parametrize(
    ("code", "status"), [(10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT")]
)
async def test_it_reports_what_the_broker_could_not_add(cluster, producer, code, status):
    cluster.broker.answers[SEND] = lambda command: stored(command, code)
    assert (await producer.send(Message("orders", b"x", {}))).status == status


@pytest.mark.parametrize(
    ("kind", "flag", "read"),
    [
        (CompressionType.LZ4, "257", lz4.frame.decompress),  # 1 | 1 << 8
        (CompressionType.ZSTD, "513", zstandard.decompress),
    ],
)
async def test_it_compresses_as_configured(cluster, producer, kind, flag, read):
    config = ProducerConfig(compress_type=kind, compress_body_over_bytes=10)
    async with Producer("shop", cluster.broker.addr, config) as other:
        await other.send(Message("orders", b"0123456789", {}))
    (sent,) = sends(cluster.broker)
    assert (sent.ext_fields["f"], read(sent.body)) == (flag, b"0123456789")


async def test_a_selector_chooses_the_queue(cluster, producer):
    def by_flag(queues, message):
        return queues[message.flag % len(queues)]

    result = await producer.send(Message("orders", b"x", {}, flag=6), selector=by_flag)
    assert result.queue.queue_id == 2
    await producer.send_oneway(Message("orders", b"x", {}, flag=3), selector=by_flag)
    await wait_until(lambda: len(sends(cluster.broker)) == 2)
    assert [command.ext_fields["e"] for command in sends(cluster.broker)] == ["2", "3"]


async def test_async_sends_wait_for_room(cluster, producer):
    answer = asyncio.Event()

    async def late(command):
        await answer.wait()
        return stored(command)

    cluster.broker.answers[SEND] = late
    config = ProducerConfig(async_in_flight_messages_max=2, send_timeout_ms=20_000)
    async with Producer("shop", cluster.broker.addr, config) as other:
        first = await other.send_async(Message("orders", b"1", {}))
        second = await other.send_async(Message("orders", b"2", {}))
        with pytest.raises(TooManyRequests, match="2 requests"):
            await other.send_async(Message("orders", b"3", {}), timeout_ms=50)
        third = asyncio.create_task(other.send_async(Message("orders", b"4", {})))
        answer.set()
        assert (await first).status is SendStatus.SEND_OK
        await third
    assert second.done() and third.result().done()
    assert sorted(command.body for command in sends(cluster.broker)) == [b"1", b"2", b"4"]


async def test_closing_waits_for_async_sends(cluster, producer):
    answer = asyncio.Event()

    async def late(command):
        await answer.wait()
        return stored(command)

    cluster.broker.answers[SEND] = late
    other = Producer("shop", cluster.broker.addr, ProducerConfig(send_timeout_ms=20_000))
    await other.start()
    sending = await other.send_async(Message("orders", b"1", {}))
    closing = asyncio.create_task(other.close())
    await wait_until(lambda: bool(sends(cluster.broker)))
    with pytest.raises(ClientClosed):
        await other.send_async(Message("orders", b"2", {}))
    answer.set()
    await closing
    assert sending.result().status is SendStatus.SEND_OK


async def test_the_task_of_an_async_send_has_its_error(cluster, producer):
    cluster.broker.answers[SEND] = lambda command: command.response(13, "message illegal")
    with pytest.raises(MQBrokerError, match="message illegal"):
        await (await producer.send_async(Message("orders", b"x", {})))


@pytest.fixture
async def two_brokers(cluster):
    """`busy`, which is the cluster's, and `idle`, which stores everything."""
    async with FakeBroker() as other:
        other.answers |= {34: lambda command: command.response(0), SEND: stored}
        brokers = {"busy": cluster.broker.addr, "idle": other.addr}
        cluster.routes["orders"] = TopicRouteData(
            broker_datas=[
                BrokerData(cluster="c", broker_name=name, broker_addrs={0: addr})
                for name, addr in brokers.items()
            ],
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0)
                for name in brokers
            ],
        )
        yield other


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_it_avoids_a_failing_broker_where_enabled(cluster, two_brokers, is_enabled):
    cluster.broker.answers[SEND] = lambda command: command.response(14, "service not available now")
    now_ms = 0
    config = ProducerConfig(send_latency_fault_enable=is_enabled)
    async with Producer("shop", cluster.broker.addr, config, clock=lambda: now_ms) as producer:
        for _ in range(6):
            assert (await producer.send(Message("orders", b"x", {}))).queue.broker_name == "idle"
        assert (len(sends(cluster.broker)) == 1) is is_enabled
        now_ms = 10_001
        cluster.broker.answers[SEND] = stored
        assert {(await producer.send(Message("orders", b"x", {}))).queue.broker_name for _ in "12"} == {
            "busy",
            "idle",
        }


@pytest.mark.parametrize(("is_enabled", "status"), [(True, "SEND_OK"), (False, "FLUSH_DISK_TIMEOUT")])
async def test_it_stores_an_unsafe_message_again_where_enabled(cluster, two_brokers, is_enabled, status):
    cluster.broker.answers[SEND] = lambda command: stored(command, 10)
    config = ProducerConfig(retry_another_broker_when_not_store_ok=is_enabled)
    async with Producer("shop", cluster.broker.addr, config) as producer:
        results = [await producer.send(Message("orders", b"x", {})) for _ in range(2)]
    assert status in {result.status for result in results}
    assert ({result.queue.broker_name for result in results} == {"idle"}) is is_enabled


@pytest.mark.parametrize(("setting", "value"), [("compress_level", 10), ("async_in_flight_messages_max", 0)])
def test_it_names_a_setting_that_is_out_of_range(setting, value):
    with pytest.raises(InvalidClientConfig, match=setting):
        ProducerConfig(**{setting: value})


async def test_it_tries_another_broker(cluster, two_brokers):
    cluster.broker.answers[SEND] = lambda command: command.response(2, "[PCBUSY_CLEAN_QUEUE]broker busy")
    async with Producer("shop", cluster.broker.addr) as producer:
        for _ in range(4):
            assert (await producer.send(Message("orders", b"x", {}))).queue.broker_name == "idle"
    assert len(sends(cluster.broker)) >= 1


async def test_it_gives_up_after_three_attempts(cluster, producer):
    cluster.broker.answers[SEND] = lambda command: command.response(14, "service not available now")
    with pytest.raises(MessageNotSent) as caught:
        await producer.send(Message("orders", b"x", {}))
    assert caught.value.attempts == 3
    assert isinstance(caught.value.cause, MQBrokerError)
    assert caught.value.cause.code == 14
    assert len(sends(cluster.broker)) == 3


async def test_it_does_not_repeat_what_cannot_succeed(cluster, producer):
    cluster.broker.answers[SEND] = lambda command: command.response(13, "message illegal")
    with pytest.raises(MQBrokerError) as caught:
        await producer.send(Message("orders", b"x", {}))
    assert caught.value.code == 13
    assert len(sends(cluster.broker)) == 1


async def test_it_does_not_repeat_on_another_queue_than_the_one_asked_for(cluster, producer):
    cluster.broker.answers[SEND] = lambda command: command.response(14, "service not available now")
    with pytest.raises(MQBrokerError):
        await producer.send(Message("orders", b"x", {}), queue=MessageQueue("orders", "broker-a", 2))
    (command,) = sends(cluster.broker)
    assert command.ext_fields["e"] == "2"


async def test_it_stays_within_its_time(cluster, producer):
    cluster.broker.answers[SEND] = lambda command: None
    with pytest.raises(MessageNotSent) as caught:
        await producer.send(Message("orders", b"x", {}), timeout_ms=60)
    assert isinstance(caught.value.cause, RemotingTimeout)


async def test_it_sends_oneway(cluster, producer):
    await producer.send_oneway(Message("orders", b"body", {}))
    await wait_until(lambda: len(sends(cluster.broker)) == 1)
    assert sends(cluster.broker)[0].is_oneway


async def test_it_sends_a_batch_in_one_request(cluster, producer):
    await producer.send_batch([Message("orders", b"one", {"TAGS": "a"}), Message("orders", b"two", {})])
    (command,) = sends(cluster.broker, BATCH)
    assert command.ext_fields["m"] == "true"
    messages = decode_batch(command.body)
    assert [message.body for message in messages] == [b"one", b"two"]
    assert messages[0].properties["TAGS"] == "a"
    assert len({message.properties["UNIQ_KEY"] for message in messages}) == 2


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one"),
        ([Message("orders", b"x", {}), Message("clicks", b"x", {})], "one topic"),
        ([Message("orders", b"x", {"DELAY": "3"})], "delayed"),
    ],
)
async def test_it_refuses_a_batch_the_broker_would_refuse(producer, messages, reason):
    with pytest.raises(InvalidClientConfig, match=reason):
        await producer.send_batch(messages)


async def test_it_sends_to_an_unknown_topic_as_if_it_existed(cluster, producer):
    cluster.routes["TBW102"] = route_to(cluster.broker.addr, queues=8, perm=7)
    result = await producer.send(Message("new-topic", b"x", {}))
    assert result.queue.topic == "new-topic"
    assert await producer.publish_queues("new-topic") == [
        MessageQueue("new-topic", "broker-a", n) for n in range(4)
    ]


async def test_it_says_when_no_queue_may_be_written(cluster, producer):
    cluster.routes["readonly"] = route_to(cluster.broker.addr, perm=4)
    with pytest.raises(MessageNotSent) as caught:
        await producer.send(Message("readonly", b"x", {}))
    assert isinstance(caught.value.cause, TopicRouteNotFound)


async def test_it_says_when_there_is_no_route(producer):
    with pytest.raises(MessageNotSent) as caught:
        await producer.send(Message("unknown", b"x", {}))
    assert isinstance(caught.value.cause, MQBrokerError)
    assert caught.value.cause.code == 17


async def test_it_tells_brokers_that_it_is_there_and_that_it_leaves(cluster):
    cluster.routes["orders"] = route_to(cluster.broker.addr)
    cluster.broker.answers[SEND] = stored
    async with Producer("shop", cluster.broker.addr) as producer:
        await producer.send(Message("orders", b"x", {}))
    codes = [command.code for command in cluster.broker.received if command.code in (34, SEND, 35)]
    assert codes[-1] == 35
    assert cluster.broker.received[-1].ext_fields["producerGroup"] == "shop"


async def test_the_example_of_the_documentation_runs(brokerd, capsys):
    await example("consumers.md", "Sending")(brokerd.namesrv)
    assert capsys.readouterr().out == "SEND_OK\n100\n3\n"
