"""Courses of promises: the same times as the fold of the same rounds, to the millisecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.lag.folds import promise
from spark.lag.folds.promise import ABSENT, KEPT, LATE, UNKNOWN, Spent
from spark.lag.folds.window import fold
from spark.lag.grid import grid_of
from spark.lag.samples import Samples
from spark.lag.snapshot import CommitKey, Snapshot
from tests.spark.lag.judged import START, STEP, made

SLO_MS = 60_000
HOUR = 3_600_000


def rounds(samples: Samples) -> list[Snapshot]:
    """The rounds that the samples are of."""
    found = []
    for number, t_ms in enumerate(np.unique(samples.t_ms).tolist()):
        at = np.flatnonzero(samples.t_ms == t_ms)
        names = ("committed", "pulled", "time_lag_ms", "status", "flags")
        keys = [CommitKey(*samples.keys[row]) for row in samples.series[at].tolist()]
        columns = {name: getattr(samples, name)[at] for name in names}
        found.append(Snapshot(ts_ms=t_ms, number=number, commit_keys=keys, **columns))
    return found


@given(st.integers(0, 10_000), st.integers(-20, 500), st.integers(1, 500))
def test_a_course_has_the_times_of_the_fold(seed: int, first: int, length: int) -> None:
    history = made(seed)
    from_ms, to_ms = START + first * STEP + 77, START + (first + length) * STEP + 33
    whole = fold(grid_of(history.samples, STEP), from_ms, to_ms, lambda group: SLO_MS).topics
    topics = {(key.group, key.topic): place for place, key in enumerate(whole.keys)}
    slo_ms = np.full(len(topics), SLO_MS, dtype=np.int64)
    courses: list[promise.Course] = [((0, ABSENT),)] * len(topics)
    common: promise.Course = ()
    last_ms = 0
    for snapshot in rounds(history.samples):
        if last_ms and snapshot.ts_ms - last_ms > 4 * STEP:
            common = promise.changed(common, last_ms + 4 * STEP, UNKNOWN)
            common = promise.changed(common, snapshot.ts_ms, KEPT)
        rows = np.array([topics[key.group, key.topic] for key in snapshot.commit_keys], dtype=np.int64)
        states = promise.states_of(snapshot, rows, len(topics), slo_ms).tolist()
        for row in set(rows.tolist()):
            courses[row] = promise.changed(courses[row], snapshot.ts_ms, states[row])
        last_ms = snapshot.ts_ms
    common = promise.changed(common, last_ms + 4 * STEP, UNKNOWN)
    sums = whole.sums
    for (_, row), course in zip(topics.items(), courses, strict=True):
        expected = Spent(int(sums.breach_ms[row]), int(sums.watched_ms[row]), int(sums.exists_ms[row]))
        assert promise.times(promise.joined(common, course), [(from_ms, to_ms)]) == [expected]


def test_time_that_no_round_covers_hides_what_a_topic_was_last() -> None:
    common = ((100, UNKNOWN), (200, KEPT))
    own = ((0, ABSENT), (50, LATE), (150, KEPT), (250, LATE))
    both = promise.joined(common, own)
    assert promise.times(both, [(0, 300), (120, 180), (240, 260)]) == [
        Spent(100, 150, 250), Spent(0, 0, 60), Spent(10, 20, 20),
    ]  # fmt: skip
    assert promise.times((), [(0, 10)]) == [Spent(0, 10, 10)]


def courses() -> st.SearchStrategy[promise.Course]:
    changes = st.lists(
        st.tuples(st.integers(0, 300), st.sampled_from([KEPT, LATE, UNKNOWN, ABSENT])), max_size=5
    )
    return changes.map(lambda found: tuple(sorted(dict(found).items())))


@given(courses(), st.lists(courses(), max_size=4), st.integers(0, 300), st.integers(1, 100))
def test_many_courses_are_asked_as_one_is(
    common: promise.Course, every: list[promise.Course], from_ms: int, length_ms: int
) -> None:
    window = from_ms, from_ms + length_ms
    expected = [promise.times(promise.joined(common, one), [window])[0] for one in every]
    assert promise.Courses(every).times(common, *window) == expected


def test_courses_that_were_late_since_then() -> None:
    every: list[promise.Course] = [
        ((0, LATE), (100, KEPT)), ((0, LATE), (101, KEPT), (200, LATE), (300, KEPT)), ((0, UNKNOWN), (50, LATE)), (),
    ]  # fmt: skip
    assert promise.Courses(every).late_since(100) == [1, 2]
    assert promise.Courses([]).late_since(100) == []


@pytest.mark.parametrize("last", [KEPT, LATE])
def test_a_course_forgets_what_no_window_reaches(last: int) -> None:
    course = ((10, LATE), (20, last), (30, UNKNOWN), (40, KEPT))
    kept = promise.shortened(course, 25, 99)
    assert kept == (course[2:] if last == KEPT else course[1:])
    assert promise.shortened(course, 50, 99) == ()


def test_hours_with_too_many_changes_are_sorted_and_keep_their_times() -> None:
    now_ms = 10 * HOUR
    course = tuple((5_000 * place, LATE if place % 2 else KEPT) for place in range(now_ms // 5_000))
    found = promise.shortened(course, -1, now_ms)
    assert len(found) <= promise.CHANGES_MAX
    hours = [(hour * HOUR, (hour + 1) * HOUR) for hour in range(10)]
    assert promise.times(found, hours) == promise.times(course, hours) == [Spent(HOUR // 2, HOUR, HOUR)] * 10
    minute = [(now_ms - 60_000, now_ms)]
    assert promise.times(found, minute) == promise.times(course, minute)
