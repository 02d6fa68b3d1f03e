"""Estimate what members of POP groups (5.x) took and have not acknowledged.

The committed offset of such a group moves when a member takes messages, not when it has consumed them: lag by offsets
counts what no member has taken yet, and a group whose members hold everything unread would look well. The broker counts
what is out, and no remoting request returns it. Java members report what they hold (307, waitAckCount); those behind a
proxy do not. So lag is a lower bound (lag.md 1.3).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from console.brokers.mqadmin import MessageQueue
from console.lag.round.figures import GroupFigures, GroupTopic
from console.lag.round.view import Members, Popped
from console.lag.rows.reasons import joined
from console.text import Text
from console.text.value import Duration
from spark.lag.round.status import POP_QUIET_MS, LagStatus, attention

POP_MODE = "POP"
# ConsumeType.java of members that pop.
CONSUME_POP = "CONSUME_POP"


class HeldQueue(Struct, frozen=True, omit_defaults=True):
    """A queue that a member reports as its own, as `ClientRow.queues` stores it.

    `popped`: messages it took from there and has not acknowledged, of any queue where the id is -1; null: it does not
    pop.
    """

    topic: str
    broker_name: str
    queue_id: int
    popped: int | None = None


def popped_entries(table: Mapping[MessageQueue, Mapping[str, int] | None]) -> list[HeldQueue]:
    """Return the queues of a member's own table of what it popped (307, mqPopTable)."""
    return [
        HeldQueue(queue.topic, queue.broker_name, queue.queue_id, (row or {}).get("waitAckCount") or 0)
        for queue, row in sorted(table.items())
    ]


def held_queues(kept: object) -> list[HeldQueue] | None:
    """Return the queues of `ClientRow.queues`, null where the member did not answer."""
    return msgspec.convert(kept, list[HeldQueue] | None)


def popped_count(queues: Iterable[HeldQueue] | None) -> int:
    """Return how many messages a member reports as popped and not acknowledged, of its `queues`."""
    return sum(one.popped for one in queues or () if one.popped is not None)


def popped_of(members: Iterable[tuple[Sequence[HeldQueue] | None, int]]) -> Popped:
    """Return what all members hold together, from (queues each reported, or null; when) of each."""
    by_topic: Counter[str] = Counter()
    times, is_whole = [], True
    for queues, read_at_ms in members:
        is_whole &= queues is not None
        for one in queues or ():
            if one.popped is not None:
                by_topic[one.topic] += one.popped
                times.append(read_at_ms)
    return Popped(dict(by_topic), min(times, default=None), is_whole and bool(times))


def groups_holding(members: Mapping[str, Members]) -> frozenset[str]:
    """Return the POP groups whose members hold, or may hold, messages that the committed offset has passed."""
    return frozenset(
        group
        for group, one in members.items()
        if one.consume_mode == POP_MODE
        and not (one.popped.is_whole and not any(one.popped.by_topic.values()))
    )


def pop_figures(row: GroupFigures, popped: Popped, *, taken_ms: int | None, now_ms: int) -> GroupFigures:
    """Return a group's row with the columns that POP changes.

    Lag is what no member took plus what members reported they hold, a lower bound unless all of them hold nothing.
    `taken_ms` is when a member was last seen to take messages.

    Offsets of a group that took everything are at the end, whether it acknowledges or not: it is well only while what
    its members hold changes, or need not change.
    """
    held = sum(popped.by_topic.values())
    if popped.is_whole and held == 0:
        return msgspec.structs.replace(row, in_flight=0, available=row.lag, in_flight_at_ms=popped.at_ms)
    lag = None if row.lag is None else row.lag + held
    taken = (
        Text(
            "POP: clients have taken an unknown number of messages and not acknowledged them; clients "
            "that do not report may have more"
        )
        if popped.at_ms is None
        else Text(
            "POP: clients have taken %(number)s messages and not acknowledged them; clients that do not "
            "report may have more",
            number=held,
        )
    )
    found = msgspec.structs.replace(
        row,
        lag=lag,
        lag_lower_bound=lag is not None,
        time_lag_lower_bound=row.time_lag_ms is not None,
        in_flight=None if popped.at_ms is None else held,
        available=row.lag,
        in_flight_at_ms=popped.at_ms,
        topics=tuple(_topic(one, popped.by_topic.get(one.topic, 0)) for one in row.topics),
        known_lag=None,
        known_at_ms=None,
        drain_ms=None if row.drain_ms == 0 and lag else row.drain_ms,
        reason=joined(taken, row.reason),
    )
    return _judged(found, popped, taken_ms, now_ms)


def _judged(row: GroupFigures, popped: Popped, taken_ms: int | None, now_ms: int) -> GroupFigures:
    """Replace the status "well" of members that took everything and seem to acknowledge nothing.

    What they hold has not decreased for longer than any invisible time, or it is unknown and messages come back to the
    retry topic.
    """
    if row.status != LagStatus.OK.value:
        return row
    held = row.in_flight
    stood_ms = now_ms - max(taken_ms or 0, popped.since_ms or 0)
    if held and popped.since_ms is not None and stood_ms > POP_QUIET_MS:
        reason = Text(
            "POP: clients hold %(number)s messages, and the number has not decreased for %(time)s: none "
            "is acknowledged",
            number=held,
            time=Duration(stood_ms),
        )
        stalled = _not_well(row, LagStatus.STALLED, now_ms - stood_ms, reason)
        return msgspec.structs.replace(stalled, stall_ms=stood_ms, drain_never=True, drain_ms=None)
    comes_back = row.retry_in_rate or row.retry_lag
    if not popped.is_whole and comes_back and now_ms - (taken_ms or 0) > POP_QUIET_MS:
        reason = Text(
            "POP: messages that clients took come back unacknowledged, and not every client reports what "
            "it holds: some fail, or a client is stuck"
        )
        return _not_well(row, LagStatus.UNKNOWN, taken_ms or row.since_ms, reason)
    return row


def _not_well(row: GroupFigures, status: LagStatus, since_ms: int, reason: Text) -> GroupFigures:
    return msgspec.structs.replace(
        row, status=status.value, since_ms=since_ms, reason=reason, attention=attention(status, lag=row.lag)
    )


def _topic(one: GroupTopic, held: int) -> GroupTopic:
    lag = None if one.lag is None else one.lag + held
    return msgspec.structs.replace(
        one, lag=lag, lag_lower_bound=lag is not None, time_lag_lower_bound=one.time_lag_ms is not None
    )
