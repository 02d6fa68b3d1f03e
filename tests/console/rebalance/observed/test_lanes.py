"""Lanes of owners: what is drawn of hand-written tenures."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from console.brokers.mqadmin import MessageQueue
from console.rebalance.observed.lanes import CHANGES_MAX, LANES_MAX, Change, Lanes, Step, Stretch, lanes_of
from spark.lag.folds.owners import Tenure

NOW_MS = 1_773_219_600_000  # 2026-03-11 09:00:00 UTC
MINUTE_MS = 60_000
QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]


def tenure(queue_id: int, owner: str, from_min: float, to_min: float = 10.0, topic: str = "orders") -> Tenure:
    """Minutes are counted from now, those before it are negative."""
    from_ms, to_ms = (NOW_MS + int(each * MINUTE_MS) for each in (from_min, to_min))
    return Tenure((topic, "broker-a", queue_id), owner, from_ms, to_ms)


def drawn(*tenures: Tenure, causes: list[tuple[int, str]] | None = None) -> Lanes:
    found = lanes_of(tenures, QUEUES, "1h", NOW_MS, causes or [])
    assert found is not None
    return found


def test_a_client_that_left_and_the_one_that_took_its_queues() -> None:
    found = drawn(
        tenure(0, "c-1", -90),
        tenure(1, "c-1", -90),
        tenure(2, "c-2", -90, -30),
        tenure(3, "c-2", -90, -30),
        tenure(2, "c-1", -29.5),
        tenure(3, "c-1", -29.5),
        causes=[(NOW_MS - 30 * MINUTE_MS, "c-2 left"), (NOW_MS - 45 * MINUTE_MS, "broker-a restarted")],
    )
    taker, leaver = found.lanes
    assert (taker.client_id, leaver.client_id) == ("c-1", "c-2")
    assert taker.stretches == [Stretch("1.00%", "99.00%")]
    assert leaver.stretches == [Stretch("1.00%", "50.00%")]
    (took,), (gave,) = taker.changes, leaver.changes
    assert (took.x, took.label, gave.x, gave.label) == ("50.82%", "+2", "50.00%", "−2")
    assert took.words == "2026-03-11 08:30:30 UTC: takes broker-a · 2 and broker-a · 3; after: c-2 left"
    assert gave.words == "2026-03-11 08:30:00 UTC: releases broker-a · 2 and broker-a · 3; after: c-2 left"
    assert (found.moves, found.steady, found.since_ms) == (2, 0, None)
    # Between two sweeps both queues had no known owner.
    assert found.without_owner == [Step("50.00%", "0.82%", "70.00%", "30.00%", 2)]


def test_the_first_record_is_what_there_was_and_no_change() -> None:
    found = drawn(*(tenure(number, "c-1", -20) for number in range(3)), tenure(3, "c-2", -20))
    assert (found.lanes, found.steady, found.moves) == ([], 2, 0)
    assert found.since_ms == NOW_MS - 20 * MINUTE_MS
    # It begins where the record begins.
    assert [x for x, _ in found.ticks] == ["1.00%", "50.00%"]
    assert found.without_owner == []


def test_a_queue_that_none_took_has_no_known_owner_up_to_now() -> None:
    found = drawn(*(tenure(number, "c-1", -90) for number in range(3)), tenure(3, "c-2", -90, -6))
    assert found.without_owner == [Step("89.20%", "9.80%", "85.00%", "15.00%", 1)]


def test_queues_of_other_topics_and_deleted_ones_are_not_drawn() -> None:
    assert (
        lanes_of([tenure(0, "c-1", -5, topic="parcels"), tenure(9, "c-1", -5)], QUEUES, "1h", NOW_MS) is None
    )
    assert lanes_of([], QUEUES, "1h", NOW_MS) is None


def test_many_changes_are_bounded_and_the_newest_are_kept() -> None:
    base = [tenure(number, "c-0", -90) for number in range(3)]
    flips = [tenure(3, f"c-{1 + number % 2}", -59 + number, -58.5 + number) for number in range(58)]
    found = drawn(*base, *flips)
    assert [len(lane.changes) for lane in found.lanes] == [CHANGES_MAX, CHANGES_MAX]
    assert sum(len(lane.stretches) for lane in found.lanes) == 58
    assert (found.lanes[0].changes[-1].label, found.lanes[0].changes[-1].is_late) == ("−1", True)
    assert not found.lanes[0].changes[0].is_late
    assert [each.label for each in found.lanes[0].changes[:-1]] == [""] * (CHANGES_MAX - 1)

    many = [tenure(3, f"c-{number:02}", -59 + number, -58 + number) for number in range(20)]
    found = drawn(*base, *many)
    assert (len(found.lanes), found.left_out, found.steady) == (LANES_MAX, 20 - LANES_MAX, 1)
    assert found.lanes[0].client_id == "c-19"


def test_a_cause_is_what_happened_shortly_before() -> None:
    def change(*causes: tuple[float, str]) -> Change:
        base = [tenure(number, "c-1", -90) for number in range(3)]
        at = [(NOW_MS + int(minutes * MINUTE_MS), words) for minutes, words in causes]
        (lane,) = drawn(*base, tenure(3, "c-2", -90, -10), causes=at).lanes
        return lane.changes[0]

    assert str(change((-11.5, "too early"), (-9, "later")).words).endswith("after: too early")
    assert str(change((-11.6, "too early"), (-9, "later")).words).endswith("releases broker-a · 3")
    assert str(change((-11, "older"), (-10, "at the same sweep")).words).endswith("after: at the same sweep")


def test_a_queue_of_two_clients_is_marked_on_both_lanes_and_moves_once() -> None:
    found = lanes_of(
        [
            tenure(0, "c-1", -90, -30),
            tenure(0, "c-2", -20),
            *(tenure(each, "c-1", -90) for each in (1, 2, 3)),
        ],
        QUEUES,
        "1h",
        NOW_MS,
        claims=[tenure(0, "c-1", -30, -20), tenure(0, "c-2", -30, -20)],
    )
    assert found is not None
    by_id = {lane.client_id: lane for lane in found.lanes}
    marked = [Stretch("50.00%", "66.33%")]
    assert (by_id["c-1"].claimed, by_id["c-2"].claimed) == (marked, marked)
    words = {client_id: [str(each.words) for each in lane.changes] for client_id, lane in by_id.items()}
    assert words == {
        "c-1": ["2026-03-11 08:40:00 UTC: releases broker-a · 0"],
        "c-2": ["2026-03-11 08:30:00 UTC: takes broker-a · 0"],
    }
    assert (found.without_owner, found.moves) == ([], 1)


CLIENTS = ["c-1", "c-2", "c-3"]
HELD = st.tuples(st.integers(0, 3), st.sampled_from(CLIENTS), st.integers(-70, -1), st.integers(1, 30))


@given(st.lists(HELD, min_size=1, max_size=12), st.integers(0, 12))
def test_what_is_counted_is_so_minute_by_minute(
    held: list[tuple[int, str, int, int]], first_claim: int
) -> None:
    """Of a queue tenures may overlap, touch or leave gaps."""
    tenures = [tenure(queue, client, begun, begun + length) for queue, client, begun, length in held]
    minutes: dict[tuple[int, str], set[int]] = defaultdict(set)
    for queue, client, begun, length in held:
        minutes[queue, client].update(range(begun, begun + length))
    first = max(-60, min(map(min, minutes.values())))
    moves, newest, cuts = 0, {client: -99 for _, client in minutes}, {first}
    for (_, client), own in minutes.items():
        for at in range(first + 1, 1):
            if (at in own) != (at - 1 in own):
                moves += at in own
                newest[client] = max(newest[client], at)
                cuts.add(at)
    changing = sorted(
        (client for client in newest if newest[client] > -99), key=lambda one: (-newest[one], one)
    )
    owned = [{queue for (queue, _), own in minutes.items() if at in own} for at in sorted(cuts - {0})]
    found = lanes_of(tenures[:first_claim], QUEUES, "1h", NOW_MS, claims=tenures[first_claim:])
    assert found is not None
    assert (found.moves, found.steady) == (moves, len(newest) - len(changing))
    assert [lane.client_id for lane in found.lanes] == changing
    assert [step.queues for step in found.without_owner] == [4 - len(one) for one in owned if len(one) < 4]
