"""The smaller plots of a group's report, from its hourly rows.

Lag against catch-up speed, the number of queues that share the backlog, and retries and dead letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from console.report import selectors
from spark.lag.local_time import HOUR_MS

TOPICS_SHOWN = 6  # of the small multiples: the topics with the longest waits
# Shorter waits are one colour of the heat maps (HEAT_BREAKS of report_plots.js): nothing to tell apart.
WAIT_MS_MIN = 5_000
POINTS_MIN = 2


class Row(NamedTuple):
    """The columns of an hour of a topic that are drawn."""

    topic: str
    window_start_ms: int
    time_lag_last_ms: int | None = None
    time_lag_max_ms: int | None = None
    catch_up_speed: float | None = None
    effective_queues: float | None = None
    queues: int = 0
    consumed: int = 0
    retry_in: int | None = None
    dead_letter_in: int | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """Time lag at the end of each hour against catch-up speed: lists of one length, in the order of time."""

    times: list[int]
    topics: list[str]
    lag_ms: list[int | None]
    speed: list[float | None]


@dataclass(frozen=True, slots=True)
class TopicSkew:
    """Over how many queues a topic's backlog was spread in each hour, and of how many."""

    topic: str
    effective: list[float | None]
    queues: list[int | None]


@dataclass(frozen=True, slots=True)
class Skew:
    """The topics with the longest waits, of `total`."""

    times: list[int]
    topics: list[TopicSkew]
    total: int


@dataclass(frozen=True, slots=True)
class Ways:
    """Messages consumed, sent back for a retry (each try counts) and dead, in `hours` observed hours."""

    consumed: int
    retried: int
    dead: int | None
    hours: int


def rows_of(cluster: str, group: str, from_ms: int, to_ms: int) -> list[Row]:
    """Return the hours that the plots are drawn from."""
    found = selectors.group_hours(cluster, group, from_ms, to_ms).order_by("window_start_ms", "topic")
    return [Row(*values) for values in found.values_list(*Row._fields)]


def phase(rows: Sequence[Row]) -> Phase | None:
    """Return the hours with waiting messages; None if they are few or no wait is worth a picture."""
    known = [
        row
        for row in rows
        if row.time_lag_max_ms and row.catch_up_speed is not None and row.time_lag_last_ms is not None
    ]
    if len(known) < POINTS_MIN or max(row.time_lag_max_ms or 0 for row in known) < WAIT_MS_MIN:
        return None
    return Phase(
        times=[row.window_start_ms for row in known],
        topics=[row.topic for row in known],
        lag_ms=[row.time_lag_last_ms for row in known],
        speed=[row.catch_up_speed for row in known],
    )


def skew(rows: Sequence[Row]) -> Skew | None:
    """Return how the backlog of each hour was spread; None if no wait is worth a picture, or nothing was observed.

    Topics with one queue have no skew.
    """
    own: dict[str, dict[int, Row]] = {}
    for row in rows:
        if row.queues > 1:
            own.setdefault(row.topic, {})[row.window_start_ms] = row
    waited = {
        topic: max((row.time_lag_max_ms or 0 for row in hours.values()), default=0)
        for topic, hours in own.items()
        if sum(row.effective_queues is not None for row in hours.values()) >= POINTS_MIN
    }
    waited = {topic: longest_ms for topic, longest_ms in waited.items() if longest_ms >= WAIT_MS_MIN}
    if not waited:
        return None
    shown = sorted(waited, key=lambda topic: (-waited[topic], topic))[:TOPICS_SHOWN]
    first, last = min(min(own[topic]) for topic in shown), max(max(own[topic]) for topic in shown)
    times = list(range(first, last + HOUR_MS, HOUR_MS))
    topics = []
    for topic in shown:
        hours = [own[topic].get(at_ms) for at_ms in times]
        effective = [None if hour is None else hour.effective_queues for hour in hours]
        topics.append(TopicSkew(topic, effective, [None if hour is None else hour.queues for hour in hours]))
    return Skew(times, topics, total=len(waited))


def ways(rows: Sequence[Row]) -> Ways | None:
    """Return what became of the messages; None if no retry was collected.

    Every topic's row of an hour has the whole group's retries and dead letters, so an hour counts them once.
    """
    retried: dict[int, int] = {}
    dead: dict[int, int] = {}
    for row in rows:
        at_ms = row.window_start_ms
        if row.retry_in is not None:
            retried[at_ms] = max(retried.get(at_ms, 0), row.retry_in)
        if row.dead_letter_in is not None:
            dead[at_ms] = max(dead.get(at_ms, 0), row.dead_letter_in)
    if not any(retried.values()):
        return None
    return Ways(
        consumed=sum(row.consumed for row in rows if row.window_start_ms in retried),
        retried=sum(retried.values()),
        dead=sum(dead[at_ms] for at_ms in dead if at_ms in retried) if dead else None,
        hours=len(retried),
    )
