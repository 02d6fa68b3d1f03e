"""When a group's topic kept its promise, round by round: the error budget of the last days without reading history.

    state = states_of(snapshot, topics, slo_ms)        # of every topic in one round
    course = ((0, ABSENT), (t1, KEPT), (t2, LATE), …)  # when it changed: exact; rounds without a change add nothing
    spent = times(joined(common, course), from_ms, to_ms)   # as `spark.lag.folds.window` counts the same rounds

The states are ordered so that the larger of two is the state of both: time that no round covers (UNKNOWN in the course
that all topics have in common) hides what a topic was last, and what does not exist is neither late nor unknown.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from spark.lag.codes import ABSENT as ABSENT_CODE
from spark.lag.codes import CODE_OF, NEVER_COMMITTED_CODE, UNKNOWN_CODE, LagStatus, SampleFlag
from spark.lag.local_time import HOUR_MS
from spark.lag.snapshot import Int64Array, Snapshot, from_tenths, in_tenths

KEPT, LATE, UNKNOWN, ABSENT = range(4)
STATES = 4
BEFORE_ALL, AFTER_ALL = -(2**62), 2**62
# A topic that is late every other round changes 720 times an hour; older hours are sorted to 4 changes each.
CHANGES_MAX = 1_200
INVALID_CODE = CODE_OF[LagStatus.INVALID]

Course = tuple[tuple[int, int], ...]  # (from when, state), in order; KEPT before the first


class Spent(NamedTuple):
    """Time of a window: in breach, known to be in breach or not, and in which the topic existed."""

    breach_ms: int
    watched_ms: int
    exists_ms: int


def states_of(snapshot: Snapshot, rows: Int64Array, count: int, slo_ms: Int64Array) -> Int64Array:
    """Return the state of each of `count` topics in a round; `rows`: which topic each series is of, `slo_ms` by topic.

    Late: the oldest unread message of a known queue waits longer than promised. Kept: it does not, of all queues.
    """
    status = snapshot.status
    exists = status != ABSENT_CODE
    is_valid = exists & (status != UNKNOWN_CODE) & (status != INVALID_CODE)
    is_never = status == NEVER_COMMITTED_CODE
    age_ms = from_tenths(in_tenths(snapshot.time_lag_ms))
    is_aged = is_valid & ((age_ms >= 0) | is_never)
    is_late = is_valid & ~is_never & (age_ms > slo_ms[rows])
    is_open = exists & (~is_aged | (snapshot.flags & SampleFlag.TIME_LAG_BOUND != 0))
    found = np.full(count, ABSENT, dtype=np.int64)
    for holds, state in ((exists, KEPT), (is_open, UNKNOWN), (is_late, LATE)):
        found[rows[holds]] = state
    return found


def changed(course: Course, at_ms: int, state: int) -> Course:
    """Return a course that goes on with a state from a moment on."""
    if state == (course[-1][1] if course else KEPT):
        return course
    return (*course, (at_ms, state))


def shortened(course: Course, since_ms: int, now_ms: int) -> Course:
    """Return a course without what is older than `since_ms`.

    Where it changed too often, whole hours before the last one are sorted by state: the time in each state stays.
    """
    older = [place for place, (at_ms, _) in enumerate(course) if at_ms <= since_ms]
    if older:
        first = course[older[-1]]
        course = course[older[-1] :] if first[1] != KEPT else course[older[-1] + 1 :]
    if len(course) <= CHANGES_MAX:
        return course
    edge_ms = now_ms - now_ms % HOUR_MS - HOUR_MS
    found: Course = ()
    for from_ms in range(course[0][0] - course[0][0] % HOUR_MS, edge_ms, HOUR_MS):
        at_ms = from_ms
        for state, length_ms in enumerate(_lengths(course, from_ms, from_ms + HOUR_MS)):
            found = changed(found, at_ms, state) if length_ms else found
            at_ms += length_ms
    found = changed(found, edge_ms, state_at(course, edge_ms))
    for at_ms, state in course:
        found = changed(found, at_ms, state) if at_ms > edge_ms else found
    return found


def state_at(course: Course, at_ms: int) -> int:
    """Return the state at a moment."""
    return next((state for from_ms, state in reversed(course) if from_ms <= at_ms), KEPT)


def joined(common: Course, own: Course) -> Course:
    """Return the course of a topic with what holds for all topics."""
    if not own or not common:
        return own or common
    # courses are short: loops take a fifth of what arrays do
    states, found = [KEPT, KEPT], {}
    moments = [*((at_ms, 0, state) for at_ms, state in common), *((at_ms, 1, state) for at_ms, state in own)]
    for at_ms, course, state in sorted(moments, key=itemgetter(0)):
        states[course] = state
        found[at_ms] = max(states)
    return tuple(found.items())


def times(course: Course, windows: Sequence[tuple[int, int]]) -> list[Spent]:
    """Return what was spent in each window [from, to)."""
    found = []
    for window in windows:
        kept, late, unknown, _ = _lengths(course, *window)
        found.append(Spent(late, kept + late, kept + late + unknown))
    return found


def _lengths(course: Course, from_ms: int, to_ms: int) -> list[int]:
    """Return how long each state lasted in [from_ms, to_ms)."""
    found, now, begin_ms = [0, 0, 0, 0], KEPT, from_ms
    for at_ms, state in course:
        if at_ms > to_ms:
            break
        if at_ms > begin_ms:
            found[now] += at_ms - begin_ms
            begin_ms = at_ms
        now = state
    found[now] += max(0, to_ms - begin_ms)
    return found


class Courses:
    """Courses of many topics as arrays: thousands are asked about the same windows at once."""

    def __init__(self, courses: Sequence[Course]) -> None:
        self._count = len(courses)
        numbers = (number for course in courses for one in ((BEFORE_ALL, KEPT), *course) for number in one)
        flat = np.fromiter(numbers, dtype=np.int64)
        self._from_ms, self._states = flat[::2], flat[1::2]
        lengths = np.array([len(course) + 1 for course in courses], dtype=np.int64)
        self._owners = np.repeat(np.arange(self._count), lengths)
        self._to_ms = np.append(self._from_ms[1:], AFTER_ALL)
        self._to_ms[np.cumsum(lengths) - 1] = AFTER_ALL

    def times(self, common: Course, from_ms: int, to_ms: int) -> list[Spent]:
        """Return what each spent in [from, to), as `times(joined(common, course), …)` does."""
        kept, late, unknown, _ = self._lengths(common, from_ms, to_ms)
        columns = late, kept + late, kept + late + unknown
        return list(map(Spent, *(column.tolist() for column in columns)))

    def _lengths(self, common: Course, from_ms: int, to_ms: int) -> Int64Array:
        """Return how long each state lasted in [from_ms, to_ms): a row for each state, a column for each course."""
        found = np.zeros(self._count * STATES, dtype=np.int64)
        spans = pairwise([(BEFORE_ALL, KEPT), *common, (AFTER_ALL, KEPT)])
        for (begin_ms, state), (end_ms, _) in spans:
            lo_ms, hi_ms = max(begin_ms, from_ms), min(end_ms, to_ms)
            if lo_ms < hi_ms:
                took_ms = np.minimum(self._to_ms, hi_ms) - np.maximum(self._from_ms, lo_ms)
                place = self._owners * STATES + np.maximum(self._states, state)
                took = np.bincount(place, np.maximum(took_ms, 0), self._count * STATES)
                found += took.astype(np.int64)
        return found.reshape(-1, STATES).T

    def late_since(self, since_ms: int) -> list[int]:
        """Return the places of the courses that were late at some time since then."""
        is_late = (self._states == LATE) & (self._to_ms > since_ms)
        found: list[int] = np.unique(self._owners[is_late]).tolist()
        return found
