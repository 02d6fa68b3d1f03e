"""The arithmetic of offset changes, without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.brokers.mqadmin import MessageQueue
from console.brokers.queues import BrokerQueue
from console.group import flow
from console.group.offsets import change as offset_change
from console.group.offsets.change import Change
from console.group.offsets.state import GroupState, QueueState
from console.group.offsets.target_request import Known, TargetRequest
from console.group.offsets.targets import read_params, request_of
from console.operation.plan.params import Given
from tests.console.group.test_flow import samples_of

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
        committed={queue: each.committed for queue, each in queues.items() if each.committed is not None},
        read_at_ms=0,
    )


def read_request(params: dict[str, Any]) -> TargetRequest:
    return request_of(read_params(Given(params)))


def changes(now: GroupState, **params: Any) -> list[Change]:
    return offset_change.changes(now, read_request(params), Known())


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
        return offset_change.blocked(now, read_request(params), changes(now, **params))

    assert "only a time" in blocked(state(server_side=False), target="shift", shift=-1)
    assert blocked(state(server_side=False), target="earliest") == ""
    assert blocked(state(server_side=False, online=False), target="shift", shift=-1) == ""
    one_of_two = state(server_side=False, q0=50, q1=60)
    only = [{"topic": "orders", "broker_name": "broker-a", "queue_id": 0}]
    assert "all queues of a topic while clients run" in blocked(one_of_two, target="earliest", queues=only)
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
        (591, "moved from 50 to 591, more than the group's own rate on this queue explains"),
    ],
)
def test_it_tells_progress_from_a_reset(now: int, sentence: str | None) -> None:
    """One second after the plan: 100, and twice 20 a second over that second and ten of commits."""
    rows = changes(state(q0=50), target="earliest")
    found = offset_change.drift(rows, True, state(q0=now), 1.0, {QUEUE: 20.0})
    assert found == ([] if sentence is None else [f"orders · broker-a · 0 {sentence}"])


def test_it_measures_each_queue_by_its_own_pace() -> None:
    """A queue that nobody was seen reading is not excused by a fast one beside it."""
    rows = changes(state(q0=50, q1=50), target="earliest")
    fast = {QUEUE: 10_000.0}
    assert offset_change.drift(rows, True, state(q0=90_000, q1=150), 1.0, fast) == []
    found = offset_change.drift(rows, True, state(q0=90_000, q1=151), 1.0, fast)
    assert found == [
        "orders · broker-a · 1 moved from 50 to 151, more than the group's own rate on this queue explains"
    ]


@pytest.mark.parametrize(
    ("pace", "age_s", "hidden"),
    [(0.0, 600.0, 100), (2.0, 25.0, 240), (2.0, 600.0, 2_540), (50.0, 25.0, 3_600)],
)
def test_the_largest_skip_that_looks_like_progress(pace: float, age_s: float, hidden: int) -> None:
    """What `docs/operators.md` says of a plan that is this old, for a queue of this pace."""
    rows = changes(state(q0=50), target="earliest")
    assert offset_change.drift(rows, True, state(q0=50 + hidden), age_s, {QUEUE: pace}) == []
    assert offset_change.drift(rows, True, state(q0=51 + hidden), age_s, {QUEUE: pace}) != []


@given(
    rate=st.floats(0.2, 2_000),
    phase_s=st.floats(0, 5),
    late_s=st.lists(st.floats(0, 1.5), min_size=40, max_size=40),
    age_s=st.floats(0, 600),
)
def test_a_client_that_reads_in_batches_and_commits_every_five_seconds_is_no_drift(
    rate: float, phase_s: float, late_s: list[float], age_s: float
) -> None:
    """Batches of 32, rounds of five seconds that may be late; its pace is the one that those rounds observed."""

    def committed(at_s: float) -> int:
        last_s = (at_s - phase_s) // 5 * 5 + phase_s
        return max(0, int(rate * last_s / 32)) * 32

    times = [number * 5 + late for number, late in enumerate(late_s)]
    rounds = [(at_s, {("orders", "broker-a", 0): (0, 10**9, committed(at_s), -1)}) for at_s in times]
    paces = flow.queue_paces(samples_of(rounds), 20_000, {})
    before = committed(times[-1])
    rows = [Change(QUEUE, before, 0, 0, 10**9, "222_queue")]
    assert offset_change.drift(rows, True, state(q0=committed(times[-1] + age_s)), age_s, paces) == []


Consumed = tuple[int, float, int]  # offset of the plan, messages per second, messages read since


@st.composite
def consumed(draw: st.DrawFn, elapsed_s: float) -> Consumed:
    """A queue that its group reads at a pace of its own, for as long as the plan was open."""
    pace = draw(st.floats(0, 20_000))
    return draw(st.integers(1, 10**12)), pace, draw(st.integers(0, int(pace * elapsed_s)))


@given(st.data(), st.floats(0, 600), st.integers(1, 6))
def test_no_queue_moves_unnoticed_beyond_its_own_pace(
    data: st.DataObject, elapsed_s: float, queues: int
) -> None:
    """Whatever a group read at its own pace is accepted; any larger or backward move of any queue is refused."""
    read = [data.draw(consumed(elapsed_s)) for _ in range(queues)]
    keys = [MessageQueue("orders", "broker-a", number) for number in range(queues)]
    rows = [
        Change(queue, offset, 0, 0, 2 * 10**12, "222_queue")
        for queue, (offset, *_) in zip(keys, read, strict=True)
    ]
    paces = {queue: pace for queue, (_, pace, _) in zip(keys, read, strict=True) if pace}
    now = {queue: offset + progress for queue, (offset, _, progress) in zip(keys, read, strict=True)}

    def refused() -> list[str]:
        moved = {f"q{queue.queue_id}": offset for queue, offset in now.items()}
        return [str(each) for each in offset_change.drift(rows, True, state(**moved), elapsed_s, paces)]

    assert refused() == []
    queue = data.draw(st.sampled_from(keys))
    before, pace, _ = read[queue.queue_id]
    allowed = 100 + 2 * pace * (elapsed_s + 10)
    is_back = data.draw(st.booleans())
    far = data.draw(st.integers(1, before) if is_back else st.integers(int(allowed) + 1, 10**13))
    now[queue] = before - far if is_back else before + far
    (sentence,) = refused()
    assert sentence.startswith(
        f"orders · broker-a · {queue.queue_id} moved from {before:,} to {now[queue]:,}, "
    )


@pytest.mark.parametrize("now", [49, 51, None])
def test_it_allows_an_offline_group_no_progress(now: int | None) -> None:
    offline = state(online=False, q0=50)
    rows = changes(offline, target="earliest")
    assert len(offset_change.drift(rows, False, state(online=False, q0=now), 1.0, {})) == 1


def test_it_names_five_queues_and_counts_the_rest() -> None:
    before = state(online=False, **{f"q{number}": 50 for number in range(9)})
    rows = changes(before, target="earliest")
    after = state(online=False, **{f"q{number}": 51 for number in range(9)})
    found = offset_change.drift(rows, False, after, 1.0, {})
    assert len(found) == 6 and found[-1] == "and 4 more queues"
