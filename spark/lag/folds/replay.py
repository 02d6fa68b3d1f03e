"""Repeat drain forecasts from history, with the function of the live pages, and compare them with what came.

A backlog is a stretch in which the oldest message waited longer than a commit takes: what a healthy consumer has in
flight is none, and is still there when the backlog is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark.lag.folds.line import Line
from spark.lag.folds.window import BEHIND_MS
from spark.lag.forecast import drain
from spark.lag.snapshot import Int64Array

WINDOW_MS = 10 * 60_000  # of a live forecast
STEP_MS = 5 * 60_000  # a forecast every five minutes of a backlog
NORMAL_ROUNDS = 3  # fewer rounds before a backlog do not show what is normal: a history may begin with one
SHORTEST_MS = 2 * 60_000  # a younger backlog is an ordinary burst


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast made at `at_ms`: `ms`, or `never`. `actual_ms`: until the backlog was gone; None: not seen."""

    at_ms: int
    ms: int | None
    never: bool
    low_ms: int | None
    high_ms: int | None
    actual_ms: int | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Consecutive rounds [first, last] of a line."""

    first: int
    last: int


def backlogs(line: Line) -> list[Backlog]:
    """Return stretches with a backlog, long enough to forecast; a gap in the data ends one."""
    holds = (line.age_ms > BEHIND_MS) & line.is_counted & line.is_aged
    hole = np.diff(line.t_ms, prepend=line.t_ms[:1]) > line.limit_ms
    begins = holds & np.append(True, ~holds[:-1] | hole[1:])
    ends = holds & np.append(~holds[1:] | hole[1:], True)
    pairs = zip(np.flatnonzero(begins).tolist(), np.flatnonzero(ends).tolist(), strict=True)
    return [Backlog(a, b) for a, b in pairs if line.t_ms[b] - line.t_ms[a] >= SHORTEST_MS]


def forecasts(line: Line, backlog: Backlog) -> Iterator[Forecast]:
    """Yield the forecast of every five minutes of a backlog."""
    next_ms = int(line.t_ms[backlog.first]) + SHORTEST_MS
    for at in range(backlog.first, backlog.last + 1):
        if line.t_ms[at] >= next_ms:
            yield forecast_at(line, backlog, at)
            next_ms = int(line.t_ms[at]) + STEP_MS


def forecast_at(line: Line, backlog: Backlog, at: int) -> Forecast:
    """Return the forecast of the live page in round `at`: from the last ten minutes of this backlog."""
    end = drain(*window_at(line, backlog, at))
    now_ms = int(line.t_ms[at])
    return Forecast(now_ms, end.ms, end.never, end.low_ms, end.high_ms, drained_after(line, backlog, at))


def window_at(line: Line, backlog: Backlog, at: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (times, max offsets, committed offsets) of a backlog's last ten minutes, counted from the first round."""
    first = max(backlog.first, int(np.searchsorted(line.t_ms, int(line.t_ms[at]) - WINDOW_MS)))
    window = slice(first, at + 1)
    arrived = np.cumsum(line.produced[window]) - line.produced[first]
    heads = arrived + int(line.lag[first])
    return line.t_ms[window], heads, heads - line.lag[window]


def drained_after(line: Line, backlog: Backlog, at: int) -> int | None:
    """Return how long it took from round `at` until no more waited than before the backlog; None: not seen."""
    began_ms = int(line.t_ms[backlog.first])
    before = (line.t_ms >= began_ms - WINDOW_MS) & (line.t_ms < began_ms - BEHIND_MS)
    normal = int(np.median(line.lag[before])) if before.sum() >= NORMAL_ROUNDS else 0
    gone = np.flatnonzero((line.lag[at:] <= normal) & line.is_counted[at:])
    if len(gone) == 0:
        return None
    end = at + int(gone[0])
    # A gap on the way hides when it ended, and a later backlog is another one.
    unseen = line.gap_ms[at + 1 : end + 1] == 0
    is_late = line.t_ms[end] > line.t_ms[backlog.last] + WINDOW_MS
    return None if unseen.any() or is_late else int(line.t_ms[end] - line.t_ms[at])
