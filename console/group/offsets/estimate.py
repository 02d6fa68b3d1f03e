"""What an offset change would mean by the last round, before a plan is made: nothing is read from a broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from console.brokers.mqadmin import MessageQueue
from console.brokers.queues import BrokerQueue
from console.group import selectors
from console.group.offsets import change as offset_change
from console.group.offsets import words as offset_words
from console.group.offsets.change import Change
from console.group.offsets.plans import undone
from console.group.offsets.source import past
from console.group.offsets.state import GroupState, QueueState
from console.group.offsets.stored import OffsetParams
from console.group.offsets.target_request import Known, TargetRequest
from console.group.offsets.targets import request_of
from console.lag.rows.queue_row import QueueRow
from console.text import Text

QUEUES_SHOWN = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """The effect in words and by queue.

    ``unknown``: queues whose offsets the last round or, for a past time, the history does not have.
    ``precision``: how far the target may be off, "" where it is exact.
    """

    words: Text
    rows: Sequence[Change]
    unknown: int
    precision: Text
    read_at_ms: int | None

    @property
    def moving(self) -> list[Change]:
        """Return the queues that would move, the largest move first."""
        found = [row for row in self.rows if row.moves]
        return sorted(found, key=lambda row: -abs((row.after or 0) - (row.before or 0)))

    @property
    def shown(self) -> list[Change]:
        return self.moving[:QUEUES_SHOWN]

    @property
    def is_mixed(self) -> bool:
        """Return whether queues of several topics would move."""
        return len({row.queue.topic for row in self.moving}) > 1

    @property
    def hidden(self) -> int:
        return len(self.moving) - len(self.shown)


def estimate(
    cluster: str, group: str, params: OffsetParams, rows: Sequence[QueueRow], now_ms: int
) -> Estimate:
    """Compute the change from the rows of the last round, a past time from the history. Raises PlanRejected."""
    if params.target == "undo":
        params = undone(cluster, group, params)
    requested = request_of(params)
    scope = [
        row
        for row in rows
        if requested.covers(_queue(row)) and (requested.topics is None or row.topic in requested.topics)
    ]
    queues = {
        _queue(row): QueueState(
            BrokerQueue(_queue(row), "", row.min_offset, row.max_offset), row.committed_offset
        )
        for row in scope
        if row.min_offset is not None and row.max_offset is not None
    }
    seen = selectors.group(cluster, group)
    # Whether members are online decides how a queue is moved, which an estimate does not show.
    state = GroupState(group, queues, frozenset(), False, {}, {}, now_ms)
    requested = dataclasses.replace(requested, queues=frozenset(queues))
    known, is_time = _known(cluster, state, requested), requested.target.name == "time"
    if is_time:
        # A queue whose past is unknown is no queue that stays where it is.
        queues = {queue: each for queue, each in queues.items() if queue in known.offsets}
        state = dataclasses.replace(state, queues=queues)
        requested = dataclasses.replace(requested, queues=frozenset(queues))
    changes = offset_change.changes(state, requested, known)
    pace = offset_words.Pace(
        None if seen is None else seen.in_rate,
        None if seen is None else seen.out_rate,
        *selectors.best_speed(cluster, group, now_ms),
    )
    online = seen is not None and bool(seen.clients)
    return Estimate(
        words=offset_words.summary(group, changes, None, pace, online),
        rows=changes,
        unknown=len(scope) - len(queues),
        precision=known.sampled if is_time else Text(),
        read_at_ms=min((row.read_at_ms for row in scope), default=None),
    )


def _known(cluster: str, state: GroupState, requested: TargetRequest) -> Known:
    """Look up target offsets in this console's own rows and history."""
    if requested.target.name == "time":
        return past.stored_from(cluster, state.group, state, requested.time_ms or 0)
    if requested.target.name == "as_of":
        return past.recorded(cluster, state.group, state.queues, requested.time_ms or 0, state.read_at_ms)
    if requested.target.name != "like_group":
        return Known()
    other = {
        _queue(row): row.committed_offset for row in selectors.group_queues(cluster, requested.like_group)
    }
    absent = Text("%(group)s has no committed offset there", group=requested.like_group)
    return Known(
        {queue: other.get(queue) for queue in state.queues},
        {queue: absent for queue in state.queues if other.get(queue) is None},
    )


def _queue(row: QueueRow) -> MessageQueue:
    return MessageQueue(row.topic, row.broker_name, row.queue_id)
