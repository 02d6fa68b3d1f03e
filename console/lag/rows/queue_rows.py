"""Make the rows of queues as groups consume them: figures, status, owner, and what is unknown. Pure.

A round's queues are computed together, as columns (`QueueTable`); rows are made of them at the end.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from console.lag.round.columns import NULL, texts
from console.lag.round.keyed_columns import Column, KeyedColumns
from console.lag.round.series import QueueKey, commit_key
from console.lag.round.view import RoundView
from console.lag.rows.popped import POP_MODE, groups_holding
from console.lag.rows.queue_row import NO_REASON, QueueRow, kinds_of
from console.lag.rows.reasons import reason_text, stood_since
from console.text import Text
from spark.lag.forecast import Drain
from spark.lag.round import round_arrays
from spark.lag.round.round_arrays import Progress
from spark.lag.round.status import (
    POP_QUIET_MS,
    QUIET_MS,
    SPAN_MESSAGES,
    Judgement,
    LagStatus,
    is_beyond_handling,
    judge,
)
from spark.lag.snapshot import UNKNOWN_OFFSET, UNKNOWN_TIME, BoolArray, Int64Array

# A queue that its answering broker left out so often is gone; one reply may be incomplete.
ROUNDS_TO_TOMBSTONE = 3
MAY_BE_PAUSED = {
    LagStatus.STALLED,
    LagStatus.STOPPED,
    LagStatus.FALLING_BEHIND,
}  # as a pause looks from outside
NEVER_READ = QueueRow(group="", topic="", broker_name="", queue_id=-1, lost=0)
DRAIN_NUMBERS = ("drain_ms", "drain_low_ms", "drain_high_ms", "drain_window_ms")
KINDS = {name: kind for name, kind in kinds_of(QueueRow).items() if name not in QueueKey._fields}


class DrainColumns(NamedTuple):
    """Hold a drain under the names of a row's columns."""

    drain_ms: int | None
    drain_never: bool
    drain_low_ms: int | None
    drain_high_ms: int | None
    drain_window_ms: int | None


@dataclass(eq=False)
class QueueTable(KeyedColumns[QueueKey]):
    """Hold every queue of every group, sorted by `keys`, a column for each of `KINDS`.

    `place` is a queue's index among the topics' queues of the round, -1 where it was not read. `remarkable` marks
    queues that may need an event, `switched` those whose offsets are not comparable with those before.
    """

    place: Int64Array
    remarkable: BoolArray
    switched: BoolArray

    def part(self, chosen: BoolArray | Int64Array) -> "QueueTable":
        """Return some of the queues, or all in another order: by indexes, or by a mark for each."""
        places = np.arange(len(self.keys))[chosen]
        return QueueTable(
            [self.keys[at] for at in places.tolist()],
            {name: column[places] for name, column in self.columns.items()},
            self.place[places],
            self.remarkable[places],
            self.switched[places],
        )


def queue_table(view: RoundView) -> QueueTable:
    """Return every queue of every group: read in this round, or recorded before and now unknown."""
    series, previous = view.series, view.previous_queues
    read = _Read(view).columns()
    unknown = KeyedColumns.of_rows(KINDS, dict(_unknown_rows(view)))
    keys = [*series.groups.keys, *unknown.keys]
    if not unknown.keys:
        keys = previous.keys if keys == previous.keys else keys  # the next round compares them at no cost
        columns = {name: read[name] for name in KINDS}
        return QueueTable(keys, columns, series.groups.place, read["remarkable"], read["switched"])
    nothing = np.full(len(unknown.keys), -1, dtype=np.int64)
    no_mark = np.zeros(len(unknown.keys), dtype=np.bool_)
    table = QueueTable(
        keys,
        {name: np.concatenate([read[name], unknown.columns[name]]) for name in KINDS},
        np.concatenate([series.groups.place, nothing]),
        np.concatenate([read["remarkable"], no_mark]),
        np.concatenate([read["switched"], no_mark]),
    )
    return table.part(np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64))


class _Read:
    """Hold the queues that were read in one round, in the order of `RoundSeries.groups`."""

    def __init__(self, view: RoundView) -> None:
        self.view, self.window = view, view.window
        topics, groups = view.series.topics, view.series.groups
        self.keys, self.count = groups.keys, len(groups.keys)
        place = groups.place
        self.low, self.high = topics.min_offset[place], topics.max_offset[place]
        self.read_ms = topics.read_ms[place]
        self.committed, self.has = groups.committed, groups.committed != UNKNOWN_OFFSET
        self.pulled = groups.pulled
        was = view.previous_queues.places_of(self.keys)
        names = (
            *("min_offset", "committed_offset", "lost", "status", "since_ms", "last_commit_ms"),
            *("reset_pending", "reset_at_ms"),
        )
        self.before = {
            name: view.previous_queues.taken(
                name, was, NULL if getattr(NEVER_READ, name) is None else getattr(NEVER_READ, name)
            )
            for name in names
        }
        self.valid = self.has & (self.committed <= self.high)
        self.first = np.maximum(self.committed, self.low)
        self.lag = np.where(self.valid, np.maximum(0, self.high - self.first), NULL)
        self.heads = view.columns.heads[place]
        self.commit = np.full(self.count, -1, dtype=np.int64)
        self.commit[self.has] = view.columns.commits
        self.switched = np.broadcast_to(view.switched, self.count)
        self.moved = self._moved() & ~self.switched
        self.window.mark_moved(self.commit[self.moved])
        self.waiting = np.flatnonzero(self.valid & (self.lag > 0))
        self.behind = self._progress(self.waiting)
        self.age = round_arrays.ages(self.window, self.behind.heads, self.behind.first_unread)

    def _progress(self, chosen: Int64Array) -> Progress:
        return Progress(
            self.commit[chosen],
            self.heads[chosen],
            self.low[chosen],
            self.high[chosen],
            self.committed[chosen],
        )

    def columns(self) -> dict[str, Column]:
        """Return a column for each figure of `KINDS`, `remarkable` and `switched`."""
        pulled = self.valid & (self.pulled != UNKNOWN_OFFSET)
        in_flight = np.minimum(self.lag, np.maximum(0, self.pulled - self.first))
        available = np.maximum(0, self.high - np.maximum(self.pulled, self.first))
        assert np.all((in_flight + available == self.lag)[pulled]), "in flight and available make up the lag"
        time_lag, is_bound = self._time_lags()
        speed = np.where(self.lag == 0, 1.0, np.nan)
        speed[self.waiting] = round_arrays.speeds(self.window, self.behind, self.age)
        lost = self._lost()
        judged = self._judged()
        committed_before = self.before["committed_offset"]
        changed = self.has & (committed_before != NULL) & (committed_before != self.committed)
        changed &= ~self.switched
        return {
            "min_offset": self.low,
            "max_offset": self.high,
            "committed_offset": np.where(self.has, self.committed, NULL),
            "pulled_offset": np.where(self.has & (self.pulled != UNKNOWN_OFFSET), self.pulled, NULL),
            "lag": np.where(~self.has & (self.high == self.low), 0, self.lag),
            "in_flight": np.where(pulled, in_flight, NULL),
            "available": np.where(pulled, available, NULL),
            "out_rate": self._out_rates(),
            "time_lag_ms": time_lag,
            "time_lag_lower_bound": is_bound,
            "queueing_ms": self._queueing(),
            "speed": speed,
            **judged,
            **self._losses(speed),
            "lost": lost,
            "owner": texts([self.view.owners.get(key, "") for key in self.keys]),
            "last_commit_ms": np.where(
                changed,
                self.view.now_ms,
                np.where(self.has & (committed_before != NULL), self.before["last_commit_ms"], NULL),
            ),
            "read_at_ms": self.read_ms,
            "missed_rounds": np.zeros(self.count, dtype=np.int64),
            "offset_is_not_count": self._is_not_count(),
            "lag_lower_bound": self.valid & self._of_groups(groups_holding(self.view.members)),
            "moved": self.moved,
            "paused": self._paused(),
            **self._resets(changed),
            "switched": self.switched,
            "remarkable": ~self.switched
            & (
                self.moved
                | (lost > np.maximum(self.before["lost"], 0))
                | (self.high < self.view.series.topics.before[self.view.series.groups.place])
            ),
        }

    def _out_rates(self) -> round_arrays.FloatArray:
        found = np.full(self.count, np.nan)
        found[self.has] = self.window.consume_rates()[self.commit[self.has]]
        return found

    def _moved(self) -> BoolArray:
        """Return which committed offsets were set, not consumed, since the reading before.

        All that went back, and of those that rose: what a change of this console set; what no member can have
        confirmed, because the group has none or the queue does not hold so much; and what is far beyond the speed at
        which the group was seen to handle what waits. A smaller rise that another tool set under a group with members
        looks like consumption and counts as such; what a group consumed after a move in the same interval
        is unknown: all of the rise counts as moved.
        """
        before = self.before["committed_offset"]
        known = self.has & (before != NULL)
        rise = np.where(known, self.committed - before, 0)
        found: BoolArray = (rise < 0) | (
            (rise > 0)
            & (
                self.view.moved_here
                | (self.committed > self.high)
                | self._of_groups(self.view.without_members)
            )
        )
        for at in np.flatnonzero(~found & (rise > SPAN_MESSAGES)).tolist():
            found[at] = is_beyond_handling(self.window.history(commit_key(self.view.series, at)))
        return found

    def _resets(self, changed: BoolArray) -> dict[str, Column]:
        """Return which offsets were set and not committed since."""
        was_pending = self.before["reset_pending"] == np.True_  # rounds of older versions do not have it
        set_now = self.moved | (self.has & self.view.set_here & (changed | ~was_pending))
        return {
            "reset_pending": set_now | (self.has & was_pending & ~changed),
            "reset_at_ms": np.where(set_now, self.view.now_ms, self.before["reset_at_ms"]),
        }

    def _of_groups(self, groups: Collection[str]) -> BoolArray:
        """Return which queues are consumed by one of these groups."""
        if not groups:
            return np.zeros(self.count, dtype=np.bool_)
        return np.array([key.group in groups for key in self.keys], dtype=np.bool_)

    def _paused(self) -> BoolArray:
        if not any(refusal.groups or refusal.topics for refusal in self.view.refusals.values()):
            return np.zeros(self.count, dtype=np.bool_)
        refused = self.view.is_refused
        return np.array([refused(key.group, key.topic, key.broker_name) for key in self.keys], dtype=np.bool_)

    def _is_not_count(self) -> BoolArray:
        kinds = self.view.offset_kinds
        if not kinds:
            return np.zeros(self.count, dtype=np.bool_)
        return np.array([key.topic in kinds for key in self.keys], dtype=np.bool_)

    def _time_lags(self) -> tuple[Int64Array, BoolArray]:
        """Return time lags and which are lower bounds; an empty queue has no time lag, committed or not."""
        time_lag = np.where(self.valid | (~self.has & (self.high == self.low)), 0, NULL)
        time_lag[self.waiting] = self.age.ms
        is_bound = np.zeros(self.count, dtype=np.bool_)
        is_bound[self.waiting] = self.age.lower_bound
        return time_lag, is_bound

    def _queueing(self) -> Int64Array:
        """Return how long the first message that no client has pulled has waited."""
        known = self.valid & (self.pulled != UNKNOWN_OFFSET)
        found = np.where(known, 0, NULL)
        first = np.maximum(self.pulled, self.first)
        waiting = np.flatnonzero(known & (first < self.high))
        age = round_arrays.ages(self.window, self.heads[waiting], first[waiting])
        found[waiting] = np.where(age.estimate_ms == round_arrays.NO_AGE, NULL, age.estimate_ms)
        return found

    def _lost(self) -> Int64Array:
        """Return how many messages retention deleted unread since the first reading, each counted once."""
        low_before, committed_before = self.before["min_offset"], self.before["committed_offset"]
        is_new = (low_before == NULL) | (committed_before == NULL)
        unread_from = np.maximum(np.maximum(committed_before, low_before), self.committed)
        kept = np.maximum(self.before["lost"], 0) + np.maximum(0, self.low - unread_from)
        # Lower than before: the topic was created again.
        found = np.where(self.low < low_before, 0, kept)
        found = np.where(self.switched, np.maximum(self.before["lost"], 0), found)
        found = np.where(is_new, np.maximum(0, self.low - self.committed), found)
        return np.where(self.has, found, NULL)

    def _losses(self, speed: round_arrays.FloatArray) -> dict[str, Column]:
        """Return when retention reaches the first unread message; never without lag, at full pace, or out of sight.

        Unknown where it is not known how long messages are kept; a lower bound where the pace is not known.
        """
        never = self.valid & ((self.lag == 0) | (speed >= 1))
        left_ms = np.where(self.valid & ~never & (self.committed < self.low), 0, NULL)
        age_ms = np.full(self.count, round_arrays.NO_AGE)
        age_ms[self.waiting] = self.age.estimate_ms
        place = self.view.series.groups.place
        retention = self.view.columns.retention
        kept_ms = retention.ms[place]
        is_known = (age_ms != round_arrays.NO_AGE) & (kept_ms != UNKNOWN_TIME)
        losing = np.flatnonzero(self.valid & ~never & (self.committed >= self.low) & is_known)
        found = round_arrays.losses_ms(age_ms[losing], speed[losing], kept_ms[losing])
        never[losing] = np.isnan(found)
        left_ms[losing] = np.where(np.isnan(found), NULL, np.nan_to_num(found)).astype(np.int64)
        bound = np.zeros(self.count, dtype=np.bool_)
        bound[losing] = ~never[losing] & (retention.lower_bound[place[losing]] | np.isnan(speed[losing]))
        return {"time_to_loss_ms": left_ms, "time_to_loss_never": never, "time_to_loss_lower_bound": bound}

    def _judged(self) -> dict[str, Column]:
        """Return status, since when, why, and when the backlog is gone.

        Most queues are well, which arrays show; the others are judged one by one.
        """
        found: dict[str, Column] = {
            "status": np.full(self.count, LagStatus.OK.value, dtype=object),
            "since_ms": np.full(self.count, self.view.now_ms, dtype=np.int64),
            "reason": np.full(self.count, NO_REASON, dtype=object),
            "drain_never": np.zeros(self.count, dtype=np.bool_),
            **{name: np.full(self.count, NULL, dtype=np.int64) for name in DRAIN_NUMBERS},
        }
        for at in np.flatnonzero(~self.has & (self.high > self.low)).tolist():
            held = int(self.high[at] - self.low[at])
            found["status"][at] = LagStatus.NEVER_COMMITTED.value
            found["reason"][at] = Text(
                "no committed offset yet, the queue holds %(number)s messages", number=held
            )
        is_done = self.has & (self.committed == self.high) & ~self.window.has_moved(self.commit)
        found["drain_ms"][is_done] = 0
        is_clear = is_done | ~self.has
        is_clear[self.waiting[self._is_ordinary()]] = True
        for at in np.flatnonzero(~is_clear).tolist():
            one = self._judgement(at)
            is_kept = one.status.value == self.before["status"][at]
            since_ms = int(self.before["since_ms"][at]) if is_kept else one.since_ms
            found["status"][at], found["since_ms"][at] = one.status.value, since_ms
            found["reason"][at] = self._reason(at, one, since_ms)
            for name, value in drain_columns(one.drain)._asdict().items():
                found[name][at] = NULL if value is None else value
        is_open = found["drain_never"] & self._gained() & (found["status"] != LagStatus.OFFLINE.value)
        found["drain_never"][is_open], found["drain_window_ms"][is_open] = False, NULL
        kept = found["status"] == self.before["status"]
        found["since_ms"][kept] = self.before["since_ms"][kept]
        return found

    def _gained(self) -> BoolArray:
        """Return of which queues more left than arrived in the last minute: their longer trend may just have turned."""
        gained: BoolArray = self.window.produce_rates()[self.heads] < self._out_rates()
        return gained

    def _reason(self, at: int, judgement: Judgement, since_ms: int) -> Text:
        """Return the reason of a judgement; of a paused queue it begins with the pause."""
        key, reason = self.keys[at], reason_text(stood_since(judgement.reason, self.view.now_ms - since_ms))
        if judgement.status in MAY_BE_PAUSED and self.view.is_refused(key.group, key.topic, key.broker_name):
            return Text("paused, the broker gives the group nothing of this topic; %(reason)s", reason=reason)
        return reason

    def _is_ordinary(self) -> BoolArray:
        """Return which of `waiting` are well without reading their history."""
        found = round_arrays.is_ordinary(self.window, self.behind, self.age)
        deserted = {group for group, members in self.view.members.items() if members.clients == 0}
        if deserted:
            found &= np.array(
                [self.keys[at].group not in deserted for at in self.waiting.tolist()], dtype=np.bool_
            )
        return found

    def _judgement(self, at: int) -> Judgement:
        time_lag_ms: int | None = None
        if self.committed[at] <= self.high[at]:
            waiting = int(np.searchsorted(self.waiting, at))
            time_lag_ms = 0
            if waiting < len(self.waiting) and self.waiting[waiting] == at:
                age_ms = int(self.age.estimate_ms[waiting])
                time_lag_ms = None if age_ms == round_arrays.NO_AGE else age_ms
        members = self.view.members.get(self.keys[at].group)
        word = self.before["status"][at]
        return judge(
            self.window.history(commit_key(self.view.series, at)),
            time_lag_ms=time_lag_ms,
            clients=None if members is None else members.clients,
            previous=LagStatus(word) if word else None,
            patience_ms=POP_QUIET_MS
            if members is not None and members.consume_mode == POP_MODE
            else QUIET_MS,
        )


def drain_columns(found: Drain) -> DrainColumns:
    """Return a drain as columns of a row."""
    return DrainColumns(found.ms, found.never, found.low_ms, found.high_ms, found.window_ms)


def _unknown_rows(view: RoundView) -> Iterator[tuple[QueueKey, QueueRow]]:
    """Yield rows of queues that were not read, until their broker has left them out often enough."""
    series, previous = view.series, view.previous_queues
    read = {*series.groups.keys, *series.unread} if series.unread else series.groups.keys
    wanted = [*series.unread, *previous.keys_without(read)]
    places = previous.places_of(wanted)
    before = previous.rows(QueueRow, places[places >= 0])
    for key in series.unread:
        yield key, unknown_row(view, key, before.get(key, NEVER_READ))
    for key in wanted[len(series.unread) :]:
        row = unknown_row(view, key, before[key])
        is_dropped = view.is_dropped(key.broker_name, row.read_at_ms)
        if row.missed_rounds < ROUNDS_TO_TOMBSTONE and not is_dropped:
            yield key, row


def unknown_row(view: RoundView, key: QueueKey, previous: QueueRow) -> QueueRow:
    """Return a row with the offsets as last read, and their age; figures derived from them are unknown."""
    answer = next((one for one in view.answers if one.address.broker_name == key.broker_name), None)
    missed = 0
    if answer is None or not answer.answered:
        reason = view.silence_text(key.broker_name)
    elif key.topic in answer.unread:
        reason = Text(
            "%(broker)s did not return the offsets of %(topic)s: %(reason)s",
            broker=key.broker_name,
            topic=key.topic,
            reason=answer.unread[key.topic],
        )
    else:
        missed = previous.missed_rounds + 1
        reason = Text("%(broker)s no longer lists this queue for the group", broker=key.broker_name)
    silence = view.silences.get(key.broker_name)
    is_new = previous.status != LagStatus.UNKNOWN.value
    began_ms = view.now_ms if silence is None else silence.since_ms
    return QueueRow(
        group=key.group,
        topic=key.topic,
        broker_name=key.broker_name,
        queue_id=key.queue_id,
        min_offset=previous.min_offset,
        max_offset=previous.max_offset,
        committed_offset=previous.committed_offset,
        pulled_offset=previous.pulled_offset,
        lost=previous.lost,
        status=LagStatus.UNKNOWN.value,
        since_ms=began_ms if is_new else previous.since_ms,
        owner=view.owners.get(key, ""),
        last_commit_ms=previous.last_commit_ms,
        reset_pending=previous.reset_pending,
        reset_at_ms=previous.reset_at_ms,
        paused=previous.paused,
        read_at_ms=previous.read_at_ms,
        reason=reason,
        missed_rounds=missed,
        offset_is_not_count=key.topic in view.offset_kinds,
    )
