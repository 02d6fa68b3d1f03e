"""Each problem of a group's ownership with the client that causes it."""

from collections.abc import Mapping

from msgspec.structs import replace

from console.brokers.mqadmin import MessageQueue, assign_server_side
from console.rebalance.observed.findings import (
    Finding,
    QueueFigures,
    Subject,
    away_findings,
    member_findings,
    returns_of,
    topic_findings,
)
from console.rebalance.observed.ownership import Expected, Member, Source, owned

Q = [MessageQueue("orders", "broker-a", number) for number in range(8)]
IDS = ["w", "x", "y", "z"]
FAIR = assign_server_side(Q, IDS, "AVG")


def members(**changed: list[MessageQueue] | None) -> list[Member]:
    return [
        Member(
            name,
            None if (share := changed.get(name, FAIR[name])) is None else frozenset(share),
            100,
            topics={"orders": "*"},
            version="5.3.3",
        )
        for name in IDS
    ]


def found(
    group: list[Member], figures: Mapping[MessageQueue, QueueFigures] | None = None
) -> dict[str, Finding]:
    shares = assign_server_side(Q, IDS, "AVG")
    subject = Subject(
        "orders", owned(Q, group), group, Expected("AVG", Source.ASSUMED, shares), figures or {}, 1_000
    )
    return {one.kind: one for one in topic_findings(subject)}


def of_members(group: list[Member], returns: Mapping[str, int] | None = None) -> dict[str, Finding]:
    return {one.kind: one for one in member_findings(group, returns or {}, {"orders"}, 61_000)}


def test_nothing_is_wrong_with_a_fair_division() -> None:
    assert found(members()) == {} and of_members(members()) == {}


def test_a_queue_without_owner_names_whom_it_falls_to() -> None:
    figures = {Q[0]: QueueFigures(lag=7), Q[1]: QueueFigures(lag=5)}
    one = found(members(w=[]), figures)["NO_OWNER"]
    assert (one.clients, one.queues) == (("w",), (Q[0], Q[1]))
    assert "12 messages wait there" in one.text and "w should own broker-a · 0 and broker-a · 1." in one.text
    assert one.since_ms is None
    lost = {
        Q[0]: QueueFigures(owned_until_ms=900),
        Q[1]: QueueFigures(owned_until_ms=800),
        Q[2]: QueueFigures(owned_until_ms=7),
    }
    assert found(members(w=[]), lost)["NO_OWNER"].since_ms == 800
    assert found(members(x=[Q[0], Q[2], Q[3]]), lost)["TWO_OWNERS"].since_ms == 900
    unknown = found(members(w=[]), {Q[0]: QueueFigures(lag=7)})["NO_OWNER"]
    assert "At least 7 messages wait there" in unknown.text
    assert "unknown" in found(members(w=[]))["NO_OWNER"].text


def test_a_queue_that_falls_to_a_reader_of_another_topic_says_so() -> None:
    group = members(w=[])
    group[0] = replace(group[0], topics={"refunds": "*"})
    assert (
        "w should own broker-a · 0 and broker-a · 1 but does not subscribe to this topic"
        in found(group)["NO_OWNER"].text
    )
    idle = of_members(group)["IDLE_CLIENT"]
    assert idle.clients == ("w",) and "subscribes to no topic that the others read" in idle.text


def test_two_owners_name_the_one_that_should_not() -> None:
    one = found(members(y=[*FAIR["y"], Q[0]]))["TWO_OWNERS"]
    assert (one.clients, one.queues) == (("w", "y"), (Q[0],))
    assert "By AVG, y should not hold them." in one.text


def test_a_wrong_list_names_the_client_that_it_lacked() -> None:
    without = assign_server_side(Q, ["x", "y", "z"], "AVG")
    one = found(members(x=without["x"]))["WRONG_LIST"]
    assert one.clients == ("x", "w")
    assert "WRONG_LIST" not in found(members(x=[Q[7]]))


def test_a_stuck_queue_names_its_owner() -> None:
    stalled = {Q[2]: QueueFigures(lag=3, status="STALLED", since_ms=50), Q[4]: QueueFigures(status="OK")}
    one = found(members(), stalled)["STUCK_QUEUE"]
    assert (one.clients, one.queues, one.since_ms) == (("x",), (Q[2],), 50)


def test_a_silent_client_reports_what_it_held_and_when() -> None:
    group = members(x=None)
    group[1] = replace(group[1], last_known=frozenset(FAIR["x"]), last_known_at_ms=1_000)
    one = of_members(group)["SILENT_CLIENT"]
    assert one.clients == ("x",) and "broker-a · 2 and broker-a · 3 until 1 m ago" in one.text
    assert "NO_OWNER" not in found(group)
    assert "unknown" in of_members(members(x=None))["SILENT_CLIENT"].text


def test_differing_members_are_named() -> None:
    group = members()
    group[3] = replace(group[3], topics={"orders": "vip"}, version="4.9.7")
    kinds = of_members(group)
    assert kinds["INCONSISTENT_SUBSCRIPTION"].clients == ("z",)
    assert kinds["INCONSISTENT_VERSION"].clients == ("z",)
    assert kinds["INCONSISTENT_SUBSCRIPTION"].title == "1 of 4 clients subscribes differently"
    assert kinds["INCONSISTENT_VERSION"].title == "1 of 4 clients runs another version"
    group[2] = replace(group[2], topics={"orders": "vip"}, version="4.9.7")
    assert "2 of 4 clients subscribe differently" in {one.title for one in of_members(group).values()}
    group = [replace(one, strategy="AVG") for one in members()]
    assert of_members(group) == {}
    group[0] = replace(group[0], strategy="CONSISTENT_HASH")
    assert of_members(group)["INCONSISTENT_STRATEGY"].clients == ("w",)


def test_an_idle_client_is_no_problem_of_its_subscription() -> None:
    one = of_members(members(z=[]))["IDLE_CLIENT"]
    assert one.clients == ("z",) and "standby" in one.text
    (lacking,) = member_findings(members(z=[]), {}, {"orders"}, 61_000, due={"z"})
    assert "By the strategy z should own queues" in lacking.text


def test_a_client_flaps_when_it_comes_back_again_and_again() -> None:
    assert returns_of([["w"], ["w"], ["w", "x"]], ["w", "x"]) == {"w": 3}
    assert returns_of([["w"], ["w"]], ["w"]) == {}
    one = of_members(members(), {"w": 5})["FLAPPING"]
    assert one.clients == ("w",) and "5 times" in one.title


def test_a_crash_loop_with_new_ids_is_its_hosts() -> None:
    assert returns_of([["h@1"], ["h@2"], ["h@3"]], ["h@3"]) == {"h": 3}


def test_a_deployment_of_several_clients_of_a_host_is_no_flapping() -> None:
    assert returns_of([["h@1"], ["h@2"], ["h@3"]], ["h@1", "h@2", "h@3"]) == {}


def test_a_pinned_client_that_is_away_is_named_with_its_queues() -> None:
    pins = {"broker-a/0": "x", "broker-a/1": "gone"}
    (found,) = away_findings("orders", pins, {"x", "y"})
    assert (found.kind, found.clients, found.queues) == ("PINNED_CLIENT_AWAY", ("gone",), (Q[1],))
    assert "broker-a" in found.text and away_findings("orders", pins, {"x", "gone"}) == []


def test_a_drained_client_is_not_reported_as_idle() -> None:
    idle = Member("x", frozenset(), 1)
    assert [one.kind for one in member_findings([idle], {}, {"orders"}, 1)] == ["IDLE_CLIENT"]
    assert member_findings([idle], {}, {"orders"}, 1, drained={"x"}) == []
