"""The unmodified client of RocketMQ 5.3.3 sends for a time and recalls, on brokerd."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.peers.test_java_client import create_topic, has_started, keys
from tests.support.apache_server import OLD_APACHE, Server, server_kind
from tests.support.java_peer import JavaPeer

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(400),
    pytest.mark.skipif(server_kind() == OLD_APACHE, reason="4.9.7 has no arbitrary times"),
    # Not the older release: its client has no times.
    pytest.mark.parametrize("release", ["5.3.3"], indirect=True),
]

Start = Callable[..., JavaPeer]


@pytest.fixture()
def broker_settings() -> dict[str, str | int]:
    return {"recallMessageEnable": "true"}


def test_messages_come_at_their_time_unless_recalled(peer: Start, broker: Server) -> None:
    create_topic(broker, "Timed")
    consumer = peer("consume", topic="Timed", group="timed", seconds=240)
    consumer.wait_for(has_started, "start of the consumer")
    producer = peer("timed", topic="Timed", count=12, delay=4)
    assert producer.finish() == 0
    sent = {line[1] for line in producer.lines if line[0] == "SENT"}
    recalled = {line[1]: line[2] for line in producer.lines if line[0] == "RECALLED"}
    assert sent == {f"k{i}" for i in range(12)}
    assert recalled.keys() == {f"k{i}" for i in range(0, 12, 2)}
    assert len(set(recalled.values())) == 6, "each answer names the message's unique key"
    assert [line[1] for line in producer.failures()] == ["bad"]
    consumer.wait_for(lambda p: len(keys(p)) >= 6, "the six others")
    assert sorted(m.key for m in consumer.consumed) == sorted(sent - recalled.keys())
