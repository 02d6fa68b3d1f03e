"""Divisions as literals."""

import pytest

from console.brokers.mqadmin import MessageQueue
from console.rebalance import rules
from console.rebalance.rules import ClientView

Q = [MessageQueue("orders", "broker-a", i) for i in range(4)]


def client(name: str, *queues: MessageQueue) -> ClientView:
    return ClientView(name, frozenset(queues))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("AVG", {"x": [Q[0], Q[1]], "y": [Q[2]], "z": [Q[3]]}),
        ("AVG_BY_CIRCLE", {"x": [Q[0], Q[3]], "y": [Q[1]], "z": [Q[2]]}),
    ],
)
def test_it_divides_as_the_broker_would(strategy: str, expected: dict[str, list[MessageQueue]]) -> None:
    assert rules.compute(Q, ["z", "x", "y", "x"], strategy) == expected
    kept = {
        client: [[queue.broker_name, queue.queue_id] for queue in queues]
        for client, queues in expected.items()
    }
    assert rules.to_json(expected) == kept


def test_it_refuses_a_strategy_without_a_fallback() -> None:
    with pytest.raises(ValueError, match="CONSISTENT_HASH"):
        rules.compute(Q, ["x"], "CONSISTENT_HASH")


def test_it_divides_nothing_among_nobody() -> None:
    assert rules.compute(Q, [], "AVG") == {}
    assert rules.compute([], ["x"], "AVG") == {}


def test_it_knows_when_clients_follow() -> None:
    assignment = {"x": [Q[0], Q[1]], "y": [Q[2], Q[3]]}
    retry = MessageQueue("%RETRY%billing", "broker-a", 0)
    assert rules.is_followed("orders", assignment, [client("x", Q[0], Q[1], retry), client("y", Q[2], Q[3])])
    assert not rules.is_followed("orders", assignment, [client("x", Q[0]), client("y", Q[2], Q[3])])
    assert not rules.is_followed("orders", assignment, [client("x", Q[0], Q[1])])
    assert not rules.is_followed("orders", assignment, [client("x", Q[0], Q[1]), ClientView("y", None)])
