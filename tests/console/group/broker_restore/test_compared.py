"""Recorded offsets against present ones: what is lost, further on, behind, unknown; and since when it is lost."""

from __future__ import annotations

import pytest

from console.brokers.mqadmin import MessageQueue
from console.group.broker_restore import compared
from console.group.broker_restore.compared import QueueState, compared_groups, last_with_lost
from console.lag.past.history_reads import OffsetThen
from console.operation.errors import PlanRejected

NOW_MS = 1_760_000_000_000
STEP_MS = 15_000


def place(group: str, queue_id: int, broker: str = "broker-a") -> tuple[str, MessageQueue]:
    return group, MessageQueue("orders", broker, queue_id)


RECORDED = {
    place("billing", 0): OffsetThen(7, 1),
    place("billing", 1): OffsetThen(7, 1),
    place("billing", 2): OffsetThen(7, 1),
    place("billing", 3): OffsetThen(0, 1),
    place("billing", 0, "broker-b"): OffsetThen(7, 1),
    place("CID_RMQ_SYS_TRANS", 0): OffsetThen(7, 1),
    place("audit", 0): OffsetThen(5, 1),
}
PRESENT = {
    place("billing", 1): 9,
    place("billing", 2): 4,
    place("billing", 3): 0,
    place("billing", 4): 3,
}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared.history_reads, "committed_at", lambda *_: RECORDED)
    monkeypatch.setattr(compared.lag_selectors, "collect_interval_ms", lambda _: STEP_MS)


def test_each_queue_of_the_broker_is_compared(recorded: None) -> None:
    audit, billing = compared_groups("test", ["broker-a"], NOW_MS, PRESENT)
    found = [(each.queue.queue_id, each.then, each.now, each.state) for each in billing.queues]
    assert found == [
        (0, 7, None, QueueState.LOST),
        (1, 7, 9, QueueState.AHEAD),
        (2, 7, 4, QueueState.BEHIND),
        (3, 0, 0, QueueState.SAME),
        (4, None, 3, QueueState.UNRECORDED),
    ]
    assert (len(billing.recorded), len(billing.lost), billing.messages_back, billing.moves) == (4, 1, 2, True)
    assert (audit.group, len(audit.lost)) == ("audit", 1)


def test_what_a_silent_broker_has_is_unknown_and_not_lost(recorded: None) -> None:
    audit, billing = compared_groups("test", ["broker-a"], NOW_MS, None)
    assert {each.state for each in (*audit.queues, *billing.queues)} == {QueueState.UNKNOWN}
    assert (len(billing.recorded), billing.lost) == (4, [])


def test_a_group_as_recorded_has_nothing_to_move(recorded: None) -> None:
    audit, *_ = compared_groups("test", ["broker-a"], NOW_MS, {place("audit", 0): 5})
    assert not audit.moves


def test_a_broker_without_a_record_is_refused(recorded: None) -> None:
    with pytest.raises(PlanRejected, match="The history has no offsets on broker-q for "):
        compared_groups("test", ["broker-q"], NOW_MS, {})


@pytest.mark.parametrize("ago_ms", [1, 14_000, 61_000, 3_600_000, 86_000_000])
def test_the_last_moment_before_a_loss_is_found_to_a_round(ago_ms: int) -> None:
    lost_ms = NOW_MS - ago_ms
    found = last_with_lost(lambda at_ms: range(4 if at_ms < lost_ms else 0), NOW_MS, STEP_MS)
    assert found is not None
    assert lost_ms - STEP_MS - 1 <= found < lost_ms


def test_of_two_losses_the_newer_one_is_found_first() -> None:
    first_ms, second_ms = NOW_MS - 900_000, NOW_MS - 400_000

    def lost(at_ms: int) -> range:
        return range(4 if at_ms < first_ms else 1 if at_ms < second_ms else 0)

    found = last_with_lost(lost, NOW_MS, STEP_MS)
    assert found is not None and second_ms - STEP_MS <= found < second_ms


def test_a_loss_of_long_ago_is_not_searched() -> None:
    asked: list[int] = []
    lost_ms = NOW_MS - 90_000_000

    def lost(at_ms: int) -> range:
        asked.append(at_ms)
        return range(4 if at_ms < lost_ms else 0)

    assert last_with_lost(lost, NOW_MS, STEP_MS) is None
    assert min(asked) == NOW_MS - 86_400_000 and len(asked) < 20


def test_nothing_lost_has_no_moment() -> None:
    assert last_with_lost(lambda _: (), NOW_MS, STEP_MS) is None
