"""What is sent at once, and what needs the way of `send`; attempts are tested through Producer."""

from __future__ import annotations

import pytest

from brokerd.remoting.message.message import Message
from consumers import Producer, ProducerConfig
from tests.consumers.fake_cluster import FakeCluster, route_to
from tests.consumers.producer.test_producer import SEND, sends, stored


async def started(cluster: FakeCluster, config: ProducerConfig | None = None) -> Producer:
    cluster.routes["orders"] = route_to(cluster.broker.addr, queues=1)
    cluster.broker.answers[SEND] = stored
    producer = Producer("shop", cluster.broker.addr, config)
    await producer.start()
    return producer


async def test_it_sends_at_once_when_route_and_connection_are_known(cluster: FakeCluster) -> None:
    async with await started(cluster) as producer:
        sender = producer._sender
        assert sender.send_at_once(Message("orders", b"x"), 1_000) is None, "no route"
        await producer.send(Message("orders", b"x"))
        sender.in_flight.enter_at_once(1)
        sent = sender.send_at_once(Message("orders", b"x"), 1_000)
        assert sent is not None
        assert (await sent).queue_offset == 5
        (channel,) = producer.client.remoting._channels.values()
        channel.pause_writing()
        assert sender.send_at_once(Message("orders", b"x"), 1_000) is None, "the socket is full"
        channel.resume_writing()
    assert len(sends(cluster.broker)) == 2


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b""),
        Message("orders", b"x", {"KEYS": "\ud800"}),
        Message("orders", b"x", {"RECONSUME_TIME": "1"}),
        Message("payments", b"x"),
    ],
    ids=["no body", "no text", "repeated", "other topic"],
)
async def test_what_is_unusual_or_wrong_goes_the_way_of_send(cluster: FakeCluster, message: Message) -> None:
    async with await started(cluster) as producer:
        await producer.send(Message("orders", b"x"))
        assert producer._sender.send_at_once(message, 1_000) is None
        assert len(sends(cluster.broker)) == 1
        (channel,) = (each for each in producer.client.remoting._channels.values() if each.is_open)
        assert channel.waiting == {}


async def test_brokers_chosen_by_latency_are_watched_attempt_by_attempt(cluster: FakeCluster) -> None:
    async with await started(cluster, ProducerConfig(send_latency_fault_enable=True)) as producer:
        await producer.send(Message("orders", b"x"))
        assert producer._sender.send_at_once(Message("orders", b"x"), 1_000) is None
