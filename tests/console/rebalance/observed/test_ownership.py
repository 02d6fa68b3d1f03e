"""Owners of queues by reports of members, and the shares of their strategy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.brokers.mqadmin import STRATEGIES, MessageQueue, assign_server_side
from console.rebalance.observed.ownership import Member, Source, State, expected, missing_in_lists, owned

Q = [MessageQueue("orders", "broker-a", number) for number in range(6)]


def member(name: str, *queues: MessageQueue, at_ms: int = 100, strategy: str = "") -> Member:
    return Member(name, frozenset(queues), at_ms, strategy=strategy)


def silent(name: str, *last_known: MessageQueue) -> Member:
    return Member(name, None, 100, last_known=frozenset(last_known))


def states(*members: Member, known: bool = True) -> list[tuple[State, tuple[str, ...]]]:
    return [(one.state, one.clients) for one in owned(Q[:3], members, are_members_known=known)]


def test_a_queue_has_one_owner_none_or_two() -> None:
    assert states(member("x", Q[0], Q[1]), member("y", Q[1])) == [
        (State.ONE, ("x",)),
        (State.TWO, ("x", "y")),
        (State.NONE, ()),
    ]


def test_the_newer_of_two_reports_counts() -> None:
    assert states(member("x", *Q), member("y", Q[1], at_ms=200))[1] == (State.ONE, ("y",))


def test_a_silent_member_leaves_owners_unknown() -> None:
    assert states(member("x", Q[0]), silent("y", Q[1])) == [
        (State.ONE, ("x",)),
        (State.LAST_KNOWN, ("y",)),
        (State.UNKNOWN, ()),
    ]


def test_a_report_beats_what_a_silent_member_held() -> None:
    assert states(silent("y", Q[0]), member("x", Q[0]))[0] == (State.ONE, ("x",))


def test_members_behind_a_silent_broker_may_own_the_rest() -> None:
    assert states(member("x", Q[0]), known=False)[1:] == [(State.UNKNOWN, ())] * 2


def test_queues_of_a_silent_broker_are_unknown() -> None:
    found = owned(Q[:2], [member("x", Q[0])], silent_brokers={"broker-a"})
    assert [one.state for one in found] == [State.ONE, State.UNKNOWN]


def test_no_client_at_all_owns_nothing() -> None:
    assert states() == [(State.NONE, ())] * 3


reports = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.one_of(st.none(), st.frozensets(st.sampled_from(Q))),
    max_size=4,
)


@given(reports)
def test_owners_are_exactly_those_that_report_a_queue(
    held: dict[str, frozenset[MessageQueue] | None],
) -> None:
    members = [Member(name, queues, 100) for name, queues in held.items()]
    found = owned(Q, members)
    assert [one.queue for one in found] == Q
    for one in found:
        claims = tuple(sorted(name for name, queues in held.items() if queues and one.queue in queues))
        assert one.clients == claims
        nothing = State.UNKNOWN if None in held.values() else State.NONE
        assert one.state is {0: nothing, 1: State.ONE}.get(len(claims), State.TWO)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_reported_strategy_gives_the_shares(strategy: str) -> None:
    found = expected(Q, [member("x", strategy=strategy), member("y")])
    assert found is not None
    assert (found.strategy, found.source) == (strategy, Source.REPORTED)
    assert found.shares == assign_server_side(Q, ["x", "y"], strategy)


def test_without_a_report_the_strategy_is_what_fits() -> None:
    found = expected(Q, [member("x", *Q[::2]), member("y", *Q[1::2])])
    assert found is not None
    assert (found.strategy, found.source) == ("AVG_BY_CIRCLE", Source.FITS)


def test_it_assumes_the_default_where_nothing_fits() -> None:
    for members in ([member("x", Q[5])], [silent("x")]):
        found = expected(Q, members)
        assert found is not None
        assert (found.strategy, found.source) == ("AVG", Source.ASSUMED)


def test_nothing_is_expected_of_members_that_disagree() -> None:
    assert expected(Q, [member("x", strategy="AVG"), member("y", strategy="CONSISTENT_HASH")]) is None
    assert expected(Q, [member("x", strategy="OfTheirOwn")]) is None
    assert expected(Q, []) is None
    assert expected([], [member("x")]) is None


@given(st.data(), st.integers(2, 7), st.integers(0, 12), st.sampled_from(sorted(STRATEGIES)))
def test_the_client_that_a_list_lacked_is_found(
    data: st.DataObject, count: int, queue_count: int, strategy: str
) -> None:
    """Against each member's own division without each other client."""
    ids = [f"c{number}" for number in range(count)]
    queues = [MessageQueue("orders", "broker-a", number) for number in range(queue_count)]
    whole = assign_server_side(queues, ids, strategy)
    name, lacking = data.draw(st.permutations(ids))[:2]
    without = {
        one: assign_server_side(queues, [each for each in ids if each != one], strategy) for one in ids
    }
    any_share = st.sets(st.sampled_from(queues)) if queues else st.just(set[MessageQueue]())
    share = data.draw(st.one_of(st.just(set(without[lacking][name])), any_share))
    right = [one for one in ids if one != name and set(without[one][name]) == share]
    explained = {name: right[0]} if right and share and share != set(whole[name]) else {}
    assert missing_in_lists(queues, [member(name, *share)], ids, strategy) == explained


def test_no_client_explains_a_share_that_no_list_gives() -> None:
    assert missing_in_lists(Q, [member("x", Q[0], Q[5])], ["x", "y", "z"], "AVG") == {}
    assert missing_in_lists(Q, [silent("x"), member("y")], ["x", "y"], "AVG") == {}
    assert missing_in_lists(Q, [member("x", Q[0])], ["x", "y"], "OfTheirOwn") == {}
