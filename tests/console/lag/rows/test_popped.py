"""POP groups: what their members took and did not acknowledge is in no committed offset."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from console.brokers.mqadmin import MessageQueue
from console.lag.collect import sweep
from console.lag.models import GroupMembers
from console.lag.round.figures import GroupFigures
from console.lag.round.view import Members, Popped
from console.lag.rows.popped import HeldQueue, held_queues, pop_figures, popped_entries, popped_of
from spark.lag.round.status import POP_QUIET_MS, LagStatus
from tests.console.lag.rows.test_rows import answer, groups_of, view


def row_of(popped: Popped, committed: int = 100, **members: Any) -> GroupFigures:
    pops = Members(clients=2, consume_mode="POP", popped=popped, **members)
    return groups_of(replace(view([answer(committed=committed)]), members={"billing": pops}))["billing"]


def test_a_group_whose_members_hold_everything_does_not_look_as_if_nothing_waited() -> None:
    row = row_of(Popped({"orders": 60}, at_ms=55_000, is_whole=True))
    assert (row.lag, row.lag_lower_bound, row.available, row.in_flight) == (60, True, 0, 60)
    assert (row.in_flight_at_ms, row.time_lag_lower_bound, row.drain_ms) == (55_000, True, None)
    (topic,) = row.topics
    assert (topic.lag, topic.lag_lower_bound) == (60, True)
    assert "60 messages and not acknowledged" in row.reason
    assert (row.status, row.known_lag) == (LagStatus.OK, None)


def test_lag_is_known_from_below_while_members_do_not_tell_what_they_hold() -> None:
    row = row_of(Popped(), committed=90)
    assert (row.lag, row.lag_lower_bound, row.available, row.in_flight) == (10, True, 10, None)
    assert "an unknown number of messages" in row.reason


def test_lag_is_exact_where_every_member_says_that_it_holds_nothing() -> None:
    row = row_of(Popped({"orders": 0}, at_ms=55_000, is_whole=True), committed=90)
    assert (row.lag, row.lag_lower_bound, row.available, row.in_flight) == (10, False, 10, 0)
    assert not row.reason


def standing(popped: Popped, **figures: Any) -> GroupFigures:
    """A group's row that took everything half an hour ago."""
    well = msgspec.structs.replace(row_of(Popped({"orders": 0}, at_ms=55_000, is_whole=True)), **figures)
    return pop_figures(well, popped, taken_ms=NOW_MS - 1_800_000, now_ms=NOW_MS)


NOW_MS = 10_000_000


def test_members_that_hold_messages_and_acknowledge_none_of_them_are_not_well() -> None:
    """Everything was taken, so no offset shows that nothing is done."""
    held = Popped({"orders": 60}, at_ms=NOW_MS - 5_000, is_whole=True, since_ms=NOW_MS - POP_QUIET_MS - 1)
    row = standing(held)
    assert (row.status, row.lag, row.lag_lower_bound) == (LagStatus.STALLED, 60, True)
    assert (row.attention, row.drain_never, row.stall_ms) == (6, True, POP_QUIET_MS + 1)
    assert row.since_ms == NOW_MS - POP_QUIET_MS - 1
    assert row.reason.startswith("POP: clients hold 60 messages, and the number has not decreased for 6 m")
    assert standing(replace(held, since_ms=NOW_MS - POP_QUIET_MS)).status == LagStatus.OK
    assert standing(held, status="OFFLINE").status == "OFFLINE"  # which says more


def test_what_comes_back_unacknowledged_is_not_well_while_members_do_not_tell_what_they_hold() -> None:
    row = standing(Popped(), retry_in_rate=0.5)
    assert (row.status, row.lag) == (LagStatus.UNKNOWN, 0)
    assert "came back" in row.reason or "come back" in row.reason
    assert standing(Popped(), retry_lag=3).status == LagStatus.UNKNOWN
    assert standing(Popped(), retry_lag=0, retry_in_rate=0.0).status == LagStatus.OK
    told = Popped({"orders": 1}, at_ms=NOW_MS, is_whole=True, since_ms=NOW_MS - 30_000)
    assert standing(told, retry_in_rate=0.5).status == LagStatus.OK  # a message that failed, as ever


@pytest.mark.parametrize(
    ("held", "before", "since_ms", "expected"),
    [(0, 5, 100, None), (5, 0, None, 900), (5, 6, 100, 900), (6, 6, 100, 100), (7, 6, 100, 100)],
)
def test_it_knows_since_when_what_members_hold_has_not_become_less(
    held: int, before: int, since_ms: int | None, expected: int | None
) -> None:
    row = GroupMembers(cluster="local", group="billing", popped_since_ms=since_ms)
    assert sweep._popped_since_ms(held, before, row, 900) == expected
    assert sweep._popped_since_ms(held, before, None, 900) in (None, 900)


def held(popped: int | None, topic: str = "T") -> HeldQueue:
    return HeldQueue(topic, "b", -1, popped)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], Popped()),
        ([(None, 5)], Popped()),
        ([([], 5)], Popped()),
        ([([held(3)], 9), ([held(4)], 7)], Popped({"T": 7}, 7, True)),
        ([([held(3)], 9), (None, 7)], Popped({"T": 3}, 9, False)),
        ([([held(None)], 9)], Popped()),
    ],
)
def test_it_adds_up_what_members_said(members: list[Any], expected: Popped) -> None:
    assert popped_of(members) == expected


def test_it_reads_a_member_s_own_table() -> None:
    table = {
        MessageQueue("T", "b", -1): {"droped": False, "waitAckCount": 60},
        MessageQueue("S", "b", -1): {},
    }
    assert popped_entries(table) == [held(0, "S"), held(60)]


def test_what_members_hold_survives_the_column() -> None:
    queues = [held(0), held(None, "S")]
    kept = msgspec.to_builtins(queues)
    assert kept == [
        {"topic": "T", "broker_name": "b", "queue_id": -1, "popped": 0},
        {"topic": "S", "broker_name": "b", "queue_id": -1},
    ]
    assert held_queues(json.loads(json.dumps(kept))) == queues
    assert held_queues(None) is None
