"""Offsets as of a past moment, from this console's own history with the age of each reading."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.state import GroupState
from console.group.offsets.target_request import Known
from console.lag import selectors as lag_selectors
from console.lag.past import history_reads
from console.lag.past.history_reads import OffsetThen
from console.operation.errors import PlanRejected
from console.text import Duration, Moment, Text
from spark.lag.folds.rounds import GAP_INTERVALS

FIELD = "time_ms"
# A queue that was not read for as long has no newest reading.
LATELY_MS = 15 * 60_000


def recorded(cluster: str, group: str, queues: Iterable[MessageQueue], at_ms: int, now_ms: int) -> Known:
    """Return offsets of queues as the last round at or before a moment read them.

    The true offset lies between that reading and the next one; where the two differ, a note says so. A queue
    whose topic was deleted and recreated since is left alone: its old offsets mean other messages.

    Raises PlanRejected for a moment in the future, before the history, or in a gap of it: longer than
    GAP_INTERVALS collection intervals without a reading of a queue's broker.
    """
    if at_ms > now_ms:
        raise PlanRejected(
            Text("%(time)s is in the future: nothing is recorded yet.", time=Moment(at_ms)), FIELD
        )
    wanted = sorted(queues)
    gap_ms = GAP_INTERVALS * lag_selectors.collect_interval_ms(cluster)
    ahead_ms = min(gap_ms, now_ms - at_ms)
    then = history_reads.offsets_at(cluster, group, at_ms, ahead_ms=ahead_ms)
    _require_readings(group, wanted, then, at_ms, gap_ms)
    newest = history_reads.offsets_at(cluster, group, now_ms)
    offsets, notes = {}, {}
    for queue in wanted:
        reading = then.get(queue)
        if reading is None:
            notes[queue] = Text("had no committed offset at that moment")
        elif queue in newest and newest[queue].incarnation != reading.incarnation:
            notes[queue] = Text(
                "the topic was recreated since then: its old offsets belong to other messages"
            )
        else:
            offsets[queue] = reading.offset
            if reading.next_offset not in (None, reading.offset):
                low, high = sorted((reading.offset, reading.next_offset or 0))
                notes[queue] = Text("at that moment between %(low)s and %(high)s", low=low, high=high)
    return Known(offsets, notes, _sampled([then[queue] for queue in offsets], at_ms))


def queues_at(cluster: str, group: str, at_ms: int) -> Collection[MessageQueue]:
    """Return the queues that a group had committed offsets on at a moment, as recorded."""
    return history_reads.offsets_at(cluster, group, at_ms).keys()


def stored_from(cluster: str, group: str, state: GroupState, at_ms: int) -> Known:
    """Return where messages stored at or after a moment begin in queues, by the recorded rounds around it.

    The first one lies between the last reading before the moment, which is returned, and the next one: `sampled` has
    how far they are apart. Queues without a reading of that time are left out; of a topic that was recreated since
    then, every message is newer. Raises PlanRejected where no queue has a reading.
    """
    if at_ms >= state.read_at_ms:
        return Known({queue: each.place.max_offset for queue, each in state.queues.items()})
    gap_ms = GAP_INTERVALS * lag_selectors.collect_interval_ms(cluster)
    ahead_ms = min(gap_ms, state.read_at_ms - at_ms)
    then = history_reads.max_offsets_at(cluster, group, at_ms, before_ms=gap_ms, ahead_ms=ahead_ms)
    newest = history_reads.max_offsets_at(cluster, group, state.read_at_ms, before_ms=LATELY_MS, ahead_ms=0)
    offsets, apart = {}, 0
    for queue in state.queues:
        reading = then.get(queue)
        if reading is None:
            continue
        if queue in newest and newest[queue].incarnation != reading.incarnation:
            offsets[queue] = state.queues[queue].place.min_offset
            continue
        offsets[queue] = reading.offset
        following = (
            state.queues[queue].place.max_offset if reading.next_offset is None else reading.next_offset
        )
        apart += max(0, following - reading.offset)
    if not offsets:
        raise PlanRejected(
            Text(
                "Unknown: the history has no round of %(time)s for these queues. The plan reads the brokers.",
                time=Moment(at_ms),
            ),
            FIELD,
        )
    if not apart:
        return Known(offsets)
    return Known(
        offsets,
        sampled=Text("Accurate to %(count)s messages: the time lies between two rounds.", count=apart),
    )


def _require_readings(
    group: str, queues: list[MessageQueue], then: Mapping[MessageQueue, OffsetThen], at_ms: int, gap_ms: int
) -> None:
    """Raise PlanRejected for a gap: only a broker that was read has reported all offsets of the group."""
    last: dict[str, int] = {}
    for queue, reading in then.items():
        last[queue.broker_name] = max(reading.read_at_ms, last.get(queue.broker_name, 0))
    if not last:
        raise PlanRejected(
            Text(
                "The history has no offsets of %(group)s for %(time)s: it begins later, or this console "
                "did not collect then. The chart of the group shows what is recorded.",
                group=group,
                time=Moment(at_ms),
            ),
            FIELD,
        )
    for name in sorted({queue.broker_name for queue in queues}):
        if at_ms - last.get(name, 0) > gap_ms:
            seen = (
                Text("the last reading before is of %(time)s", time=Moment(last[name]))
                if name in last
                else Text("nothing was read there")
            )
            raise PlanRejected(
                Text(
                    "%(time)s is in a gap of the history of %(broker)s: %(seen)s. Choose another time, "
                    "or leave out the queues of %(broker)s.",
                    time=Moment(at_ms),
                    broker=name,
                    seen=seen,
                ),
                FIELD,
            )


def _sampled(sampled: list[OffsetThen], at_ms: int) -> Text:
    if not sampled:
        return Text()
    oldest = min(reading.read_at_ms for reading in sampled)
    return Text(
        "Read at %(time)s, %(age)s before the requested time. A group that was consuming then had advanced by at "
        "most the number beside its queue; those messages are delivered again.",
        time=Moment(oldest),
        age=Duration(at_ms - oldest),
    )
