"""The twelve words: the edge rows of lag.md 1.3 as literal histories, and how unknown adds up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.forecast import Drain
from spark.lag.round.status import (
    ABSENT,
    CODE_OF,
    POP_QUIET_MS,
    STATUS_OF,
    WORST_FIRST,
    Evidence,
    Judgement,
    LagStatus,
    QueueHistory,
    Reason,
    SampleFlag,
    attention,
    is_beyond_handling,
    judge,
    worst,
)
from tests.support.plain_group_figures import QueueFigures, combine

OK, UNKNOWN, LOST = LagStatus.OK, LagStatus.UNKNOWN, LagStatus.LOST


def history(
    committed: list[int],
    highest: list[int] | int,
    lowest: list[int] | int = 0,
    every_s: int = 30,
    moved: tuple[int, ...] = (),
    switched: tuple[int, ...] = (),
) -> QueueHistory:
    count = len(committed)
    marks = np.append(False, np.diff(committed) < 0)
    marks[[*moved]] = True
    switches = np.zeros(count, dtype=np.bool_)
    switches[[*switched]] = True
    marks &= ~switches
    return QueueHistory(
        np.arange(count, dtype=np.int64) * every_s * 1000,
        np.array(highest if isinstance(highest, list) else [highest] * count, dtype=np.int64),
        np.array(lowest if isinstance(lowest, list) else [lowest] * count, dtype=np.int64),
        np.array(committed, dtype=np.int64),
        marks,
        switches,
    )


def word(found: Judgement) -> tuple[str, int]:
    return found.status.value, found.since_ms


@pytest.mark.parametrize(
    ("past", "time_lag_ms", "clients", "expected"),
    [
        # nothing waits; an idle topic is OK however old its last message is
        (history([10, 10, 10], 10), 0, 2, ("OK", 0)),
        (history([0, 10, 10], 10), 0, 2, ("OK", 30_000)),
        # waits for less than a commit takes
        (history([90, 95, 100], [100, 105, 110]), 12_000, 2, ("OK", 60_000)),
        # retention passed the consumer
        (history([5, 5, 5], 100, [0, 4, 20]), 90_000, 0, ("LOST", 60_000)),
        # committed offset beyond max: a master switch lost its tail, or the topic was made again
        (history([50, 50], [50, 10]), None, 1, ("INVALID", 30_000)),
        # nobody connected; since its last progress
        (history([10, 20, 20, 20], [40, 50, 60, 70]), 60_000, 0, ("OFFLINE", 30_000)),
        # nobody connected but nothing waits
        (history([70, 70], 70), 0, 0, ("OK", 0)),
        # connected, constant as long as we look
        (history([10, 10, 10, 10], [40, 50, 60, 70]), 95_000, 1, ("STALLED", 0)),
        # connected, made progress every 30 s, then nothing for 120 s
        (history([10, 20, 30, 30, 30, 30, 30], 100), None, 1, ("STOPPED", 60_000)),
        # its rhythm is one commit in 90 s: 120 s without one is not remarkable
        (
            history([0, 30, 30, 30, 60, 60, 60, 60, 60], [200 + 40 * i for i in range(9)]),
            None,
            1,
            ("FALLING_BEHIND", 0),
        ),
        # a burst on an idle queue: the backlog has existed for 30 s
        (history([5, 5, 5, 5, 5], [5, 5, 5, 900, 900]), 40_000, 1, ("OK", 120_000)),
        # the same after 90 s without progress: it progressed never, so it stalled when the burst came
        (history([5, 5, 5, 5, 5, 5], [5, 5, 900, 900, 900, 900]), 90_000, 1, ("STALLED", 60_000)),
        # growing and shrinking
        (history([0, 10, 20, 30, 40], [100, 200, 300, 400, 500]), 90_000, 1, ("FALLING_BEHIND", 0)),
        (history([0, 200, 300, 400, 500], 600), 90_000, 1, ("CATCHING_UP", 0)),
        # went back and is not yet where it was; then it is
        (history([500, 500, 100, 150], 600), 90_000, 1, ("REWOUND", 60_000)),
        (history([100, 90, 110, 120], [130, 140, 150, 160]), 20_000, 1, ("OK", 90_000)),
        # another machine answers, and what it has is older: nothing went back
        (history([500, 500, 480, 490], 600, switched=(2,)), 20_000, 1, ("OK", 90_000)),
        (history([500, 500, 500, 490], 500, switched=(3,)), 0, 1, ("OK", 90_000)),
        # ... until it goes back there
        (history([500, 500, 100, 90], 600, switched=(2,)), 90_000, 1, ("REWOUND", 90_000)),
        (history([500, 100, 90, 110], 600, switched=(1,)), 20_000, 1, ("OK", 90_000)),
        # a member that did not notice that its topic was made again, then did
        (history([500, 500, 40, 60], [10, 30, 50, 70]), 4_000, 1, ("OK", 90_000)),
        # an unknown number of clients is not 0, nor clients that hang
        (history([10, 10, 10, 10], 70), None, None, ("STOPPED", 0)),
    ],
)
def test_it_judges_a_queue(
    past: QueueHistory, time_lag_ms: int | None, clients: int | None, expected: tuple[str, int]
) -> None:
    assert word(judge(past, time_lag_ms=time_lag_ms, clients=clients)) == expected


def test_it_says_why() -> None:
    found = judge(history([5, 5], 100, [0, 20]), time_lag_ms=None, clients=1)
    assert found.reason == Reason(Evidence.LOST, {"number": 15})
    found = judge(history([10, 20, 30, 30, 30, 30, 30], 100), time_lag_ms=None, clients=1)
    assert found.reason == Reason(Evidence.NO_PROGRESS, {"time_ms": 120_000, "number": 70})


def test_at_a_turning_point_the_reason_does_not_contradict_the_word() -> None:
    highest = [500, 610, 720, 830, 940, 950]
    found = judge(history([0, 10, 20, 30, 40, 460], highest), time_lag_ms=None, clients=1)
    assert found.status is LagStatus.FALLING_BEHIND
    assert found.reason == Reason(Evidence.FALLS_UNSTEADILY, {"first": 600, "last": 490, "time_ms": 120_000})


def test_it_keeps_its_word_while_the_lag_shrinks_a_little() -> None:
    unsure = history([0, 10, 20, 30, 40], [500, 514, 506, 528, 520])
    for before in (LagStatus.CATCHING_UP, LagStatus.FALLING_BEHIND):
        assert judge(unsure, time_lag_ms=None, clients=1, previous=before).status is before
    assert judge(unsure, time_lag_ms=None, clients=1).status is LagStatus.FALLING_BEHIND
    slowly = history(
        [0, 10, 20, 30, 40], [500, 508, 516, 524, 532]
    )  # 2 fewer every half minute, and so for certain
    assert judge(slowly, time_lag_ms=None, clients=1).status is LagStatus.CATCHING_UP
    flat = history([0, 10, 20, 30, 40], [500, 510, 520, 530, 540])
    before = LagStatus.CATCHING_UP
    assert judge(flat, time_lag_ms=None, clients=1, previous=before).status is LagStatus.FALLING_BEHIND


def test_a_lag_that_bursts_interrupt_catches_up_when_much_of_it_is_gone() -> None:
    """More than a tenth of the pairs of points rise, too many to be sure: half of the backlog is gone all the same."""
    bursts = [500, 400, 500, 390, 480, 350, 440, 310, 400, 270, 350]
    committed = list(range(0, 110, 10))
    highest = [lag + done for lag, done in zip(bursts, committed, strict=True)]
    found = judge(
        history(committed, highest, every_s=10),
        time_lag_ms=None,
        clients=1,
        previous=LagStatus.FALLING_BEHIND,
    )
    assert found.status is LagStatus.CATCHING_UP
    assert found.drain.ms is not None


HISTORIES = st.integers(2, 40).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(0, 400), min_size=count, max_size=count),
        st.lists(st.integers(0, 400), min_size=count, max_size=count),
        st.lists(st.sampled_from([0, 0, 0, 0, 30]), min_size=count, max_size=count),
        st.integers(0, 5_000),
        st.sampled_from([5, 30, 60]),
    )
)


@settings(max_examples=200, deadline=None)
@given(HISTORIES, st.sampled_from([None, *LagStatus]), st.sampled_from([None, 0, 1]))
def test_its_word_and_the_drain_never_contradict(
    numbers: tuple[list[int], list[int], list[int], int, int], previous: LagStatus | None, clients: int | None
) -> None:
    produced, consumed, falls, start, every_s = numbers
    high = np.cumsum(produced) + start
    committed = np.minimum(np.cumsum(np.array(consumed) - falls), high)
    past = history(committed.tolist(), high.tolist(), every_s=every_s)
    found = judge(past, time_lag_ms=10**6, clients=clients, previous=previous)
    if found.status is LagStatus.CATCHING_UP:
        assert found.drain.ms
        assert not found.drain.never
    if found.status in {LagStatus.FALLING_BEHIND, LagStatus.STALLED, LagStatus.STOPPED, LagStatus.OFFLINE}:
        assert found.drain.never
        assert found.drain.ms is None
    assert (found.drain.low_ms or 0) <= (found.drain.ms or 0) <= (found.drain.high_ms or 2**60)


def test_it_gives_a_group_the_end_of_its_last_backlog() -> None:
    def one(status: LagStatus, end: Drain, lag: int = 5) -> QueueFigures:
        return QueueFigures("q", status, lag, 90_000, False, 0, "", end)

    fast = one(LagStatus.CATCHING_UP, Drain(1_000, False, 900, 2_000, 60_000))
    slow = one(LagStatus.CATCHING_UP, Drain(9_000, False, 8_000, None, 60_000))
    stuck = one(LagStatus.STALLED, Drain(None, True))
    fine = one(OK, Drain(None, False))
    assert combine([fast, slow, fine]).drain == Drain(9_000, False, 8_000, None, 60_000)
    assert combine([fast, stuck]).drain.never
    assert combine([fast, queue(UNKNOWN, None)]).drain == Drain(None, False)
    assert combine([stuck, queue(UNKNOWN, None)]).drain.never
    assert combine([fine]).drain == Drain(None, False)
    assert combine([one(OK, Drain(0, False), 0)]).drain == Drain(0, False)


def test_it_tells_a_skip_from_consumption() -> None:
    skipped = history([100, 200, 300, 400, 1_000, 1_100], 60_000, moved=(4,))
    found = judge(skipped, time_lag_ms=90_000, clients=1)
    assert word(found) == ("SKIPPED", 120_000)
    assert found.reason == Reason(Evidence.JUMPED_AHEAD, {"number": 600})
    undone = history([100, 200, 1_000, 250, 600, 1_100], 60_000, moved=(2,))
    assert judge(undone, time_lag_ms=9_000, clients=1).status is LagStatus.OK
    in_part = history([100, 200, 1_000, 800, 900, 1_100], 60_000, moved=(2,))
    assert judge(in_part, time_lag_ms=9_000, clients=1).status is LagStatus.SKIPPED
    to_the_end = history([100, 200, 300, 400, 60_000], 60_000, moved=(4,))
    assert word(judge(to_the_end, time_lag_ms=0, clients=1)) == ("SKIPPED", 120_000)


@pytest.mark.parametrize(
    ("committed", "highest", "expected"),
    [
        # 8 times its speed, and what one message may hold back
        ([100, 200, 300, 400, 500, 3_301], 60_000, True),
        ([100, 200, 300, 400, 500, 3_300], 60_000, False),
        ([100, 200, 300, 400, 4_500], 60_000, False),  # two intervals of handling show no speed
        ([400, 400, 400, 400, 400, 9_400], 60_000, False),  # never seen handling
        # some always wait, and none for long: how fast it is when a burst comes was not seen
        ([100, 200, 300, 400, 500, 20_500], [103, 203, 303, 403, 503, 30_500], False),
    ],
)
def test_it_knows_what_a_group_cannot_have_handled(
    committed: list[int], highest: list[int] | int, expected: bool
) -> None:
    assert is_beyond_handling(history(committed, highest)) is expected


def queue(
    status: LagStatus, lag: int | None, time_lag_ms: int | None = None, name: str = "q", since_ms: int = 0
) -> QueueFigures:
    return QueueFigures(name, status, lag, time_lag_ms, False, since_ms, f"{name} {status}")


def test_it_adds_unknown_to_five_as_at_least_five() -> None:
    found = combine([queue(OK, 5, 1_000, "a"), queue(UNKNOWN, None, None, "b")])
    assert (found.status, found.partial, found.lag, found.lag_lower_bound) == (UNKNOWN, True, 5, True)
    assert (found.time_lag_ms, found.time_lag_lower_bound) == (1_000, True)


def test_it_knows_nothing_when_every_queue_is_unknown() -> None:
    found = combine(
        [queue(UNKNOWN, None, name="a", since_ms=70), queue(UNKNOWN, None, name="b", since_ms=60)]
    )
    assert (found.status, found.partial, found.lag, found.time_lag_ms) == (UNKNOWN, True, None, None)
    assert (found.since_ms, found.reason) == (60, "b UNKNOWN")


def test_it_keeps_a_known_bad_status_beside_unknown_parts() -> None:
    found = combine(
        [queue(UNKNOWN, None), queue(LagStatus.STALLED, 7, 90_000, "x"), queue(OK, 900, 95_000, "y")]
    )
    assert (found.status, found.partial, found.lag) == (LagStatus.STALLED, True, 907)
    assert (found.time_lag_ms, found.worst_queue, found.reason) == (95_000, "x", "x: x STALLED")


def test_it_does_not_call_a_never_committed_queue_zero() -> None:
    never = queue(LagStatus.NEVER_COMMITTED, None)
    assert combine([never, never]).lag is None
    assert combine([never, never]).status is LagStatus.NEVER_COMMITTED
    assert combine([]).status is LagStatus.NEVER_COMMITTED
    mixed = combine([never, queue(OK, 0, 0)])
    assert (mixed.status, mixed.lag, mixed.partial) == (LagStatus.NEVER_COMMITTED, 0, False)


def test_it_ranks_every_status_once() -> None:
    assert sorted(WORST_FIRST) == sorted(LagStatus)
    assert worst([OK, LagStatus.CATCHING_UP]) is LagStatus.CATCHING_UP
    assert worst([UNKNOWN, OK]) is worst([UNKNOWN, LagStatus.CATCHING_UP]) is UNKNOWN
    assert worst([UNKNOWN, LagStatus.INVALID]) is LagStatus.INVALID
    assert worst([UNKNOWN]) is UNKNOWN
    assert worst([]) is UNKNOWN


def test_it_never_renumbers_a_status() -> None:
    numbered = (
        "ABSENT OK CATCHING_UP FALLING_BEHIND STALLED STOPPED REWOUND SKIPPED LOST OFFLINE NEVER_COMMITTED"
    )
    words = f"{numbered} INVALID UNKNOWN".split()
    assert [ABSENT, *CODE_OF.values()] == [*range(13)] == [*range(len(words))]
    assert [STATUS_OF[code].value for code in range(1, 13)] == words[1:]
    assert [(flag.name, flag.value) for flag in SampleFlag] == [
        ("TIME_LAG_BOUND", 1),
        ("LAG_BOUND", 2),
        ("NOT_COUNT", 4),
        ("PAUSED", 8),
        ("RESET_PENDING", 16),
        ("MOVED", 32),
        ("SWITCHED", 64),
    ]


def test_it_orders_by_attention() -> None:
    rows = [
        (LOST, 1),
        (LagStatus.STALLED, 1),
        (LagStatus.STOPPED, 1),
        (UNKNOWN, None),
        (LagStatus.OFFLINE, 1),
        (LagStatus.FALLING_BEHIND, 1),
        (LagStatus.INVALID, None),
        (LagStatus.CATCHING_UP, 9),
    ]
    assert [attention(status, lag=lag) for status, lag in rows] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert attention(LagStatus.OFFLINE, lag=0) == 0


def test_a_group_known_in_part_comes_before_those_that_are_well() -> None:
    assert attention(UNKNOWN, lag=7) == attention(UNKNOWN, lag=0) == 1 > attention(LagStatus.OK, lag=9)


FIGURES = st.builds(
    queue, st.sampled_from(sorted(LagStatus)), st.one_of(st.none(), st.integers(0, 99)), st.integers(0, 99)
)


@given(st.lists(FIGURES, max_size=6), FIGURES)
def test_it_never_lets_a_queue_lower_what_is_known(queues: list[QueueFigures], more: QueueFigures) -> None:
    before, after = combine(queues), combine([*queues, more])
    assert (after.lag or 0) >= (before.lag or 0)
    assert after.partial >= before.partial
    assert not (after.partial and after.lag is not None and not after.lag_lower_bound)


@pytest.mark.parametrize(
    ("committed", "evidence"),
    [([500, 500, 100, 100], Evidence.SET_BACK), ([500, 500, 100, 150], Evidence.WENT_BACK)],
)
def test_an_offset_that_was_set_is_no_progress(committed: list[int], evidence: Evidence) -> None:
    found = judge(history(committed, 600), time_lag_ms=90_000, clients=1).reason
    assert found == Reason(evidence, {"before": 500, "after": 100})


@pytest.mark.parametrize(("minutes", "status"), [(5, LagStatus.FALLING_BEHIND), (7, LagStatus.STALLED)])
def test_a_pop_group_that_is_busy_with_what_it_took_does_not_stand(minutes: int, status: LagStatus) -> None:
    rounds = minutes * 2 + 1
    past = history([10] * rounds, [40 + 10 * number for number in range(rounds)])
    found = judge(past, time_lag_ms=minutes * 60_000, clients=1, patience_ms=POP_QUIET_MS)
    assert found.status is status
