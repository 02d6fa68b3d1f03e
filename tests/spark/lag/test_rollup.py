"""The hourly figures: literal hours, and a plain Python twin on random histories."""

import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag import chunk, rollup
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.history import rounds, snapshot

HOUR = 3_600_000
START = 10 * HOUR
STEP = 60_000
Q0, Q1 = HeadKey("orders", "broker-a", 0), HeadKey("orders", "broker-b", 1)
C0, C1 = CommitKey("billing", *Q0), CommitKey("billing", *Q1)


def hour(history: list[Snapshot], previous: Snapshot | None = None, **kwargs: Any) -> list[dict[str, Any]]:
    samples = from_snapshots(history, previous)
    table = rollup.hourly(samples, START, START + HOUR, cluster="local", interval_ms=STEP, **kwargs)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def history(heads: dict[HeadKey, list[Any]], commits: dict[CommitKey, list[Any]]) -> list[Snapshot]:
    return rounds(heads, commits, start_ms=START, interval_ms=STEP)


def test_it_makes_the_documented_row() -> None:
    past = history(
        {Q0: [(0, 100), (0, 160), (0, 220), (0, 220)], Q1: [(0, 10), (0, 10), (0, 10), (0, 40)]},
        {C0: [100, 100, 160, 220], C1: [10, 10, 10, 10]},
    )
    before = snapshot(START - STEP, {Q0: (0, 70), Q1: (0, 10)}, {C0: 70, C1: 10})
    (row,) = hour(past, before)
    assert row == {
        "cluster": "local",
        "kind": "GROUP",
        "group": "billing",
        "topic": "orders",
        "broker_name": "",
        "queue_id": -1,
        "window_start_ms": START,
        "window_end_ms": START + HOUR,
        "interval_ms": STEP,
        "slo_ms": 60_000,
        "queues": 2,
        "lag_last": 30,
        "lag_p50": 30,
        "lag_p95": 60,
        "lag_p99": 60,
        "lag_max": 60,
        # offset 10 of the 30 that came in the last minute: stored 1 s after its begin
        "time_lag_last_ms": 59_000,
        "time_lag_p50_ms": 59_000,
        "time_lag_p95_ms": 59_500,
        "time_lag_p99_ms": 59_500,
        "time_lag_max_ms": 59_500,
        "time_lag_censored": 0,
        "produced": 180,
        "consumed": 150,
        "in_rate": 0.75,
        "out_rate": 0.625,
        "breach_ms": 0,
        "lost": 0,
        "rewinds": 0,
        "samples": 4,
        "partial_samples": 0,
        "expected_samples": 60,
        "coverage_pct": 6.67,
        "max_gap_ms": HOUR - 3 * STEP,
        "worst_queue": "broker-a · 0",
    }


def test_it_keeps_a_sum_with_a_missing_queue_out_of_the_percentiles() -> None:
    past = history(
        {Q0: [(0, 100), (0, 100), (0, 100)], Q1: [(0, 50), None, (0, 50)]},
        {C0: [90, 90, 90], C1: [0, None, 0]},
    )
    (row,) = hour(past)
    assert (row["samples"], row["partial_samples"], row["lag_p50"], row["lag_max"]) == (2, 1, 60, 60)
    assert row["max_gap_ms"] == HOUR - 2 * STEP


def test_it_has_no_figures_when_no_round_was_complete() -> None:
    past = history({Q0: [(0, 9), None], Q1: [None, (0, 9)]}, {C0: [9, None], C1: [None, 9]})
    (row,) = hour(past, snapshot(START - STEP, {Q0: (0, 9), Q1: (0, 9)}, {C0: 9, C1: 9}))
    assert (row["samples"], row["partial_samples"], row["lag_max"], row["time_lag_p99_ms"]) == (
        0,
        2,
        None,
        None,
    )
    assert row["coverage_pct"] == 0.0


def test_it_says_when_a_time_lag_is_only_a_lower_bound() -> None:
    (row,) = hour(history({Q0: [(0, 100)] * 4}, {C0: [10] * 4}))
    assert (row["time_lag_censored"], row["time_lag_max_ms"]) == (4, 3 * STEP)
    assert row["breach_ms"] == 2 * STEP  # at least 120 s and 180 s old: certainly over 60 s


def test_it_counts_a_gap_as_neither_good_nor_bad() -> None:
    past = [
        snapshot(START, {Q0: (0, 100)}, {C0: 0}),
        snapshot(START + 30 * STEP, {Q0: (0, 100)}, {C0: 0}),
    ]
    (row,) = hour(past)
    assert row["breach_ms"] == 4 * STEP
    assert (row["in_rate"], row["samples"]) == (None, 2)


def test_it_does_not_call_a_jump_consumption_nor_a_rewind_negative() -> None:
    past = history(
        {Q0: [(0, 500_000)] * 8},
        {C0: [0, 100, 200, 300, 100_300, 100_400, 50, 150]},
    )
    (row,) = hour(past)
    assert (row["consumed"], row["rewinds"]) == (500, 1)


def test_it_counts_lost_messages_once() -> None:
    past = history({Q0: [(0, 100), (30, 100), (60, 100), (60, 100)]}, {C0: [10, 10, 10, 70]})
    (row,) = hour(past)
    assert (row["lost"], row["consumed"]) == (50, 10)
    assert row["lag_max"] == 90


def test_it_leaves_out_a_committed_offset_beyond_max() -> None:
    (row,) = hour(history({Q0: [(0, 100), (0, 10)]}, {C0: [100, 100]}))
    assert (row["samples"], row["partial_samples"], row["lag_max"]) == (1, 1, 0)


def test_it_does_not_miss_the_old_incarnation_of_a_topic() -> None:
    again, commit = Q0._replace(incarnation=1), C0._replace(incarnation=1)
    past = history(
        {Q0: [(0, 90), None, None], again: [None, (0, 5), (0, 6)]},
        {C0: [80, None, None], commit: [None, 0, 6]},
    )
    (row,) = hour(past)
    assert (row["samples"], row["partial_samples"], row["queues"]) == (3, 0, 1)
    assert (row["produced"], row["consumed"], row["lag_last"]) == (1, 6, 0)


def test_it_cuts_hours_and_gives_queues_rows_of_their_own() -> None:
    heads = {Q0: [(0, 10 * i) for i in range(90)], Q1: [(0, 5)] * 90}
    past = rounds(heads, {C0: [10 * i for i in range(90)], C1: [5] * 90}, start_ms=START, interval_ms=STEP)
    samples = from_snapshots(past)
    table = rollup.hourly(samples, START + STEP, START + 75 * STEP, cluster="local", interval_ms=STEP)
    found = table.select(
        ["window_start_ms", "window_end_ms", "samples", "expected_samples", "produced"]
    ).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (START + STEP, START + HOUR, 59, 59, 590),
        (START + HOUR, START + 75 * STEP, 15, 15, 150),
    ]
    queues = rollup.hourly_queues(samples, START, START + HOUR, cluster="local", interval_ms=STEP).to_pylist()
    assert [(row["broker_name"], row["queue_id"], row["consumed"]) for row in queues] == [
        ("broker-a", 0, 590)
    ]


def test_it_gives_the_same_rows_from_files(tmp_path: Any) -> None:
    past = history({Q0: [(0, i * i) for i in range(60)]}, {C0: [max(0, i * i - 30 * i) for i in range(60)]})
    chunk.write_chunk(chunk.compact(past, interval_ms=STEP), str(tmp_path / "a.parquet"))
    loaded = chunk.decode_table(chunk.load_window([str(tmp_path / "a.parquet")], START, START + HOUR))
    direct = rollup.hourly(from_snapshots(past), START, START + HOUR, cluster="local", interval_ms=STEP)
    assert rollup.hourly(loaded, START, START + HOUR, cluster="local", interval_ms=STEP).equals(direct)


def test_it_makes_no_rows_of_nothing() -> None:
    table = rollup.hourly(from_snapshots([]), START, START + HOUR, cluster="local", interval_ms=STEP)
    assert (table.num_rows, table.schema) == (0, rollup.HOUR_SCHEMA)


# The plain twin: the same definitions, one sample at a time.


def plain_rank(values: list[int], share: int) -> int:
    return sorted(values)[max(math.ceil(share * len(values) / 100) - 1, 0)]


def plain_age(heads: list[tuple[int, int]], now: int, offset: int) -> tuple[int, bool]:
    """Return (age, lower bound?) of an offset from (time, max offset so far)."""
    if offset < heads[0][1]:
        return now - heads[0][0], True
    for (t_a, m_a), (t_b, m_b) in zip(heads, heads[1:], strict=False):
        if m_a <= offset < m_b:
            stored = t_a + round((offset + 0.5 - m_a) / (m_b - m_a) * (t_b - t_a))
            return now - stored, False
    raise AssertionError("the offset is not below the last head")


def plain_hour(past: list[Snapshot]) -> dict[str, Any]:
    """Return the figures of the only group's only topic, from the first round on."""
    per_queue: dict[CommitKey, list[tuple[int, int, int, int]]] = defaultdict(list)
    for one in past:
        heads = one.heads()
        for key, committed in one.commits().items():
            if key.head in heads:
                per_queue[key].append((one.ts_ms, *heads[key.head], committed))
    lag: dict[int, int] = defaultdict(int)
    age: dict[int, int] = defaultdict(int)
    read: dict[int, int] = defaultdict(int)
    bound: dict[int, bool] = defaultdict(bool)
    total = {"produced": 0, "consumed": 0, "rewinds": 0, "lost": 0}
    for samples in per_queue.values():
        tops: list[tuple[int, int]] = []
        before: tuple[int, int, int, int] | None = None
        for t, low, high, committed in samples:
            tops.append((t, max([high, *(m for _, m in tops)])))
            read[t] += committed <= high
            if max(committed, low) < high:
                lag[t] += high - max(committed, low)
                waited, lower = plain_age(tops, t, max(committed, low))
                age[t], bound[t] = max(age[t], waited), bound[t] or lower
            if before is not None:
                total["rewinds"] += committed < before[3]
                total["lost"] += max(0, low - max(before[3], before[1], committed))
                if t - before[0] <= 4 * STEP:
                    total["produced"] += max(0, high - before[2])
                    total["consumed"] += max(0, committed - max(before[3], before[1]))
            before = (t, low, high, committed)
    times = sorted({one[0] for samples in per_queue.values() for one in samples})
    begun = [samples[0][0] for samples in per_queue.values()]
    complete = [t for t in times if read[t] == sum(begin <= t for begin in begun)]
    gaps = dict(zip(times[1:], (b - a for a, b in zip(times, times[1:], strict=False)), strict=True))
    return {
        **total,
        "samples": len(complete),
        "partial_samples": len(times) - len(complete),
        "breach_ms": sum(min(gaps.get(t, 0), 4 * STEP) for t in times if age[t] > 60_000),
        "time_lag_censored": sum(bound[t] for t in complete),
        **(
            {
                f"lag_p{p}": plain_rank([lag[t] for t in complete], p) if complete else None
                for p in (50, 95, 99)
            }
        ),
        **(
            {
                f"time_lag_p{p}_ms": plain_rank([age[t] for t in complete], p) if complete else None
                for p in (50, 95, 99)
            }
        ),
        "lag_last": lag[complete[-1]] if complete else None,
        "time_lag_max_ms": max(age[t] for t in complete) if complete else None,
    }


SAMPLE = st.one_of(st.none(), st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 110)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(SAMPLE, min_size=8, max_size=8), min_size=1, max_size=3))
def test_it_agrees_with_its_plain_twin(moves: list[list[tuple[int, int, int] | None]]) -> None:
    heads: dict[HeadKey, list[Any]] = {}
    commits: dict[CommitKey, list[Any]] = {}
    for q, one in enumerate(moves):
        low = high = 0
        seen: list[Any] = []
        for move in one:
            if move is not None:
                low = max(low, move[0])
                high = max(high, low) + move[1] - 20 * (move[1] == 33)  # now and then the head goes back
                high = max(high, low)
            seen.append(move and (low, high))
        heads[Q0._replace(queue_id=q)] = seen
        commits[C0._replace(queue_id=q)] = [move and move[2] for move in one]
    past = history(heads, commits)
    found = hour(past)
    if not any(one.commit_keys for one in past):
        assert found == []
        return
    expected = plain_hour(past)
    assert {name: found[0][name] for name in expected} == expected


@pytest.mark.parametrize(("share", "expected"), [(50, 5), (95, 10), (99, 10)])
def test_its_percentiles_are_values_that_were_there(share: int, expected: int) -> None:
    past = history({Q0: [(0, 100)] * 10}, {C0: [100 - i for i in range(1, 11)]})
    assert hour(past)[0][f"lag_p{share}"] == expected
