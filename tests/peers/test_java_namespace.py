"""An unmodified client of RocketMQ and ours in one namespace: one group, and each repeats messages of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from consumers import (
    ClientConfig,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageRecord,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
)
from tests.consumers.fake_broker import wait_until
from tests.peers.test_java_client import create_topic, expected, has_started, keys
from tests.support.apache_server import Server
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

Start = Callable[..., JavaPeer]
EMEA = ClientConfig(namespace="emea")


class Once:
    """Fails each message of the other client once."""

    def __init__(self) -> None:
        self.seen: list[MessageRecord] = []

    async def __call__(self, messages: list[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        self.seen += messages
        context.delay_level_when_next_consume = 1
        is_ours = messages[0].keys.startswith("ours")
        is_done = is_ours or messages[0].reconsume_times
        return ConsumeStatus.CONSUME_SUCCESS if is_done else ConsumeStatus.RECONSUME_LATER


def test_they_share_a_group(peer: Start, broker: Server) -> None:
    create_topic(broker, "emea%Shared")
    emea = {"topic": "Shared", "namespace": "emea"}
    # A name of its own: clients of one name share connections, and with them the first one's namespace.
    theirs = peer("consume", **emea, group="sharers", instance="emea", seconds=300)
    theirs.wait_for(has_started, "start of the Java consumer")
    handler = Once()

    async def share() -> None:
        config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, client=EMEA)
        async with (
            Producer("shop", broker.namesrv, ProducerConfig(client=EMEA)) as producer,
            PushConsumer("sharers", broker.namesrv, handler, {"Shared": "*"}, config=config) as ours,
        ):
            await wait_until(lambda: ours.table.count_of_topic("emea%Shared") == 2)
            assert await asyncio.to_thread(peer("produce", **emea, count=40).finish) == 0
            for number in range(40):
                await producer.send(Message("Shared", b"ours", {"KEYS": f"ours{number}"}))
            sent = expected(40) | {f"ours{number}" for number in range(40)}

            def is_repeated() -> bool:
                failed = {m.keys for m in handler.seen if m.keys.startswith("k") and not m.reconsume_times}
                again = {m.keys for m in handler.seen if m.reconsume_times}
                return failed <= again | {m.key for m in theirs.consumed if m.reconsume_times}

            await wait_until(lambda: {m.keys for m in handler.seen} | keys(theirs) >= sent)
            await wait_until(is_repeated)

    asyncio.run(share())
    assert {message.topic for message in handler.seen} == {"Shared"}
    assert handler.seen and theirs.consumed
