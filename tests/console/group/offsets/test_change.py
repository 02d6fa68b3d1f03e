"""The arithmetic of offset changes, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from console.brokers.mqadmin import MessageQueue
from console.brokers.queues import BrokerQueue
from console.group.offsets import apply as offset_apply
from console.group.offsets import change as offset_change
from console.group.offsets.apply import Stand
from console.group.offsets.change import Change, Known
from console.group.offsets.state import GroupState, QueueState

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


def state(
    *, online: bool = True, server_side: bool = True, broadcasting: bool = False, **committed: int | None
) -> GroupState:
    """Queues q0, q1 of 0 to 100 with these committed offsets."""
    queues = {}
    for name, offset in (committed or {"q0": 50}).items():
        queue = MessageQueue("orders", "broker-a", int(name[1:]))
        queues[queue] = QueueState(BrokerQueue(queue, "127.0.0.1:1", 0, 100), offset)
    return GroupState(
        group="billing",
        queues=queues,
        clients=frozenset({"c1"} if online else ()),
        broadcasting=broadcasting,
        server_side_reset={"broker-a": server_side},
        committed={
            (q.topic, q.broker_name, q.queue_id): e.committed
            for q, e in queues.items()
            if e.committed is not None
        },
        read_at_ms=0,
    )


def changes(now: GroupState, **params: Any) -> list[Change]:
    return offset_change.changes(now, offset_change.read_wish(params), Known())


@pytest.mark.parametrize(
    ("online", "server_side", "committed", "how"),
    [
        (False, True, 50, "15"),
        (False, False, None, "15"),
        (True, True, 50, "222_queue"),
        (True, True, None, "222_queue"),
        (True, False, 50, "222_time"),
        (True, False, None, "15"),
    ],
)
def test_it_chooses_the_request(online: bool, server_side: bool, committed: int | None, how: str) -> None:
    (row,) = changes(state(online=online, server_side=server_side, q0=committed), target="earliest")
    assert row.how == how


def test_it_blocks_what_an_old_broker_can_not_tell_its_members() -> None:
    def blocked(now: GroupState, **params: Any) -> str:
        return offset_change.blocked(now, offset_change.read_wish(params), changes(now, **params))

    assert "only a time" in blocked(state(server_side=False), target="shift", shift=-1)
    assert blocked(state(server_side=False), target="earliest") == ""
    assert blocked(state(server_side=False, online=False), target="shift", shift=-1) == ""
    one_of_two = state(server_side=False, q0=50, q1=60)
    only = [{"topic": "orders", "broker_name": "broker-a", "queue_id": 0}]
    assert "all queues of a topic at once" in blocked(one_of_two, target="earliest", queues=only)
    assert "broadcasting" in blocked(state(broadcasting=True), target="earliest")


def test_it_leaves_alone_what_came_back_by_itself() -> None:
    def undo(committed: int, or_beyond: bool) -> int | None:
        offset = {
            "topic": "orders",
            "broker_name": "broker-a",
            "queue_id": 0,
            "offset": 50,
            "or_beyond": or_beyond,
        }
        return changes(state(q0=committed), target="exact", offsets=[offset])[0].after

    assert undo(20, True) == 50 and undo(50, True) is None and undo(53, True) is None
    assert undo(53, False) == 50


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (50, None),
        (40, "moved from 50 to 40, backwards"),
        (60, None),
        (590, None),
        (591, "moved from 50 to 591, more than the group's own pace on this queue explains"),
    ],
)
def test_it_tells_progress_from_a_reset(now: int, sentence: str | None) -> None:
    """One second after the plan: 100, and twice 20 a second over that second and ten of commits."""
    rows = [row.as_row() for row in changes(state(q0=50), target="earliest")]
    found = offset_change.drift(rows, True, state(q0=now), 1.0, {QUEUE: 20.0})
    assert found == ([] if sentence is None else [f"orders · broker-a · 0 {sentence}"])


def test_it_measures_each_queue_by_its_own_pace() -> None:
    """A queue that nobody was seen reading is not excused by a fast one beside it."""
    rows = [row.as_row() for row in changes(state(q0=50, q1=50), target="earliest")]
    fast = {QUEUE: 10_000.0}
    assert offset_change.drift(rows, True, state(q0=90_000, q1=150), 1.0, fast) == []
    found = offset_change.drift(rows, True, state(q0=90_000, q1=151), 1.0, fast)
    assert found == [
        "orders · broker-a · 1 moved from 50 to 151, more than the group's own pace on this queue explains"
    ]


@pytest.mark.parametrize("now", [49, 51, None])
def test_it_allows_an_offline_group_no_progress(now: int | None) -> None:
    offline = state(online=False, q0=50)
    rows = [row.as_row() for row in changes(offline, target="earliest")]
    assert len(offset_change.drift(rows, False, state(online=False, q0=now), 1.0, {})) == 1


def test_it_names_five_queues_and_counts_the_rest() -> None:
    before = state(online=False, **{f"q{number}": 50 for number in range(9)})
    rows = [row.as_row() for row in changes(before, target="earliest")]
    after = state(online=False, **{f"q{number}": 51 for number in range(9)})
    found = offset_change.drift(rows, False, after, 1.0, {})
    assert len(found) == 6 and found[-1] == "and 4 more queues"


@pytest.mark.parametrize(
    ("before", "target", "now", "online", "expected"),
    [
        (50, 20, 20, False, True),
        (50, 20, 21, False, False),
        (50, 20, 35, True, True),
        (50, 20, 50, True, False),  # indistinguishable from a member that committed over it
        (50, 80, 79, True, False),
        (50, 80, 95, True, True),
        (None, 20, 20, True, True),
    ],
)
def test_it_judges_what_the_brokers_report(
    before: int | None, target: int, now: int, online: bool, expected: bool
) -> None:
    assert offset_apply.at_target({"before": before, "target": target}, now, online=online) is expected


def test_it_hears_from_members_before_they_commit() -> None:
    row = {
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 0,
        "before": 50,
        "target": 20,
        "max_offset": 100,
        "state": "applied",
        "error": "",
        "resumed": None,
        "was_reset": False,
    }
    key = ("orders", "broker-a", 0)
    offset_apply.observe([row], {key: 20}, online=True, now_ms=5)
    assert (row["state"], row["reported"], row["resumed"]) == ("verified", 20, False)
    offset_apply.hear_members([row], {key: Stand(50)})
    assert row["resumed"] is False, "it still holds the old place"
    offset_apply.hear_members([row], {key: Stand(20)})
    assert row["resumed"] is True


def test_a_member_that_read_everything_again_before_it_was_looked_at_is_no_failure() -> None:
    """Back from 50 to 20 and past 50 again: only that the queue was let go tells it from a reset that never came."""
    plan = [row.as_row() for row in changes(state(server_side=False, q0=50), target="earliest")]
    (row,) = offset_apply.result_rows(plan, state(q0=50))
    row["state"] = "applied"
    key = ("orders", "broker-a", 0)

    def looks(*stands: Stand) -> str:
        one = dict(row)
        for stand in stands:
            offset_apply.hear_members([one], {key: stand})
        offset_apply.observe([one], {key: 63}, online=True, now_ms=5)
        return str(one["state"])

    assert looks(Stand(50), Stand(63)) == "applied", "nothing shows that it was told"
    assert looks(Stand(50), Stand(50, is_dropped=True)) == "applied", "it is still starting again"
    assert looks(Stand(50), Stand(50, is_dropped=True), Stand(63)) == "verified"


def test_a_broker_that_moves_offsets_itself_is_believed() -> None:
    (row,) = offset_apply.result_rows(
        [one.as_row() for one in changes(state(q0=50), target="earliest")], state(q0=50)
    )
    offset_apply._take(row, (3, {("orders", "broker-a", 0): 0}))
    offset_apply.observe([row], {("orders", "broker-a", 0): 63}, online=True, now_ms=5)
    assert (row["how"], row["state"], row["resumed"]) == ("222_queue", "verified", True)


def test_it_leaves_a_queue_that_went_past_its_target_by_itself() -> None:
    plan = [row.as_row() for row in changes(state(q0=50), target="offset", offset=60)]
    (row,) = offset_apply.result_rows(plan, state(q0=63))
    assert (row["state"], row["reported"]) == ("passed", 63)
    (row,) = offset_apply.result_rows(plan, state(q0=55))
    assert (row["state"], row["before"]) == ("waiting", 55)


def test_queues_that_need_no_move_count_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a job whose queues all went past their targets says that it was applied to fewer than none."""
    plan = [row.as_row() for row in changes(state(q0=50), target="offset", offset=60)]
    rows = offset_apply.result_rows(plan, state(q0=63))
    run = SimpleNamespace(
        result={"queues": rows},
        progress={"done": 0, "total": 1},
        job=SimpleNamespace(attempts=1),
        plan=SimpleNamespace(before={}),
        now_ms=lambda: 0,
        save=lambda: None,
    )
    monkeypatch.setattr(offset_apply, "masters", lambda admin: {})
    monkeypatch.setattr(offset_apply, "_committed", lambda admin, addrs, group: {})
    offset_apply.apply_rows(run, None, "billing")  # type: ignore[arg-type]
    assert run.progress == {"done": 1, "total": 1}
