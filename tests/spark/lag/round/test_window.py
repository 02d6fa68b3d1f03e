"""The rolling window: figures of literal rounds, and the same window from the log."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.codes import UNKNOWN_CODE, SampleFlag
from spark.lag.history import wal
from spark.lag.round.round_arrays import ages
from spark.lag.round.window import LagWindow
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.sample_history import rounds, snapshot
from tests.support import plain_window
from tests.support.plain_window import QueueState

HEAD = HeadKey("orders", "broker-a", 0)
COMMIT = CommitKey("billing", "orders", "broker-a", 0)


def window(history: list[Snapshot], interval_ms: int = 5_000) -> LagWindow:
    found = LagWindow(interval_ms)
    for one in history:
        found.append(one)
    return found


def state(found: LagWindow, key: CommitKey = COMMIT) -> QueueState:
    seen = plain_window.state(found, key)
    assert seen is not None
    return seen


def test_it_knows_lag_age_and_rates_of_the_newest_round() -> None:
    seen = window(rounds({HEAD: [(0, 100), (0, 150), (0, 200)]}, {COMMIT: [100, 120, 160]}))
    now = state(seen)
    assert (now.lag, now.time_lag_ms, now.time_lag_lower_bound) == (40, 3_950, False)
    assert plain_window.produce_rate(seen, HEAD) == 10.0
    assert plain_window.consume_rate(seen, COMMIT) == 6.0
    assert (now.in_flight, now.available) == (None, None)


def test_it_is_silent_about_a_queue_the_newest_round_did_not_read() -> None:
    seen = window(rounds({HEAD: [(0, 100), None]}, {COMMIT: [90, None]}))
    assert plain_window.state(seen, COMMIT) is None
    assert seen.head(HEAD) is None
    seen = window(rounds({HEAD: [(0, 100), None]}, {COMMIT: [90, 95]}))
    assert plain_window.state(seen, COMMIT) is None


def test_it_has_no_rate_before_two_readings() -> None:
    seen = window(rounds({HEAD: [(0, 100)]}, {COMMIT: [90]}))
    assert (plain_window.produce_rate(seen, HEAD), plain_window.consume_rate(seen, COMMIT)) == (None, None)
    assert plain_window.produce_rate(seen, HEAD._replace(queue_id=7)) is None


def test_it_spreads_a_rate_over_a_gap_instead_of_inventing_a_burst() -> None:
    seen = window(rounds({HEAD: [(0, 0), None, None, (0, 150)]}, {}))
    assert plain_window.produce_rate(seen, HEAD) == 10.0


def test_it_does_not_count_a_jump_or_a_rewind_as_consumption() -> None:
    history = rounds({HEAD: [(0, 90_000)] * 6}, {COMMIT: [0, 10, 20, 30, 530, 540]})
    seen = window(history[:5])
    seen.mark_moved(seen.newest_commits)
    seen.append(history[5])
    assert seen.consume_rates()[0] == pytest.approx(40 / 25)
    assert seen.history(COMMIT).moved.tolist() == [False, False, False, False, True, False]
    seen = window(rounds({HEAD: [(0, 90)] * 3}, {COMMIT: [80, 10, 20]}))
    assert seen.consume_rates()[0] == 1.0
    assert seen.has_moved(seen.newest_commits).tolist() == [True]


def test_it_gives_a_lower_bound_until_it_knows_better() -> None:
    seen = window(rounds({HEAD: [(0, 100), (0, 100)]}, {COMMIT: [40, 40]}))
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (5_000, True)
    seen.add_known_time(HEAD, 99, -600_000)  # the newest message's store time, from the topic's statistics
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (605_000, True)
    seen.add_known_time(HEAD, 40, -3_600_000)  # looked up
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (3_605_000, False)
    seen.append(snapshot(10_000, {HEAD: (0, 100)}, {COMMIT: 50}, number=2))
    # between the two: likely so old, certainly no younger than the second
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (610_000, True)
    assert ages(seen, seen.newest_heads, np.array([50])).estimate_ms.tolist() == [3_076_102]


def test_it_knows_the_age_of_the_first_unread_message_however_late_a_group_is() -> None:
    seen = LagWindow(5_000)
    for at, one in enumerate(
        rounds({HEAD: [(0, i) for i in range(800)]}, {COMMIT: [i // 8 for i in range(800)]})
    ):
        seen.append(one)
        if at:
            truth_ms = (at - 1 - at // 8) * 5_000  # message i came in the round that first saw i + 1
            now = state(seen)
            assert now.time_lag_ms == pytest.approx(truth_ms, abs=5_000)
            assert not now.time_lag_lower_bound
    assert seen.rows == 122  # of 800: the first unread one left the window long ago
    found = ages(seen, seen.newest_heads, np.array([99]))
    assert (found.ms.tolist(), found.lower_bound.tolist()) == ([state(seen).time_lag_ms], [False])


@settings(max_examples=100, deadline=None)
@given(
    stored=st.lists(st.integers(0, 60_000), min_size=2, max_size=60),
    gaps=st.lists(st.integers(1, 9_000), min_size=2, max_size=30),
)
def test_an_age_is_off_by_a_round_at_most_or_a_lower_bound(stored: list[int], gaps: list[int]) -> None:
    stored.sort()
    seen = LagWindow(5_000)
    for at in np.cumsum(gaps).tolist():
        high = sum(one <= at for one in stored)
        seen.append(snapshot(at, {HEAD: (0, high)}, {COMMIT: 0}))
        found = ages(seen, np.zeros(high, dtype=np.int64), np.arange(high))
        for message, (age_ms, is_bound) in enumerate(
            zip(found.ms.tolist(), found.lower_bound.tolist(), strict=True)
        ):
            truth_ms = at - stored[message]
            assert age_ms <= truth_ms if is_bound else abs(age_ms - truth_ms) <= 7_500, (at, message)


def test_a_group_that_went_back_is_at_least_so_late() -> None:
    committed = [*range(800), 13]
    seen = window(rounds({HEAD: [(0, i) for i in range(801)]}, {COMMIT: committed}))
    now = state(seen)
    assert now.age is not None and now.age.estimate_ms is not None
    assert now.time_lag_lower_bound
    truth_ms = (800 - 13.5) * 5_000
    assert truth_ms - 120_000 <= now.age.ms <= truth_ms <= now.age.ms + 120_000
    assert now.age.estimate_ms == pytest.approx(truth_ms, abs=5_000)  # they came evenly
    seen.add_known_time(HEAD, 13, 65_000)  # looked up
    assert (state(seen).time_lag_ms, state(seen).time_lag_lower_bound) == (4_000_000 - 65_000, False)


def test_a_gap_of_rounds_is_admitted() -> None:
    history = rounds(
        {HEAD: [(0, 0), (0, 0), *[None] * 10, (0, 100), (0, 100)]}, {COMMIT: [0, 0, *[None] * 10, 0, 0]}
    )
    now = state(window(history))
    assert (now.time_lag_ms, now.time_lag_lower_bound) == (5_000, True)
    assert now.age is not None and now.age.estimate_ms == 5_000 + 54_725


def test_it_takes_older_max_offsets_from_chunks() -> None:
    history = rounds({HEAD: [(0, i) for i in range(400)]}, {COMMIT: [13] * 400})
    seen = LagWindow(5_000)
    seen.seed(from_snapshots(history[:300]).select(lambda key: not key.group))
    for one in history[300:]:
        seen.append(one)
    whole = state(window(history))
    assert whole.age is not None
    now = state(seen)
    assert now.time_lag_lower_bound  # every second minute of it
    assert now.age is not None and now.age.estimate_ms == pytest.approx(whole.age.ms, abs=2_500)
    assert whole.age.ms - 120_000 <= now.age.ms <= whole.age.ms
    seen = LagWindow(5_000)
    heads = from_snapshots(history[:300]).select(lambda key: not key.group)
    seen.seed(heads, {("orders", "broker-a", 0)})  # the rows of before the restart say that a group is late
    for one in history[300:]:
        seen.append(one)
    assert state(seen) == whole


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


def test_it_does_not_keep_what_no_group_waits_for() -> None:
    seen = window(rounds({HEAD: [(0, i) for i in range(300)]}, {COMMIT: [1] * 200 + list(range(200, 300))}))
    assert seen.late.slots.max() == -1  # it was late, and is level
    assert seen.dead_share() == 0.0
    for i in range(130):
        seen.append(snapshot(10**8 + i * 5_000, {}, {}))
    assert seen.dead_share() == 1.0


def test_its_rates_count_what_a_group_handled() -> None:
    def rate(offsets: list[tuple[int, int]], committed: list[int], every_ms: int = 5_000) -> float:
        seen = LagWindow(5_000)
        for at, (low_high, one) in enumerate(zip(offsets, committed, strict=True)):
            seen.append(snapshot(at * every_ms, {HEAD: low_high}, {COMMIT: one}))
        return float(seen.consume_rates()[0])

    assert rate([(0, 100)] * 3, [0, 50, 100]) == 10.0
    assert rate([(0, 100)] * 3, [0, 50, 150]) == 10.0  # beyond max nothing can have been consumed
    assert rate([(0, 100), (0, 100), (60, 100)], [0, 10, 70]) == 2.0  # 50 were deleted unread
    assert rate([(0, 9_000)] * 2, [0, 3_000], every_ms=300_000) == 10.0  # five minutes without a round


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
        assert plain_window.state(again, key) == plain_window.state(live, key)
        assert plain_window.consume_rate(again, key) == plain_window.consume_rate(live, key)
        assert plain_window.produce_rate(again, key.head) == plain_window.produce_rate(live, key.head)
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
    found = plain_window.speed(seen, COMMIT)
    assert found == (None if expected is None else pytest.approx(expected, abs=0.1))


def test_it_knows_how_long_messages_wait_before_they_are_pulled() -> None:
    history = rounds({HEAD: [(0, 10 * i) for i in range(10)]}, {COMMIT: [0] * 10})
    seen = window(history)
    assert plain_window.queueing_ms(seen, state(seen)) is None  # the pulled offset was not read
    seen.append(snapshot(50_000, {HEAD: (0, 100)}, {COMMIT: 0}, pulled={COMMIT: 60}))
    assert plain_window.queueing_ms(seen, state(seen)) == pytest.approx(50_000 - 30_000, abs=5_000)
    seen.append(snapshot(55_000, {HEAD: (0, 100)}, {COMMIT: 0}, pulled={COMMIT: 100}))
    assert plain_window.queueing_ms(seen, state(seen)) == 0


def test_it_says_which_share_of_its_rounds_took_place() -> None:
    history = rounds({HEAD: [(0, 1)] * 21}, {})
    assert window(history[:1]).coverage_pct() == 100.0
    assert window(history).coverage_pct() == 100.0
    assert window([one for number, one in enumerate(history) if number % 2 == 0]).coverage_pct() == 50.0


def test_it_takes_judged_rounds_out_of_the_log() -> None:
    """What was not read stands there with the offsets of the round before, and is no reading."""
    live = window(rounds({HEAD: [(0, 100), None, (0, 120)]}, {COMMIT: [90, None, 100]}))
    live.mark_moved(live.newest_commits)
    unread = Snapshot(
        5_000, 1, (), [HEAD], np.array([100]), np.array([0]), [COMMIT], np.array([90]), np.array([-1]),
        head_status=np.array([UNKNOWN_CODE], dtype=np.uint8),
    )  # fmt: skip
    first, _, last = rounds({HEAD: [(0, 100), None, (0, 120)]}, {COMMIT: [90, None, 100]})
    last = replace(last, flags=np.array([SampleFlag.MOVED], dtype=np.uint8))
    again = window([first, unread, last])
    for one in (live, again):
        assert one.history(COMMIT).t_ms.tolist() == [0, 10_000]
        assert one.history(COMMIT).moved.tolist() == [False, True]
        assert (one.produce_rates()[0], one.consume_rates()[0]) == (2.0, 0.0)


def test_more_queues_than_there_was_room_for() -> None:
    queues = [HEAD._replace(queue_id=number) for number in range(300)]
    seen = LagWindow(5_000)
    for at in range(300):
        now = dict.fromkeys(queues[: at + 1], (0, 10 * at))
        commits = {CommitKey("billing", *head): max(0, 10 * at - 2_000) for head in now}
        seen.append(snapshot(at * 5_000, now, commits, number=at))
    columns, offsets = seen.newest_heads, seen.commits.last[seen.newest_commits]
    found = ages(seen, columns, offsets)
    # 2,000 messages at 2/s; of queues that came late nothing older was read
    assert found.ms[:100].tolist() == [pytest.approx(1_000_000, abs=5_000)] * 100
    assert found.lower_bound.tolist() == [False] * 100 + [True] * 200
