"""Decide when an episode begins, goes on and ends, from one round to the next. Pure: no database, no clock.

An episode is a stretch of time in which a group's topic was late (its oldest message waited longer than the group
promises), stood still, was offline with messages waiting, or lost messages. Its rules, for every kind alike:

1. It begins at the first round in which its kind holds. That moment is part of its id for ever.
2. It ends at the first round that is known to be well, if the topic stays well for MERGED_INTERVALS; less is a pause.
3. A round of which the state is unknown neither ends nor begins one. A round holds until the next, at most
   HOLD_INTERVALS; what is longer is unknown.
4. A topic that is gone ends its episodes where it was last known.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from spark.lag.codes import LagStatus

MERGED_INTERVALS = 6
HOLD_INTERVALS = 4


class EpisodeKind(StrEnum):
    """Name what is wrong during an episode."""

    BREACH = "breach"
    STALL = "stall"
    OFFLINE = "offline"
    LOST = "lost"


class EpisodeState(StrEnum):
    """Name how an episode stood in the last round: it holds, is unknown, has just become well, or is over."""

    ONGOING = "ONGOING"
    UNKNOWN = "UNKNOWN"
    ENDING = "ENDING"
    OVER = "OVER"


STATUS_KINDS = {
    LagStatus.STALLED.value: EpisodeKind.STALL,
    LagStatus.STOPPED.value: EpisodeKind.STALL,
    LagStatus.OFFLINE.value: EpisodeKind.OFFLINE,
    LagStatus.LOST.value: EpisodeKind.LOST,
}


class Promised(NamedTuple):
    """Promise that no message waits longer than `slo_ms` for `target` of the time, from `from_ms` on."""

    slo_ms: int
    target: float
    from_ms: int = 0


class TopicState(NamedTuple):
    """Describe a group's topic in one round; with `is_bound` the time lag is a lower bound."""

    status: str
    lag: int | None
    time_lag_ms: int | None
    is_bound: bool


@dataclass(frozen=True, slots=True)
class Course:
    """Describe how far an episode has come.

    `end_ms` is the last moment it held; of one that is ending, when it was first well. `bad_ms` counts the time in
    which it was known to hold, `unknown_ms` the time in which it was unknown; `pauses` are the times it was well for
    less than a merge. `seen_ms` is the last round, `well_ms` how long it has been well.
    """

    start_ms: int
    end_ms: int
    seen_ms: int
    state: EpisodeState = EpisodeState.ONGOING
    bad_ms: int = 0
    unknown_ms: int = 0
    pauses: int = 0
    well_ms: int = 0


def episode_id(cluster: str, group: str, topic: str, kind: str, start_ms: int) -> str:
    """Return the id of an episode: the same wherever and whenever it is computed."""
    text = "\0".join((cluster, group, topic, kind, str(start_ms)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def holds(kind: EpisodeKind, seen: TopicState, slo_ms: int) -> bool | None:
    """Return whether the topic is wrong in this way; None: unknown."""
    if kind is not EpisodeKind.BREACH:
        if seen.status == LagStatus.UNKNOWN:
            return None
        return STATUS_KINDS.get(seen.status) is kind
    if seen.time_lag_ms is not None and seen.time_lag_ms > slo_ms:
        return True
    if seen.is_bound or seen.status == LagStatus.UNKNOWN:
        return None
    return None if seen.time_lag_ms is None and seen.lag else False


def beginning(now_ms: int) -> Course:
    """Return the course of an episode that begins with this round."""
    return Course(start_ms=now_ms, end_ms=now_ms, seen_ms=now_ms)


def after(course: Course, is_bad: bool | None, now_ms: int, interval_ms: int) -> Course:
    """Return the course of an episode after the round of `now_ms`."""
    span_ms = max(0, now_ms - course.seen_ms)
    held_ms = min(span_ms, HOLD_INTERVALS * interval_ms)
    was = course.state
    moved = replace(
        course,
        seen_ms=now_ms,
        bad_ms=course.bad_ms + (held_ms if was is EpisodeState.ONGOING else 0),
        unknown_ms=course.unknown_ms + (span_ms if was is EpisodeState.UNKNOWN else span_ms - held_ms),
        well_ms=course.well_ms + (held_ms if was is EpisodeState.ENDING else 0),
    )
    held_until_ms = course.seen_ms + held_ms if was is EpisodeState.ONGOING else course.end_ms
    if is_bad:
        pauses = course.pauses + (course.well_ms > 0 or was is EpisodeState.ENDING)
        # The clock may have been set back.
        end_ms = max(now_ms, course.start_ms)
        return replace(moved, state=EpisodeState.ONGOING, end_ms=end_ms, well_ms=0, pauses=pauses)
    if is_bad is None:
        return replace(moved, state=EpisodeState.UNKNOWN, end_ms=held_until_ms)
    is_over = moved.well_ms >= MERGED_INTERVALS * interval_ms
    return replace(
        moved,
        state=EpisodeState.OVER if is_over else EpisodeState.ENDING,
        end_ms=held_until_ms,
    )


def gone(course: Course) -> Course:
    """Return an episode whose topic is gone: over where it was last known."""
    return replace(course, state=EpisodeState.OVER)
