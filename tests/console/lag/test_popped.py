"""POP groups: what their members took and did not acknowledge is in no committed offset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.lag.popped import popped_entries, popped_of
from console.lag.round_view import Members, Popped
from console.mqadmin import MessageQueue
from spark.lag.status import LagStatus
from tests.console.lag.test_rows import answer, groups_of, view


def row_of(popped: Popped, committed: int = 100, **members: Any) -> dict[str, Any]:
    pops = Members(clients=2, consume_mode="POP", popped=popped, **members)
    return groups_of(replace(view([answer(committed=committed)]), members={"billing": pops}))["billing"]


def test_a_group_whose_members_hold_everything_does_not_look_as_if_nothing_waited() -> None:
    row = row_of(Popped({"orders": 60}, at_ms=55_000, is_whole=True))
    assert (row["lag"], row["lag_lower_bound"], row["available"], row["in_flight"]) == (60, True, 0, 60)
    assert (row["in_flight_at_ms"], row["time_lag_lower_bound"], row["drain_ms"]) == (55_000, True, None)
    (topic,) = row["topics"]
    assert (topic["lag"], topic["lag_lower_bound"]) == (60, True)
    assert "60 messages and not acknowledged" in row["reason"]
    assert (row["status"], row["known_lag"]) == (LagStatus.OK, None)


def test_lag_is_known_from_below_while_members_do_not_tell_what_they_hold() -> None:
    row = row_of(Popped(), committed=90)
    assert (row["lag"], row["lag_lower_bound"], row["available"], row["in_flight"]) == (10, True, 10, None)
    assert "an unknown number of messages" in row["reason"]


def test_lag_is_exact_where_every_member_says_that_it_holds_nothing() -> None:
    row = row_of(Popped({"orders": 0}, at_ms=55_000, is_whole=True), committed=90)
    assert (row["lag"], row["lag_lower_bound"], row["available"], row["in_flight"]) == (10, False, 10, 0)
    assert not row["reason"]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], Popped()),
        ([(None, 5)], Popped()),
        ([([], 5)], Popped()),
        ([([{"topic": "T", "popped": 3}], 9), ([{"topic": "T", "popped": 4}], 7)], Popped({"T": 7}, 7, True)),
        ([([{"topic": "T", "popped": 3}], 9), (None, 7)], Popped({"T": 3}, 9, False)),
        ([([{"topic": "T", "queue_id": 1}], 9)], Popped()),
    ],
)
def test_it_adds_up_what_members_said(members: list[Any], expected: Popped) -> None:
    assert popped_of(members) == expected


def test_it_reads_a_member_s_own_table() -> None:
    table = {
        MessageQueue("T", "b", -1): {"droped": False, "waitAckCount": 60},
        MessageQueue("S", "b", -1): {},
    }
    assert popped_entries(table) == [
        {"topic": "S", "broker_name": "b", "queue_id": -1, "popped": 0},
        {"topic": "T", "broker_name": "b", "queue_id": -1, "popped": 60},
    ]
