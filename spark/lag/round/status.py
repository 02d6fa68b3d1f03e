"""The status of a group: twelve codes, each with an exact rule; unknown is never zero.

The rules are Burrow's, on a window of samples in time instead of a count of commits, because RocketMQ has no
commit log to follow; LOST, SKIPPED, OFFLINE, NEVER_COMMITTED, INVALID and UNKNOWN are ours (lag.md 1.2 metric
27, 1.3).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from spark.lag.codes import (
    ABSENT,
    CODE_OF,
    SEVERITY,
    STATUS_OF,
    WORST_FIRST,
    LagStatus,
    SampleFlag,
)
from spark.lag.forecast import DRAINED, UNKNOWN_DRAIN, Direction, Drain, drain, trend
from spark.lag.snapshot import BoolArray, Int64Array

__all__ = [
    "ABSENT",
    "CODE_OF",
    "SEVERITY",
    "STATUS_OF",
    "WORST_FIRST",
    "Evidence",
    "Judgement",
    "LagStatus",
    "QueueHistory",
    "Reason",
    "SampleFlag",
    "attention",
    "judge",
    "worst",
]

WINDOW_MS = 10 * 60_000  # Burrow watches 10 commits; 10 minutes hold 10 rounds even at a 60 s interval
# a healthy push consumer commits every 5 s, or with its next pull, up to 30 s later
TIME_LAG_ALLOWED_MS = 30_000
QUIET_MS = 60_000  # no progress for so long, with messages waiting, is not a slow commit any more
# A POP group's offset moves when messages are taken: its members may be busy with what they hold for as long as the
# longest invisible time a client may request (5 min), and take the next ones a minute later.
POP_QUIET_MS = 6 * 60_000
RHYTHM_FACTOR = 3  # a consumer that commits every 5 minutes is quiet after 15
BACKLOG_GRACE_MS = 60_000  # a backlog younger than this is an ordinary burst
# What one slow message held back is committed with it, all at once: up to consumeConcurrentlyMaxSpan messages.
SPAN_MESSAGES = 2_000
# The fall of a steady backlog by chance is a few hundredths of it.
FALLS_FAR = 0.2
SPEEDS_MIN = 3  # intervals of measured handling speed, before anything is compared with it
SKIP_FACTOR = 8  # a group whose database recovers is several times as fast at once; one that skips far more


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """Hold the window of a queue as one group consumes it: rounds that were read, at least one, in order.

    `moved`: the committed offset was set, not consumed, since the round before. `switched`: the two are of different
    machines (`SampleFlag.SWITCHED`).
    """

    t_ms: Int64Array
    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array
    moved: BoolArray
    switched: BoolArray

    def moves(self) -> Int64Array:
        """Return the changes of the committed offset from round to round; another machine's did not go back."""
        changes: Int64Array = self.committed[1:] - self.committed[:-1]
        return np.where(self.switched[1:], np.maximum(changes, 0), changes)

    def part(self, since: int | slice) -> "QueueHistory":
        """Return some of the rounds: a slice, or all from one place on."""
        own = since if isinstance(since, slice) else slice(since, None)
        return QueueHistory(
            self.t_ms[own],
            self.max_offset[own],
            self.min_offset[own],
            self.committed[own],
            self.moved[own],
            self.switched[own],
        )

    def drain(self) -> Drain:
        """Return when what can still be read is read, at this window's pace."""
        return drain(self.t_ms, self.max_offset, np.maximum(self.committed, self.min_offset))


class Evidence(StrEnum):
    """What the window shows of a queue that is not well. The console has a sentence for each (`lag.rows.reasons`)."""

    BEYOND_END = "BEYOND_END"
    LOST = "LOST"
    NO_CLIENT = "NO_CLIENT"
    NO_PROGRESS = "NO_PROGRESS"
    TREND = "TREND"
    MOSTLY_FELL = "MOSTLY_FELL"
    FALLS_UNSTEADILY = "FALLS_UNSTEADILY"
    WENT_BACK = "WENT_BACK"
    SET_BACK = "SET_BACK"
    JUMPED_AHEAD = "JUMPED_AHEAD"
    SET_AHEAD = "SET_AHEAD"


@dataclass(frozen=True, slots=True)
class Reason:
    """Evidence with its figures by name: counts of messages, offsets, and durations (`…_ms`)."""

    evidence: Evidence
    figures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A status, when it began as far as the window shows, the evidence, and the end of the backlog.

    CATCHING_UP always has a `drain` with an end, FALLING_BEHIND and a standstill never: one trend decides both.
    """

    status: LagStatus
    since_ms: int
    reason: Reason | None = None
    drain: Drain = UNKNOWN_DRAIN


NO_END = Drain(None, True)


def judge(
    history: QueueHistory,
    *,
    time_lag_ms: int | None,
    clients: int | None,
    previous: LagStatus | None = None,
    patience_ms: int = QUIET_MS,
) -> Judgement:
    """Judge one queue that has a committed offset and was read in the last round.

    `time_lag_ms` is null when it is only known to be large; `clients` is the group's number of members, null
    when unknown; `previous` is the status of the round before, which a backlog without a clear trend keeps;
    `patience_ms` is how long a standstill is still normal (`POP_QUIET_MS` for POP).
    The rules, first match wins:

    1. Committed offset beyond max: INVALID.
    2. Below min: LOST, what retention removed cannot be read any more.
    3. Nothing waits: OK, or SKIPPED when it got there by a jump in this window.
    4. No client is connected: OFFLINE.
    5. No progress for longer than its own rhythm explains: STALLED when clients are connected and it made none in the
    window, else STOPPED. 6. It went back in the window and has not come back to where it was: REWOUND. It jumped far
    ahead: SKIPPED. 7. The oldest message has waited no longer than a commit takes, or the backlog is young:
    OK. 8. Growing: FALLING_BEHIND; shrinking: CATCHING_UP.
    """
    committed = int(history.committed[-1])
    low, high = int(history.min_offset[-1]), int(history.max_offset[-1])
    if committed > high:
        since_ms = _since(history, history.committed > history.max_offset)
        reason = Reason(Evidence.BEYOND_END, {"committed": committed, "high": high})
        return Judgement(LagStatus.INVALID, since_ms, reason)
    if committed < low:
        since_ms = _since(history, history.committed < history.min_offset)
        reason = Reason(Evidence.LOST, {"number": low - committed})
        return Judgement(LagStatus.LOST, since_ms, reason, history.part(_from_last_zero(history)).drain())
    lag = high - committed
    if lag == 0:
        since_ms = _since(history, history.committed >= history.max_offset)
        return _skipped(history) or Judgement(LagStatus.OK, since_ms, drain=DRAINED)
    if clients == 0:
        reason = Reason(Evidence.NO_CLIENT, {"lag": lag})
        return Judgement(LagStatus.OFFLINE, _last_progress(history), reason, NO_END)
    return _judge_backlog(history, lag, time_lag_ms, clients, previous, patience_ms)


def _judge_backlog(
    history: QueueHistory,
    lag: int,
    time_lag_ms: int | None,
    clients: int | None,
    previous: LagStatus | None,
    patience_ms: int,
) -> Judgement:
    """Apply rules 5 to 8, to a queue with messages waiting whose group may have clients."""
    now_ms = int(history.t_ms[-1])
    backlog = _from_last_zero(history)
    began_ms = int(history.t_ms[backlog][0])
    moves = history.moves()
    moved = np.flatnonzero(moves) + 1
    last_move_ms = int(history.t_ms[moved[-1]]) if len(moved) else began_ms
    quiet_ms = now_ms - max(began_ms, last_move_ms)
    if quiet_ms > patience_ms:
        advances = np.flatnonzero(moves > 0) + 1
        if quiet_ms > RHYTHM_FACTOR * _longest_pause(history.t_ms[advances]):
            is_stalled = clients is not None and not len(advances)
            word = LagStatus.STALLED if is_stalled else LagStatus.STOPPED
            reason = Reason(Evidence.NO_PROGRESS, {"time_ms": quiet_ms, "number": lag})
            return Judgement(word, now_ms - quiet_ms, reason, NO_END)
    jumped = _rewound(history, moves) or _skipped(history)
    if jumped is not None:
        return jumped
    if time_lag_ms is not None and time_lag_ms <= TIME_LAG_ALLOWED_MS:
        return Judgement(LagStatus.OK, now_ms)
    if now_ms - began_ms < BACKLOG_GRACE_MS:
        return Judgement(LagStatus.OK, now_ms)
    return _judge_trend(history, backlog, previous)


def _judge_trend(history: QueueHistory, backlog: slice, previous: LagStatus | None) -> Judgement:
    """Return status and drain from one trend.

    CATCHING_UP stays while the lag more likely shrinks than not: pages do not flicker. A lag that bursts make rise now
    and then shrinks all the same when the window takes a fifth of it.
    """
    own = history.part(backlog)
    found = trend(own.t_ms, own.max_offset - own.committed, own.committed)
    falls_far = -found.pace * found.span_ms >= FALLS_FAR * found.first
    is_likely = found.direction is Direction.STEADY and found.pace < 0
    likely_is_enough = previous is LagStatus.CATCHING_UP or falls_far
    catches_up = found.direction is Direction.SHRINKING or (is_likely and likely_is_enough)
    end = own.drain() if catches_up else NO_END
    word = LagStatus.CATCHING_UP if end.ms is not None else LagStatus.FALLING_BEHIND
    # At a turning point the ends of the window say the opposite of most of it.
    evidence = Evidence.TREND
    if word is LagStatus.CATCHING_UP and found.last > found.first:
        evidence = Evidence.MOSTLY_FELL
    elif word is LagStatus.FALLING_BEHIND and found.last < found.first:
        evidence = Evidence.FALLS_UNSTEADILY
    reason = Reason(evidence, {"first": found.first, "last": found.last, "time_ms": found.span_ms})
    return Judgement(word, int(own.t_ms[0]), reason, end if end.ms is not None else NO_END)


def _rewound(history: QueueHistory, moves: Int64Array) -> Judgement | None:
    """Return REWOUND if the committed offset went back in the window and is still below its old place, else None.

    One beyond the end is no place: it is of an earlier topic of that name, or of a tail that a broker lost. Neither
    is one that another machine reported.
    """
    is_place = history.committed <= history.max_offset
    falls = np.flatnonzero((moves < 0) & is_place[:-1])
    if len(falls) == 0:
        return None
    machine = np.flatnonzero(history.switched[: falls[-1] + 1])
    earlier = slice(machine[-1] if len(machine) else 0, falls[-1] + 1)
    before = int(history.committed[earlier][is_place[earlier]].max())
    now = int(history.committed[-1])
    if now >= before:
        return None
    at = int(falls[-1])
    evidence = Evidence.SET_BACK if _is_pending(history, at + 1) else Evidence.WENT_BACK
    reason = Reason(evidence, {"before": before, "after": int(history.committed[at + 1])})
    return Judgement(LagStatus.REWOUND, int(history.t_ms[at + 1]), reason, history.part(at + 1).drain())


def _skipped(history: QueueHistory) -> Judgement | None:
    """Return SKIPPED if the committed offset was set ahead in the window and not back, else None.

    One that is taken back comes to where it was, and to what was consumed in the interval of the move.
    """
    jumps = np.flatnonzero(history.moved[1:] & (history.moves() > 0)) + 1
    lowest = np.minimum.accumulate(history.committed[::-1])[::-1][jumps]
    start, target = history.committed[jumps - 1], history.committed[jumps]
    jumps = jumps[2 * (lowest - start) >= target - start]
    if len(jumps) == 0:
        return None
    at = int(jumps[-1])
    skipped = int(history.committed[at] - history.committed[at - 1])
    evidence = Evidence.SET_AHEAD if _is_pending(history, at) else Evidence.JUMPED_AHEAD
    reason = Reason(evidence, {"number": skipped})
    return Judgement(LagStatus.SKIPPED, int(history.t_ms[at]), reason, history.part(at).drain())


def _is_pending(history: QueueHistory, at: int) -> bool:
    """Return whether a committed offset still stands where it was set at one place of the window while messages wait.

    That is no progress of the group, whose clients may not have received the new offset yet (lag.md 1.3).
    """
    is_still_there = bool((history.committed[at:] == history.committed[at]).all())
    waits = history.committed[-1] < history.max_offset[-1]
    return is_still_there and bool(waits)


def is_beyond_handling(history: QueueHistory) -> bool:
    """Return whether the newest rise of the committed offset is more than the group can have handled in its interval.

    Compared with its own fastest interval of the window in which it was late at both ends, for only then it was as fast
    as it can be: `SKIP_FACTOR` times that, and the `SPAN_MESSAGES` that one slow message may have held back. Nothing is
    claimed of a group that was not late (a burst that it takes at once is no skip), or was not seen handling in
    `SPEEDS_MIN` intervals. So a skip of a few thousand messages on a busy group looks like progress here: the
    console's own moves and those of groups without members are known in other ways.
    """
    if len(history.t_ms) < 2:
        return False
    gained, late = history.moves(), _was_late(history)
    took_ms = np.maximum(np.diff(history.t_ms), 1)
    handled = late[:-1] & late[1:] & (gained > 0) & ~(history.moved | history.switched)[1:]
    handled[-1] = False
    if not late[-2] or int(handled.sum()) < SPEEDS_MIN:
        return False
    fastest = float((gained[handled] / took_ms[handled]).max())
    return bool(gained[-1] > SPAN_MESSAGES + SKIP_FACTOR * fastest * took_ms[-1])


def _was_late(history: QueueHistory) -> BoolArray:
    """Return in which rounds the first unread message had waited longer than a commit takes."""
    earlier = np.searchsorted(history.t_ms, history.t_ms - TIME_LAG_ALLOWED_MS, side="right") - 1
    first = np.maximum(history.committed, history.min_offset)
    found: BoolArray = (earlier >= 0) & (first < history.max_offset[np.maximum(earlier, 0)])
    return found


def _since(history: QueueHistory, holds: BoolArray) -> int:
    """Return when a condition that holds now began to hold without interruption."""
    broken = np.flatnonzero(~holds)
    return int(history.t_ms[int(broken[-1]) + 1 if len(broken) else 0])


def _last_progress(history: QueueHistory) -> int:
    """Return when the committed offset last rose, or the window's start."""
    advances = np.flatnonzero(history.moves() > 0)
    return int(history.t_ms[int(advances[-1]) + 1 if len(advances) else 0])


def _longest_pause(times_ms: Int64Array) -> int:
    return int(np.diff(times_ms).max()) if len(times_ms) > 1 else 0


def _from_last_zero(history: QueueHistory) -> slice:
    """Return the window since messages have been waiting without interruption."""
    zero = np.flatnonzero(history.committed >= history.max_offset)
    return slice(int(zero[-1]) + 1 if len(zero) else 0, None)


def worst(statuses: Iterable[LagStatus]) -> LagStatus:
    """Return the worst status; a known standing problem is worse than UNKNOWN, anything fine or passing is not."""
    return max(statuses, key=SEVERITY.__getitem__, default=LagStatus.UNKNOWN)


URGENCY = {
    LagStatus.LOST: 7,
    LagStatus.STALLED: 6,
    LagStatus.STOPPED: 5,
    LagStatus.FALLING_BEHIND: 2,
    LagStatus.INVALID: 1,
}


def attention(status: LagStatus, *, lag: int | None) -> int:
    """Return how urgently a person should look, larger first (the mock's "Decided", 2).

    Lost, stalled, stopped, unknown altogether, offline with backlog, falling behind, invalid or unknown in part; the
    rest is level, so that time lag orders it.
    """
    if status is LagStatus.UNKNOWN:
        return 4 if lag is None else 1
    if status is LagStatus.OFFLINE:
        return 3 if lag else 0
    return URGENCY.get(status, 0)
