"""Unmodified clients of RocketMQ, 5.3.3 and 4.9.7, that request and reply over brokerd."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.peers.test_java_client import create_topic, has_started
from tests.support.apache_server import Server
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

Start = Callable[..., JavaPeer]


def lines(peer: JavaPeer, first: str) -> list[list[str]]:
    return [line[1:] for line in peer.lines if line[0] == first]


def test_a_request_returns_its_reply(peer: Start, broker: Server) -> None:
    create_topic(broker, "Asked")
    replier = peer("reply", topic="Asked", group="repliers", size=6_000, seconds=300)
    replier.wait_for(has_started, "start of the replier")
    requester = peer("request", topic="Asked", count=10)
    assert requester.finish() == 0
    assert not requester.failures()
    replies = lines(requester, "REPLY")
    # More than 4,096 bytes: compressed by the replier, unpacked by the requester.
    assert replies == [[str(i), f"re: body-{i}".ljust(6_000, ".")] for i in range(10)]
    replier.wait_for(lambda p: len(lines(p, "REPLIED")) == 10, "answers to ten replies")
    assert not replier.failures()
    assert len({message_id for _, message_id in lines(replier, "REPLIED")}) == 10, "each is stored"


def test_a_reply_to_a_requester_that_is_gone_fails(peer: Start, broker: Server) -> None:
    create_topic(broker, "Late")
    requester = peer("request", topic="Late", timeout=2_000)
    assert requester.finish() == 0
    assert [line[1] for line in requester.failures()] == ["0"]
    replier = peer("reply", topic="Late", group="late", seconds=300)
    replier.wait_for(lambda p: bool(p.failures()), "refusal of the reply")
    assert "push reply message fail, channel of <" in replier.failures()[0][2]
