"""Read the past: a group's lag over time, its committed offsets at a moment, from chunks and the open log."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from django.db.models import QuerySet
from msgspec import Struct

from console.brokers.mqadmin import MessageQueue, is_retry_topic
from console.lag.history import archive
from console.lag.history.log import Kind, State, location_of, readable
from console.lag.models import HistoryFile
from console.lag.past.chart_rounds import Rounds, decimate, rounds_of, thinned
from spark.lag.codes import ABSENT, UNKNOWN_CODE
from spark.lag.folds.rounds import GAP_INTERVALS
from spark.lag.grid import Grid, grid_of
from spark.lag.history import chunk, files
from spark.lag.local_time import DAY_MS, HOUR_MS
from spark.lag.samples import Samples, SeriesKey
from spark.lag.snapshot import Int64Array

logger = logging.getLogger(__name__)

Place = TypeVar("Place", bound=Hashable)

# More than the pixels of a chart.
POINTS_MAX = 2_000
# A window up to this long is read at once: 17,280 rounds of 5 s.
WHOLE_MS = DAY_MS
# Of longer ones the largest and smallest of every ten minutes are kept: 4,320 points for a month.
THIN_STEP_MS = 10 * 60_000
# Read together: 10 MB a day at 20 queues and 15 s.
DAYS_AT_ONCE = 5
# A month of 30 groups.
DAYS_KEPT = 1_000
# How far before a window the sample before it is searched, besides in chunks, which contain it: a segment and more.
BEFORE_MS = 10 * 60_000
# At finding a set of files that all exist and are whole.
ATTEMPTS = 3
# An offset older than this at the requested moment is not "as it was".
AS_OF_MS = 15 * 60_000


class OffsetThen(NamedTuple):
    """Hold an offset at a moment, and when it was read (at or before that moment).

    `next_offset` is the one read next, if requested; `incarnation` is that of its topic among those of the same name.
    """

    offset: int
    read_at_ms: int
    next_offset: int | None = None
    incarnation: int = 0


def history_paths(cluster: str, from_ms: int, to_ms: int, *, group: str | None = None) -> list[str]:
    """Return the live files that overlap [from_ms, to_ms), as `history.chunk.load_samples` takes them.

    With `group` those that may hold its samples.
    """
    rows = _live(cluster, from_ms, to_ms).order_by("ts_lo_ms", "pk")
    return [location_of(row) for row in rows if group is None or row.may_hold(group)]


def load(cluster: str, group: str | None, from_ms: int, to_ms: int) -> Samples:
    """Return a group's samples of [from_ms, to_ms); with None those of all groups and heads.

    A file may be superseded and deleted between reading the manifest and opening it: then the manifest is read again.
    What is missing after that was removed by hand and is a gap. A damaged file is set aside, marked in the manifest,
    and the rest is read.
    """
    for _ in range(ATTEMPTS):
        paths = history_paths(cluster, from_ms, to_ms, group=group)
        try:
            return _load(paths, group, from_ms, to_ms)
        except FileNotFoundError:
            continue
        except archive.UNREADABLE:
            logger.exception("history cannot be read cluster=%s group=%s", cluster, group)
            if not _set_damaged_aside(cluster, from_ms, to_ms):
                raise
    present = [path for path in history_paths(cluster, from_ms, to_ms, group=group) if files.exists(path)]
    logger.warning("history files are gone cluster=%s from_ms=%d to_ms=%d", cluster, from_ms, to_ms)
    return _load(present, group, from_ms, to_ms)


def lost_files(cluster: str, from_ms: int, to_ms: int) -> list[HistoryFile]:
    """Return the files of a window that were set aside and not made again: their samples are lost.

    The file of a day proves nothing about an hour that was set aside before the day was made: only another file of the
    hour does.
    """
    rows = HistoryFile.objects.filter(
        cluster=cluster, state=State.QUARANTINED, ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms
    )
    return [row for row in rows.order_by("ts_lo_ms", "pk") if not _is_made_again(row)]


def _is_made_again(row: HistoryFile) -> bool:
    if row.kind == Kind.WAL:
        return False
    if row.kind == Kind.CHUNK_DAY:
        live = _live(row.cluster, row.ts_lo_ms, row.ts_hi_ms)
        return any(row.group_lo is None or one.may_hold(row.group_lo) for one in live)
    others = HistoryFile.objects.filter(
        cluster=row.cluster, ts_lo_ms__gte=row.ts_lo_ms, ts_hi_ms__lte=row.ts_hi_ms
    )
    made = others.filter(kind=Kind.CHUNK_HOUR).exclude(state=State.QUARANTINED)
    return made.exists() or others.filter(kind=Kind.WAL, state=State.LIVE).exists()


def hour_contents(cluster: str, from_ms: int, to_ms: int) -> dict[int, str]:
    """Return the checksum of the hour file that an hour comes from, where all of the hour comes from one.

    That is the only live file of the hour, or the newest one that went into the live file of its day.
    """
    rows = HistoryFile.objects.filter(cluster=cluster, ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms)
    live: dict[int, list[HistoryFile]] = {}
    for row in rows.filter(state=State.LIVE):
        for hour_ms in range(row.ts_lo_ms - row.ts_lo_ms % HOUR_MS, row.ts_hi_ms, HOUR_MS):
            live.setdefault(hour_ms, []).append(row)
    newest = {row.ts_lo_ms: row for row in rows.filter(kind=Kind.CHUNK_HOUR).order_by("generation")}
    return {hour_ms: row.sha256 for hour_ms, row in newest.items() if _is_all_of(row, live.get(hour_ms, []))}


def _is_all_of(row: HistoryFile, live: Sequence[HistoryFile]) -> bool:
    if row.state == State.LIVE:
        return live == [row]
    merged = row.state in (State.SUPERSEDED, State.DELETED) and bool(live)
    return merged and all(
        one.kind == Kind.CHUNK_DAY and one.created_at_ms == row.superseded_at_ms for one in live
    )


def _set_damaged_aside(cluster: str, from_ms: int, to_ms: int) -> bool:
    now_ms = time.time_ns() // 1_000_000
    found = [archive.quarantine_if_damaged(row, now_ms) for row in _live(cluster, from_ms, to_ms)]
    return any(found)


def _live(cluster: str, from_ms: int, to_ms: int) -> "QuerySet[HistoryFile]":
    return HistoryFile.objects.filter(
        readable(), cluster=cluster, state=State.LIVE, ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms
    )


def _load(paths: list[str], group: str | None, from_ms: int, to_ms: int) -> Samples:
    return chunk.load_samples(paths, from_ms, to_ms, group=group).read_part()


class LagLine(Struct, frozen=True, kw_only=True):
    """Hold a group's lag and time lag over time for a chart, as lists of one length; gaps are null.

    `interval_ms` is the collector's period, `step_ms` that of the points, `times` are epoch ms. `in_flight` is null
    where it was not read; the truth of `time_lag_ms` lies between low and high. `lower_bound`: some queue was missing
    in that round; `time_lag_lower_bound`: or the oldest message predates the history.
    """

    interval_ms: int
    step_ms: int
    times: Sequence[int]
    lag: Sequence[int | None]
    time_lag_ms: Sequence[int | None]
    time_lag_low_ms: Sequence[int | None]
    time_lag_high_ms: Sequence[int | None]
    in_flight: Sequence[int | None]
    lower_bound: Sequence[bool]
    time_lag_lower_bound: Sequence[bool]


class _Point(NamedTuple):
    """Hold one round of a line, in the order of `LagLine`; without figures it is a gap."""

    times: int
    lag: int | None = None
    time_lag_ms: int | None = None
    time_lag_low_ms: int | None = None
    time_lag_high_ms: int | None = None
    in_flight: int | None = None
    lower_bound: bool = False
    time_lag_lower_bound: bool = False


def lag_series(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    points: int,
    *,
    interval_ms: int,
    topic: str | None = None,
) -> LagLine:
    """Return a group's lag and time lag over time, at most about `points` of them.

    Where a step holds more rounds than points, those with the largest and the smallest lag and time lag are drawn, in
    time order, so that no peak is lost. `%RETRY%` is not included unless `topic` names it.
    """
    points = max(4, min(points, POINTS_MAX))
    rounds = _all_rounds(cluster, group, topic, from_ms, to_ms, interval_ms)
    gap_ms = GAP_INTERVALS * interval_ms if to_ms - from_ms <= WHOLE_MS else 2 * THIN_STEP_MS
    kept = decimate(rounds.t_ms, (rounds.lag, rounds.age_ms), from_ms, to_ms, points).tolist()
    found: list[_Point] = []
    before: int | None = None
    for at in kept:
        if before is not None and _has_gap(rounds.t_ms[before : at + 1], gap_ms):
            found.append(_Point(int(rounds.t_ms[before] + rounds.t_ms[at]) // 2))
        is_partial = bool(rounds.missing[at])
        in_flight = int(rounds.in_flight[at])
        found.append(
            _Point(
                int(rounds.t_ms[at]),
                int(rounds.lag[at]),
                int(rounds.age_ms[at]),
                int(rounds.age_low_ms[at]),
                None if rounds.bounded[at] else int(rounds.age_high_ms[at]),
                None if in_flight < 0 or is_partial else in_flight,
                is_partial,
                is_partial or bool(rounds.bounded[at]),
            )
        )
        before = at
    step_ms = max(interval_ms, (to_ms - from_ms) * 4 // points)
    lists = zip(*found, strict=True) if found else ((),) * len(_Point._fields)
    columns = {name: list(values) for name, values in zip(_Point._fields, lists, strict=True)}
    return LagLine(interval_ms=interval_ms, step_ms=step_ms, **columns)


def _all_rounds(
    cluster: str, group: str, topic: str | None, from_ms: int, to_ms: int, interval_ms: int
) -> Rounds:
    """Return the rounds of a window.

    A long window is read some days at a time, so that a month costs the memory of a few days, and thinned day by day; a
    past day that lies only in chunks never changes and is cached.
    """
    if to_ms - from_ms <= WHOLE_MS:
        return rounds_of(_load_grid(cluster, group, topic, from_ms, to_ms, interval_ms), from_ms)
    first_ms = from_ms - from_ms % DAY_MS
    days = range(first_ms, to_ms, DAY_MS)
    marks = _marks(cluster, first_ms, to_ms)
    keys = {day_ms: (cluster, group, topic, interval_ms, marks[day_ms]) for day_ms in days}
    found: dict[int, Rounds] = {}
    for day_ms, key in keys.items():
        kept = _days.get(key) if day_ms + DAY_MS <= to_ms else None
        if kept is not None:
            found[day_ms] = kept
    missing = [day_ms for day_ms in days if day_ms not in found]
    for run in _runs(missing):
        end_ms = min(run[-1] + DAY_MS, to_ms)
        grid = _load_grid(cluster, group, topic, run[0], end_ms, interval_ms)
        # One after the other: the matrices of several days do not fit the caches.
        for day_ms in run:
            own = grid.between(day_ms, day_ms + DAY_MS)
            found[day_ms] = thinned(rounds_of(own, day_ms), THIN_STEP_MS)
            if marks[day_ms] and day_ms + DAY_MS <= to_ms:
                _days.put(keys[day_ms], found[day_ms])
    return Rounds.joined([found[day_ms] for day_ms in days]).between(from_ms, to_ms)


def _runs(days: Sequence[int]) -> Iterator[list[int]]:
    """Yield days that follow each other, `DAYS_AT_ONCE` at most."""
    run: list[int] = []
    for day_ms in days:
        if run and (day_ms != run[-1] + DAY_MS or len(run) == DAYS_AT_ONCE):
            yield run
            run = []
        run.append(day_ms)
    if run:
        yield run


def _marks(cluster: str, first_ms: int, to_ms: int) -> dict[int, str]:
    """Return which files each day is in, "" while a part of it is in the log only.

    A new generation of a file is another mark.
    """
    rows = list(_live(cluster, first_ms, to_ms).order_by("ts_lo_ms", "pk"))
    marks = {}
    for day_ms in range(first_ms, to_ms, DAY_MS):
        own = [row for row in rows if row.ts_lo_ms < day_ms + DAY_MS and row.ts_hi_ms > day_ms]
        is_over = not any(row.kind == HistoryFile.Kind.WAL for row in own)
        marks[day_ms] = "\n".join(row.path for row in own) if is_over else ""
    return marks


class DayCache:
    """Cache thinned days of groups, least recently used out first. A day of 144 steps is about 30 KB."""

    def __init__(self, days: int) -> None:
        self._kept: OrderedDict[Hashable, Rounds] = OrderedDict()
        self._days = days
        self._lock = threading.Lock()
        self.hits = 0

    def get(self, key: Hashable) -> Rounds | None:
        """Return a day, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                self.hits += 1
            return found

    def put(self, key: Hashable, day: Rounds) -> None:
        """Store a day."""
        with self._lock:
            self._kept[key] = day
            while len(self._kept) > self._days:
                self._kept.popitem(last=False)


_days = DayCache(DAYS_KEPT)


def _load_grid(
    cluster: str, group: str, topic: str | None, from_ms: int, to_ms: int, interval_ms: int
) -> Grid:
    samples = load_main(cluster, group, from_ms, to_ms, topic=topic)
    return grid_of(samples, interval_ms)


def load_main(cluster: str, group: str, from_ms: int, to_ms: int, *, topic: str | None = None) -> Samples:
    """Return a group's samples of one topic, or of all without its `%RETRY%`."""
    samples = load(cluster, group, from_ms, to_ms)
    if topic is not None:
        return samples.select(lambda key: key.topic == topic)
    return samples.select(lambda key: not is_retry_topic(key.topic))


def _has_gap(times: Int64Array, gap_ms: int) -> bool:
    return bool(len(times) > 1 and int(np.diff(times).max()) > gap_ms)


def offsets_at(cluster: str, group: str, at_ms: int, *, ahead_ms: int = 0) -> dict[MessageQueue, OffsetThen]:
    """Return the committed offsets as the last round at or before `at_ms` read them, exactly.

    Queues without a reading in the quarter of an hour before are left out: their offsets then are unknown. Of a topic
    that was created again the incarnation of that time counts. `ahead_ms`: how far after the moment to search for the
    next reading.
    """
    window = at_ms - AS_OF_MS, at_ms + ahead_ms + 1
    samples = load(cluster, group, *window)
    return _read_at(samples, samples.committed, at_ms)


def committed_at(cluster: str, at_ms: int, within_ms: int) -> dict[tuple[str, MessageQueue], OffsetThen]:
    """Return the committed offsets of all groups, by group and queue, as the rounds of `within_ms` before read them."""
    samples = load(cluster, None, at_ms - within_ms, at_ms + 1)
    return _newest(
        ((key.group, MessageQueue(key.topic, key.broker_name, key.queue_id)), then)
        for key, then in _readings(samples, samples.committed, at_ms)
        if key.group
    )


def max_offsets_at(
    cluster: str, group: str, at_ms: int, *, before_ms: int, ahead_ms: int
) -> dict[MessageQueue, OffsetThen]:
    """Return the max offsets of a group's queues as the last round at or before `at_ms` read them.

    Messages stored after that round have this offset or a larger one. Queues without a reading within `before_ms`
    are left out.
    """
    window = at_ms - before_ms, at_ms + ahead_ms + 1
    samples = load(cluster, group, *window)
    return _read_at(samples, samples.max_offset, at_ms)


def _read_at(samples: Samples, offsets: Int64Array, at_ms: int) -> dict[MessageQueue, OffsetThen]:
    """Return the readings of one column of samples at a moment, by queue."""
    return _newest(
        (MessageQueue(key.topic, key.broker_name, key.queue_id), then)
        for key, then in _readings(samples, offsets, at_ms)
    )


def _newest(readings: Iterable[tuple[Place, OffsetThen]]) -> dict[Place, OffsetThen]:
    """Return the last reading of each place: a topic that was deleted and created again has two series."""
    found: dict[Place, OffsetThen] = {}
    for place, then in readings:
        if place not in found or found[place].read_at_ms < then.read_at_ms:
            found[place] = then
    return found


def _readings(samples: Samples, offsets: Int64Array, at_ms: int) -> Iterator[tuple[SeriesKey, OffsetThen]]:
    """Yield the last reading of one column at or before a moment, of each series that has one."""
    for key, place in samples.slices():
        status = samples.status[place]
        is_read = (status != UNKNOWN_CODE) & (status != ABSENT) & (offsets[place] >= 0)
        times, known = samples.t_ms[place][is_read], offsets[place][is_read]
        at = int(np.searchsorted(times, at_ms, side="right")) - 1
        if at >= 0:
            following = int(known[at + 1]) if at + 1 < len(times) else None
            yield key, OffsetThen(int(known[at]), int(times[at]), following, key.incarnation)
