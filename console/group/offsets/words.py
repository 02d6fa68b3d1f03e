"""Texts of an offset change: what it replays and skips, how long that takes, warnings. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from django.utils.translation import gettext_noop

from console.group.offsets.change import (
    RESET_BY_TIME,
    RESET_PER_QUEUE,
    UPDATE_PER_QUEUE,
    Change,
    DiffRow,
)
from console.group.offsets.state import GroupState
from console.group.offsets.target_request import TargetRequest
from console.lag.rows.broadcast import BROADCASTING
from console.operation.plan.coverage import LEFT_OUT
from console.operation.plan.kinds import PlanWarning
from console.text import Duration, Moment, Names, Span, Text
from console.text.figures import rate

# A summary, and the same of a change that was carried out; how long it takes is said before only.
PAST = {
    "Replay %(again)s message(s) and skip %(past)s message(s)": gettext_noop(
        "Replayed %(again)s message(s) and skipped %(past)s message(s)"
    ),
    "Replay %(number)s message(s)": gettext_noop("Replayed %(number)s message(s)"),
    "Skip %(number)s message(s)": gettext_noop("Skipped %(number)s message(s)"),
    "Move offsets; no stored message is replayed or skipped": gettext_noop(
        "Moved offsets; no stored message was replayed or skipped"
    ),
}
NAMED_MAX = 3  # queues, topics or brokers that are named; the others are counted


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """Speed of the group in messages per second; None: unknown.

    ``best``: of the last hour. ``was_behind``: the median minute in which the group was behind, so it is all the group
    can read; otherwise the best minute, in which the group read what arrived and can read more.
    """

    in_rate: float | None = None
    out_rate: float | None = None
    best: float | None = None
    was_behind: bool = True

    @property
    def speed(self) -> float | None:
        """The highest speed the group has shown."""
        return max((each for each in (self.best, self.out_rate) if each), default=None)


# --- Totals -------------------------------------------------------------------------------------------------


def replayed(rows: Iterable[Change]) -> int:
    """Return how many messages are delivered again, and those of queues that were never committed."""
    total = 0
    for row in rows:
        if row.moves and row.after is not None:
            if row.before is None:
                total += row.max_offset - row.after
            elif row.after < row.before:
                total += min(row.before, row.max_offset) - row.after
    return total


def skipped(rows: Iterable[Change]) -> int:
    """Return how many messages are never delivered to the group."""
    return sum(
        row.after - max(row.before, row.min_offset)
        for row in rows
        if row.before is not None and row.after is not None and row.after > max(row.before, row.min_offset)
    )


def summary(
    group: str, rows: Sequence[Change], span: tuple[int, int] | None, pace: Pace, online: bool
) -> Text:
    """Return the change in two sentences: what, and how long it takes.

    ``span``: store times of the first and last message concerned.
    """
    moving = [row for row in rows if row.moves]
    if not moving:
        return nothing_moves(rows, group)
    topics = sorted({row.queue.topic for row in moving})
    where = (
        Text.foreign(Names(topics))
        if len(topics) <= NAMED_MAX
        else Text("%(number)s topics", number=len(topics))
    )
    what, queues = _effect(replayed(rows), skipped(rows)), len(moving)
    if span is None:
        effect = Text("%(what)s on %(queues)s queue(s) of %(where)s.", what=what, queues=queues, where=where)
    else:
        effect = Text(
            "%(what)s on %(queues)s queue(s) of %(where)s, written %(span)s.",
            what=what,
            queues=queues,
            where=where,
            span=Span(*span),
        )
    again = replayed(rows)
    return Text.of_parts([effect, how_long(again, rows, pace, online)]) if again else effect


def _effect(again: int, past: int) -> Text:
    if again and past:
        return Text(
            "Replay %(again)s message(s) and skip %(past)s message(s)",
            again=again,
            past=past,
        )
    if again:
        return Text("Replay %(number)s message(s)", number=again)
    if past:
        return Text("Skip %(number)s message(s)", number=past)
    return Text("Move offsets; no stored message is replayed or skipped")


def nothing_moves(rows: Sequence[Change], group: str = "") -> Text:
    """Return why a plan moves no queue: queues already at the target, and queues left alone."""
    alone = Counter(row.note for row in rows if row.after is None)
    level = len(rows) - sum(alone.values())
    parts = []
    if level and group:
        parts.append(
            Text(
                "%(number)s queue(s) of %(group)s {is|are} at the target already",
                number=level,
                group=group,
            )
        )
    elif level:
        parts.append(Text("%(number)s queue(s) {is|are} at the target already", number=level))
    parts += [
        Text("%(number)s queue(s) {stays|stay} unchanged: %(why)s", number=number, why=note)
        for note, number in alone.most_common(NAMED_MAX)
    ]
    others = sum(number for _, number in alone.most_common()[NAMED_MAX:])
    if others:
        parts.append(Text("%(number)s more queue(s) {stays|stay} unchanged", number=others))
    why = Text.of_parts(parts) or Text("no queue is in scope")
    return Text("Nothing would change: %(why)s.", why=why)


def how_long(again: int, rows: Sequence[Change], pace: Pace, online: bool) -> Text:
    """Return how long the replay takes at the speed the group has shown."""
    speed = pace.speed
    if speed is None:
        return Text(
            "How long that takes is unknown: no consumption of the group was recorded in the last hour."
        )
    at_rate = Text("At %(rate)s messages/s (the group's best minute of the last hour)", rate=rate(speed))
    if pace.was_behind:
        at_rate = Text(
            "At %(rate)s messages/s (the group's median while behind in the last hour)",
            rate=rate(speed),
        )
    if pace.best is None or (pace.out_rate is not None and pace.out_rate >= pace.best):
        at_rate = Text("At its current rate of %(rate)s messages/s", rate=rate(speed))
    if not pace.in_rate or not pace.was_behind:
        takes = Text(
            "%(pace)s, this takes about %(time)s", pace=at_rate, time=Duration(round(again / speed * 1000))
        )
        return _once_online(takes, online)
    waiting = sum(
        max(0, row.max_offset - (row.before or 0 if row.after is None else row.after)) for row in rows
    )
    arriving = Text("while %(rate)s messages/s arrive", rate=rate(pace.in_rate))
    if speed <= pace.in_rate:
        never = Text(
            "%(pace)s, %(arriving)s, the group would never catch up", pace=at_rate, arriving=arriving
        )
        return _once_online(never, online)
    level = Text(
        "%(pace)s, %(arriving)s, the group catches up in about %(time)s",
        pace=at_rate,
        arriving=arriving,
        time=Duration(round(waiting / (speed - pace.in_rate) * 1000)),
    )
    return _once_online(level, online)


def _once_online(sentence: Text, online: bool) -> Text:
    if online:
        return Text("%(sentence)s.", sentence=sentence)
    return Text("%(sentence)s, once clients are online.", sentence=sentence)


# --- Warnings -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Message counts from which a change is confirmed by typing, or by a second person; None: never."""

    typed_from: int | None
    second_person_from: int | None


def warnings(
    state: GroupState,
    requested: TargetRequest,
    rows: Sequence[Change],
    limits: Limits,
    seen_model: str,
    sampled: Text,
) -> list[PlanWarning]:
    """Return the banners of the plan page, most important first; ``sampled``: origin of recorded offsets."""
    moving = [row for row in rows if row.moves]
    older = [row for row in rows if row.is_expired]
    found = [*_retention(older), *_never_committed(moving), *_size(replayed(rows) + skipped(rows), limits)]
    found += [*_left_alone(rows), *_time(requested, state.read_at_ms)]
    found += [PlanWarning("info", requested.target.sampled_title, sampled)] if sampled else []
    found += _telling(state, moving, seen_model)
    if moving and not older:
        found.append(
            PlanWarning(
                "ok", Text("Every target is still retained"), Text("All requested messages are still stored.")
            )
        )
    return found


def clock_warnings(ahead_ms: Mapping[str, int]) -> list[PlanWarning]:
    """Return a warning for each broker whose clock is off, for a target by time: it searches by its own store times."""
    found = []
    for name, off_ms in sorted(ahead_ms.items()):
        apart = Duration(abs(off_ms))
        title = Text("The clock of %(broker)s is %(time)s behind ours", broker=name, time=apart)
        if off_ms > 0:
            title = Text("The clock of %(broker)s is %(time)s ahead of ours", broker=name, time=apart)
        text = Text(
            "The time is looked up in the store times that the broker wrote by its own clock. Choose a time by that "
            "clock, and synchronize the clocks (NTP)."
        )
        found.append(PlanWarning("warn", title, text))
    return found


def _retention(older: Sequence[Change]) -> Iterable[PlanWarning]:
    if older:
        title = Text("%(number)s queue(s) cannot go back that far", number=len(older))
        text = Text(
            "The requested messages are older than retention; these queues start at the oldest stored message."
        )
        yield PlanWarning("warn", title, text)


def _never_committed(moving: Sequence[Change]) -> Iterable[PlanWarning]:
    never = [row for row in moving if row.before is None]
    if never:
        title = Text("%(number)s queue(s) {has|have} never been committed", number=len(never))
        text = Text("%(names)s: undo cannot remove a first committed offset.", names=_queue_names(never))
        yield PlanWarning("warn", title, text)


def _size(messages: int, limits: Limits) -> Iterable[PlanWarning]:
    """Warn of a size that needs confirmation in this cluster."""
    second, typed = limits.second_person_from, limits.typed_from
    if second is not None and messages >= second:
        text = Text(
            "From %(number)s message(s), a second person must approve on this cluster.", number=second
        )
    elif typed is not None and messages >= typed:
        text = Text(
            "From %(number)s message(s), the name of the group must be typed to confirm.", number=typed
        )
    else:
        return
    yield PlanWarning("warn", Text("Affects %(number)s message(s)", number=messages), text)


def _left_alone(rows: Sequence[Change]) -> Iterable[PlanWarning]:
    alone = [row for row in rows if row.after is None]
    if alone and len(alone) < len(rows):
        reasons = Text.of_parts(sorted({row.note for row in alone})[:NAMED_MAX])
        title = Text("%(number)s queue(s) {stays|stay} unchanged", number=len(alone))
        yield PlanWarning("warn", title, Text("%(names)s: %(why)s.", names=_queue_names(alone), why=reasons))


def _time(requested: TargetRequest, now_ms: int) -> Iterable[PlanWarning]:
    if requested.target.name == "time" and requested.time_ms is not None and requested.time_ms > now_ms:
        text = Text(
            "%(time)s is in the future: every queue goes to its end, and all waiting messages are skipped.",
            time=Moment(requested.time_ms),
        )
        yield PlanWarning("warn", Text("The time is in the future"), text)


WAYS = (RESET_PER_QUEUE, RESET_BY_TIME, UPDATE_PER_QUEUE)


def _way(how: str, where: Names) -> Text:
    """Return how members learn of the change from these brokers."""
    if how == RESET_PER_QUEUE:
        return Text(
            "%(where)s: the broker moves the offsets and notifies the clients (222 per queue). Each "
            "client drops its messages in flight and resumes at the target, usually within 10 s.",
            where=where,
        )
    if how == RESET_BY_TIME:
        return Text(
            "%(where)s can only send a time to the clients (222, as in RocketMQ 4.x). Each client looks "
            "up the offsets of its queues, drops its messages in flight and resumes after about 10 s.",
            where=where,
        )
    return Text(
        "On %(where)s, queues without a stored offset are written directly (15); clients read the offset "
        "at their next rebalance.",
        where=where,
    )


def _telling(state: GroupState, moving: Sequence[Change], seen_model: str) -> Iterable[PlanWarning]:
    """Report whether members are online, and how they learn of the change."""
    if not state.online:
        yield PlanWarning(
            "info",
            Text("No client is online"),
            Text("The offsets are written to the brokers (15); clients read them when they start."),
        )
        if seen_model == BROADCASTING:
            text = Text(
                "When last queried, its clients kept their own offsets in files; they do not read the "
                "offsets on brokers."
            )
            yield PlanWarning("danger", Text("The group was broadcasting"), text)
        return
    where: dict[str, set[str]] = {}
    for row in moving:
        where.setdefault(row.how, set()).add(row.queue.broker_name)
    ways = [_way(how, Names(sorted(where[how]))) for how in WAYS if how in where]
    yield PlanWarning(
        "info",
        Text("The group is online: %(number)s client(s)", number=len(state.clients)),
        Text.of_parts([*ways, Text("Messages in flight may be consumed twice.")]),
    )


def _queue_names(rows: Sequence[Change]) -> Text:
    names = Names(f"{row.queue.broker_name} · {row.queue.queue_id}" for row in rows[:NAMED_MAX])
    if len(rows) > NAMED_MAX:
        return Text("%(names)s and %(number)s more", names=names, number=len(rows) - NAMED_MAX)
    return Text.foreign(names)


# --- Of a plan that was made --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """Sums under the columns of an offset plan.

    Where the lag of some queue is unknown, as for one that was never committed, the sum of the others is a
    lower bound; None where no lag is known.
    """

    queues: int
    moving: int
    delta: int
    lag_before: int | None
    lag_before_lower_bound: bool
    lag_after: int | None
    lag_after_lower_bound: bool


def sums(diff: Sequence[DiffRow]) -> Sums:
    """Return the sums of all rows, including those on other pages."""
    moving = [row for row in diff if row.moves]
    before = [lag for row in diff if (lag := row.lag_before) is not None]
    after = [lag for row in diff if (lag := row.lag_after) is not None]
    return Sums(
        queues=len(diff),
        moving=len(moving),
        delta=sum(row.delta or 0 for row in moving),
        lag_before=sum(before) if before else None,
        lag_before_lower_bound=0 < len(before) < len(diff),
        lag_after=sum(after) if after else None,
        lag_after_lower_bound=0 < len(after) < len(diff),
    )


def button(diff: Sequence[DiffRow]) -> Text:
    """Return the text of the button, such as ``Replay 1,204 messages``."""
    deltas = [row.delta or 0 for row in diff if row.moves]
    again, past = -sum(min(0, each) for each in deltas), sum(max(0, each) for each in deltas)
    if again and not past:
        return Text("Replay %(number)s message(s)", number=again)
    if past and not again:
        return Text("Skip %(number)s message(s)", number=past)
    return Text("Move %(number)s offset(s)", number=len(deltas))


def terminal_row(row: DiffRow) -> str:
    """Return ``orders · broker-a · 3   1,204 → 800   written directly (15)``."""
    place = f"{row.topic} · {row.broker_name} · {row.queue_id}"
    unread = "unknown" if row.how == LEFT_OUT else "never committed"
    before = unread if row.before is None else f"{row.before:,}"
    after = "-" if row.after is None else f"{row.after:,}"
    return f"{place:<50} {before:>16} → {after:>14}  {row.how_words}  {row.note}".rstrip()
