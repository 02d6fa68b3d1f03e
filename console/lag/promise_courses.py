"""Record when each group's topic kept its promise in the last days, the input of burn rates.

Kept in the metrics database: the rounds' own states, as `folds.window` finds them in history (`folds.promise`). A round
without changes writes only the time of the round: no row means that all was known and nothing late. The row without a
group is what all topics have in common: since when rounds are recorded, and the time that no round covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
from django.db.models import Min, TextField
from django.db.models.functions import Cast
from msgspec import Struct

from console.brokers.mqadmin import is_retry_topic
from console.lag.episode_state import Promised
from console.lag.facts import LONGEST_MS, WINDOWS_MS, Burn, burns
from console.lag.models import HistoryFile, PromiseCourse
from console.lag.promise_versions import Promises, installation, promises_of
from console.lag.rows.row_store import RowStore
from spark.lag.folds import promise
from spark.lag.folds.promise import ABSENT, CHANGES_MAX, KEPT, UNKNOWN, Course, Spent
from spark.lag.folds.rounds import GAP_INTERVALS
from spark.lag.snapshot import CommitKey, Int64Array, Snapshot

PROMISES_READ_EVERY_MS = 30_000
SHORTENED_EVERY_MS = 3_600_000


class TopicKey(NamedTuple):
    """Identify a group's topic."""

    group: str
    topic: str


COMMON = TopicKey("", "")
COURSE = msgspec.json.Decoder(Course)


class CourseFigures(Struct, frozen=True):
    """The columns of `PromiseCourse`."""

    group: str
    topic: str
    changes: Course
    read_at_ms: int


class PromiseCourses:
    """Keep the courses of one cluster.

    Called by the collector, one round after the other; `save` runs in its transaction. Promises are read every
    `promises_every_ms`.
    """

    def __init__(
        self, cluster: str, interval_ms: int, *, promises_every_ms: int = PROMISES_READ_EVERY_MS
    ) -> None:
        self.cluster, self.interval_ms = cluster, interval_ms
        self._promises_every_ms = promises_every_ms
        # The last round that was recorded.
        self.at_ms = 0
        self.courses: dict[TopicKey, Course] = {}
        self._saved: dict[TopicKey, Course] = {}
        self._store = RowStore(PromiseCourse, CourseFigures, cluster, TopicKey._fields, TopicKey)
        self._history_ms: int | None = None
        self._promises = Promises(installation())
        self._slo_read_ms = 0
        self._shortened_ms = 0
        self._keys: Sequence[CommitKey] = ()
        # Topics of the last round → index.
        self._topics: dict[TopicKey, int] = {}
        self._rows: Int64Array = np.empty(0, dtype=np.int64)
        self._own_slo_ms: Int64Array = np.empty(0, dtype=np.int64)

    def load(self) -> None:
        """Load the state from the database: after a start, or after rounds of another process."""
        self._store.load()
        self.courses = {key: row.changes for key, row in self._store.rows.items()}
        self._saved = dict(self.courses)
        common = self._store.rows.get(COMMON)
        self.at_ms = common.read_at_ms if common else 0
        self._slo_read_ms = 0
        files = HistoryFile.objects.filter(cluster=self.cluster)
        self._history_ms = files.aggregate(first=Min("ts_lo_ms"))["first"]

    def catch_up(self, snapshots: Sequence[Snapshot]) -> None:
        """Replay rounds of the log: their topics, and what was not recorded when the process ended."""
        noted = [snapshot for snapshot in snapshots if snapshot.ts_ms <= self.at_ms]
        if noted:
            self._index(noted[-1].commit_keys, noted[-1].ts_ms)
        for snapshot in snapshots[len(noted) :]:
            self.note(snapshot)

    def note(self, snapshot: Snapshot) -> None:
        """Add a round as history keeps it."""
        now_ms = snapshot.ts_ms
        # The clock was ahead: what was recorded then has wrong times.
        if now_ms < self.at_ms:
            self.courses, self.at_ms = {}, 0
        is_first = not self._topics
        new = self._index(snapshot.commit_keys, now_ms)
        self._note_time(now_ms)
        self._read_promises(now_ms)
        if not is_first:
            self.courses.update({key: ((0, ABSENT),) for key in new if key not in self.courses})
        states = promise.states_of(snapshot, self._rows, len(self._topics), self._own_slo_ms).tolist()
        for key, state in zip(self._topics, states, strict=True):
            course = self.courses.get(key, ())
            if state != (course[-1][1] if course else KEPT):
                self.courses[key] = (*course, (now_ms, state))
                if len(course) > CHANGES_MAX:
                    self.courses[key] = promise.shortened(self.courses[key], now_ms - LONGEST_MS, now_ms)
        if now_ms - self._shortened_ms >= SHORTENED_EVERY_MS:
            self._shorten(now_ms)

    def save(self) -> None:
        """Write what changed."""
        rows: dict[TopicKey, CourseFigures] = {}
        for key, course in self.courses.items():
            is_same = key != COMMON and self._saved.get(key) is course
            rows[key] = self._store.rows[key] if is_same else CourseFigures(*key, course, self.at_ms)
        self._store.replace(rows)
        self._saved = dict(self.courses)

    def _index(self, keys: Sequence[CommitKey], now_ms: int) -> list[TopicKey]:
        """Map each series to its topic; return the topics that the round before did not have."""
        if keys is self._keys:
            return []
        found: dict[TopicKey, int] = {}
        rows = [found.setdefault(TopicKey(key.group, key.topic), len(found)) for key in keys]
        new = [key for key in found if key not in self._topics]
        self._keys, self._topics = keys, found
        self._rows = np.array(rows, dtype=np.int64)
        self._set_slo(now_ms)
        return new

    def _note_time(self, now_ms: int) -> None:
        common = self.courses.get(COMMON, ())
        limit_ms = GAP_INTERVALS * self.interval_ms
        if not self.at_ms:
            common = ((0, ABSENT),)
            # Rounds took place, and their states are only in history files.
            if self._history_ms is not None:
                common = promise.changed(common, self._history_ms, UNKNOWN)
            common = promise.changed(common, now_ms, KEPT)
        elif now_ms - self.at_ms > limit_ms:
            common = promise.changed(common, self.at_ms + limit_ms, UNKNOWN)
            common = promise.changed(common, now_ms, KEPT)
        self.courses[COMMON] = common
        self.at_ms = now_ms

    def _read_promises(self, now_ms: int) -> None:
        """Read the groups' promises. What was judged before a change stays."""
        if 0 <= now_ms - self._slo_read_ms < self._promises_every_ms:
            return
        self._slo_read_ms = now_ms
        self._promises = promises_of(self.cluster)
        self._set_slo(now_ms)

    def _set_slo(self, now_ms: int) -> None:
        own = [self._promises.at(key.group, now_ms).slo_ms for key in self._topics]
        self._own_slo_ms = np.array(own, dtype=np.int64)

    def _shorten(self, now_ms: int) -> None:
        """Drop what no window reaches, and topics that are gone for so long."""
        self._shortened_ms = now_ms
        since_ms = now_ms - LONGEST_MS
        kept = {}
        for key, course in self.courses.items():
            is_gone = key != COMMON and key not in self._topics and course[-1][0] <= since_ms
            course = promise.shortened(course, since_ms, now_ms)
            if key == COMMON or (course and not is_gone):
                kept[key] = course
        self.courses = kept


class Budgets:
    """Compute how fast the topics of a cluster use their error budgets, from the recorded courses."""

    def __init__(
        self, cluster: str, interval_ms: int, now_ms: int, windows_ms: Sequence[int] = WINDOWS_MS
    ) -> None:
        self.windows = [(now_ms - length_ms, now_ms) for length_ms in windows_ms]
        as_text = Cast("changes", TextField())
        rows = PromiseCourse.objects.filter(cluster=cluster).values_list(
            "group", "topic", as_text, "read_at_ms"
        )
        self.courses, common_ms = {}, now_ms
        for group, topic, changes, at_ms in rows:
            self.courses[TopicKey(group, topic)] = COURSE.decode(changes)
            common_ms = at_ms if not group else common_ms
        common = self.courses.pop(COMMON, ((0, ABSENT),))
        self.common = promise.changed(common, common_ms + GAP_INTERVALS * interval_ms, UNKNOWN)
        self._every = promise.Courses(list(self.courses.values()))
        self._promises = promises_of(cluster)
        self._kept = promise.times(self.common, self.windows)
        self._places = {key: place for place, key in enumerate(self.courses)}
        self._spent = [self._every.times(self.common, *window) for window in self.windows]

    def spent(self, group: str, topic: str) -> list[Spent]:
        """Return what a topic spent in each window."""
        place = self._places.get(TopicKey(group, topic))
        return self._kept if place is None else [one[place] for one in self._spent]

    def known_since(self, group: str, topic: str) -> int | None:
        """Return since when a topic's state is known without a break; None while it is unknown."""
        now_ms = self.windows[0][1]
        course = promise.joined(self.common, self.courses.get(TopicKey(group, topic), ()))
        if promise.state_at(course, now_ms) == UNKNOWN:
            return None
        ends = (
            end_ms for (_, state), (end_ms, _) in pairwise(course) if state == UNKNOWN and end_ms <= now_ms
        )
        return max(ends, default=0)

    def burns(self, group: str, topic: str) -> list[Burn]:
        """Return the burn of a group's topic over each window."""
        targets = [self._target(group, topic, one) for one in self.windows]
        return burns(self.spent(group, topic), targets, [to_ms - from_ms for from_ms, to_ms in self.windows])

    def promised(self, group: str) -> Promised:
        """Return the promise in force now."""
        return self._promises.at(group, self.windows[0][1])

    def _target(self, group: str, topic: str, window: tuple[int, int]) -> float:
        """Return the target of a window; several versions are weighted by the time watched under each."""
        if group not in self._promises.versions:
            return self._promises.default.target
        from_ms, to_ms = window
        pieces = self._promises.pieces(group, from_ms, to_ms)
        if len(pieces) == 1:
            return pieces[0][1].target
        course = promise.joined(self.common, self.courses.get(TopicKey(group, topic), ()))
        spans = pairwise([*(at_ms for at_ms, _ in pieces), to_ms])
        watched = [one.watched_ms for one in promise.times(course, list(spans))]
        weighted = sum(ms * one.target for ms, (_, one) in zip(watched, pieces, strict=True))
        return weighted / sum(watched) if sum(watched) else pieces[-1][1].target

    def late_since(self, since_ms: int) -> Iterator[TopicKey]:
        """Yield the topics that were late at some time since then."""
        keys = list(self.courses)
        for place in self._every.late_since(since_ms):
            if not is_retry_topic(keys[place].topic):
                yield keys[place]
