"""Outcomes of strategies for other clients, and the fewest moves, against a search of all divisions."""

from collections import Counter
from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from console.brokers.mqadmin import MessageQueue, assign_server_side, fewest_moves
from console.rebalance.simulation import (
    FEWEST_MOVES,
    MACHINE_ROOM,
    MACHINE_ROOM_NEARBY,
    SIMULATED,
    Outcome,
    Scenario,
    moves,
    simulate,
)

Q = [MessageQueue("orders", "broker-a", number) for number in range(8)]


def outcomes(
    clients: tuple[str, ...], now: dict[MessageQueue, tuple[str, ...]], **weights: int
) -> dict[str, Outcome]:
    return {one.strategy: one for one in simulate(Q, now, Scenario(clients, "AVG", weights))}


def test_every_strategy_has_its_shares_and_moves() -> None:
    now = {
        queue: (name,) for name, share in assign_server_side(Q, ["x", "y"], "AVG").items() for queue in share
    }
    found = outcomes(("x", "y"), now)
    assert tuple(found) == SIMULATED
    assert found["AVG"].moved == 0 and found[FEWEST_MOVES].moved == 0
    assert found["AVG_BY_CIRCLE"].moved == 4
    assert (found["AVG"].smallest, found["AVG"].largest, found["AVG"].without_owner) == (4, 4, 0)
    assert found[MACHINE_ROOM].reason and found[MACHINE_ROOM].shares == {}
    assert found[MACHINE_ROOM_NEARBY].reason


def test_a_new_client_takes_no_more_than_its_share() -> None:
    now = dict.fromkeys(Q, ("x",))
    found = outcomes(("x", "y"), now)
    assert found[FEWEST_MOVES].moved == 4
    assert {one.to for one in moves(Q, now, found[FEWEST_MOVES].shares)} == {"y"}


def test_rooms_are_divided_where_names_have_them() -> None:
    queues = [MessageQueue("orders", name, 0) for name in ("r1@a", "r2@b")]
    found = {one.strategy: one for one in simulate(queues, {}, Scenario(("r1-x", "r2@y"), "AVG", {}))}
    assert found[MACHINE_ROOM_NEARBY].shares == {"r1-x": [queues[0]], "r2@y": [queues[1]]}
    assert not found[MACHINE_ROOM].reason
    strange = {one.strategy: one for one in simulate(queues, {}, Scenario(("10.0.0.1@7",), "AVG", {}))}
    assert strange[MACHINE_ROOM_NEARBY].reason and not strange[MACHINE_ROOM].reason


def test_it_says_why_nothing_can_be_computed() -> None:
    assert {one.reason for one in outcomes((), {}).values()} == {"no client is chosen"}
    assert outcomes(("x",), {}, x=0)[FEWEST_MOVES].reason == "every client has weight 0"
    assert {one.reason for one in simulate([], {}, Scenario(("x",), "AVG", {}))} == {"the topic has no queue"}


def test_a_queue_with_two_owners_moves_once_and_stays_with_one() -> None:
    now = {Q[0]: ("x", "y"), Q[1]: ("y",)}
    shares = fewest_moves(Q[:2], ["x", "y"], now, {})
    assert shares == {"x": [Q[0]], "y": [Q[1]]}
    assert [(one.queue, one.owners, one.to) for one in moves(Q[:2], now, shares)] == [(Q[0], ("x", "y"), "x")]


NAMES = ["x", "y", "z"]
holders = st.lists(
    st.sampled_from([(), ("x",), ("y",), ("z",), ("gone",), ("x", "y")]), min_size=1, max_size=6
)
weights = st.fixed_dictionaries({name: st.integers(0, 3) for name in NAMES})


@given(holders, weights)
def test_shares_are_as_weights_say_to_one_queue(held: list[tuple[str, ...]], weight: dict[str, int]) -> None:
    assume(any(weight.values()))
    queues = Q[: len(held)]
    shares = fewest_moves(queues, NAMES, dict(zip(queues, held, strict=True)), weight)
    assert sorted(queue for share in shares.values() for queue in share) == queues
    whole = sum(weight.values())
    for name, share in shares.items():
        exact = len(queues) * weight[name] / whole
        assert abs(len(share) - exact) < 1
        assert weight[name] or not share


@given(holders)
def test_no_even_division_moves_fewer_queues(held: list[tuple[str, ...]]) -> None:
    queues = Q[: len(held)]
    now = dict(zip(queues, held, strict=True))
    shares = fewest_moves(queues, NAMES, now, {})
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    fewest = len(queues)
    for choice in product(NAMES, repeat=len(queues)):
        counts = Counter(choice)
        if max(counts[name] for name in NAMES) - min(counts[name] for name in NAMES) <= 1:
            changed = sum(now[queue] != (to,) for queue, to in zip(queues, choice, strict=True))
            fewest = min(fewest, changed)
    assert len(list(moves(queues, now, shares))) == fewest


@given(holders, st.sampled_from([("x", "y"), ("x", "y", "z"), ("new",)]))
def test_as_many_queues_are_counted_as_move(held: list[tuple[str, ...]], clients: tuple[str, ...]) -> None:
    queues = Q[: len(held)]
    now = dict(zip(queues, held, strict=True))
    for one in simulate(queues, now, Scenario(clients, "AVG", {})):
        assert one.reason or one.moved == len(list(moves(queues, now, one.shares)))
