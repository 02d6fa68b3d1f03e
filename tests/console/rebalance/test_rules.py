"""Divisions and findings as literals."""

import pytest

from console.brokers.mqadmin import MessageQueue
from console.rebalance import rules
from console.rebalance.rules import ClientView, FindingKind

Q = [MessageQueue("orders", "broker-a", i) for i in range(4)]
PLAIN = {"orders": {"expression": "*", "type": "TAG"}}


def client(
    name: str, *queues: MessageQueue, subscription: dict[str, dict[str, str]] | None = None
) -> ClientView:
    return ClientView(name, frozenset(queues), PLAIN if subscription is None else subscription)


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
    assert not rules.is_followed("orders", assignment, [client("x", Q[0], Q[1]), ClientView("y", None, {})])


def kinds(clients: list[ClientView]) -> list[tuple[FindingKind, object, tuple[str, ...]]]:
    return [
        (one.kind, one.queue and one.queue.queue_id, one.clients) for one in rules.findings("g", Q, clients)
    ]


def test_it_finds_nothing_wrong_with_a_fair_division() -> None:
    assert kinds([client("x", Q[0], Q[1]), client("y", Q[2], Q[3])]) == []


def test_it_finds_a_queue_without_an_owner_and_one_with_two() -> None:
    assert kinds([client("x", Q[0], Q[1]), client("y", Q[1], Q[2])]) == [
        (FindingKind.TWO_OWNERS, 1, ("x", "y")),
        (FindingKind.NO_OWNER, 3, ()),
    ]


def test_it_finds_an_idle_client() -> None:
    assert kinds([client("x", *Q), client("y")]) == [(FindingKind.IDLE_CLIENT, None, ("y",))]


def test_it_finds_no_owner_missing_where_members_pop() -> None:
    """They share every queue of the topic on a broker, which they name by the queue id -1."""
    popped = MessageQueue("orders", "broker-a", -1)
    assert kinds([client("x", popped), client("y", popped)]) == []
    assert len(kinds([client("x", MessageQueue("orders", "broker-b", -1))])) == 4


def test_it_concludes_nothing_from_a_client_that_did_not_answer() -> None:
    assert kinds([client("x", Q[0]), ClientView("y", None, PLAIN), client("z")]) == []
    assert kinds([]) == []


def test_it_finds_who_subscribes_differently() -> None:
    tagged = {"orders": {"expression": "paid", "type": "TAG"}}
    clients = [client("x", Q[0], Q[1]), client("y", Q[2]), client("z", Q[3], subscription=tagged)]
    assert kinds(clients) == [(FindingKind.INCONSISTENT_SUBSCRIPTION, None, ("z",))]
