"""An offset change in words: totals, minutes, warnings, and the same over REST and in a shell."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from console.brokers.mqadmin import MessageQueue
from console.group.offsets import change as offset_change
from console.group.offsets import words as offset_words
from console.group.offsets.change import Change, DiffRow
from console.group.offsets.state import GroupState
from console.group.offsets.target_request import Known
from console.group.offsets.targets import command_line, read_params
from console.group.offsets.words import Limits, Pace
from console.operation.plan.params import Given
from tests.console.group.offsets.test_change import QUEUE, read_request, state

NOW_MS = 1_773_288_374_000  # 2026-03-12 04:06:14 UTC
NO_LIMITS = Limits(None, None)


def change(before: int | None, after: int, low: int = 0, high: int = 100) -> Change:
    return Change(QUEUE, before, after, low, high)


@pytest.mark.parametrize(
    ("row", "again", "past"),
    [
        (change(50, 20), 30, 0),
        (change(50, 80), 0, 30),
        (change(None, 20), 80, 0),
        (change(50, 50), 0, 0),
        (change(10, 80, low=40), 0, 40),  # 30 of the skipped ones had expired already
        (change(120, 20), 80, 0),  # committed beyond the end
    ],
)
def test_it_counts_messages(row: Change, again: int, past: int) -> None:
    assert (offset_words.replayed([row]), offset_words.skipped([row])) == (again, past)


@pytest.mark.parametrize(
    ("pace", "online", "words"),
    [
        (
            Pace(),
            True,
            "How long that takes is unknown: no consumption of the group was recorded in the last hour.",
        ),
        (Pace(0.0, 2.0), True, "At its current rate of 2 messages/s, this takes about 15 s."),
        (
            Pace(2.0, 2.0, 10.0),
            True,
            "while behind in the last hour), while 2 messages/s arrive, the group catches up in about 10 s.",
        ),
        (
            Pace(20.0, 10.0, 10.0),
            True,
            "At its current rate of 10 messages/s, while 20 messages/s arrive, the group would never catch up.",
        ),
        # a healthy group reads what comes: its best minute is no bound of what it can do
        (Pace(78.0, 78.0, 80.7, was_behind=False), True, "this takes about 0.4 s."),
        (Pace(0.0, 0.0, 1.0), False, "this takes about 30 s, once clients are online."),
    ],
)
def test_it_says_how_long_a_replay_takes(pace: Pace, online: bool, words: str) -> None:
    """30 messages to replay, 80 to read until level."""
    text = offset_words.summary("billing", [change(50, 20)], None, pace, online)
    assert text.startswith("Replay 30 messages on 1 queue of orders. ")
    assert text.endswith(words)


def test_it_promises_no_time_for_a_skip() -> None:
    text = offset_words.summary("billing", [change(50, 80)], None, Pace(1.0, 2.0, 3.0), True)
    assert text == "Skip 30 messages on 1 queue of orders."


def test_it_says_why_nothing_would_change() -> None:
    level, alone = change(50, 50), Change(QUEUE, None, None, 0, 100, note="never committed")
    assert offset_words.nothing_moves([level, alone, alone], "billing") == (
        "Nothing would change: 1 queue of billing is at the target already; 2 queues stay unchanged: never "
        "committed."
    )


def test_of_many_reasons_it_names_three() -> None:
    rows = [
        Change(QUEUE, 9, None, 0, 9, note=f"has already reached or passed {offset}") for offset in range(5)
    ]
    assert offset_words.nothing_moves(rows) == (
        "Nothing would change: 1 queue stays unchanged: has already reached or passed 0; 1 queue stays "
        "unchanged: has already reached or passed 1; 1 queue stays unchanged: has already reached or passed 2; "
        "2 more queues stay unchanged."
    )


def titles(
    now: GroupState, limits: Limits = NO_LIMITS, model: str = "", **params: Any
) -> list[tuple[str, str]]:
    requested = read_request(params)
    rows = offset_change.changes(now, requested, Known({QUEUE: 0}))
    return [
        (each.level, each.title) for each in offset_words.warnings(now, requested, rows, limits, model, "")
    ]


def test_it_warns_of_what_a_change_may_cost() -> None:
    assert titles(state(q0=50), target="earliest") == [
        ("info", "The group is online: 1 client"),
        ("ok", "Every target is still retained"),
    ]
    assert titles(state(online=False, q0=50), Limits(50, 51), target="earliest")[:2] == [
        ("warn", "Affects 50 messages"),
        ("info", "No client is online"),
    ]
    gone = titles(state(online=False, q0=None, q1=5), model="BROADCASTING", target="shift", shift=-9)
    assert gone == [
        ("warn", "1 queue cannot go back that far"),
        ("warn", "1 queue stays unchanged"),
        ("info", "No client is online"),
        ("danger", "The group was broadcasting"),
    ]
    late = titles(state(online=False, q0=None), target="time", time_ms=NOW_MS)
    assert ("warn", "The time is in the future") in late  # the state was read at 0
    assert ("warn", "1 queue has never been committed") in late


@pytest.mark.parametrize(
    ("messages", "limits", "words"),
    [
        (10, Limits(10, None), "the name of the group must be typed"),
        (10, Limits(5, 10), "a second person must approve"),
        (9, Limits(10, None), None),
        (9, Limits(None, None), None),
    ],
)
def test_it_says_what_the_cluster_asks_for_a_large_change(
    messages: int, limits: Limits, words: str | None
) -> None:
    rows = [change(messages, 0)]
    found = offset_words.warnings(
        state(q0=messages), read_request({"target": "earliest"}), rows, limits, "", ""
    )
    texts = [each.text for each in found if "Affects" in each.title]
    assert (len(texts) == 1 and words in texts[0]) if words else texts == []


@pytest.mark.parametrize(
    ("server_side", "committed", "words"),
    [
        (
            True,
            50,
            "broker-a: the broker moves the offsets and notifies the clients (222 per queue)",
        ),
        (False, 50, "broker-a can only send a time to the clients"),
        (False, None, "On broker-a, queues without a stored offset are written directly (15)"),
    ],
)
def test_it_says_how_members_are_told(server_side: bool, committed: int | None, words: str) -> None:
    now = state(server_side=server_side, q0=committed)
    requested = read_request({"target": "earliest"})
    rows = offset_change.changes(now, requested, Known())
    (told,) = [
        each
        for each in offset_words.warnings(now, requested, rows, NO_LIMITS, "", "")
        if "online" in each.title
    ]
    assert words in told.text


ORDERS_0 = {"topic": "orders", "broker_name": "broker-a", "queue_id": 0}


@pytest.mark.parametrize(
    ("params", "command"),
    [
        ({"target": "earliest"}, "--target earliest"),
        ({"target": "latest", "topics": ["a", "b"]}, "--target latest --topic a --topic b"),
        (
            {"target": "time", "time_ms": 1_773_274_800_000, "topics": ["orders"], "queues": [ORDERS_0]},
            "--target time --queue orders/broker-a/0 --time 2026-03-12T00:20:00.000Z",
        ),
        ({"target": "shift", "shift": -5}, "--target shift --shift=-5"),
        ({"target": "offset", "offset": 7}, "--target offset --offset 7"),
        ({"target": "like_group", "like_group": "it's"}, """--target like_group --like 'it'"'"'s'"""),
        ({"target": "undo", "undo_plan": "op-1"}, "--target undo --plan op-1"),
        (
            {"target": "exact", "offsets": [{**ORDERS_0, "offset": 9}]},
            "--target exact --set orders/broker-a/0=9",
        ),
    ],
)
def test_it_writes_the_command_line_of_a_request(params: dict[str, Any], command: str) -> None:
    assert command_line("billing", "local", read_params(Given(params))) == (
        f"manage.py offsets plan billing --cluster local {command}"
    )


def row(before: int | None, after: int | None) -> DiffRow:
    moved = Change(MessageQueue("orders", "broker-a", 0), 5, 3, 0, 9).as_row()
    return structs.replace(moved, lag_before=before, lag_after=after)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(3, 5), row(1, 3)], (4, False, 8, False)),
        ([row(None, 5), row(1, 3)], (1, True, 8, False)),
        ([row(None, None)], (None, False, None, False)),
    ],
)
def test_a_sum_of_a_part_is_the_least_it_can_be(
    rows: list[DiffRow], expected: tuple[int | None, bool, int | None, bool]
) -> None:
    sums = offset_words.sums(rows)
    assert (
        sums.lag_before,
        sums.lag_before_lower_bound,
        sums.lag_after,
        sums.lag_after_lower_bound,
    ) == expected
