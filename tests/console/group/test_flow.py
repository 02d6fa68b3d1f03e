"""Cumulative flow and best speed, from samples made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from console.brokers.mqadmin import MessageQueue
from console.group import flow
from spark.lag.codes import SampleFlag
from spark.lag.samples import Samples, from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot

GAP_MS = 20_000
ORDERS_0, ORDERS_1 = ("orders", "broker-a", 0), ("orders", "broker-b", 1)
Reading = dict[tuple[str, str, int], tuple[int, int, int, int]]  # queue → min, max, committed, pulled


def samples_of(rounds: Sequence[tuple[float, Reading]]) -> Samples:
    """Rounds at these seconds. The heads have a series of their own, which the history leaves out for a group."""
    snapshots = []
    for number, (at_s, reading) in enumerate(rounds):
        columns = np.array(list(reading.values()), dtype=np.int64).reshape(-1, 4)
        snapshots.append(
            Snapshot(
                number=number,
                ts_ms=int(at_s * 1000),
                brokers=[],
                head_keys=[HeadKey(*queue) for queue in reading],
                max_offset=columns[:, 1],
                min_offset=columns[:, 0],
                commit_keys=[CommitKey("billing", *queue) for queue in reading],
                committed=columns[:, 2],
                pulled=columns[:, 3],
            )
        )
    return from_snapshots(snapshots).select(lambda key: key.group == "billing")


def test_it_adds_up_the_queues_from_their_first_commit() -> None:
    found = flow.cumulative_flow(
        samples_of(
            [
                (0, {ORDERS_0: (90, 110, 100, -1), ORDERS_1: (0, 5, 5, 5)}),
                (5, {ORDERS_0: (90, 120, 104, 112), ORDERS_1: (0, 9, 5, 7)}),
            ]
        ),
        300,
        GAP_MS,
    )
    assert found.times == [0, 5_000]
    assert found.produced == [10, 24]
    assert found.committed == [0, 4]
    assert found.pulled == [None, 14]
    assert found.stored_from == [-15, -15]
    assert (found.queues, found.queues_total) == (2, 2)


def test_it_leaves_a_gap_open_and_names_a_queue_that_was_not_read_to_the_end() -> None:
    both = {ORDERS_0: (0, 10, 0, -1), ORDERS_1: (0, 10, 0, -1)}
    found = flow.cumulative_flow(
        samples_of(
            [
                (0, both),
                (60, {ORDERS_1: (0, 20, 5, -1)}),
                (90, {ORDERS_1: (0, 30, 5, -1)}),
                (95, {ORDERS_1: (0, 30, 9, -1)}),
            ]
        ),
        300,
        GAP_MS,
    )
    assert (found.queues, found.queues_total) == (1, 2)
    assert found.committed == [0, 5, 5, 9]
    late = flow.cumulative_flow(samples_of([(0, both), (60, both), (61, both)]), 2, GAP_MS)
    assert late.times == [0, 61_000]


def test_it_counts_a_queue_that_comes_later_from_then_on() -> None:
    found = flow.cumulative_flow(
        samples_of(
            [(0, {ORDERS_0: (0, 10, 10, -1)}), (5, {ORDERS_0: (0, 10, 10, -1), ORDERS_1: (0, 8, 3, -1)})]
        ),
        300,
        GAP_MS,
    )
    assert (found.produced, found.committed) == ([0, 5], [0, 0])


def test_it_is_empty_without_history() -> None:
    assert flow.cumulative_flow(from_snapshots([]), 300, GAP_MS).times == ()
    assert flow.best_speed(from_snapshots([]), GAP_MS) is None


@pytest.mark.parametrize(
    ("committed", "per_s", "minutes"),
    [
        ([0, 60, 120, 720, 720], 10.0, 2),  # at 0, 30, 60, 90, 120 s
        ([0, 0, 0, 0, 0], None, 0),
        ([500, 0, 60, 120, 180], 2.0, 1),  # went back in the first minute: that one tells nothing
    ],
)
def test_it_finds_the_best_minute(committed: list[int], per_s: float | None, minutes: int) -> None:
    rounds = [(at * 30, {ORDERS_0: (0, 10_000, offset, -1)}) for at, offset in enumerate(committed)]
    found = flow.best_speed(samples_of(rounds), 60_000)
    if per_s is None:
        assert found is None
    else:
        assert found is not None
        assert (found.per_s, found.minutes) == (per_s, minutes)


def test_a_speed_is_measured_while_the_group_is_behind() -> None:
    """50 a second are read while messages are older than half a minute, 10 a second come and are read after that."""
    rounds = [(at * 5, {ORDERS_0: (0, 90_000, min(250 * at, 3_000 + 50 * at), -1)}) for at in range(60)]
    samples = samples_of(rounds)
    samples.status[:] = 1
    samples.time_lag_ms[:] = 300
    assert flow.handled_speed(samples, 5_000) is None
    samples.time_lag_ms[: 15 * 1] = 60_000
    assert flow.handled_speed(samples, 5_000) == 50.0


def test_a_set_offset_is_no_speed() -> None:
    rounds = [(at * 30, {ORDERS_0: (0, 9_000, 60 * at + 700 * (at > 2), -1)}) for at in range(5)]
    samples = samples_of(rounds)
    samples.flags[3] = 32
    found = flow.best_speed(samples, 60_000)
    assert found is not None and found.per_s == 2.0


def test_each_queue_has_the_pace_at_which_it_was_read() -> None:
    """Queue 0 is read at 10 a second; queue 1 was set ahead by 900 at 10 s, and is read at 2 a second."""
    second = (5, 15, 1_000, 1_010, 1_020)
    rounds = [
        (number * 5, {ORDERS_0: (0, 9_000, number * 50, -1), ORDERS_1: (0, 9_000, committed, -1)})
        for number, committed in enumerate(second)
    ]
    set_at_ms = {MessageQueue(*ORDERS_1): 9_000}
    paces = flow.queue_paces(samples_of(rounds), GAP_MS, {})
    assert paces == {MessageQueue(*ORDERS_0): 10.0, MessageQueue(*ORDERS_1): 197.0}, "nothing says it was set"
    known = flow.queue_paces(samples_of(rounds), 4_000, set_at_ms)
    assert known == {}, "every step is a gap"
    known = flow.queue_paces(samples_of(rounds), 5_000, set_at_ms)
    assert known == {MessageQueue(*ORDERS_0): 10.0, MessageQueue(*ORDERS_1): 2.0}


def test_what_was_set_is_no_speed() -> None:
    """By the collector's own marks: 600 messages were passed over in the second minute."""
    offsets = (0, 60, 120, 720, 780)
    samples = samples_of([(at * 30, {ORDERS_0: (0, 9_000, one, -1)}) for at, one in enumerate(offsets)])
    samples = replace(samples, flags=np.array([0, 0, 0, SampleFlag.MOVED, 0], dtype=np.uint8))
    assert flow.best_speed(samples, 60_000) == flow.Speed(2.0, 1)
    assert flow.queue_paces(samples, 60_000, {}) == {MessageQueue(*ORDERS_0): 2.0}
