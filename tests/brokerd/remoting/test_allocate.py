from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.allocate import (
    STRATEGIES,
    allocate_averagely,
    allocate_averagely_by_circle,
    allocate_by_consistent_hash,
    assign_server_side,
    divide_by_machine_room,
    divide_by_nearest_room,
    machine_room,
)
from brokerd.remoting.message.queue import MessageQueue

# Made by tests/golden/allocation/Vectors.java with the client of 5.3.3; that of 4.9.7 prints the same bytes.
VECTORS = json.loads((Path(__file__).parents[2] / "golden/allocation/vectors.json").read_text())


def queues(count: int, broker_name: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("T", broker_name, queue_id) for queue_id in range(count)]


def shares(strategy: str, queue_count: int, members: int) -> list[list[int]]:
    client_ids = [f"c{number}" for number in range(members)]
    return [
        [queue.queue_id for queue in STRATEGIES[strategy]("G", client_id, queues(queue_count), client_ids)]
        for client_id in client_ids
    ]


# Worked out by hand from AllocateMessageQueueAveragely.java (protocol section 4.7).
@pytest.mark.parametrize(
    ("queue_count", "members", "expected"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1, 2], [3, 4]]),
        (7, 4, [[0, 1], [2, 3], [4, 5], [6]]),
        (2, 4, [[0], [1], [], []]),
        (1, 1, [[0]]),
        (3, 3, [[0], [1], [2]]),
    ],
)
def test_it_allocates_averagely(queue_count: int, members: int, expected: list[list[int]]) -> None:
    assert shares("AVG", queue_count, members) == expected


@pytest.mark.parametrize(
    ("queue_count", "members", "expected"),
    [(8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]), (2, 3, [[0], [1], []]), (4, 1, [[0, 1, 2, 3]])],
)
def test_it_allocates_by_circle(queue_count: int, members: int, expected: list[list[int]]) -> None:
    assert shares("AVG_BY_CIRCLE", queue_count, members) == expected


def test_it_allocates_by_consistent_hash() -> None:
    """Worked out with md5sum: the first four bytes of `c0-0` to `c2-9` are the ring, a queue goes to the next point."""
    assert shares("CONSISTENT_HASH", 8, 3) == [[0, 1, 5, 6], [3, 4], [2, 7]]


def test_it_moves_few_queues_when_a_member_of_the_ring_leaves() -> None:
    all_queues = queues(64)
    three, two = ["c0", "c1", "c2"], ["c0", "c2"]
    for stays in two:
        before = allocate_by_consistent_hash("G", stays, all_queues, three)
        assert set(before) <= set(allocate_by_consistent_hash("G", stays, all_queues, two))


@pytest.mark.parametrize("strategy", STRATEGIES.values())
def test_it_gives_nothing_to_strangers(strategy: object) -> None:
    assert callable(strategy)
    assert strategy("G", "stranger", queues(4), ["c0", "c1"]) == []


@pytest.mark.parametrize(
    "strategy", [allocate_averagely, allocate_averagely_by_circle, allocate_by_consistent_hash]
)
def test_it_refuses_what_java_refuses(strategy: object) -> None:
    assert callable(strategy)
    for client_id, all_queues, client_ids in (("", queues(1), ["c"]), ("c", [], ["c"]), ("c", queues(1), [])):
        with pytest.raises(ValueError, match="empty|no queues|no members"):
            strategy("G", client_id, all_queues, client_ids)


@given(st.sampled_from(sorted(STRATEGIES)), st.integers(1, 40), st.integers(1, 12))
def test_it_gives_every_queue_to_exactly_one_member(strategy: str, queue_count: int, members: int) -> None:
    given_out = [queue_id for share in shares(strategy, queue_count, members) for queue_id in share]
    assert sorted(given_out) == list(range(queue_count))


def test_it_assigns_for_everybody_in_one_order() -> None:
    shuffled = [queues(3)[index] for index in (2, 0, 1)]
    assert assign_server_side(shuffled, ["c1", "c0", "c1"], "AVG") == {
        "c0": queues(3)[:2],
        "c1": queues(3)[2:],
    }
    assert assign_server_side([], ["c0"]) == {"c0": []}
    assert assign_server_side(queues(3), []) == {}
    with pytest.raises(KeyError):
        assign_server_side(queues(3), ["c0"], "NOBODY_KNOWS")


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_all_shares_at_once_are_each_members_own(strategy: str) -> None:
    for queue_count in (0, 1, 7, 40):
        for member_count in (1, 3, 8, 50):
            members = [f"c{number:02}" for number in range(member_count)]
            expected = {
                member: STRATEGIES[strategy]("g", member, queues(queue_count), members) if queue_count else []
                for member in members
            }
            assert assign_server_side(queues(queue_count), members, strategy) == expected


@pytest.mark.parametrize("strategy", [*STRATEGIES, "MACHINE_ROOM", "MACHINE_ROOM_NEARBY"])
def test_all_shares_are_those_of_the_java_client(strategy: str) -> None:
    checked = 0
    for vector in (one for one in VECTORS if one["strategy"] == strategy):
        all_queues = sorted(
            MessageQueue("T", name, queue_id)
            for name in vector["brokers"]
            for queue_id in range(vector["queues_each"])
        )
        members = list(vector["shares"])
        if strategy == "MACHINE_ROOM":
            shares = divide_by_machine_room(all_queues, members, {"r1", "r2"})
        elif strategy == "MACHINE_ROOM_NEARBY":
            shares = divide_by_nearest_room(
                all_queues, {one: machine_room(one.partition("#")[0]) for one in members}
            )
        else:
            shares = assign_server_side(all_queues, members, strategy)
            assert shares == {one: STRATEGIES[strategy]("G", one, all_queues, members) for one in members}
        words = {
            one: [f"{queue.broker_name}:{queue.queue_id}" for queue in share] for one, share in shares.items()
        }
        assert words == vector["shares"]
        checked += 1
    assert checked == 48


@pytest.mark.parametrize(
    ("broker_name", "room"),
    [("r1@a", "r1"), ("broker-a", ""), ("@a", ""), ("r1@", ""), ("r1@a@b", "")],
)
def test_a_machine_room_is_what_stands_before_the_sign(broker_name: str, room: str) -> None:
    assert machine_room(broker_name) == room


def test_it_divides_no_room_that_is_not_named() -> None:
    with pytest.raises(ValueError, match="no machine room"):
        divide_by_nearest_room(queues(2), {"c0": "r1"})
    with pytest.raises(ValueError, match="no machine room"):
        divide_by_nearest_room(queues(2, "r1@a"), {"c0": ""})
    assert divide_by_machine_room(queues(2), ["c0"], {"r1"}) == {"c0": []}
    assert divide_by_machine_room(queues(2, "r1@a"), [], {"r1"}) == {}
