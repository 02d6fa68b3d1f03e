"""The rolling window: figures of literal rounds, and the same window from the log."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.lag import wal
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from spark.lag.window import LagWindow, QueueState
from tests.spark.lag.history import rounds, snapshot

HEAD = HeadKey("orders", "broker-a", 0)
COMMIT = CommitKey("billing", "orders", "broker-a", 0)


def window(history: list[Snapshot], interval_ms: int = 5_000) -> LagWindow:
    found = LagWindow(interval_ms)
    for one in history:
        found.append(one)
    return found


def state(found: LagWindow, key: CommitKey = COMMIT) -> QueueState:
    seen = found.state(key)
    assert seen is not None
    return seen


def test_it_knows_lag_age_and_rates_of_the_newest_round() -> None:
    seen = window(rounds({HEAD: [(0, 100), (0, 150), (0, 200)]}, {COMMIT: [100, 120, 160]}))
    now = state(seen)
    assert (now.lag, now.time_lag_ms, now.time_lag_lower_bound) == (40, 3_950, False)
    assert seen.produce_rate(HEAD) == 10.0
    assert seen.consume_rate(COMMIT) == 6.0
    assert (now.in_flight, now.available) == (None, None)
    assert seen.last_commit_ms(COMMIT) == 10_000


def test_it_is_silent_about_a_queue_the_newest_round_did_not_read() -> None:
    seen = window(rounds({HEAD: [(0, 100), None]}, {COMMIT: [90, None]}))
    assert seen.state(COMMIT) is None
    assert seen.head(HEAD) is None
    seen = window(rounds({HEAD: [(0, 100), None]}, {COMMIT: [90, 95]}))
    assert seen.state(COMMIT) is None


def test_it_has_no_rate_before_two_readings() -> None:
    seen = window(rounds({HEAD: [(0, 100)]}, {COMMIT: [90]}))
    assert (seen.produce_rate(HEAD), seen.consume_rate(COMMIT)) == (None, None)
    assert seen.produce_rate(HEAD._replace(queue_id=7)) is None


def test_it_spreads_a_rate_over_a_gap_instead_of_inventing_a_burst() -> None:
    seen = window(rounds({HEAD: [(0, 0), None, None, (0, 150)]}, {}))
    assert seen.produce_rate(HEAD) == 10.0


def test_it_does_not_count_a_jump_or_a_rewind_as_consumption() -> None:
    seen = window(rounds({HEAD: [(0, 90_000)] * 6}, {COMMIT: [0, 10, 20, 30, 50_030, 50_040]}))
    assert seen.consume_rate(COMMIT) == pytest.approx(40 / 25)
    seen = window(rounds({HEAD: [(0, 90)] * 3}, {COMMIT: [80, 10, 20]}))
    assert seen.consume_rate(COMMIT) == 1.0


def test_it_gives_a_lower_bound_until_it_knows_better() -> None:
    seen = window(rounds({HEAD: [(0, 100), (0, 100)]}, {COMMIT: [40, 40]}))
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (5_000, True)
    seen.add_known_time(HEAD, 99, -600_000)  # the newest message's store time, from the topic's statistics
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (605_000, True)
    seen.add_known_time(HEAD, 40, -3_600_000)  # looked up
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (3_605_000, False)
    seen.append(snapshot(10_000, {HEAD: (0, 100)}, {COMMIT: 50}, number=2))
    # between the two
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (3_101_525, False)


def test_it_remembers_old_max_offsets_by_the_minute() -> None:
    history = rounds({HEAD: [(0, i) for i in range(400)]}, {COMMIT: [13] * 400})
    seen = window(history)
    assert seen.rows == 122
    assert state(seen).time_lag_ms == pytest.approx(399 * 5_000 - 13 * 5_000, abs=60_000)
    assert not state(seen).time_lag_lower_bound


def test_it_takes_older_max_offsets_from_chunks() -> None:
    history = rounds({HEAD: [(0, i) for i in range(400)]}, {COMMIT: [13] * 400})
    seen = LagWindow(5_000)
    seen.seed(from_snapshots(history[:300]).select(lambda key: not key.group))
    for one in history[300:]:
        seen.append(one)
    assert state(seen).time_lag_ms == state(window(history)).time_lag_ms


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [((0, 1200), 0), ((0, 1000), 0), ((0, 960), 0), ((0, 940), 1), ((0, 0), 1), ((5, 990), 1)],
)
def test_it_tells_a_topic_made_again_from_a_lost_tail(offsets: tuple[int, int], expected: int) -> None:
    seen = window(rounds({HEAD: [(0, 1000)]}, {}))
    assert seen.incarnation("orders", "broker-a", 0, *offsets) == expected
    assert seen.incarnation("orders", "broker-b", 0, *offsets) == 0


def test_it_notices_a_topic_made_again_while_its_broker_was_silent() -> None:
    seen = window(rounds({HEAD: [(0, 1000), *[None] * 200]}, {}))
    assert seen.incarnation("orders", "broker-a", 0, 0, 10) == 1


def test_it_stays_small_on_an_idle_queue() -> None:
    seen = window(rounds({HEAD: [(0, 7)] * 2000}, {COMMIT: [7] * 2000}))
    assert len(seen._coarse[HEAD].t_ms) == 2
    assert seen.dead_share() == 0.0
    for i in range(130):
        seen.append(snapshot(10**8 + i * 5_000, {}, {}))
    assert seen.dead_share() == 1.0


def test_it_is_the_same_window_when_read_back_from_the_log() -> None:
    rng = np.random.default_rng(3)
    heads = {
        HEAD._replace(queue_id=q): [(0, int(v)) for v in np.cumsum(rng.poisson(20, 60))] for q in range(5)
    }
    commits = {
        COMMIT._replace(queue_id=q): [max(0, v - 30) for _, v in heads[HEAD._replace(queue_id=q)]]
        for q in range(5)
    }
    history = rounds(heads, commits)
    log = wal.SegmentState()
    data = wal.encode_header("local", 0) + b"".join(wal.encode_frame(log, one) for one in history)
    again = window(wal.read_segment(data).snapshots)
    live = window(history)
    for key in commits:
        assert again.state(key) == live.state(key)
        assert again.consume_rate(key) == live.consume_rate(key)
        assert again.produce_rate(key.head) == live.produce_rate(key.head)
        assert again.history(key).committed.tolist() == live.history(key).committed.tolist()


@given(st.lists(st.integers(0, 100), min_size=4, max_size=4).map(sorted))
def test_it_adds_in_flight_and_available_to_the_lag(offsets: list[int]) -> None:
    low, committed, pulled, high = offsets
    seen = window([snapshot(0, {HEAD: (low, high)}, {COMMIT: committed}, pulled={COMMIT: pulled})])
    now = state(seen)
    assert now.in_flight is not None
    assert now.available is not None
    assert now.lag == now.in_flight + now.available


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_it_never_says_a_negative_number(low: int, high: int, committed: int) -> None:
    now = state(window([snapshot(0, {HEAD: (min(low, high), high)}, {COMMIT: committed})]))
    assert now.lag >= 0
    assert (now.time_lag_ms is None) == (committed > high)


@given(st.lists(st.integers(0, 100), min_size=4, max_size=4))
def test_its_identity_holds_whatever_a_broker_says(offsets: list[int]) -> None:
    low, committed, pulled, high = offsets
    now = state(window([snapshot(0, {HEAD: (low, high)}, {COMMIT: committed}, pulled={COMMIT: pulled})]))
    assert now.in_flight is not None
    assert now.available is not None
    assert committed > high or now.lag == now.in_flight + now.available


@pytest.mark.parametrize(
    ("high", "committed", "expected"),
    [
        # 10 messages a round come; as many are read, 20 rounds late
        ([10 * i for i in range(60)], [10 * max(0, i - 20) for i in range(60)], 1.0),
        # nothing is read
        ([10 * i for i in range(60)], [0] * 60, 0.0),
        # two rounds' messages are read in each
        ([10 * i for i in range(60)], [20 * max(0, i - 31) for i in range(60)], 2.0),
        # nothing waits, then and now
        ([10 * i for i in range(60)], [10 * i for i in range(60)], 1.0),
        # half as fast as they come
        ([10 * i for i in range(60)], [5 * i for i in range(60)], 0.5),
        # it went back: that is no speed
        ([600] * 60, [500] * 50 + [100] * 10, None),
        # a burst on an idle queue in the last round: nobody can say yet
        ([0] * 59 + [10], [0] * 60, None),
        ([10], [0], None),
    ],
)
def test_it_measures_how_fast_a_group_catches_up(
    high: list[int], committed: list[int], expected: float | None
) -> None:
    seen = window(rounds({HEAD: [(0, one) for one in high]}, {COMMIT: committed}))
    found = seen.speed(COMMIT)
    assert found == (None if expected is None else pytest.approx(expected, abs=0.1))


def test_it_knows_how_long_messages_wait_before_they_are_pulled() -> None:
    history = rounds({HEAD: [(0, 10 * i) for i in range(10)]}, {COMMIT: [0] * 10})
    seen = window(history)
    assert seen.queueing_ms(state(seen)) is None  # the pulled offset was not read
    seen.append(snapshot(50_000, {HEAD: (0, 100)}, {COMMIT: 0}, pulled={COMMIT: 60}))
    assert seen.queueing_ms(state(seen)) == pytest.approx(50_000 - 30_000, abs=5_000)
    seen.append(snapshot(55_000, {HEAD: (0, 100)}, {COMMIT: 0}, pulled={COMMIT: 100}))
    assert seen.queueing_ms(state(seen)) == 0


def test_it_says_which_share_of_its_rounds_took_place() -> None:
    history = rounds({HEAD: [(0, 1)] * 21}, {})
    assert window(history[:1]).coverage_pct() == 100.0
    assert window(history).coverage_pct() == 100.0
    assert window([one for number, one in enumerate(history) if number % 2 == 0]).coverage_pct() == 50.0
