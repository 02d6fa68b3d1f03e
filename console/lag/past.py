"""What was: a group's lag over time, and its committed offsets at a moment, from chunks and the open log."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import fsspec
import numpy as np
from django.db.models import QuerySet

from console.lag import archive
from console.lag.history import HOUR_MS, State, file_location
from console.lag.models import HistoryFile
from console.mqadmin import RETRY_TOPIC_PREFIX, MessageQueue
from spark.lag import chunk, inversion, rollup
from spark.lag.samples import Samples
from spark.lag.snapshot import Int64Array

logger = logging.getLogger(__name__)

POINTS_MAX = 2_000  # more than the pixels of a chart
DAY_MS = 24 * HOUR_MS
WHOLE_MS = DAY_MS  # a window up to this long is read at once: 17,280 rounds of 5 s
# of longer ones every ten minutes' peak and low are kept: 4,320 points for a month
THIN_STEP_MS = 10 * 60_000
LOOKBACK_MS = HOUR_MS  # so that ages at the left edge of a chart are known
GAP_INTERVALS = rollup.GAP_INTERVALS  # a longer silence is drawn as a gap, never bridged
ATTEMPTS = 3  # at finding a set of files that are all there and whole
AS_OF_MS = 15 * 60_000  # an offset older than this at the wished moment is not "as it was"


class OffsetThen(NamedTuple):
    """A committed offset at a moment, and when it was read (at or before that moment); `next_offset` is the one
    read next, where that was asked for, `incarnation` which one of topics of the same name it belongs to.
    """

    offset: int
    read_at_ms: int
    next_offset: int | None = None
    incarnation: int = 0


def history_paths(cluster: str, from_ms: int, to_ms: int) -> list[str]:
    """Return the live files that overlap [from_ms, to_ms), as `spark.lag.chunk.load_window` takes them."""
    rows = _live(cluster, from_ms, to_ms)
    return [file_location(row.path, row.kind) for row in rows.order_by("ts_lo_ms", "pk")]


def load(cluster: str, group: str, from_ms: int, to_ms: int, *, interval_ms: int) -> Samples:
    """Return a group's samples of [from_ms, to_ms).

    A file may be superseded and deleted between the look into the manifest and its opening: then the manifest
    is asked again. What is missing after that was removed by hand and is a gap. A damaged file is set aside, named in
    the manifest, and the rest goes on.
    """
    for _ in range(ATTEMPTS):
        paths = history_paths(cluster, from_ms, to_ms)
        try:
            return _load(paths, group, from_ms, to_ms)
        except FileNotFoundError:
            continue
        except archive.UNREADABLE:
            logger.exception("history cannot be read cluster=%s group=%s", cluster, group)
            if not _set_damaged_aside(cluster, from_ms, to_ms):
                raise
    present = [path for path in history_paths(cluster, from_ms, to_ms) if _exists(path)]
    logger.warning("history files are gone cluster=%s from_ms=%d to_ms=%d", cluster, from_ms, to_ms)
    return _load(present, group, from_ms, to_ms)


def _set_damaged_aside(cluster: str, from_ms: int, to_ms: int) -> bool:
    now_ms = time.time_ns() // 1_000_000
    found = [archive.quarantine_if_damaged(row, now_ms) for row in _live(cluster, from_ms, to_ms)]
    return any(found)


def _live(cluster: str, from_ms: int, to_ms: int) -> "QuerySet[HistoryFile]":
    return HistoryFile.objects.filter(
        cluster=cluster, state=State.LIVE, ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms
    )


def _load(paths: list[str], group: str, from_ms: int, to_ms: int) -> Samples:
    return chunk.load_samples(paths, from_ms, to_ms, group=group)


def _exists(path: str) -> bool:
    filesystem, name = fsspec.core.url_to_fs(path)
    return bool(filesystem.exists(name))


@dataclass(frozen=True, slots=True)
class _Rounds:
    """A group's queues added up per round. `missing` counts queues not read, `bounded` ages that are lower
    bounds; the age of the oldest message is certainly between `age_low_ms` and `age_high_ms`. `in_flight` is -1 where
    it was not read of every queue.
    """

    t_ms: Int64Array
    lag: Int64Array
    age_ms: Int64Array
    age_low_ms: Int64Array
    age_high_ms: Int64Array
    missing: Int64Array
    bounded: Int64Array
    in_flight: Int64Array

    def select(self, at: Int64Array) -> "_Rounds":
        """Return some of the rounds."""
        return _Rounds(*(getattr(self, name)[at] for name in self.__slots__))


SERIES = ("lag", "time_lag_ms", "time_lag_low_ms", "time_lag_high_ms", "in_flight")
FLAGS = ("lower_bound", "time_lag_lower_bound")


def lag_series(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    points: int,
    *,
    interval_ms: int,
    topic: str | None = None,
) -> dict[str, Any]:
    """Return a group's lag and time lag over time, at most about `points` of them, gaps as nulls.

    A dictionary for a chart: "interval_ms" (the collector's period), "step_ms" (of the points), and lists of
    one length: "times" (epoch ms), those of `SERIES` (null in a gap; "in_flight" where it was not read; the truth of
    "time_lag_ms" lies between low and high) and of `FLAGS` ("lower_bound": some queue was missing in that round,
    "time_lag_lower_bound": or the oldest message predates the history). Where a step holds more rounds than points,
    those with the largest and the smallest lag and time lag are drawn, in time order, so that no peak is lost.
    `%RETRY%` is not included unless `topic` names it.
    """
    points = max(4, min(points, POINTS_MAX))
    rounds = _all_rounds(cluster, group, topic, from_ms, to_ms, interval_ms)
    gap_ms = GAP_INTERVALS * interval_ms if to_ms - from_ms <= WHOLE_MS else 2 * THIN_STEP_MS
    kept = decimate(rounds.t_ms, (rounds.lag, rounds.age_ms), from_ms, to_ms, points)
    names = ("times", *SERIES, *FLAGS)
    lists: dict[str, list[Any]] = {name: [] for name in names}
    before: int | None = None
    for at in kept:
        if before is not None and _has_gap(rounds.t_ms[before : at + 1], gap_ms):
            middle_ms = int(rounds.t_ms[before] + rounds.t_ms[at]) // 2
            _add(lists, [middle_ms, *[None] * len(SERIES), *[False] * len(FLAGS)])
        is_partial = bool(rounds.missing[at])
        in_flight = int(rounds.in_flight[at])
        _add(
            lists,
            [
                int(rounds.t_ms[at]),
                int(rounds.lag[at]),
                int(rounds.age_ms[at]),
                int(rounds.age_low_ms[at]),
                None if rounds.bounded[at] else int(rounds.age_high_ms[at]),
                None if in_flight < 0 or is_partial else in_flight,
                is_partial,
                is_partial or bool(rounds.bounded[at]),
            ],
        )
        before = at
    step_ms = max(interval_ms, (to_ms - from_ms) * 4 // points)
    return {"interval_ms": interval_ms, "step_ms": step_ms, **lists}


def _all_rounds(
    cluster: str, group: str, topic: str | None, from_ms: int, to_ms: int, interval_ms: int
) -> _Rounds:
    """Return the rounds of a window, day by day where it is long, so that a month costs the memory of a day.

    A day that is over and lies in chunks only never changes: its thinned rounds are remembered.
    """
    if to_ms - from_ms <= WHOLE_MS:
        return _load_rounds(cluster, group, topic, from_ms, to_ms, interval_ms)
    parts = []
    for day_ms in range(from_ms - from_ms % DAY_MS, to_ms, DAY_MS):
        paths = tuple(history_paths(cluster, day_ms - LOOKBACK_MS, day_ms + DAY_MS))
        if paths and day_ms + DAY_MS <= to_ms and all(path.endswith(".parquet") for path in paths):
            day = _day_rounds(paths, cluster, group, topic, day_ms, interval_ms)
        else:
            end_ms = min(day_ms + DAY_MS, to_ms)
            day = _thinned(_load_rounds(cluster, group, topic, day_ms, end_ms, interval_ms))
        parts.append(day.select(np.flatnonzero((day.t_ms >= from_ms) & (day.t_ms < to_ms))))
    return _Rounds(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Rounds.__slots__))


@lru_cache(maxsize=256)
def _day_rounds(
    paths: tuple[str, ...], cluster: str, group: str, topic: str | None, day_ms: int, interval_ms: int
) -> _Rounds:
    """Return a day that is over. `paths` are part of the key: a new generation of a file is another day."""
    return _thinned(_load_rounds(cluster, group, topic, day_ms, day_ms + DAY_MS, interval_ms))


def _load_rounds(
    cluster: str, group: str, topic: str | None, from_ms: int, to_ms: int, interval_ms: int
) -> _Rounds:
    samples = load_main(cluster, group, from_ms - LOOKBACK_MS, to_ms, interval_ms=interval_ms, topic=topic)
    return _rounds(samples, from_ms, interval_ms)


def load_main(
    cluster: str, group: str, from_ms: int, to_ms: int, *, interval_ms: int, topic: str | None = None
) -> Samples:
    """Return a group's samples of one topic, or of all without its `%RETRY%`."""
    samples = load(cluster, group, from_ms, to_ms, interval_ms=interval_ms)
    if topic is not None:
        return samples.select(lambda key: key.topic == topic)
    return samples.select(lambda key: not key.topic.startswith(RETRY_TOPIC_PREFIX))


def _thinned(rounds: _Rounds) -> _Rounds:
    """Keep the largest and the smallest of every ten minutes, and both sides of every gap."""
    if len(rounds.t_ms) < 2:
        return rounds
    first, last = int(rounds.t_ms[0]), int(rounds.t_ms[-1]) + 1
    steps = max(1, (last - first) // THIN_STEP_MS)
    kept = set(decimate(rounds.t_ms, (rounds.lag, rounds.age_ms), first, last, 4 * steps))
    gaps = np.flatnonzero(np.diff(rounds.t_ms) > THIN_STEP_MS)
    kept.update(gaps.tolist(), (gaps + 1).tolist())
    return rounds.select(np.array(sorted(kept), dtype=np.int64))


def _add(lists: dict[str, list[Any]], values: list[Any]) -> None:
    for one, value in zip(lists.values(), values, strict=True):
        one.append(value)


def _has_gap(times: Int64Array, gap_ms: int) -> bool:
    return bool(len(times) > 1 and int(np.diff(times).max()) > gap_ms)


def _rounds(samples: Samples, from_ms: int, interval_ms: int) -> _Rounds:
    """Return the rounds from `from_ms` on; a queue counts as missing from its first sample to its
    incarnation's end.
    """
    figures = rollup.figures(samples, interval_ms=interval_ms)
    inside = np.flatnonzero(samples.t_ms >= from_ms)
    times, round_of = np.unique(samples.t_ms[inside], return_inverse=True)
    lag, age, low, high, read, bounded, flying, unread = (
        np.zeros(len(times), dtype=np.int64) for _ in range(8)
    )
    effective = np.maximum(samples.committed, samples.min_offset)
    waiting = inside[figures.lag[inside] > 0].astype(np.int64)
    stored = inversion.store_times(samples, waiting, effective[waiting])
    np.maximum.at(low, round_of[figures.lag[inside] > 0], samples.t_ms[waiting] - stored.until_ms)
    np.maximum.at(high, round_of[figures.lag[inside] > 0], samples.t_ms[waiting] - stored.after_ms)
    np.add.at(lag, round_of, figures.lag[inside])
    np.maximum.at(age, round_of, figures.time_lag_ms[inside])
    np.maximum.at(bounded, round_of, figures.censored[inside])
    np.add.at(read, round_of, 1)
    pulled = samples.pulled[inside]
    in_flight = np.clip(pulled - effective[inside], 0, figures.lag[inside])
    np.add.at(flying, round_of, np.where(pulled >= 0, in_flight, 0))
    np.maximum.at(unread, round_of, pulled < 0)
    begins = np.sort(samples.t_ms[samples.starts[:-1]]) if len(samples.keys) else times[:0]
    begun = np.searchsorted(begins, times, side="right")
    expected = begun - np.searchsorted(_incarnation_ends(samples), times, side="right")
    flying[unread > 0] = -1
    return _Rounds(times, lag, age, low, np.maximum(high, age), expected - read, bounded, flying)


def _incarnation_ends(samples: Samples) -> Int64Array:
    """Return when series ended because their topic was made again."""
    pairs = zip(samples.keys, samples.keys[1:], samples.starts[1:-1].tolist(), strict=False)
    ends = [int(samples.t_ms[start]) for one, following, start in pairs if one[:4] == following[:4]]
    return np.array(sorted(ends), dtype=np.int64)


def decimate(
    times: Int64Array, series: Sequence[Int64Array], from_ms: int, to_ms: int, points: int
) -> list[int]:
    """Return which rounds to draw: all while they fit, else the smallest and the largest of each series and step."""
    if len(times) <= points:
        return list(range(len(times)))
    steps = (times - from_ms) * (points // (2 * len(series))) // max(1, to_ms - from_ms)
    kept: set[int] = {0, len(times) - 1}
    bounds = np.flatnonzero(np.diff(steps)) + 1
    for start, stop in zip([0, *bounds.tolist()], [*bounds.tolist(), len(times)], strict=True):
        for values in series:
            kept.add(start + int(values[start:stop].argmin()))
            kept.add(start + int(values[start:stop].argmax()))
    return sorted(kept)


def offsets_at(
    cluster: str, group: str, at_ms: int, *, interval_ms: int, ahead_ms: int = 0
) -> dict[MessageQueue, OffsetThen]:
    """Return the committed offsets as the last round at or before `at_ms` read them, exactly.

    Queues without a reading in the quarter of an hour before are left out: of them nobody knows how it was.
    Of a topic that was made again the incarnation of that time counts. `ahead_ms`: how far after the moment to look
    for the next reading.
    """
    samples = load(cluster, group, at_ms - AS_OF_MS, at_ms + ahead_ms + 1, interval_ms=interval_ms)
    found: dict[MessageQueue, OffsetThen] = {}
    for key, place in samples.slices():
        queue = MessageQueue(key.topic, key.broker_name, key.queue_id)
        times, committed = samples.t_ms[place], samples.committed[place]
        at = int(np.searchsorted(times, at_ms, side="right")) - 1
        if at < 0:
            continue
        following = int(committed[at + 1]) if at + 1 < len(times) else None
        then = OffsetThen(int(committed[at]), int(times[at]), following, key.incarnation)
        if queue not in found or found[queue].read_at_ms < then.read_at_ms:
            found[queue] = then
    return found
