"""The unmodified client sends to light queues and reads them, as RocketMQ's guide to them does, on brokerd."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.peers.test_java_client import create_topic
from tests.support.apache_server import OLD_APACHE, Server, server_kind
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

Start = Callable[..., JavaPeer]
COUNT = 40  # more than one pull
QUEUES = ("%LMQ%a", "%LMQ%b")


@pytest.fixture()
def broker_settings() -> dict[str, str | int]:
    return {"enableLmq": "true", "enableMultiDispatch": "true"}


def test_light_queues_are_read_and_their_offsets_kept(peer: Start, broker: Server) -> None:
    create_topic(broker, "Parent")
    # Both queues, then one of them; a group with settings of no table, and an ordinary one.
    for run, (queues, group) in enumerate(((QUEUES, "%LMQ%readers"), (QUEUES[:1], "light-readers"))):
        light = peer("light", topic="Parent", count=COUNT, queues=",".join(queues), group=group)
        assert light.finish() == 0, light.lines
        begin = COUNT * run
        for queue in queues:
            found = [line[2:] for line in light.lines if line[:2] == ["L", queue]]
            numbers = [",".join([str(n)] * len(queues)) for n in range(begin, begin + COUNT)]
            assert found[-COUNT:] == [[f"k{n}", at] for n, at in enumerate(numbers)]
            assert len(found) == begin + COUNT
            assert ["RANGE", queue, "0", str(begin + COUNT)] in light.lines
            assert ["COMMITTED", queue, str(begin + COUNT)] in light.lines
        assert not light.failures()


@pytest.mark.skipif(server_kind() == OLD_APACHE, reason="4.9.7 has no POP")
@pytest.mark.parametrize("release", ["5.3.3"], indirect=True)
def test_light_queues_are_popped(peer: Start, broker: Server) -> None:
    create_topic(broker, "PoppedParent")
    queue = "%LMQ%popped"
    asked = {
        "topic": "PoppedParent",
        "group": "light-poppers",
        "fail_key": "k3",
        "invisible": 2_000,
        "seconds": 60,
    }
    light = peer("light", count=6, queues=queue, pop="true", **asked)
    assert light.finish() == 0, light.lines
    found = [tuple(line[2:]) for line in light.lines if line[:2] == ["P", queue]]
    # The last from the group's retry topic, as the first there, with one more attempt.
    assert found == [*((f"k{number}", str(number), "0") for number in range(6)), ("k3", "0", "1")]
    acked = [line[2:] for line in light.lines if line[:2] == ["ACKED", queue]]
    assert acked == [[f"k{number}", "OK"] for number in (0, 1, 2, 4, 5, 3)]
