"""Episodes: when a group's topic broke its promise, stood still, was offline or lost messages, and why.

    breach    the oldest message waited longer than the group promises
    stall     some queue is STALLED or STOPPED
    offline   some queue is OFFLINE
    lost      some queue is LOST

`episodes(line, from_ms, to_ms, slo_ms, before)` is what a window shows. Given what came of the time before it, an
episode that goes on is extended and keeps its identity (group, topic, kind, start), so a standstill of five hours is
one episode in whatever pieces it is looked at. States with fewer than `MERGED_INTERVALS` intervals between them are one
episode, and so are those with nothing known between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark.lag.line import Line, LineKey
from spark.lag.replay import Forecast, first_forecast
from spark.lag.rounds import LOST, OFFLINE, STALL
from spark.lag.snapshot import BoolArray, Int64Array

MERGED_INTERVALS = 6
RECENT_MS, BEFORE_MS, RESET_MS = 5 * 60_000, 3_600_000, 10 * 60_000
SURGE, SLOW = 1.5, 0.67
STATES = {"stall": STALL, "offline": OFFLINE, "lost": LOST}
KINDS = ("breach", *STATES)


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode. `is_open`: it may go on; `has_ended`: a round after it was known to be without it; `began_before`:
    nothing before it in its first window was known to be without it, so it is at least this long.

    `cause` is the first that fits at the start: reset (an offset was set in the ten minutes before: `is_intentional`) ·
    offline · queue stuck · surge (five minutes' produce rate above 1.5 times that of the hour before) · slow (consume
    rate below two thirds of it) · unclear. `worst_queue` with its offsets at the start is the evidence. `messages_late`
    were consumed while the promise was broken, for `breach_ms` of the time: the budget that it burnt. `forecast_*` is
    the first drain forecast during the episode; `recovered_ms`: how long it took from there, None while it goes on.
    """

    group: str
    topic: str
    kind: str
    start_ms: int
    end_ms: int
    is_open: bool
    has_ended: bool
    began_before: bool
    cause: str
    is_intentional: bool
    slo_ms: int
    peak_lag: int
    peak_time_lag_ms: int
    messages_late: int
    lost: int
    breach_ms: int
    worst_queue: str
    committed_offset: int
    max_offset: int
    forecast_at_ms: int | None = None
    forecast_ms: int | None = None
    forecast_lo_ms: int | None = None
    forecast_hi_ms: int | None = None

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What names it however often it is computed."""
        return self.group, self.topic, self.kind, self.start_ms

    @property
    def recovered_ms(self) -> int | None:
        """How long it took from the forecast until it was over."""
        if self.is_open or self.forecast_at_ms is None:
            return None
        return self.end_ms - self.forecast_at_ms

    def then(self, later: Episode) -> Episode:
        """Return the episode that goes on with `later`."""
        first = self if self.forecast_at_ms is not None else later
        return replace(
            self,
            end_ms=later.end_ms,
            is_open=later.is_open,
            has_ended=later.has_ended,
            peak_lag=max(self.peak_lag, later.peak_lag),
            peak_time_lag_ms=max(self.peak_time_lag_ms, later.peak_time_lag_ms),
            messages_late=self.messages_late + later.messages_late,
            lost=self.lost + later.lost,
            breach_ms=self.breach_ms + later.breach_ms,
            forecast_at_ms=first.forecast_at_ms,
            forecast_ms=first.forecast_ms,
            forecast_lo_ms=first.forecast_lo_ms,
            forecast_hi_ms=first.forecast_hi_ms,
        )


def episodes(
    key: LineKey,
    line: Line,
    from_ms: int,
    to_ms: int,
    slo_ms: int,
    before: Sequence[Episode] = (),
) -> list[Episode]:
    """Return the episodes of a line in [from_ms, to_ms), by kind and start; `before` are those of this line that were
    open when the window began: they are extended, or closed.
    """
    own = line.since(from_ms)
    found: list[Episode] = []
    for kind in KINDS:
        holds, is_clean = _shown(own, kind, slo_ms)
        holds &= (own.t_ms >= from_ms) | (
            own.held_ms(from_ms, to_ms) > 0
        )  # of the round before what reaches in
        earlier = sorted((one for one in before if one.kind == kind), key=lambda one: one.start_ms)
        found += earlier[:-1]
        made = [
            _episode(key, kind, own, run, holds, from_ms, to_ms, slo_ms)
            for run in _runs(own, holds, is_clean)
        ]
        found += _after(earlier[-1], made, own, is_clean, from_ms, to_ms) if earlier else made
    return found


def _after(
    last: Episode, made: list[Episode], line: Line, is_clean: BoolArray, from_ms: int, to_ms: int
) -> list[Episode]:
    """Return the episodes of a window after the last one of before."""
    if made and (
        made[0].start_ms - last.end_ms < MERGED_INTERVALS * line.interval_ms
        or (made[0].began_before and not last.has_ended)
    ):
        return [last.then(made[0]), *made[1:]]
    has_ended = last.has_ended or bool((is_clean & (line.t_ms >= from_ms)).any())
    is_open = not has_ended or to_ms - last.end_ms < MERGED_INTERVALS * line.interval_ms
    return [replace(last, has_ended=has_ended, is_open=is_open), *made]


def _shown(line: Line, kind: str, slo_ms: int) -> tuple[BoolArray, BoolArray]:
    """Return the rounds in which a kind holds, and those in which it is known not to."""
    there = line.exists > 0
    if kind == "breach":
        holds = there & (line.age_ms > slo_ms)
        return holds, ~holds & (~there | (line.is_aged & ~line.is_bound))
    holds = there & (line.states & STATES[kind] != 0)
    return holds, ~holds & (~there | line.is_read)


@dataclass(frozen=True, slots=True)
class _Run:
    """Rounds [first, last] of a line; whether a round before, and one after, is known to be without it."""

    first: int
    last: int
    has_begun: bool
    has_ended: bool


def _runs(line: Line, holds: BoolArray, is_clean: BoolArray) -> Iterator[_Run]:
    at = np.flatnonzero(holds)
    if not len(at):
        return
    clean = np.concatenate([[0], np.cumsum(is_clean)])
    ends = np.minimum(np.append(line.t_ms, line.t_ms[-1:] + line.limit_ms)[1:], line.t_ms + line.limit_ms)
    apart = line.t_ms[at[1:]] - ends[at[:-1]]
    is_new = (apart >= MERGED_INTERVALS * line.interval_ms) & (clean[at[1:]] > clean[at[:-1] + 1])
    firsts, lasts = at[np.append(True, is_new)], at[np.append(is_new, True)]
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield _Run(first, last, bool(clean[first] > 0), bool(clean[-1] > clean[last + 1]))


def _episode(
    key: LineKey, kind: str, line: Line, run: _Run, holds: BoolArray, from_ms: int, to_ms: int, slo_ms: int
) -> Episode:
    # The round before the window counts for the time that it holds in it, not for its messages.
    held = line.held_ms(from_ms, to_ms)
    own = run.first + np.flatnonzero(holds[run.first : run.last + 1])
    is_late = line.age_ms[own] > slo_ms
    counts = line.t_ms[own] >= from_ms
    end_ms = int(max(line.t_ms[run.last], from_ms) + held[run.last])
    word = cause(line, run.first)
    forecast: Forecast | None = first_forecast(line, run.first, run.last)
    return Episode(
        group=key.group,
        topic=key.topic,
        kind=kind,
        start_ms=max(int(line.t_ms[run.first]), from_ms),
        end_ms=end_ms,
        is_open=not run.has_ended or to_ms - end_ms < MERGED_INTERVALS * line.interval_ms,
        has_ended=run.has_ended,
        began_before=not run.has_begun,
        cause=word,
        is_intentional=word == "reset",
        slo_ms=slo_ms,
        peak_lag=int(line.lag[own].max()),
        peak_time_lag_ms=int(line.age_ms[own].max()),
        messages_late=int(line.consumed[own][is_late & counts].sum()),
        lost=int(line.lost[own][counts].sum()),
        breach_ms=int(held[own][is_late].sum()),
        worst_queue=line.queue_names[int(line.worst[run.first])],
        committed_offset=int(line.committed[run.first]),
        max_offset=int(line.max_offset[run.first]),
        forecast_at_ms=None if forecast is None else forecast.at_ms,
        forecast_ms=None if forecast is None else forecast.ms,
        forecast_lo_ms=None if forecast is None else forecast.low_ms,
        forecast_hi_ms=None if forecast is None else forecast.high_ms,
    )


def cause(line: Line, at: int) -> str:
    """Return what changed first, as far as the line shows, when an episode begins at round `at`."""
    now_ms = int(line.t_ms[at])
    if line.moved[_between(line, now_ms - RESET_MS, now_ms)].any():
        return "reset"
    if line.states[at] & OFFLINE:
        return "offline"
    if line.states[at] & STALL:
        return "queue stuck"
    recent = _between(line, now_ms - RECENT_MS, now_ms)
    earlier = _between(line, now_ms - BEFORE_MS, now_ms - RECENT_MS)
    for word, counts, factor in (("surge", line.produced, SURGE), ("slow", line.consumed, SLOW)):
        now, usual = _rate(line, counts, recent), _rate(line, counts, earlier)
        if now is None or usual is None:
            continue
        if (factor > 1 and now > factor * usual) or (factor < 1 and now < factor * usual):
            return word
    return "unclear"


def _between(line: Line, from_ms: int, to_ms: int) -> BoolArray:
    """Return the rounds in (from, to]."""
    inside: BoolArray = (line.t_ms > from_ms) & (line.t_ms <= to_ms)
    return inside


def _rate(line: Line, counts: Int64Array, inside: BoolArray) -> float | None:
    span = int(line.gap_ms[inside].sum())
    return None if span == 0 else float(np.sum(counts[inside])) * 1000 / span
