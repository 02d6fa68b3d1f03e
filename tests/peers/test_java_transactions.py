"""Unmodified transaction producers of RocketMQ, 5.3.3 and 4.9.7, on brokerd."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.peers.test_java_client import create_topic, expected, has_started, keys
from tests.support.apache_server import Server
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

Start = Callable[..., JavaPeer]


@pytest.fixture()
def broker_settings() -> dict[str, str | int]:
    """It checks soon."""
    return {"transactionTimeOut": 1_000, "transactionCheckInterval": 1_000}


def begun(peer: JavaPeer) -> dict[str, str]:
    return {line[1]: line[2] for line in peer.lines if line[0] == "BEGUN"}


def checks(peer: JavaPeer, key: str) -> list[str]:
    """What the broker's checks of a message said: how often, and of which topic."""
    return [f"{line[2]} {line[3]}" for line in peer.lines if line[0] == "CHECKED" and line[1] == key]


def test_committed_messages_are_consumed_and_others_are_not(peer: Start, broker: Server) -> None:
    create_topic(broker, "Paid")
    consumer = peer("consume", topic="Paid", group="paid", seconds=240)
    consumer.wait_for(has_started, "start of the consumer")
    producer = peer("transact", topic="Paid", count=40, decisions="commit,rollback", seconds=6)
    assert producer.finish() == 0
    assert len(begun(producer)) == 40
    committed = {key for key in expected(40) if int(key[1:]) % 2 == 0}
    consumer.wait_for(lambda p: keys(p) >= committed, "20 committed messages")
    assert sorted(m.key for m in consumer.consumed) == sorted(committed), "none rolled back, none twice"
    assert {m.tag for m in consumer.consumed} == {"tag"}
    assert not checks(producer, "k0")


def test_checks_decide_what_the_producer_left_open(peer: Start, broker: Server) -> None:
    create_topic(broker, "Open")
    consumer = peer("consume", topic="Open", group="open", seconds=240)
    consumer.wait_for(has_started, "start of the consumer")
    producer = peer(
        "transact", topic="Open", count=3, decisions="unknown", answers="commit,rollback,unknown", seconds=240
    )
    producer.wait_for(lambda p: len(checks(p, "k2")) >= 3, "three checks of the undecided message")
    consumer.wait_for(lambda p: "k0" in keys(p), "the message that a check committed")
    producer.stop()
    assert producer.code == 0
    assert [m.key for m in consumer.consumed] == ["k0"]
    assert checks(producer, "k0") == ["1 Open"]
    assert checks(producer, "k1") == ["1 Open"]
    assert checks(producer, "k2")[:3] == ["1 Open", "2 Open", "3 Open"]
