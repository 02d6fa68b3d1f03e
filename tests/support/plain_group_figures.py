"""The plain twins of the sums of a group's queues: `rows.group_sums` and `spark.lag.round.skew`, a group at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark.lag.forecast import DRAINED, UNKNOWN_DRAIN, Drain
from spark.lag.round.status import LagStatus

WORST_FIRST = [
    "LOST",
    "STALLED",
    "STOPPED",
    "OFFLINE",
    "FALLING_BEHIND",
    "INVALID",
    "UNKNOWN",
    "REWOUND",
    "SKIPPED",
    "CATCHING_UP",
    "NEVER_COMMITTED",
    "OK",
]


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What is known of one queue of a group now. `lag` null: unknown, or never committed."""

    name: str  # "topic · broker · 3", to name the worst one
    status: LagStatus
    lag: int | None
    time_lag_ms: int | None
    time_lag_lower_bound: bool
    since_ms: int
    reason: str = ""
    drain: Drain = UNKNOWN_DRAIN


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Sums and worst cases. unknown + 5 is "at least 5": `lag` 5 with `lag_lower_bound`, never 5 and never
    nothing.
    """

    status: LagStatus
    partial: bool
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None
    time_lag_lower_bound: bool
    since_ms: int
    worst_queue: str
    reason: str
    drain: Drain = UNKNOWN_DRAIN


def combine(queues: Sequence[QueueFigures]) -> GroupFigures:
    """Add up the queues of a group (or of one of its topics); unknown propagates (lag.md 1.2).

    A queue the group never committed on has no lag.
    """
    if not queues:
        return GroupFigures(LagStatus.NEVER_COMMITTED, False, None, False, None, False, 0, "", "")
    known = [queue for queue in queues if queue.status is not LagStatus.UNKNOWN]
    partial = len(known) < len(queues)
    if not known:
        first = min(queues, key=lambda one: one.since_ms)
        return GroupFigures(
            LagStatus.UNKNOWN, True, None, False, None, False, first.since_ms, first.name, first.reason
        )
    committed = [queue for queue in known if queue.status is not LagStatus.NEVER_COMMITTED]
    status = min((queue.status for queue in queues), key=WORST_FIRST.index)
    lags = [queue.lag for queue in known if queue.lag is not None]
    timed = [queue for queue in known if queue.time_lag_ms is not None]
    oldest = max(timed, key=lambda one: one.time_lag_ms or 0, default=None)
    culprits = [queue for queue in queues if queue.status is status]
    culprit = max(culprits, key=lambda one: (one.time_lag_ms or 0, one.lag or 0))
    reason = f"{culprit.name}: {culprit.reason}" if culprit.reason else ""
    if status is LagStatus.UNKNOWN:
        culprit = min(culprits, key=lambda one: one.since_ms)
        reason = culprit.reason
    return GroupFigures(
        status=status,
        partial=partial,
        lag=sum(lags) if lags else None,
        lag_lower_bound=partial and bool(lags),
        time_lag_ms=None if oldest is None else oldest.time_lag_ms,
        time_lag_lower_bound=partial or (oldest is not None and oldest.time_lag_lower_bound),
        since_ms=min(queue.since_ms for queue in culprits),
        worst_queue=culprit.name
        if oldest is None or status not in (LagStatus.OK, LagStatus.UNKNOWN)
        else oldest.name,
        reason=reason,
        drain=_drain(committed, partial),
    )


def _drain(queues: Sequence[QueueFigures], partial: bool) -> Drain:
    """Return when the last backlog of a group is gone. Queues that are OK have an ordinary handful waiting, no
    backlog; while some queue is unknown only "never" is certain.
    """
    judged = [queue.drain for queue in queues if queue.status is not LagStatus.OK]
    if partial and not any(one.never for one in judged):
        return UNKNOWN_DRAIN
    if judged:
        return next((one for one in judged if one.never), None) or _last(judged)
    return DRAINED if queues and not any(queue.lag for queue in queues) else UNKNOWN_DRAIN


def _last(drains: Sequence[Drain]) -> Drain:
    """Return the drain that ends last, none of which never does; its band reaches as far as any of theirs."""
    if any(one.ms is None for one in drains):
        return UNKNOWN_DRAIN
    waits = [one for one in drains if one.ms]
    longest = max(drains, key=lambda one: one.ms or 0)
    lows, highs = [one.low_ms for one in waits], [one.high_ms for one in waits]
    return Drain(
        longest.ms,
        False,
        None if None in lows else max((one for one in lows if one is not None), default=None),
        None if None in highs else max((one for one in highs if one is not None), default=None),
        longest.window_ms,
    )


@dataclass(frozen=True, slots=True)
class Skew:
    """Of a group's queues. All 1 queue: gini near 1, `effective_queues` 1; all alike: gini 0, as many as there are.

    `time_lag_spread_ms` is the largest minus the median time lag.
    """

    max_over_mean: float
    variation: float  # standard deviation over mean
    gini: float
    effective_queues: float
    time_lag_spread_ms: int | None


def skew(lags: Sequence[int], time_lags_ms: Sequence[int] = ()) -> Skew | None:
    """Return the skew of known lags, None when nothing waits: nothing is evenly spread over nothing."""
    values = np.sort(np.asarray(lags, dtype=np.float64))
    total = float(values.sum())
    if total <= 0:
        return None
    count = len(values)
    mean = total / count
    ranks = np.arange(1, count + 1)
    gini = float((2 * ranks - count - 1) @ values / (count * total))
    spread = None
    if len(time_lags_ms):
        spread = int(max(time_lags_ms) - np.median(np.asarray(time_lags_ms)))
    return Skew(
        max_over_mean=float(values[-1] / mean),
        variation=float(values.std() / mean),
        gini=gini,
        effective_queues=float(total * total / (values @ values)),
        time_lag_spread_ms=spread,
    )
