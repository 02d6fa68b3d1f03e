"""Store episodes: the collector's rounds open, extend and close them; pages, REST and reports read them.

A round costs what has changed: healthy topics without an episode are skipped, episodes that go on share one statement,
and only those that begin, end or change their state are written one by one. Peaks are written once a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from django.conf import settings
from django.db.models import F, Q, QuerySet

from console.lag.episode_state import (
    HOLD_INTERVALS,
    STATUS_KINDS,
    Course,
    EpisodeKind,
    EpisodeState,
    Promised,
    TopicState,
    after,
    beginning,
    episode_id,
    gone,
    holds,
)
from console.lag.models import Episode, LagEvent
from console.lag.promise_versions import Promises, installation, promises_of
from console.lag.round.figures import GroupFigures
from console.lists.spec import ListSpec
from console.text import Text
from spark.lag.local_time import DAY_MS, MINUTE_MS

logger = logging.getLogger(__name__)

PROMISES_READ_EVERY_MS = 30_000
# A disaster on every topic of a large cluster; one statement a round extends them.
OPEN_MAX = 10_000
DELETED_AT_ONCE = 5_000
# Before an episode: a reset makes a backlog at once.
EXPLAINED_WITHIN_MS = 10 * MINUTE_MS
# Of the usual rate, to be the cause.
SURGE, SLOW = 1.5, 0.67
USUAL_OVER_MS = 60 * MINUTE_MS
COURSE = tuple(one.name for one in fields(Course) if one.name != "start_ms")
PEAKS = ("peak_lag", "peak_time_lag_ms", "worst_queue")
FORECAST = ("forecast_at_ms", "forecast_ms", "forecast_low_ms", "forecast_high_ms")
WRITTEN = [*COURSE, *PEAKS, *FORECAST]


class Key(NamedTuple):
    """Identify an episode that is not over."""

    group: str
    topic: str
    kind: EpisodeKind


@dataclass(slots=True)
class _Rates:
    """Hold the usual messages in and out per second of a group, over an hour."""

    in_rate: float
    out_rate: float


class Episodes:
    """Keep the episodes of one cluster that are not over. Called by the collector, round after round.

    Those that change are written at once, all of them every `written_every_ms`; promises are read every
    `promises_every_ms`.
    """

    def __init__(
        self,
        cluster: str,
        interval_ms: int,
        *,
        written_every_ms: int = MINUTE_MS,
        promises_every_ms: int = PROMISES_READ_EVERY_MS,
    ) -> None:
        self.cluster, self.interval_ms = cluster, interval_ms
        self._written_every_ms, self._promises_every_ms = written_every_ms, promises_every_ms
        self._open: dict[Key, Episode] = {}
        self._promises = Promises(installation())
        self._promises_at_ms = 0
        self._usual: dict[str, _Rates] = {}
        self._written_at_ms = 0
        self._dropped_at_ms = 0

    def load(self) -> None:
        """Load the episodes that are not over: after a start, or after rounds of another process."""
        found = Episode.objects.filter(cluster=self.cluster).exclude(state=EpisodeState.OVER)
        self._open = {Key(one.group, one.topic, EpisodeKind(one.kind)): one for one in found}

    def note(self, groups: Mapping[str, GroupFigures], now_ms: int) -> None:
        """Apply a round: `groups` are the rows of groups with their topics."""
        self._read_promises(now_ms)
        begun: list[tuple[Key, GroupFigures, TopicState]] = []
        changed: list[Episode] = []
        seen: set[Key] = set()
        states = {(key.group, key.topic) for key in self._open}
        for group, row in groups.items():
            promised = self._promises.at(group, now_ms)
            for topic, state in _topics(row):
                if (group, topic) not in states and not _is_remarkable(state, promised):
                    continue
                for kind in EpisodeKind:
                    key = Key(group, topic, kind)
                    is_bad = holds(kind, state, promised.slo_ms)
                    known = self._open.get(key)
                    if known is not None:
                        seen.add(key)
                        if self._goes_on(known, is_bad, state, row, now_ms):
                            changed.append(known)
                    elif is_bad:
                        begun.append((key, row, state))
        changed += self._end_gone(seen)
        self._begin(begun, now_ms)
        self._write(changed, now_ms)
        self._learn_rates(groups)

    def _goes_on(
        self, known: Episode, is_bad: bool | None, state: TopicState, row: GroupFigures, now_ms: int
    ) -> bool:
        """Advance an episode; return whether it has to be written now."""
        was = EpisodeState(known.state)
        _set_course(known, after(_course(known), is_bad, now_ms, self.interval_ms))
        if is_bad:
            _raise_peaks(known, state, row)
            if known.forecast_at_ms is None:
                _set_forecast(known, row, now_ms)
        return known.state != was

    def _end_gone(self, seen: set[Key]) -> list[Episode]:
        left = [one for key, one in self._open.items() if key not in seen]
        for one in left:
            _set_course(one, gone(_course(one)))
        return left

    def _begin(self, begun: Sequence[tuple[Key, GroupFigures, TopicState]], now_ms: int) -> None:
        room = OPEN_MAX - len(self._open)
        if len(begun) > room:
            logger.warning("episodes left out cluster=%s count=%d", self.cluster, len(begun) - room)
            begun = begun[: max(0, room)]
        if not begun:
            return
        moved = self._moved({key.group for key, _, _ in begun}, now_ms)
        made = [self._made(key, row, state, moved, now_ms) for key, row, state in begun]
        Episode.objects.bulk_create(made, batch_size=500, ignore_conflicts=True)
        self._open.update({Key(one.group, one.topic, EpisodeKind(one.kind)): one for one in made})

    def _made(
        self,
        key: Key,
        row: GroupFigures,
        state: TopicState,
        moved: Mapping[tuple[str, str], Text],
        now_ms: int,
    ) -> Episode:
        by = moved.get((key.group, key.topic))
        promised = self._promises.at(key.group, now_ms)
        one = Episode(
            id=episode_id(self.cluster, key.group, key.topic, key.kind, now_ms),
            cluster=self.cluster,
            group=key.group,
            topic=key.topic,
            kind=key.kind.value,
            cause="reset" if by is not None else self._cause(key, row),
            is_intentional=bool(by) and key.kind is not EpisodeKind.LOST,
            reset_by=by or Text(),
            slo_ms=promised.slo_ms,
            target=promised.target,
            slo_from_ms=promised.from_ms,
            clients=row.clients,
        )
        _set_course(one, beginning(now_ms))
        one.start_ms = now_ms
        _raise_peaks(one, state, row)
        _set_forecast(one, row, now_ms)
        return one

    def _moved(self, groups: set[str], now_ms: int) -> dict[tuple[str, str], Text]:
        """Return (group, topic) → the change that just set its offsets; empty if made elsewhere."""
        events = LagEvent.objects.filter(
            cluster=self.cluster,
            kind__in=[LagEvent.Kind.REWIND, LagEvent.Kind.SKIPPED],
            at_ms__gt=now_ms - EXPLAINED_WITHIN_MS,
        )
        found: dict[tuple[str, str], Text] = {}
        for group, topic, cause in events.order_by("at_ms").values_list("group", "topic", "cause"):
            if group in groups:
                found[group, topic] = cause
        return found

    def _cause(self, key: Key, row: GroupFigures) -> str:
        """Return what changed first, as far as the round shows."""
        if key.kind is EpisodeKind.LOST:
            return "retention"
        if row.clients == 0:
            return "offline"
        if key.kind is EpisodeKind.STALL:
            return "queue stuck"
        usual = self._usual.get(key.group)
        if usual is not None and row.in_rate is not None and row.in_rate > SURGE * usual.in_rate > 0:
            return "surge"
        if usual is not None and row.out_rate is not None and row.out_rate < SLOW * usual.out_rate:
            return "slow"
        return "unclear"

    def _write(self, changed: list[Episode], now_ms: int) -> None:
        """Write the episodes of a round.

        1. Those that go on end now: one statement. 2. Those that changed their state, or once a minute all. 3. Drop
        those that are over.
        """
        if self._open:
            Episode.objects.filter(
                cluster=self.cluster,
                state=EpisodeState.ONGOING,
                seen_ms__gte=now_ms - HOLD_INTERVALS * self.interval_ms,
                seen_ms__lt=now_ms,
            ).update(bad_ms=F("bad_ms") + now_ms - F("seen_ms"), end_ms=now_ms, seen_ms=now_ms)
        if now_ms - self._written_at_ms >= self._written_every_ms:
            self._written_at_ms = now_ms
            changed = list({one.id: one for one in (*changed, *self._open.values())}.values())
        if changed:
            Episode.objects.bulk_update(changed, WRITTEN, batch_size=200)
        self._open = {key: one for key, one in self._open.items() if one.state != EpisodeState.OVER}
        if now_ms - self._dropped_at_ms >= 60 * MINUTE_MS:
            self._dropped_at_ms = now_ms
            drop_old(self.cluster, now_ms)

    def _learn_rates(self, groups: Mapping[str, GroupFigures]) -> None:
        share = min(1.0, self.interval_ms / USUAL_OVER_MS)
        troubled = {key.group for key in self._open}
        for group, row in groups.items():
            in_rate, out_rate = row.in_rate, row.out_rate
            if in_rate is None or out_rate is None or group in troubled:
                continue
            usual = self._usual.get(group)
            if usual is None:
                self._usual[group] = _Rates(in_rate, out_rate)
            else:
                usual.in_rate += share * (in_rate - usual.in_rate)
                usual.out_rate += share * (out_rate - usual.out_rate)
        for group in self._usual.keys() - groups.keys():
            del self._usual[group]

    def _read_promises(self, now_ms: int) -> None:
        if not 0 <= now_ms - self._promises_at_ms < self._promises_every_ms:
            self._promises_at_ms = now_ms
            self._promises = promises_of(self.cluster)


def drop_old(cluster: str, now_ms: int) -> int:
    """Delete episodes that ended EPISODE_DAYS ago; return how many."""
    before_ms = now_ms - settings.EPISODE_DAYS * DAY_MS
    over = Episode.objects.filter(cluster=cluster, state=EpisodeState.OVER, end_ms__lt=before_ms)
    names = list(over.values_list("pk", flat=True)[:DELETED_AT_ONCE])
    return Episode.objects.filter(pk__in=names).delete()[0] if names else 0


EPISODES = ListSpec(
    name="episodes",
    key="pk",
    default="-start",
    columns=(),
    orders={
        "start": ("start_ms",),
        "end": ("end_ms",),
        "duration": ("length_ms",),
        "bad": ("bad_ms",),
        "kind": ("kind",),
        "state": ("state",),
        "group": ("group", "topic"),
        "topic": ("topic", "group"),
        "peak_lag": ("peak_lag",),
        "peak_time_lag": ("peak_time_lag_ms",),
    },
)


def between(cluster: str, from_ms: int | None = None, to_ms: int | None = None) -> QuerySet[Episode]:
    """Return the episodes of a cluster that touch [from_ms, to_ms), the newest first."""
    found = Episode.objects.filter(cluster=cluster).annotate(length_ms=F("end_ms") - F("start_ms"))
    if from_ms is not None:
        found = found.filter(Q(end_ms__gt=from_ms) | ~Q(state=EpisodeState.OVER))
    if to_ms is not None:
        found = found.filter(start_ms__lt=to_ms)
    return found.order_by("-start_ms", "id")


def _topics(row: GroupFigures) -> Iterator[tuple[str, TopicState]]:
    for one in row.topics:
        is_bound = one.time_lag_lower_bound or one.partial
        yield one.topic, TopicState(one.status, one.lag, one.time_lag_ms, is_bound)


def _is_remarkable(state: TopicState, promised: Promised) -> bool:
    return state.status in STATUS_KINDS or (state.time_lag_ms or 0) > promised.slo_ms


def _course(one: Episode) -> Course:
    figures = {name: getattr(one, name) for name in COURSE if name != "state"}
    return Course(start_ms=one.start_ms, state=EpisodeState(one.state), **figures)


def _set_course(one: Episode, course: Course) -> None:
    for name in COURSE:
        setattr(one, name, getattr(course, name))


def _raise_peaks(one: Episode, state: TopicState, row: GroupFigures) -> None:
    one.peak_lag = _larger(one.peak_lag, state.lag)
    if one.peak_time_lag_ms is None or (state.time_lag_ms or 0) >= one.peak_time_lag_ms:
        one.peak_time_lag_ms = state.time_lag_ms
        if row.worst_queue.startswith(f"{one.topic} · "):
            one.worst_queue = row.worst_queue.removeprefix(f"{one.topic} · ")


def _larger(known: int | None, value: int | None) -> int | None:
    numbers: Iterable[int] = [one for one in (known, value) if one is not None]
    return max(numbers, default=None)


def _set_forecast(one: Episode, row: GroupFigures, now_ms: int) -> None:
    """Keep the first forecast that is made during an episode, to be compared with its end."""
    if row.drain_ms is not None:
        one.forecast_at_ms = now_ms
        one.forecast_ms = row.drain_ms
        one.forecast_low_ms, one.forecast_high_ms = row.drain_low_ms, row.drain_high_ms
