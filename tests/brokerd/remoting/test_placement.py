"""Shares under pins, drained clients, weights and a canary: literals, and what holds for all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.placement import Placement, fewest_moves, place

Q = [MessageQueue("T", "broker-a", number) for number in range(8)]
NAMES = ["a", "b", "c", "d"]


def sizes(placement: Placement, *members: str, **versions: int) -> dict[str, int]:
    found = place(Q, members, {}, placement, versions)
    return {member: len(share) for member, share in found.items()}


def test_a_drained_client_gets_nothing_while_others_exist() -> None:
    placement = Placement(drained=frozenset({"a"}))
    assert sizes(placement, "a", "b", "c") == {"a": 0, "b": 4, "c": 4}
    assert sizes(placement, "a") == {"a": 8}


def test_a_pin_counts_into_the_share_of_its_client() -> None:
    placement = Placement(pins={Q[6]: "b", Q[7]: "b"})
    assert place(Q, ["a", "b"], {"a": Q[:4], "b": Q[4:]}, placement) == {"a": Q[:4], "b": Q[4:]}
    many = Placement(pins=dict.fromkeys(Q[:6], "b"))
    assert sizes(many, "a", "b", "c") == {"a": 1, "b": 6, "c": 1}


def test_queues_of_a_pinned_client_go_to_others_and_come_back() -> None:
    placement = Placement(pins={Q[0]: "c", Q[1]: "c"})
    with_c = place(Q, ["a", "b", "c"], {}, placement)
    away = place(Q, ["a", "b"], with_c, placement)
    assert sorted(queue for share in away.values() for queue in share) == Q
    back = place(Q, ["a", "b", "c"], away, placement)
    assert set(Q[:2]) <= set(back["c"])


def test_weights_divide_in_proportion() -> None:
    assert sizes(Placement(weights={"a": 2}), "a", "b", "c") == {"a": 4, "b": 2, "c": 2}


def test_a_canary_gets_its_percentage_whatever_its_number() -> None:
    canary = Placement(canary_version=479, canary_percent=25)
    assert sizes(canary, "a", "b", "c", a=477, b=477, c=479) == {"a": 3, "b": 3, "c": 2}
    assert sizes(canary, "a", "b", "c", a=477, b=479, c=479) == {"a": 6, "b": 1, "c": 1}
    assert sizes(canary, "a", "b", a=479, b=479) == {"a": 4, "b": 4}
    assert sizes(canary, "a", "b", a=477, b=477) == {"a": 4, "b": 4}
    pinned = Placement(pins=dict.fromkeys(Q[:3], "c"), canary_version=479, canary_percent=25)
    assert sizes(pinned, "a", "b", "c", a=477, b=477, c=479) == {"a": 3, "b": 2, "c": 3}


members = st.sets(st.sampled_from(NAMES), min_size=1)
placements = st.builds(
    Placement,
    pins=st.dictionaries(st.sampled_from(Q), st.sampled_from(NAMES)),
    drained=st.frozensets(st.sampled_from(NAMES)),
    weights=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5)),
    canary_version=st.sampled_from([0, 479]),
    canary_percent=st.integers(1, 99),
)


@given(placements, st.lists(members, min_size=1, max_size=5), st.integers(1, 8))
def test_every_queue_has_one_owner_after_any_changes(
    placement: Placement, courses: list[set[str]], count: int
) -> None:
    queues, shares = Q[:count], dict[str, list[MessageQueue]]()
    versions = dict(zip(NAMES, (477, 479, 477, 479), strict=True))
    for present in courses:
        shares = place(queues, present, shares, placement, versions)
        assert set(shares) == present
        assert sorted(queue for share in shares.values() for queue in share) == queues
        active = placement.active(present)
        assert all(not shares[one] for one in present if one not in active)
        assert all(
            queue in shares[one] for queue, one in placement.pins.items() if one in active and queue in queues
        )
        # The same members again: nothing moves.
        assert place(queues, present, shares, placement, versions) == shares


class Name(str):
    """A client id that counts how often members are looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        Name.looked_up += 1
        return super().__hash__()


def test_queues_that_nobody_holds_do_not_look_at_every_member_each() -> None:
    def look_ups(members: int) -> int:
        queues = [MessageQueue("T", "broker-a", number) for number in range(2 * members)]
        names = [Name(f"c{number:04}") for number in range(members)]
        before = Name.looked_up
        shares = fewest_moves(queues, names, {}, {})
        assert {len(share) for share in shares.values()} == {2}
        return Name.looked_up - before

    assert look_ups(800) < 5 * look_ups(200)
