"""Arbitrary times and recalls by this runtime's producer, over a real brokerd."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from consumers import Message, MQAdmin, MQBrokerError, Producer
from tests.consumers.test_with_brokerd import create_topic
from tests.support.broker_process import BrokerProcess

TOPIC = "later"
SETTINGS = {"recallMessageEnable": "true"}


async def test_it_sends_for_a_time_and_takes_back(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "store", **SETTINGS).start()
    try:
        await create_topic(broker, TOPIC, 1)
        async with Producer("shop", broker.namesrv) as producer, MQAdmin([broker.namesrv]) as admin:
            at_ms = time.time_ns() // 1_000_000 + 2_000
            kept = await producer.send(Message(TOPIC, b"kept", {}), deliver_at_ms=at_ms)
            gone = await producer.send(Message(TOPIC, b"gone", {}), delay_ms=2_000)
            now = await producer.send(Message(TOPIC, b"now", {}), deliver_at_ms=at_ms - 60_000)
            assert now.recall_handle is None
            assert kept.recall_handle
            assert gone.recall_handle
            assert await producer.recall(TOPIC, gone.recall_handle) == gone.message_id
            with pytest.raises(MQBrokerError, match="topic not match"):
                await create_topic(broker, "other", 1)
                await producer.recall("other", kept.recall_handle)
            with pytest.raises(ValueError, match="recall handle is invalid"):
                await producer.recall(TOPIC, "none")
            while await admin.max_offset(broker.address, TOPIC, 0) < 2:
                pass
            assert time.time_ns() // 1_000_000 >= at_ms
            pulled = await admin.pull(broker.address, TOPIC, 0, 0)
            assert [message.body for message in pulled.messages] == [b"now", b"kept"]
            with pytest.raises(MQBrokerError, match="timestamp invalid"):
                await producer.recall(TOPIC, kept.recall_handle)
    finally:
        broker.stop()
